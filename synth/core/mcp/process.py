"""One server process: started from nothing, read within bounds, ended with all it started."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import re
import shutil
import signal
import subprocess
import tempfile
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from synth.core.errors import DiskFull, ServerFailed
from synth.core.mcp.disk import excess, remove
from synth.core.mcp.wire import LineBuffer, LineTooLong
from synth.core.sandbox.confine import ProcessLimits, confine, tier

CHUNK = 64 << 10
LAST_WORDS_S, LAST_STATUS_S = 0.05, 0.5
"""After the end of its output: time for its standard error and its exit status to arrive."""
_TELLING = re.compile(r"error|exception|required|cannot|not found|not set|missing|usage", re.I)
KILL_S = 5.0
"""Time the kernel gets to end a killed process (one that waits for a disk can take long)."""
DISK_EVERY_S = 0.25
"""How often the space that it takes is measured, or less often where that takes long."""
MARK = "TOOLLOOM_SERVER"
"""Environment variable by which children that left the process group are found again."""


@dataclass(frozen=True, slots=True)
class ServerLaunch:
    """How a server is started. Nothing of our own environment or home reaches it."""

    argv: tuple[str, ...]
    """Never a shell line. The program is looked up on our PATH once, then launched by its path."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Added to a small fixed environment."""
    cwd: Path | None = None
    """Default: the writable folder."""
    network: bool = False
    writable: Path | None = None
    """The one folder that it may change. Default: a temporary one, removed at the end."""
    readable: tuple[Path, ...] = ()
    """Shown read-only where they lie in places that are otherwise empty (homes, /tmp)."""
    name: str = ""
    """For messages; default the program's name."""
    allow_weaker: bool = False
    """Run it with resource limits alone where this machine offers no confinement."""

    @property
    def label(self) -> str:
        """Return what to call the server in messages."""
        return self.name or Path(self.argv[0]).name


@dataclass(frozen=True, slots=True)
class Limits:
    """What a server may cost. Times in seconds; sizes in bytes."""

    line_bytes: int = 8 << 20
    pages: int = 50
    tools: int = 2000
    list_bytes: int = 32 << 20
    """All pages together; the largest list of 48 servers had 249 kB."""
    start_s: float = 40.0
    """From launch to the answer of `initialize`."""
    list_s: float = 30.0
    """All pages of the tool list together."""
    call_s: float = 30.0
    stop_s: float = 1.0
    """Time to leave by itself after the end of its input, before it is killed."""
    stderr_bytes: int = 16 << 10
    """Kept of the end of standard error; everything is read."""
    noise_bytes: int = 32 << 20
    """Read without an answer among it while an answer is due."""
    disk_bytes: int = 256 << 20
    """Of all it writes, in all the folders it may write to."""
    disk_files: int = 20_000
    process: ProcessLimits = field(default_factory=ProcessLimits)


def start(
    launch: ServerLaunch,
    limits: Limits,
    *,
    on_line: Callable[[bytes], object],
    on_end: Callable[[ServerFailed], None],
) -> ServerProcess:
    """Launch a server; must be called in a running event loop.

    Args:
        launch: what to start.
        limits: what it may cost.
        on_line: called with each line of its standard output.
        on_end: called once, when it is over for a reason of its own.

    Raises:
        ServerFailed: there is no such program, or it cannot be executed.
        NoConfinement: this machine cannot confine it as asked.
        DiskFull: there is no room for its temporary folder.
    """
    program = shutil.which(launch.argv[0])
    if program is None:
        raise ServerFailed(
            f"no such program {launch.argv[0]!r}",
            where=launch.label,
            remedy="install it, or give its path",
            outcome="exited",
        )
    mark = uuid.uuid4().hex
    try:
        scratch = tempfile.TemporaryDirectory(prefix="toolloom-", ignore_cleanup_errors=True)
        try:
            process = _popen(launch, limits, os.path.abspath(program), Path(scratch.name), mark)
        except BaseException:
            scratch.cleanup()
            raise
    except OSError as error:
        raise _not_started(error, launch.label) from error
    return ServerProcess(process, scratch, mark, launch, limits, _Listener(on_line, on_end))


