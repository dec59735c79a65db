"""Confine this process, then become the command: `launch.py NAME=VALUE... -- COMMAND...`.

The last thing that runs before a stranger's code, so it starts the command only if every step
worked (fail closed: exit status 126 and one line on stderr). It runs before every server, so it
imports little: json, socket and typing alone would double its 20 ms.
Namespaces follow namespaces(7), user_namespaces(7) and mount_setattr(2). The order matters: all
mounts are made while the process still has the capabilities of its new user namespace; they are
gone, with no way back, before `execve`.

Not kept out: bugs of the kernel, side channels, and reading what this user may read outside of
homes and /tmp.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import resource
import struct
import sys

TYPE_CHECKING = False  # type checkers know better; typing alone would cost some milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable

FAILED = 126
"""Exit status when confinement could not be had and the command was not started."""

NEW_NAMESPACES = 0x00020000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000
"""CLONE_NEWNS, NEWUTS, NEWIPC, NEWUSER, NEWPID."""
NEW_NETWORK = 0x40000000
MS_BIND, MS_REC, MS_PRIVATE, MS_NOSUID, MS_NODEV = 0x1000, 0x4000, 0x40000, 0x2, 0x4
ATTR_READ_ONLY, AT_RECURSIVE, AT_FDCWD = 0x1, 0x8000, -100
SYS_MOUNT_SETATTR = 442
PR_SET_PDEATHSIG, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 1, 24, 38
SET_INTERFACE_FLAGS, UP_AND_RUNNING = 0x8914, 0x41
INTERNET, DATAGRAM, KILL = 2, 2, 9
SCRATCH_BYTES = 256 << 20
"""Size of the private /tmp."""

libc = ctypes.CDLL(None, use_errno=True)


def checked(what: str, result: int) -> None:
    """Raise OSError if a call of the C library failed."""
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    """Mount a file system, or a part of one elsewhere."""
    args = [text.encode() for text in (source, target, kind)]
    result = libc.mount(*args, ctypes.c_ulong(flags), data.encode())
    checked(f"mount {target}", result)


def read_only(path: str, *, value: bool) -> None:
    """Set (with everything below it) or clear (alone) the read-only flag of a mount."""
    on, off = (ATTR_READ_ONLY, 0) if value else (0, ATTR_READ_ONLY)
    attributes = struct.pack("QQQQ", on, off, 0, 0)
    flags = AT_RECURSIVE if value else 0
    result = libc.syscall(
        SYS_MOUNT_SETATTR, AT_FDCWD, path.encode(), flags, attributes, len(attributes)
    )
    checked(f"mount_setattr {path}", result)


def enter_namespaces(network: bool, map_users: Callable[[], None]) -> None:
    """Leave all namespaces for new ones, in which `map_users` says who is who."""
    result = libc.unshare(NEW_NAMESPACES | (0 if network else NEW_NETWORK))
    checked("unshare", result)
    map_users()
    if not network:  # a fresh network namespace holds a loopback interface that is down
        descriptor = libc.socket(INTERNET, DATAGRAM, 0)
        request = struct.pack("16sh14x", b"lo", UP_AND_RUNNING)
        fcntl.ioctl(descriptor, SET_INTERFACE_FLAGS, request)
        os.close(descriptor)


def alone(uid: int, gid: int) -> Callable[[], None]:
    """Return what makes this user `uid` and `gid` in a new namespace that knows nobody else."""
    texts = {"setgroups": "deny", "uid_map": f"{uid} {os.geteuid()} 1"}
    texts["gid_map"] = f"{gid} {os.getegid()} 1"

    def map_users() -> None:
        for name, text in texts.items():
            write(f"/proc/self/{name}", text)

    return map_users


def write(path: str, text: str) -> None:
    """Write a small file."""
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


def _rebind(descriptor: int, target: str) -> None:
    """Show what `descriptor` (opened before anything was hidden) is open on at `target` again."""
    source = f"/proc/self/fd/{descriptor}"
    if not os.path.exists(target):
        if os.path.isdir(source):
            os.makedirs(target, exist_ok=True)
        else:
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with open(target, "wb"):
                pass
    mount(source, target, "", MS_BIND | MS_REC)


def arrange_files(spec: dict[str, list[str]], furnish: Callable[[], None] = lambda: None) -> None:
    """Everything read-only, homes and /tmp empty, only `writable` writable.

    `furnish` is called when everything is in its place and can still be written.
    """
    shown = sorted({*spec["readable"], *spec["writable"]})  # parents before what lies in them
    descriptors = [os.open(path, os.O_PATH) for path in shown]
    mount("", "/", "", MS_REC | MS_PRIVATE)
    scratch = [path for path in ("/tmp", "/dev/shm") if os.path.isdir(path)]
    size = spec.get("scratch", [str(SCRATCH_BYTES)])[0]
    for path in spec["hidden"]:
        mount("tmpfs", path, "tmpfs", MS_NOSUID | MS_NODEV, "size=1m,mode=755")
    for path in scratch:
        os.makedirs(path, exist_ok=True)
        mount("tmpfs", path, "tmpfs", MS_NOSUID | MS_NODEV, f"size={size},mode=1777")
    for descriptor, path in zip(descriptors, shown, strict=True):
        _rebind(descriptor, path)
        os.close(descriptor)
    furnish()
    mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV)
    write("/proc/sys/user/max_user_namespaces", "0")  # none inside ours
    read_only("/", value=True)
    for path in (*scratch, *spec["writable"]):
        read_only(path, value=False)


def drop_privileges() -> None:
    """Give up every capability, and the ways to get one."""
    for capability in range(64):
        if libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0:
            break  # beyond the last one this kernel knows
    checked("no_new_privs", libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))


def set_limits(limits: list[str]) -> None:
    """Set resource limits, each `NAME:VALUE`, as far as this process may have so much."""
    for text in limits:
        name, _, value = text.partition(":")
        number = getattr(resource, f"RLIMIT_{name}")
        hard = resource.getrlimit(number)[1]
        ceiling = int(value) if hard == resource.RLIM_INFINITY else min(int(value), hard)
        resource.setrlimit(number, (ceiling, ceiling))


def die_with_parent(parent: int) -> None:
    """Be killed when the parent ends; its number is `parent`, 0 if that cannot be asked."""
    if sys.platform != "linux":
        return
    checked("pdeathsig", libc.prctl(PR_SET_PDEATHSIG, KILL, 0, 0, 0))
    if parent and os.getppid() != parent:  # it died before the line above
        os._exit(FAILED)


def wait_for(child: int) -> int:
    """Return the child's fate as an exit status, the way a shell tells it."""
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return status if status >= 0 else 128 - status


