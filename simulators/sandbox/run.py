"""Run one command on a folder that is a value: in a room of its own, within bounds.

What the command may see is as little as a program needs: system folders, the Python that runs us
without our packages, a user and a host that are called the same everywhere. It has no network, no
home and none of our variables. Time, memory, processes, output and disk are bounded, and whatever
it started ends with it.

What a run is like cannot depend on the machine more than it must: paths, user, variables, hash
seed, process numbers, addresses and times of files are fixed. The clock is not, nor is what
programs print of how long they took, but for the two common ways of Python's test runners.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import re
import shutil
import socket
import sys
from asyncio.subprocess import Process
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from simulators.live.folder import MAX_ENTRIES, MAX_FILE, MAX_TOTAL, Tree
from simulators.sandbox.state import State
from synth.core.errors import ToolloomError
from synth.core.sandbox import room
from synth.core.sandbox.confine import NoConfinement, ProcessLimits

PLACE = "/tmp/project"
"""Where a command finds the folder: a private /tmp, so that no machine has it already."""
NAME = "sandbox"
_SHOWN = {"bin", "sbin", "lib", "lib32", "lib64", "libx32", "usr", "proc", "tmp"}
"""What remains to be seen of the folders of the machine; the others are empty."""
_OF_ETC = ("alternatives", "ld.so.cache", "ld.so.conf", "ld.so.conf.d")
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_TOOLS = "/etc/bin"
_TEXTS = {
    "/etc/passwd": f"agent:x:{room.USER}:{room.USER}::/tmp:/bin/bash\n",
    "/etc/group": f"agent:x:{room.USER}:\n",
    "/etc/hosts": "127.0.0.1 localhost sandbox\n",
}
_LINKS = {f"/dev/{name}": f"/proc/self/fd/{n}" for n, name in enumerate(("stdin", "stdout"))}
_LINKS |= {"/dev/fd": "/proc/self/fd", "/dev/stderr": "/proc/self/fd/2"}
_LASTED = re.compile(r"\b(Ran \d+ tests? in |(?:passed|failed|errors?|ran) in )\d+\.\d+(?=s)")
_PROGRAM = (sys.executable, "-I", "-S", room.__file__)
_GRACE_S = 30.0
"""Time that a room has to begin and to end beside that of its command, on a busy machine too."""
_WORDS = ("start", "memory", "time")
"""What a room says of its end."""
_END_S = 5.0
"""Time that a room has to end when it is told to."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What one command may take up."""

    seconds: float = 60.0
    """The most that a call may ask for, wall time; as much CPU time for each process."""
    output: int = 1 << 20
    """Bytes of output that are read; who writes more is ended."""
    shown: int = 16_000
    """Characters of output that are shown: a beginning and an end."""
    memory: int = 1 << 30
    """Bytes of all its processes, looked at ten times a second."""
    process_memory: int = 512 << 20
    """Bytes of private memory of one process; four times as much of addresses."""
    processes: int = 64
    scratch: int = 64 << 20
    """Bytes of /tmp, and once more of /dev/shm; nothing in them is kept."""


@dataclass(frozen=True, slots=True)
class Ran:
    """What came of a command."""

    state: State
    status: int
    """As a shell tells it: 128 and the number of a signal where one ended it."""
    output: str
    """Both streams as they came; the middle of a long one is left out."""
    ended: str
    """Why it was ended before its time: `time`, `memory`, `output`, or an empty string."""


