"""Runs package installers: bounded, without a shell, with an environment of chosen variables.

Installers are trusted, the packages are not: no build step and no install script of a package runs.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import fcntl
import functools
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from synth.core.errors import ServerFailed

_PASSED = re.compile(
    r"PATH|HOME|USER|LANG|LC_\w+|TMPDIR|(HTTPS?|ALL|NO)_PROXY|(PIP|UV|NPM_CONFIG)_\w+|"
    r"SSL_CERT_(FILE|DIR)|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE|NODE_EXTRA_CA_CERTS|XDG_\w+",
    re.IGNORECASE,
)
"""What reaches an installer: where to fetch from and what to trust; no token of anything else."""
LOCK_POLL_S = 0.2
DONE = "installed.json"
"""Written last: a folder without it is an installation that was cut off."""


@dataclass(frozen=True, slots=True)
class Finished:
    """How an installer ended."""

    status: int
    output: str
    """The end of what it wrote."""


async def run_installer(
    argv: Sequence[str], *, limit_s: float, env: Mapping[str, str] | None = None
) -> Finished:
    """Run an installer to its end; it and its children are killed at the limit or on cancel.

    Raises:
        ServerFailed: no such program, or too slow.
    """
    label = Path(argv[0]).name
    with tempfile.TemporaryFile() as output:
        try:
            process = subprocess.Popen(
                list(argv),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=_environment() | dict(env or {}),
                start_new_session=True,
            )
        except OSError as error:
            raise ServerFailed(str(error), where=label, outcome="install_failed") from error
        try:
            async with asyncio.timeout(limit_s):
                while process.poll() is None:
                    await asyncio.sleep(0.02)
        except TimeoutError:
            raise ServerFailed(
                f"not done within {limit_s:.0f} s", where=label, outcome="install_failed"
            ) from None
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        size = output.seek(0, os.SEEK_END)
        output.seek(max(0, size - 20_000))
        return Finished(process.returncode, output.read().decode("utf-8", errors="replace"))


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if _PASSED.fullmatch(name)}


@asynccontextmanager
async def exclusive(folder: Path) -> AsyncIterator[None]:
    """Hold `folder` for one installation at a time, over all processes."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder.with_name(f".{folder.name}.lock"), os.O_CREAT | os.O_RDWR, 0o644)
    try:
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                await asyncio.sleep(LOCK_POLL_S)
        yield
    finally:
        os.close(handle)


def folder_name(package: str, version: str | None, constraint: str | None = None) -> str:
    """Return a folder name for an installation, readable and free of separators."""
    held = f"+{constraint.replace('<', '-')}" if constraint else ""
    name = f"{package.lstrip('@').replace('/', '--')}@{version or 'newest'}{held}"
    return re.sub(r"[^A-Za-z0-9._@+*-]", "_", name)


def newest_kept(registry: Path, package: str) -> str | None:
    """Return the version of the newest complete installation, for work without a registry."""
    kept = registry.glob(folder_name(package, "*"))
    done = [folder for folder in kept if (folder / DONE).exists()]
    newest = max(done, key=lambda folder: folder.stat().st_mtime, default=None)
    return newest.name.rpartition("@")[2].partition("+mcp")[0] if newest else None


# --- Python: which index, which installer ----------------------------------------------------


@dataclass(frozen=True, slots=True)
class PythonIndex:
    """Where `pip` looks for packages on this machine, as its own configuration says."""

    index: str | None = None
    extra: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()
    certificate: str | None = None


@functools.cache
def python_index() -> PythonIndex:
    """Read pip's configuration once. Nothing configured, or no pip, gives an empty one."""
    command = [sys.executable, "-m", "pip", "config", "list"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=60, check=False, env=_environment()
        )
    except (OSError, subprocess.TimeoutExpired):
        return PythonIndex()
    return parse_pip_config(done.stdout if done.returncode == 0 else "")


def parse_pip_config(text: str) -> PythonIndex:
    """Read the output of `pip config list`; the environment (`:env:`) wins over files."""
    found: dict[str, str] = {}
    for line in sorted(text.splitlines(), key=lambda line: line.startswith(":env:")):
        key, separator, value = line.partition("=")
        scope, _, name = key.strip().partition(".")
        if separator and scope in ("global", "install", "user", ":env:"):
            with contextlib.suppress(ValueError, SyntaxError):
                found[name] = str(ast.literal_eval(value))
    return PythonIndex(
        index=found.get("index-url"),
        extra=tuple(found.get("extra-index-url", "").split()),
        links=tuple(found.get("find-links", "").split()),
        constraints=tuple(found.get("constraint", "").split()),
        certificate=found.get("cert"),
    )


def uv() -> str | None:
    """Return the path of `uv`, or None."""
    return shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))


def uv_options(index: PythonIndex) -> tuple[list[str], dict[str, str]]:
    """Return what makes `uv pip install` look where pip would: options and environment.

    Addresses may hold credentials, and every user of a machine reads the arguments of its
    processes: addresses go into the environment.
    """
    options = ["--index-strategy", "unsafe-best-match"] if index.extra else []
    for constraint in index.constraints:
        options += ["--constraint", constraint]
    env = {
        "UV_INDEX_URL": index.index or "",
        "UV_EXTRA_INDEX_URL": " ".join(index.extra),
        "UV_FIND_LINKS": ",".join(index.links),
        "SSL_CERT_FILE": index.certificate or "",
    }
    return options, {name: value for name, value in env.items() if value}
