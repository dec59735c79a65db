"""`pypi:NAME[==VERSION] [ARGUMENT...]`: a server from the Python package index.

Wheels only, so that nothing of the package runs while it is installed. A quarter of the servers
break with the newest MCP SDK because their requirement is open upwards; those are installed again
with `mcp<2`.
"""

from __future__ import annotations

import re
import shutil
import sys
import time
from collections.abc import Sequence
from importlib.metadata import Distribution, distributions
from pathlib import Path

import orjson

from synth.core.errors import BadInput, ServerFailed
from synth.core.jsonl import write_atomic
from tool_registry import install, secrets
from tool_registry.listing import Command, list_server
from tool_registry.source import Bench, Listing, Target, split_words

OLD_SDK = "mcp<2"
_LATEST = re.compile(r'"latest": *"([^"]+)"|^[\w.-]+ \(([^()\s]+)\)$', re.M)
"""What pip says of the newest version: as JSON, or `name (version)`."""
_SPEC = re.compile(
    r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)(\[[\w,.-]+\])?(==(?P<version>[\w.!+-]+))?"
)


class PyPI:
    """Servers from a Python package index."""

    name = "pypi"
    example = "pypi:mcp-server-time==2025.9.25"

    def claims(self, text: str) -> bool:
        """Say whether `text` is for this source."""
        return text.startswith("pypi:")

    def targets(self, text: str) -> Sequence[Target]:
        """Return the one server that `text` names."""
        spec, *arguments = split_words(text.removeprefix("pypi:"), where="pypi")
        return [self.target(spec, arguments)]

    def target(self, spec: str, arguments: Sequence[str] = (), script: str | None = None) -> Target:
        """Return the target for a requirement such as `mcp-server-time==2025.9.25`."""
        found = _SPEC.fullmatch(spec)
        if found is None:
            raise BadInput(
                f"not a package name: {spec!r}", where="pypi", remedy=f"write it as {self.example}"
            )
        name = re.sub(r"[-_.]+", "-", found["name"]).lower()
        return Target(
            server=f"pypi:{name}",
            source=self.name,
            package=name,
            version=found["version"],
            arguments=secrets.without_secret_arguments(arguments),
            script=script,
        )

    async def fetch(self, target: Target, bench: Bench, listing: Listing) -> None:
        """Install, list, and once more with the old SDK where the new one breaks the server."""
        listing.latest_version = await _latest(str(target.package), bench.install_s)
        if _folder(target, bench, listing, OLD_SDK).joinpath(install.DONE).exists():
            await self._attempt(target, bench, listing, OLD_SDK)  # an earlier crawl needed it
            return
        try:
            await self._attempt(target, bench, listing, None)
        except ServerFailed:
            if not _broken_by_sdk(listing.stderr_tail):
                raise
            await self._attempt(target, bench, listing, OLD_SDK)

    async def _attempt(
        self, target: Target, bench: Bench, listing: Listing, constraint: str | None
    ) -> None:
        listing.constraint = constraint
        begun = time.monotonic()
        async with bench.turns["pypi"]:
            folder = await _installed(target, bench, listing, constraint)
        listing.install_s = (listing.install_s or 0.0) + time.monotonic() - begun
        package = _distribution(folder, str(target.package))
        listing.package_version = package.version
        listing.licence, listing.homepage = _licence(package), _homepage(package)
        program = _program(package, folder, target)
        command = Command(
            argv=(*program, *target.arguments),
            label=target.server,
            env=dict(target.env),
            readable=(folder,),
        )
        await list_server(command, bench, listing)


def _folder(target: Target, bench: Bench, listing: Listing, constraint: str | None) -> Path:
    """Return where the installation of the wanted version belongs."""
    package, registry = str(target.package), bench.cache / "pypi"
    wanted = target.version or listing.latest_version or install.newest_kept(registry, package)
    return registry / install.folder_name(package, wanted, constraint)


async def _installed(
    target: Target, bench: Bench, listing: Listing, constraint: str | None
) -> Path:
    """Return the folder of a complete installation, made now if it is not there."""
    folder = _folder(target, bench, listing, constraint)
    done = folder / install.DONE
    async with install.exclusive(folder):
        if not done.exists():
            shutil.rmtree(folder, ignore_errors=True)
            try:
                await _install(folder, target, bench, constraint)
            except BaseException:
                shutil.rmtree(folder, ignore_errors=True)
                raise
            write_atomic(done, orjson.dumps(target.record()))
    return folder