def _popen(
    launch: ServerLaunch, limits: Limits, program: str, scratch: Path, mark: str
) -> subprocess.Popen[bytes]:
    scratch = scratch.resolve()
    own = scratch / "work"
    for folder in (own, scratch / "home", scratch / "tmp"):
        folder.mkdir()
    writable = launch.writable.resolve() if launch.writable else own
    command = confine(
        [program, *launch.argv[1:]],
        writable=[writable, scratch],
        network=launch.network,
        readable=launch.readable,
        cwd=launch.cwd or writable,
        limits=limits.process,
        allow_weaker=launch.allow_weaker,
    )
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=server_environment(program, scratch) | dict(launch.env) | {MARK: mark},
        cwd=scratch,
        start_new_session=True,
        bufsize=0,
    )


@dataclass(frozen=True, slots=True)
class _Listener:
    on_line: Callable[[bytes], object]
    on_end: Callable[[ServerFailed], None]


class ServerProcess:
    """A running server: `send` lines to it, get lines from it. Made by `start`."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        scratch: tempfile.TemporaryDirectory[str],
        mark: str,
        launch: ServerLaunch,
        limits: Limits,
        listener: _Listener,
    ) -> None:
        self._process, self._scratch, self._mark = process, scratch, mark
        self._label, self._limits, self._listener = launch.label, limits, listener
        self._escapable = tier() == "rlimits"
        self._lines = LineBuffer(limits.line_bytes)
        self._stderr, self._outgoing = bytearray(), bytearray()
        self._over = False
        self._loop = asyncio.get_running_loop()
        pipes = (process.stdin, process.stdout, process.stderr)
        self._stdin, self._stdout, self._stderr_pipe = (p for p in pipes if p is not None)
        for pipe in (self._stdin, self._stdout, self._stderr_pipe):
            os.set_blocking(pipe.fileno(), False)
        self._loop.add_reader(self._stdout.fileno(), self._read_stdout)
        self._loop.add_reader(self._stderr_pipe.fileno(), self._read_stderr)
        self._folders = [Path(scratch.name).resolve()]
        if launch.writable is not None:
            self._folders.append(launch.writable.resolve())
        self._watch = self._loop.call_later(DISK_EVERY_S, self._measure)

    @property
    def pid(self) -> int:
        """Return the id of the process and of its group."""
        return self._process.pid

    @property
    def stderr_tail(self) -> str:
        """Return the end of what the server wrote to standard error."""
        return self._stderr.decode("utf-8", errors="replace")

    # --- reading and writing ------------------------------------------------------------------

    def _read_stdout(self) -> None:
        chunk = _read(self._stdout)
        if chunk is None:
            return
        if not chunk:
            self._stop(self._stdout)
            self._loop.call_later(LAST_WORDS_S, self._closed_output, LAST_WORDS_S)
            return
        try:
            for line in self._lines.feed(chunk):
                self._listener.on_line(line)
        except LineTooLong:
            size = f"{self._limits.line_bytes >> 20} MiB"
            self._end(f"a line exceeds {size}", "oversize")
            self._stop(self._stdout)
            self.kill()

    def _read_stderr(self) -> None:
        chunk = _read(self._stderr_pipe)
        if chunk is None:
            return
        if not chunk:
            self._stop(self._stderr_pipe)
        self._stderr += chunk
        del self._stderr[: -self._limits.stderr_bytes]

    def _closed_output(self, waited: float) -> None:
        status = _exit_status(self._process.pid) if self._process.returncode is None else None
        if status is None and waited < LAST_STATUS_S and not self._over:
            self._loop.call_later(LAST_WORDS_S, self._closed_output, waited + LAST_WORDS_S)
            return
        words = "closed its output" if status is None else f"exited with status {status}"
        said = telling_line(self.stderr_tail)
        self._end(f"{words}: {said}" if said else words, "exited")

    def _end(self, what: str, outcome: str) -> None:
        if not self._over:
            self._over = True
            self._listener.on_end(ServerFailed(what, where=self._label, outcome=outcome))

    def _stop(self, pipe: IO[bytes]) -> None:
        if not pipe.closed:
            self._loop.remove_reader(pipe.fileno())
            self._loop.remove_writer(pipe.fileno())
            pipe.close()

    def agreed(self, protocol: str) -> None:
        """Do nothing: over pipes no message names the version."""

    def send(self, line: bytes, *, limit_s: float | None = None) -> None:
        """Queue a line. What the server does not read is kept, up to twice the line limit."""
        if len(self._outgoing) + len(line) > 2 * self._limits.line_bytes:
            return  # it does not read what we send; its deadline will tell
        self._outgoing += line
        self._write()

    def _write(self) -> None:
        if self._stdin.closed:
            return
        try:
            done = os.write(self._stdin.fileno(), self._outgoing)
            del self._outgoing[:done]
        except (BlockingIOError, InterruptedError):
            pass
        except OSError:  # its end is closed; standard output tells the rest
            self._outgoing.clear()
        if self._outgoing:
            self._loop.add_writer(self._stdin.fileno(), self._write)
        else:
            self._loop.remove_writer(self._stdin.fileno())

    def _measure(self) -> None:
        begun = self._loop.time()
        most = self._limits
        what = excess(self._folders, most_bytes=most.disk_bytes, most_files=most.disk_files)
        if what:
            self._end(what, "oversize")
            self.kill()
            return
        pause = max(DISK_EVERY_S, 20 * (self._loop.time() - begun))  # a twentieth at most
        self._watch = self._loop.call_later(pause, self._measure)

    # --- ending -------------------------------------------------------------------------------

    def kill(self) -> None:
        """Kill the process group now, and whatever of it escaped into other groups."""
        if self._process.returncode is not None:
            return  # reaped: its number may belong to somebody else by now
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        if self._escapable:
            _kill_marked(self._mark)

    async def close(self) -> None:
        """End the server: end of input, a moment to leave, then SIGKILL for all of it."""
        self._over = True
        self._watch.cancel()
        self._stop(self._stdin)
        try:
            await self._wait(self._limits.stop_s)
        finally:
            self.kill()
            self._stop(self._stdout)
            self._stop(self._stderr_pipe)
            await asyncio.shield(self._reap())

    async def _reap(self) -> None:
        await self._wait(KILL_S)
        self._process.poll()
        with contextlib.suppress(OSError):  # a process that cannot be killed may still write
            remove(Path(self._scratch.name))
        self._scratch.cleanup()

    async def _wait(self, limit_s: float) -> None:
        """Wait for the process itself, never for its pipes: a child may hold those open.

        It is left a zombie, so that its number stays its own until the group was killed.
        """
        step, waited = 0.002, 0.0
        while self._process.returncode is None and _exit_status(self._process.pid) is None:
            if waited >= limit_s:
                return
            await asyncio.sleep(step)
            waited += step
            step = min(step * 1.5, 0.05)


def telling_line(said: str) -> str:
    """Return the line of an error output that most likely says why, at most 300 characters."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    telling = [line for line in lines if _TELLING.search(line)]
    return (telling or lines or [""])[-1][:300]