async def run(
    argv: Sequence[str],
    state: State,
    *,
    seconds: float,
    given: bytes = b"",
    bounds: Bounds | None = None,
) -> Ran:
    """Run a command in the folder, and look at what it left when all of it has ended.

    Args:
        argv: the command; the first item is a path as the room has it.
        state: the folder.
        seconds: wall time it has.
        given: what it reads from standard input.
        bounds: what it may take up.

    Raises:
        NoConfinement: this machine cannot make such a room.
        ToolloomError: it is too busy to make one.
        ServerFailed: what the command left cannot be kept: too many files, too large ones.
    """
    bounds = bounds or Bounds()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        process = await asyncio.create_subprocess_exec(
            *_PROGRAM,
            str(os.getpid()),
            str(theirs.fileno()),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=_variables(),
            cwd="/",
            pass_fds=(theirs.fileno(),),
        )
        theirs.close()
        attending = _Attendant(process, ours, bounds.output)
        try:
            async with asyncio.timeout(seconds + _GRACE_S):
                wanted = _wanted(argv, seconds, bounds)
                await attending.attend((wanted, state.packed()), given)
            return _ran(state, attending, bounds)
        except TimeoutError as error:
            raise ToolloomError("a room neither began nor ended", where=NAME) from error
        finally:
            attending.close()
            if process.returncode is None:  # cancelled, or stuck: it must not go on
                await _end(process)


async def _end(process: Process) -> None:
    """End a room; it is told to, so that it waits for all that is in it."""
    process.terminate()
    try:
        async with asyncio.timeout(_END_S):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


async def why_not() -> str:
    """Return why this machine makes no rooms, found out by making one; empty if it does."""
    try:
        ran = await run([bash(), "-c", "echo $((6 * 7))"], State(Tree({})), seconds=10)
    except NoConfinement as error:
        return error.what
    return "" if ran.output == "42\n" else f"a room answers {ran.output!r}"


class _Attendant:
    """Serves one room from outside, until all in it has ended."""

    def __init__(self, process: Process, wire: socket.socket, limit: int) -> None:
        self.process, self._wire, self._limit = process, wire, limit
        self.output, self.room = bytearray(), -1

    async def attend(self, parts: Sequence[bytes], given: bytes) -> None:
        sent = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
        loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._read())
            group.create_task(self._give(given))
            with contextlib.suppress(ConnectionError):  # it did not begin: its output says why
                await loop.sock_sendall(self._wire, sent)
                await self._take_room(loop)
        await self.process.wait()

    async def _take_room(self, loop: asyncio.AbstractEventLoop) -> None:
        ready = asyncio.Event()
        loop.add_reader(self._wire.fileno(), ready.set)
        try:
            await ready.wait()
        finally:
            loop.remove_reader(self._wire.fileno())
        _, held, _, _ = socket.recv_fds(self._wire, 1, 1, socket.MSG_CMSG_CLOEXEC)
        self.room = held[0] if held else -1

    async def _read(self) -> None:
        assert self.process.stdout is not None
        while chunk := await self.process.stdout.read(1 << 16):
            if len(self.output) > self._limit:
                continue  # it is being ended
            self.output += chunk
            if len(self.output) > self._limit:
                self.process.terminate()

    async def _give(self, given: bytes) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(ConnectionError):  # whoever does not read misses nothing
            self.process.stdin.write(given)
            await self.process.stdin.drain()
            self.process.stdin.close()
            await self.process.stdin.wait_closed()

    def word(self) -> str:
        """Return why the room was ended before its time, if it was."""
        if len(self.output) > self._limit:
            return "output"
        try:
            said = self._wire.recv(16).decode()
        except (BlockingIOError, ConnectionError):
            return ""
        # Keeper and guard may both have a word; the first is what happened.
        return next((word for word in _WORDS if said.startswith(word)), "")

    def close(self) -> None:
        """Let go of the room."""
        if self.room >= 0:
            os.close(self.room)
            self.room = -1


def _ran(state: State, attending: _Attendant, bounds: Bounds) -> Ran:
    said = attending.output.decode("utf-8", errors="backslashreplace")
    status, word = attending.process.returncode, attending.word()
    if attending.room < 0 or status is None or word == "start":
        line = (said.strip().splitlines() or ["the room does not begin"])[-1]
        raise NoConfinement(line, where=NAME, remedy="user namespaces are needed; see doctor")
    found = Tree.scan(attending.room, server=NAME, lenient=True)
    return Ran(state.then(found), status, _shown(said, bounds.shown), word)


def _shown(text: str, most: int) -> str:
    """Return output as agents read it: without what no two runs share, and not too long."""
    text = _LASTED.sub(r"\g<1>0.000", text)
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]}\n[{len(text) - 2 * half} characters left out]\n{text[-half:]}"


