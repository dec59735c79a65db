"""Run one command in a room of its own: `room.py PARENT WIRE`.

A room is a small file system in memory that is made for one command, filled with what the starter
sends, handed to the starter as a descriptor, and gone with the last who holds it. So nothing that
the command writes reaches a disk, the kernel bounds all of it, and the path is the same everywhere.

    starter ── the guard: waits, and ends the room when its time is over or the starter wants it
                └── the keeper: process 1 of the namespace; looks at memory, ends with the command
                     └── the command, as nobody: another user than ours where we are root

It is told apart who may do what: the keeper has capabilities in its own namespaces, so the command
can neither trace nor end it. When the guard ends, every process of the room has ended before
(pid_namespaces(7)), so that the starter looks at a room in which nothing moves.

On the descriptor WIRE, a stream socket: the starter sends what it wants (words as `launch.py` takes
them, NUL between them) and the files, each after its length (8 bytes, big endian). It gets one byte
with the descriptor of the room. A word may follow that says why the command was ended, `time` or
`memory`, or that it was not started: `start`. Nothing of it is in arguments, which the command
could read.
"""

from __future__ import annotations

import _socket
import ctypes
import os
import struct
import sys

TYPE_CHECKING = False  # type checkers know better; typing alone would cost some milliseconds
if TYPE_CHECKING:
    import signal
else:
    import _signal as signal  # a tenth of the start of this program less than `signal`

sys.path.insert(0, os.path.realpath(__file__ + "/../../../.."))
from synth.core.sandbox.launch import (  # noqa: E402  # this program is run by its path
    FAILED,
    MS_BIND,
    MS_NODEV,
    MS_NOSUID,
    alone,
    arrange_files,
    checked,
    die_with_parent,
    drop_privileges,
    enter_namespaces,
    libc,
    mount,
    set_limits,
    wait_for,
    words,
    write,
)

USER = 1000
"""Whom the command takes itself for."""
OUTER_USER = 64_200
"""Who the command really is where we are root: nobody that a machine is likely to have."""
HEAD = struct.Struct("!cHqII")
"""One entry: kind (d, f, l), permissions, time (s), bytes of its path, bytes of its content."""
LOOK_S = 0.1
"""Time between two looks at memory."""
NO_RANDOM_ADDRESSES = 0x0040000
PR_SET_SECCOMP, FILTER, ALLOW, REFUSE = 22, 2, 0x7FFF0000, 0x00050001
MACHINES = {
    "x86_64": (0xC000003E, (29, 64, 68, 319, 321, 425, 447)),
    "aarch64": (0xC00000B7, (194, 190, 186, 279, 280, 425, 447)),
}
"""Machine -> its number for seccomp(2), and those of shmget, semget, msgget, memfd_create,
bpf, io_uring_setup and memfd_secret: what they make is memory that belongs to no process, so that
no limit sees it."""
SOCKET = 425_984
"""Bytes that wait in a socket at most: twice the usual net.core.wmem_max (socket(7))."""
MAPS = 1 << 20
"""Bytes of a list of mappings that are read; a longer one, of ten thousand, is of no program."""
PAGE = os.sysconf("SC_PAGE_SIZE")


def main() -> None:
    """Run the command, or exit with status 126."""
    try:
        parent, wire = int(sys.argv[1]), _socket.socket(fileno=int(sys.argv[2]))
        os.set_inheritable(wire.fileno(), False)
        die_with_parent(parent)
        spec, command = words(os.fsdecode(_received(wire)).split("\0"))
        _enter()
        die_with_parent(parent)  # new credentials clear the signal
        keeper = os.fork()
        if keeper:
            _guard(keeper, float(spec["seconds"][0]), wire)
        _keep(spec, command, wire)
    except OSError as error:
        os.write(2, f"toolloom: not started: {error}\n".encode())
        os._exit(FAILED)


