"""The Ray cluster that workers run on. The one file that imports `ray`.

The ports of a cluster are open to the network, and whoever reaches them may run anything. So one of
our own wants a token that only its processes know. Ray reads that setting when it is imported.
"""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import stat
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from synth.core.errors import ToolloomError
from synth.core.locks import lock_folder

if "ray" not in sys.modules and not {"RAY_ADDRESS", "RAY_AUTH_MODE"} & os.environ.keys():
    os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}

import ray
from ray.exceptions import RayError, RayTaskError

__all__ = ["Cluster", "RayError", "RayTaskError", "ray", "said"]

_PREFIX = "toolloom-ray-"
_MOST = 400
"""Characters of an error of Ray's; it likes to explain."""
_SHORT = 20
"""Characters of a folder in which a socket of Ray's still has a name that is not too long."""
STALE_S = 120.0
"""Age of a folder before it may be removed. A newer one may not be locked yet, and two processes
of Ray's need a minute to notice that whoever started them was killed."""
REACH_S = 10.0
"""Seconds to reach a cluster: Ray itself would go on trying for minutes."""
STORE_BYTES = 80 << 20
"""Of a cluster of our own, the memory for large objects; there are none."""


class Cluster:
    """The cluster that `RAY_ADDRESS` names, or one of our own on this machine, for as long.

    A caller who is connected already keeps the connection.

    Args:
        cpus: of our own, if there is one; all that this process may use if None.

    Raises:
        ToolloomError: there is none at the address, or none can be started.
    """

    def __init__(self, cpus: int | None) -> None:
        self._folder: Path | None = None
        self._lock = -1
        self._ours = not ray.is_initialized()
        if self._ours:
            address = os.environ.get("RAY_ADDRESS", "")
            quiet = {"log_to_driver": False, "logging_level": "ERROR"}
            try:
                if address:
                    _check(address)
                    ray.init(address=address, **quiet)
                else:
                    ray.init(**self._alone(cpus), **quiet)
            except (
                OSError,
                OverflowError,
                RuntimeError,
                ValueError,
            ) as error:  # ConnectionError is an OSError
                self.leave()
                said = " ".join(str(error).split())
                raise ToolloomError(
                    f"Ray does not start: {said}" if not address else f"no connection: {said}",
                    where=f"RAY_ADDRESS={address}" if address else "this machine",
                    remedy="start a cluster with `ray start --head`, or unset RAY_ADDRESS",
                ) from error
        self.cpus = max(1, int(ray.cluster_resources().get("CPU", 1)))

    def _alone(self, cpus: int | None) -> dict[str, Any]:
        """Return the settings of a cluster that nobody else finds or may use."""
        temporary = tempfile.gettempdir()
        parent = temporary if len(temporary) <= _SHORT else "/tmp"
        _sweep(Path(parent))
        self._folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
        self._lock = lock_folder(self._folder, "Ray cluster")
        return {
            "address": "local",
            "num_cpus": cpus or len(os.sched_getaffinity(0)),
            "include_dashboard": False,
            "object_store_memory": STORE_BYTES,
            "_temp_dir": str(self._folder),
        }

    def leave(self) -> None:
        """Disconnect; a cluster of our own ends."""
        if self._ours:
            ray.shutdown()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def _sweep(parent: Path) -> None:
    """Remove the folders of clusters whose owners were killed.

    An owner holds the lock of its folder while it lives. What other people own is let alone.
    """
    for folder in parent.glob(f"{_PREFIX}*"):
        with suppress(OSError, ToolloomError):
            found = folder.lstat()
            mine = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
            if mine and time.time() - found.st_mtime > STALE_S and (folder / ".lock").is_file():
                lock = lock_folder(folder, "Ray cluster")
                shutil.rmtree(folder, ignore_errors=True)
                os.close(lock)


def said(error: RayError) -> str:
    """Return what an error of Ray's says, in one line, without names that nobody knows."""
    line = " ".join(str(error).split())
    return line.rpartition("The actor is dead because ")[2][:_MOST]


def _check(address: str) -> None:
    """Refuse an address at which nobody can be a worker's cluster, at once.

    Raises:
        ValueError: it is that of Ray Client, whose driver sees no shared folder.
        OSError: nobody answers there.
    """
    if address.startswith("ray://"):
        raise ValueError("ray:// is not meant: give HOST:PORT, on a machine of the cluster")
    host, _, port = address.rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host.strip("[]"), int(port)), REACH_S).close()