# --- what a room is made of ------------------------------------------------------------------


def _wanted(argv: Sequence[str], seconds: float, bounds: Bounds) -> bytes:
    """Return what the room shall be like, and its command."""
    said: dict[str, list[object]] = {
        "seconds": [seconds],
        "memory": [bounds.memory],
        "scratch": [bounds.scratch],
        "room": [PLACE, MAX_TOTAL + 4096 * MAX_ENTRIES, MAX_ENTRIES + 1],
        "limit": [f"{name}:{value}" for name, value in _limits(seconds, bounds).items()],
    }
    words = [f"{name}={value}" for name, values in said.items() for value in values]
    return b"\0".join(map(os.fsencode, [*words, *_surroundings(), "--", *argv]))


def _limits(seconds: float, bounds: Bounds) -> dict[str, int]:
    limits = ProcessLimits(
        cpu_s=int(seconds) + 1,
        file_bytes=MAX_FILE - 1,
        memory_bytes=bounds.process_memory,
        open_files=256,
    )
    more = {"AS": 4 * bounds.process_memory, "NPROC": bounds.processes, "MSGQUEUE": 0}
    return limits.rlimits() | more


def _surroundings() -> tuple[str, ...]:
    """Return the words that say what is to be seen beside the folder."""
    with os.scandir("/") as found:
        top = [entry for entry in found if not entry.is_symlink()]
    hidden = [e.path for e in top if e.is_dir() and e.name not in _SHOWN]
    masked = [e.path for e in top if not e.is_dir()]
    shown = [f"/etc/{name}" for name in _OF_ETC] + [f"/dev/{name}" for name in _DEVICES]
    shown += [sys.base_prefix] if Path(sys.base_prefix).is_relative_to("/tmp") else []
    shown += [sys.base_prefix for path in hidden if Path(sys.base_prefix).is_relative_to(path)]
    masked += _packages()  # folders may come and go while we run, packages do not
    said = {
        "hidden": hidden,
        "masked": masked,
        "readable": [path for path in shown if os.path.exists(path)],
        "text": [f"{path}={text}" for path, text in _TEXTS.items()],
        "link": [f"{path}={target}" for path, target in _LINKS.items()]
        + [f"{_TOOLS}/{name}={python()}" for name in ("python", "python3")],
    }
    return tuple(f"{name}={value}" for name, values in said.items() for value in values)


@functools.cache
def _packages() -> list[str]:
    """Return where packages lie beside what is shown: no two machines have the same ones.

    Ours are among them, with tasks and their hidden tests, where we are installed there.
    """
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    libraries = [Path(sys.base_prefix, "lib", version), Path("/usr/lib/python3")]
    libraries += [Path(prefix, "lib", version) for prefix in ("/usr", "/usr/local")]
    folders = [path / name for path in libraries for name in ("site-packages", "dist-packages")]
    here = Path(__file__).parents[2]  # an editable installation may lie anywhere
    folders += [here] if here.is_relative_to("/usr") or here.is_relative_to(sys.base_prefix) else []
    there = {path.resolve() for path in folders if path.is_dir()}
    return sorted(str(path) for path in there if not there & set(path.parents))


@functools.cache
def python() -> str:
    """Return the interpreter of a room: the one that runs us, without our packages."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return os.path.realpath(Path(sys.base_prefix, "bin", version))


@functools.cache
def bash() -> str:
    """Return the shell of a room.

    Raises:
        NoConfinement: there is none.
    """
    found = shutil.which("bash", path="/bin:/usr/bin:/usr/local/bin")
    if found is None:
        raise NoConfinement("there is no bash", where=NAME, remedy="install it")
    return found


@functools.cache
def _variables() -> Mapping[str, str]:
    return {
        "HOME": "/tmp",
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
        "LOGNAME": "agent",
        "PATH": f"{_TOOLS}:{Path(python()).parent}:/usr/local/bin:/usr/bin:/bin",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        "SHELL": "/bin/bash",
        "TERM": "dumb",
        "TMPDIR": "/tmp",
        "TZ": "UTC",
        "USER": "agent",
    }
