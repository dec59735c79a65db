"""One server process: started from nothing, read within bounds, ended with all it started."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import shutil
import signal
import subprocess
import tempfile
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from synth.core.errors import DiskFull, ServerFailed
from synth.core.mcp.wire import LineBuffer, LineTooLong
from synth.core.sandbox.confine import ProcessLimits, confine

CHUNK = 64 << 10
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
    process: ProcessLimits = field(default_factory=ProcessLimits)


class ServerProcess:
    """A running server: `send` lines to it, get lines from it by `on_line`."""

    def __init__(
        self,
        launch: ServerLaunch,
        limits: Limits,
        *,
        on_line: Callable[[bytes], None],
        on_end: Callable[[ServerFailed], None],
    ) -> None:
        self._launch, self._limits = launch, limits
        self._on_line, self._on_end = on_line, on_end
        self._lines = LineBuffer(limits.line_bytes)
        self._stderr = bytearray()
        self._outgoing = bytearray()
        self._process: subprocess.Popen[bytes] | None = None
        self._mark = uuid.uuid4().hex
        self._scratch: tempfile.TemporaryDirectory[str] | None = None
        self._ended = False

    @property
    def pid(self) -> int | None:
        """Return the process (and process group) id, or None before the start."""
        return self._process.pid if self._process else None

    @property
    def stderr_tail(self) -> str:
        """Return the end of what the server wrote to standard error."""
        return self._stderr.decode("utf-8", errors="replace")

    def start(self) -> None:
        """Launch the server.

        Raises:
            ServerFailed: there is no such program, or it cannot be executed.
            NoConfinement: this machine cannot confine it as asked.
        """
        launch = self._launch
        program = shutil.which(launch.argv[0])
        if program is None:
            raise ServerFailed(
                f"no such program {launch.argv[0]!r}",
                where=launch.label,
                remedy="install it, or give its path",
                outcome="exited",
            )
        scratch = tempfile.TemporaryDirectory(prefix="toolloom-", ignore_cleanup_errors=True)
        try:
            self._popen(os.path.abspath(program), Path(scratch.name).resolve())
        except BaseException as error:
            scratch.cleanup()
            if isinstance(error, OSError):
                raise _not_started(error, launch.label) from error
            raise
        self._scratch = scratch
        loop = asyncio.get_running_loop()
        assert self._process is not None
        for pipe, reader in (
            (self._process.stdout, self._read_stdout),
            (self._process.stderr, self._read_stderr),
        ):
            assert pipe is not None
            os.set_blocking(pipe.fileno(), False)
            loop.add_reader(pipe.fileno(), reader)
        assert self._process.stdin is not None
        os.set_blocking(self._process.stdin.fileno(), False)

    def _popen(self, program: str, scratch: Path) -> None:
        launch = self._launch
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
            limits=self._limits.process,
            allow_weaker=launch.allow_weaker,
        )
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=server_environment(program, scratch) | dict(launch.env) | {MARK: self._mark},
            cwd=scratch,
            start_new_session=True,
            bufsize=0,
        )

    # --- reading and writing ------------------------------------------------------------------

    def _read_stdout(self) -> None:
        chunk = self._read(1)
        if chunk is None:
            return
        if not chunk:
            self._stop_reading(1)
            self._end(ServerFailed(*self._exit_words(), outcome="exited"))
            return
        try:
            for line in self._lines.feed(chunk):
                self._on_line(line)
        except LineTooLong:
            self._stop_reading(1)
            size = f"{self._limits.line_bytes >> 20} MiB"
            self._end(
                ServerFailed(f"a line exceeds {size}", where=self._launch.label, outcome="oversize")
            )
            self.kill()

    def _read_stderr(self) -> None:
        chunk = self._read(2)
        if chunk is None:
            return
        if not chunk:
            self._stop_reading(2)
        self._stderr += chunk
        del self._stderr[: -self._limits.stderr_bytes]

    def _read(self, which: int) -> bytes | None:
        """Return what is there, b"" at the end, None when nothing is there yet."""
        assert self._process is not None
        pipe = self._process.stdout if which == 1 else self._process.stderr
        assert pipe is not None
        try:
            return os.read(pipe.fileno(), CHUNK)
        except (BlockingIOError, InterruptedError):
            return None
        except OSError:
            return b""

    def _stop_reading(self, which: int) -> None:
        assert self._process is not None
        pipe = self._process.stdout if which == 1 else self._process.stderr
        if pipe is not None and not pipe.closed:
            asyncio.get_running_loop().remove_reader(pipe.fileno())
            pipe.close()

    def send(self, line: bytes) -> None:
        """Queue a line. What the server does not read is kept, up to twice the line limit."""
        if len(self._outgoing) + len(line) > 2 * self._limits.line_bytes:
            return  # it does not read what we send; its deadline will tell
        self._outgoing += line
        self._write()

    def _write(self) -> None:
        pipe = self._process.stdin if self._process else None
        if pipe is None or pipe.closed:
            return
        loop = asyncio.get_running_loop()
        try:
            done = os.write(pipe.fileno(), self._outgoing)
            del self._outgoing[:done]
        except (BlockingIOError, InterruptedError):
            pass
        except OSError:  # its end is closed; standard output tells the rest
            self._outgoing.clear()
        if self._outgoing:
            loop.add_writer(pipe.fileno(), self._write)
        else:
            loop.remove_writer(pipe.fileno())

    def _end(self, failure: ServerFailed) -> None:
        if not self._ended:
            self._ended = True
            self._on_end(failure)

    def _exit_words(self) -> tuple[str]:
        assert self._process is not None
        code = self._process.poll()
        status = "" if code is None else f" with status {code}"
        said = self.stderr_tail.strip().splitlines()
        last = f": {said[-1][:200]}" if said else ""
        return (f"{self._launch.label} closed its output{status}{last}",)

    # --- ending -------------------------------------------------------------------------------

    def kill(self) -> None:
        """Kill the process group now, and whatever of it escaped into other groups."""
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        _kill_marked(self._mark)

    async def close(self) -> None:
        """End the server: end of input, a moment to leave, then SIGKILL for all of it."""
        process = self._process
        if process is None:
            return
        self._ended = True
        try:
            self._close_input()
            await self._wait(self._limits.stop_s)
        finally:
            self.kill()
            for which in (1, 2):
                self._stop_reading(which)
            await asyncio.shield(self._wait(5.0))
            self._process = None
            if self._scratch is not None:
                self._scratch.cleanup()

    def _close_input(self) -> None:
        assert self._process is not None
        pipe = self._process.stdin
        if pipe is not None and not pipe.closed:
            asyncio.get_running_loop().remove_writer(pipe.fileno())
            pipe.close()

    async def _wait(self, limit_s: float) -> None:
        """Wait for the process itself, never for its pipes: a child may hold those open."""
        assert self._process is not None
        step, waited = 0.002, 0.0
        while self._process.poll() is None and waited < limit_s:
            await asyncio.sleep(step)
            waited += step
            step = min(step * 1.5, 0.05)


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
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if needle in (entry / "environ").read_bytes():
                os.kill(int(entry.name), signal.SIGKILL)
