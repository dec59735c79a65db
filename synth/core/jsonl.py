"""Crash-safe JSON Lines, and files that are either the old or the new one.

A line is handed to the operating system in one `write`, so that kill -9 tears at most the last
line; a torn last line is cut off when the file is opened again. A failed write (full disk) is taken
back, so that nothing half-written stays.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import orjson

from synth.core.errors import BadRow
from synth.core.errors import storage_error as storage_error  # part of this interface

_TAIL = 1 << 16


class Appender:
    """Appends rows to one file. One process per file.

    Args:
        path: the file; parents are made. A torn last line is cut off first.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise storage_error(error, path) from error
        self._size = self._cut_torn_line()

    def _cut_torn_line(self) -> int:
        size = os.fstat(self._fd).st_size
        end = size
        while end > 0:
            start = max(0, end - _TAIL)
            newline = os.pread(self._fd, end - start, start).rfind(b"\n")
            if newline >= 0:
                end = start + newline + 1
                break
            end = start
        if end != size:
            os.ftruncate(self._fd, end)
        os.lseek(self._fd, end, os.SEEK_SET)
        return end

    def append(self, row: Any) -> None:
        """Append one row (anything orjson can write, or ready JSON as `bytes` without newline).

        Raises:
            DiskFull: nothing of the row remains in the file.
        """
        line = (row if isinstance(row, bytes) else orjson.dumps(row)) + b"\n"
        try:
            written = os.write(self._fd, line)
            if written != len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            os.ftruncate(self._fd, self._size)
            os.lseek(self._fd, self._size, os.SEEK_SET)
            raise storage_error(error, self.path) from error
        self._size += len(line)

    def sync(self) -> None:
        """Wait until the rows would also survive a power cut."""
        os.fsync(self._fd)

    def close(self) -> None:
        """Sync and close. Harmless when called twice."""
        if self._fd >= 0:
            os.fsync(self._fd)
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield number and text of each line; a torn last one is left out: it was never acknowledged.

    A missing file has no lines.
    """
    if not path.exists():
        return
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n"):
                return
            yield number, line


def read(path: Path) -> Iterator[Any]:
    """Yield the rows of a file; a torn last line is left out, a missing file has no rows.

    Raises:
        BadRow: a line in the middle is not JSON; names file and line.
    """
    for number, line in lines(path):
        try:
            yield orjson.loads(line)
        except orjson.JSONDecodeError as error:
            raise BadRow(f"not JSON: {error}", where=f"{path}:{number}") from error


def write_atomic(path: Path, data: bytes) -> None:
    """Replace `path` by `data`: readers and a crash see the old file or the new one.

    Raises:
        DiskFull: the old file, if any, is untouched.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise storage_error(error, path) from error