def _enter() -> None:
    """Leave for new namespaces; where we are root, nobody of ours is there but by a number."""
    if os.geteuid() != 0:
        enter_namespaces(False, alone(USER, USER))
        return
    outer = os.getpid()
    asking, told = os.pipe()
    helper = os.fork()  # only who stays outside may name more users than itself
    if helper == 0:
        os.close(told)
        os.read(asking, 1)
        try:
            for name in ("uid_map", "gid_map"):
                write(f"/proc/{outer}/{name}", f"0 0 1\n{USER} {OUTER_USER} 1\n")
            os._exit(0)
        except OSError:
            os._exit(1)

    def map_users() -> None:
        os.close(told)
        if wait_for(helper) != 0:
            raise OSError(1, "the users of the room cannot be named")

    enter_namespaces(False, map_users)
    os.close(asking)


def _guard(keeper: int, seconds: float, wire: _socket.socket) -> None:
    """Wait for the end of the room, or bring it about."""

    def end(number: int, _: object) -> None:
        os.kill(keeper, signal.SIGKILL)
        if number == signal.SIGALRM:
            wire.send(b"time")

    for number in (signal.SIGALRM, signal.SIGTERM):
        signal.signal(number, end)
    for descriptor in (0, 1, 2):
        os.close(descriptor)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    os._exit(wait_for(keeper))


def _keep(spec: dict[str, list[str]], command: list[str], wire: _socket.socket) -> None:
    """Be process 1: arrange the room, have the command run in it, end with it."""
    die_with_parent(0)
    _forget_arguments()
    place, size, files = spec["room"]

    def furnish() -> None:
        os.makedirs(place)
        options = f"size={size},nr_inodes={files},mode=755,uid={USER},gid={USER}"
        mount("tmpfs", place, "tmpfs", MS_NOSUID | MS_NODEV, options)
        spec["writable"].append(place)
        for path in spec.get("masked", ()):
            if os.path.isdir(path):
                mount("tmpfs", path, "tmpfs", MS_NOSUID | MS_NODEV, "size=4k,mode=755")
            else:
                mount("/dev/null", path, "", MS_BIND)
        for path, _, text in (word.partition("=") for word in spec.get("text", ())):
            write(path, text)
        for path, _, target in (word.partition("=") for word in spec.get("link", ())):
            os.makedirs(os.path.dirname(path), exist_ok=True)
            os.symlink(target, path)
        libc.sethostname(b"sandbox", 7)

    arrange_files(spec, furnish)
    room = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
    rights = (_socket.SOL_SOCKET, _socket.SCM_RIGHTS, struct.pack("i", room))
    wire.sendmsg([b"r"], [rights])
    os.close(room)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    child = os.fork()
    if child == 0:
        _become(spec, command, wire, place)
    for descriptor in (0, 1, 2):
        os.close(descriptor)
    _watch(child, int(spec["memory"][0]), wire)


