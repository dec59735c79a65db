"""One process a folder: the lock of runs and of training runs.

The kernel drops it with the process, however that ended; the file only names the holder.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from synth.core.errors import ToolloomError, storage_error


def lock_folder(folder: Path, what: str) -> int:
    """Make a folder and lock it; return the descriptor that holds the lock until it is closed.

    Args:
        folder: what to lock.
        what: what it is, for the message: `run`.

    Raises:
        ToolloomError: another process holds it.
        BadPlace: the folder cannot be made or written to.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        fd = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise storage_error(error, folder) from error
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        holder = os.pread(fd, 20, 0).decode(errors="replace").strip() or "unknown"
        os.close(fd)
        raise ToolloomError(
            f"another process (pid {holder}) works on this {what}",
            where=str(folder),
            remedy="wait for it, or give another --run name",
        ) from None
    os.ftruncate(fd, 0)
    os.pwrite(fd, str(os.getpid()).encode(), 0)
    return fd