def _confine(spec: dict[str, list[str]]) -> None:
    """Return in the process that shall become the command; its parent never returns."""
    parent = int(spec["parent"][0])
    die_with_parent(parent)
    if spec["tier"] == ["unshare"]:
        enter_namespaces(spec["network"] == ["yes"], alone(os.geteuid(), os.getegid()))
        die_with_parent(parent)  # new credentials clear the signal
        child = os.fork()
        if child:
            # The command is process 1 of its namespace: when it ends, so does all it started.
            for descriptor in (0, 1, 2):
                os.close(descriptor)
            os._exit(wait_for(child))
        die_with_parent(0)
        arrange_files(spec)
        drop_privileges()
    set_limits(spec["limit"])
    os.umask(0o022)  # what a server makes has the same permissions on every machine
    os.chdir(spec["cwd"][0])


def words(argv: list[str]) -> tuple[dict[str, list[str]], list[str]]:
    """Return what `NAME=VALUE... -- COMMAND...` asks for, and the command."""
    end = argv.index("--")
    spec: dict[str, list[str]] = {"hidden": [], "readable": [], "writable": [], "limit": []}
    for word in argv[:end]:
        name, _, value = word.partition("=")
        spec.setdefault(name, []).append(value)
    return spec, argv[end + 1 :]


def main() -> None:
    """Confine and execute, or exit with status 126."""
    spec, command = words(sys.argv[1:])
    try:
        _confine(spec)
        os.execve(command[0], command, os.environ)
    except OSError as error:
        os.write(2, f"toolloom: not started: {error}\n".encode())
        os._exit(FAILED)


if __name__ == "__main__":
    main()