def _forget_arguments() -> None:
    """Have /proc tell nothing of this program's command line: it holds paths of the machine."""
    with open("/proc/self/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
    start, end = int(fields[45]), int(fields[46])  # fields 48 and 49 of proc_pid_stat(5)
    ctypes.memset(start, 0, end - start)


def _watch(child: int, memory: int, wire: _socket.socket) -> None:
    """Exit as the child does, and before it where the room takes too much memory."""
    while True:
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            if found[0] == child:
                status = os.waitstatus_to_exitcode(found[1])
                os._exit(status if status >= 0 else 128 - status)
        if _taken() > memory:
            wire.send(b"memory")
            os._exit(FAILED)
        signal.sigtimedwait({signal.SIGCHLD}, LOOK_S)


def _taken() -> int:
    """Return the bytes of memory of all processes but this one; shared ones count each time."""
    total = _sockets() * SOCKET
    for name in os.listdir("/proc"):
        if name.isdigit() and name != "1":
            try:
                with open(f"/proc/{name}/statm", "rb") as file:
                    size, resident = map(int, file.read().split()[:2])
                shared = _shared(name)
            except (FileNotFoundError, ProcessLookupError):  # it has ended
                continue
            total += resident * PAGE + (size * PAGE if shared is None else shared)
    return total


def _shared(process: str) -> int | None:
    """Return the bytes of mappings that are shared and of no file; None where nobody can tell.

    Whoever gives their pages back (madvise(2)) has them out of what is resident, not of memory.
    """
    try:
        with open(f"/proc/{process}/maps", "rb") as file:
            lines = file.read(MAPS).split(b"\n")
    except PermissionError:
        return None
    if lines[-1]:  # cut short
        return None
    ranges = [one.split()[0].split(b"-") for one in lines if one.endswith(b" /dev/zero (deleted)")]
    return sum(int(end, 16) - int(start, 16) for start, end in ranges)


def _sockets() -> int:
    """Return how many sockets are open, in all processes."""
    with open("/proc/net/sockstat", "rb") as file:
        return int(file.readline().split()[-1])  # sockets: used N


def _become(
    spec: dict[str, list[str]], command: list[str], wire: _socket.socket, place: str
) -> None:
    """Fill the room as its user, then become the command."""
    try:
        os.setsid()
        drop_privileges()
        if os.geteuid() == 0:
            os.setgroups([])
        os.setresgid(USER, USER, USER)
        os.setresuid(USER, USER, USER)
        os.umask(0o022)
        os.chdir(place)
        _fill(_received(wire))
        set_limits(spec["limit"])
        _refuse_ownerless_memory()
        libc.personality(NO_RANDOM_ADDRESSES)  # of use to repeat a run; no matter if it fails
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
        os.execve(command[0], command, os.environ)
    except (OSError, ValueError, struct.error) as error:
        wire.send(b"start")
        os.write(2, f"toolloom: not started: {error}\n".encode())
        os._exit(FAILED)


def _refuse_ownerless_memory() -> None:
    """Have the kernel refuse `MACHINES`' calls from here on, and all of another machine's."""
    name = os.uname().machine
    if name not in MACHINES:
        raise OSError(1, f"the calls of a {name} are not known")
    machine, refused = MACHINES[name]
    load, equal, at_least, leave = 0x20, 0x15, 0x35, 0x06
    end = 5 + len(refused)  # index of the rule that refuses; jumps count from the next rule
    rules = [(load, 0, 0, 4), (equal, 0, end - 2, machine), (load, 0, 0, 0)]
    rules.append((at_least, end - 4, 0, 1 << 30))  # 32-bit calls in disguise
    rules += [(equal, end - at - 1, 0, number) for at, number in enumerate(refused, 4)]
    rules += [(leave, 0, 0, ALLOW), (leave, 0, 0, REFUSE)]
    program = b"".join(struct.pack("HBBI", *rule) for rule in rules)
    held = ctypes.create_string_buffer(program)
    head = struct.pack("HP", len(rules), ctypes.addressof(held))
    checked("seccomp", libc.prctl(PR_SET_SECCOMP, FILTER, head, 0, 0))


def _received(wire: _socket.socket) -> bytes:
    """Return all that the starter sends."""
    length = int.from_bytes(wire.recv(8, _socket.MSG_WAITALL), "big")
    parts, left = [], length
    while left:
        part = wire.recv(min(left, 1 << 20))
        if not part:
            raise OSError(5, "the files of the room are cut short")
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def _fill(data: bytes) -> None:
    """Write entries into the working directory, itself the first of them, as folders are."""
    at, folders = 0, []
    while at < len(data):
        kind, mode, time, path_size, size = HEAD.unpack_from(data, at)
        at += HEAD.size + path_size + size
        path, content = data[at - size - path_size : at - size], data[at - size : at]
        if kind == b"d":
            if path != b".":
                os.mkdir(path, 0o700)
            folders.append((path, mode, time))
        elif kind == b"l":
            os.symlink(content, path)
            os.utime(path, (time, time), follow_symlinks=False)
        else:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with open(descriptor, "wb", buffering=0) as file:
                while content:
                    content = content[file.write(content) or 0 :]
                os.fchmod(descriptor, mode)
                os.utime(descriptor, (time, time))
    for path, mode, time in reversed(folders):
        os.utime(path, (time, time))
        os.chmod(path, mode)


if __name__ == "__main__":
    main()