def _read(pipe: IO[bytes]) -> bytes | None:
    """Return what is there, b"" at the end, None when nothing is there yet."""
    try:
        return os.read(pipe.fileno(), CHUNK)
    except (BlockingIOError, InterruptedError):
        return None
    except OSError:
        return b""


def _exit_status(pid: int) -> int | None:
    """Return the status (negative: the signal) of a child that ended, without reaping it."""
    try:
        found = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return 0
    if found is None:
        return None
    return found.si_status if found.si_code == os.CLD_EXITED else -found.si_status


def server_environment(program: str, scratch: Path) -> dict[str, str]:
    """Return the environment of a server: built from nothing, home and temp in `scratch`."""
    home = scratch / "home"
    paths = [str(Path(program).parent), "/usr/local/bin", "/usr/bin", "/bin"]
    return {
        "PATH": os.pathsep.join(dict.fromkeys(paths)),
        "HOME": str(home),
        "TMPDIR": str(scratch / "tmp"),
        "XDG_CONFIG_HOME": str(home / ".config"),
        "XDG_CACHE_HOME": str(home / ".cache"),
        "XDG_DATA_HOME": str(home / ".local/share"),
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "CI": "1",
        "DO_NOT_TRACK": "1",
        "NO_COLOR": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def _not_started(error: OSError, label: str) -> Exception:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DiskFull("the disk is full", where=label)
    return ServerFailed(f"cannot be started: {error}", where=label, outcome="exited")


def _kill_marked(mark: str) -> None:
    """Kill every process of ours whose environment carries the mark (Linux only)."""
    needle = f"{MARK}={mark}".encode()
    for _ in range(5):  # a process may have forked while the list was read
        found = 0
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if needle in (entry / "environ").read_bytes():
                    os.kill(int(entry.name), signal.SIGKILL)
                    found += 1
        if not found:
            return
