"""The Ray cluster that workers run on. The one file that imports `ray`.

The ports of a cluster are open to the network, and whoever reaches them may run anything. So one of
our own wants a token that only its processes know. Ray reads that setting when it is imported.
"""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import sys
import tempfile
from pathlib import Path
from typing import Any

from synth.core.errors import ToolloomError

if "ray" not in sys.modules and not {"RAY_ADDRESS", "RAY_AUTH_MODE"} & os.environ.keys():
    os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}

import ray
from ray.exceptions import RayError, RayTaskError

__all__ = ["Cluster", "RayError", "RayTaskError", "ray"]

_SHORT = 20
"""Characters of a folder in which a socket of Ray's still has a name that is not too long."""
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
        room = len(tempfile.gettempdir()) <= _SHORT
        self._folder = Path(tempfile.mkdtemp(prefix="toolloom-ray-", dir=None if room else "/tmp"))
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
        socket.create_connection((host, int(port)), REACH_S).close()