async def _install(folder: Path, target: Target, bench: Bench, constraint: str | None) -> None:
    requirement = f"{target.package}=={target.version}" if target.version else str(target.package)
    wanted = [requirement, *([constraint] if constraint else [])]
    python = str(folder / "bin" / "python")
    uv = install.uv()
    if uv is None:
        commands = [
            [sys.executable, "-m", "venv", str(folder)],
            [python, "-m", "pip", "install", "--quiet", "--only-binary", ":all:", "--", *wanted],
        ]
        env: dict[str, str] = {}
    else:
        options, env = install.uv_options(install.python_index())
        into = [uv, "pip", "install", "--quiet", "--no-build", "--python", python]
        into.append("--compile-bytecode")  # the server may not write here; saves 1 CPU-s a start
        commands = [
            [uv, "venv", "--quiet", "--python", sys.executable, str(folder)],
            [*into, *options, "--", *wanted],
        ]
    for command in commands:
        done = await install.run_installer(command, limit_s=bench.install_s, env=env)
        if done.status != 0:
            raise ServerFailed(_why(done.output), where=target.server, outcome="install_failed")


def _why(output: str) -> str:
    """Return the installer's words from its first error on, without its drawings."""
    lines = [line.strip(" ×╰─▶│\t") for line in output.splitlines() if line.strip()]
    first = next((n for n, line in enumerate(lines) if "error" in line.lower()), 0)
    return " ".join(lines[first:])[:400] or "the installer failed silently"


async def _latest(package: str, limit_s: float) -> str | None:
    """Return the newest version whether it fits this Python or not; None when nobody answers.

    An old pip knows neither option and is asked plainly: it names the newest that fits.
    """
    ask = [sys.executable, "-m", "pip", "index", "versions", package]
    try:
        for options in (["--ignore-requires-python", "--json"], []):
            done = await install.run_installer([*ask, *options], limit_s=min(limit_s, 60.0))
            found = _LATEST.search(done.output) if done.status == 0 else None
            if found:
                return found[1] or found[2]
    except ServerFailed:
        pass  # nobody answered in time: the newest version stays unknown
    return None


def _broken_by_sdk(said: str) -> bool:
    return "Traceback" in said and ("mcp" in said.lower() or "ImportError" in said)


def _distribution(folder: Path, package: str) -> Distribution:
    libraries = [str(path) for path in folder.glob("lib/python*/site-packages")]
    for found in distributions(name=package, path=libraries):
        return found
    raise ServerFailed("the package is not in its own installation", outcome="install_failed")


def _program(package: Distribution, folder: Path, target: Target) -> list[str]:
    """Return the start of the command line: the script that looks most like the server."""
    scripts = sorted(e.name for e in package.entry_points if e.group == "console_scripts")
    name = str(target.package)
    if target.script in scripts:
        return [str(folder / "bin" / str(target.script))]
    if not scripts:
        return [str(folder / "bin" / "python"), "-m", name.replace("-", "_")]
    chosen = min(scripts, key=lambda s: (s != name, "mcp" not in s, "server" not in s, len(s)))
    return [str(folder / "bin" / chosen)]


def _licence(package: Distribution) -> str | None:
    for field in ("License-Expression", "License"):
        for text in package.metadata.get_all(field) or []:
            if 0 < len(text.strip()) < 80:
                return str(text).strip()
    for classifier in package.metadata.get_all("Classifier") or []:
        if classifier.startswith("License ::"):
            return str(classifier).rpartition(":: ")[2]
    return None


def _homepage(package: Distribution) -> str | None:
    entries = [str(entry) for entry in package.metadata.get_all("Project-URL") or []]
    ranked = {label.lower(): url for label, _, url in (e.partition(", ") for e in entries)}
    for label in ("repository", "source", "source code", "github", "homepage"):
        if label in ranked:
            return ranked[label]
    return next(iter(map(str, package.metadata.get_all("Home-page") or [])), None)


SOURCE = PyPI()
