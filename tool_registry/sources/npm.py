"""`npm:NAME[@VERSION] [ARGUMENT...]`: a server from the npm registry.

Install scripts never run (`--ignore-scripts`): of 32 servers one needs them to be listed. Where the
registry is, npm's own configuration says.
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson

from synth.core.errors import BadInput, ServerFailed
from synth.core.jsonl import write_atomic
from tool_registry import install, secrets
from tool_registry.listing import Command, list_server
from tool_registry.source import Bench, Listing, Target, split_words

_SPEC = re.compile(r"(?P<name>(@[a-z0-9][\w.~-]*/)?[a-z0-9][\w.~-]*)(@(?P<version>[\w.+-]+))?")
_QUIET = ("--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error")


class Npm:
    """Servers from an npm registry."""

    name = "npm"
    example = "npm:@modelcontextprotocol/server-memory@2026.8.31"

    def claims(self, text: str) -> bool:
        """Say whether `text` is for this source."""
        return text.startswith("npm:")

    def targets(self, text: str) -> Sequence[Target]:
        """Return the one server that `text` names."""
        spec, *arguments = split_words(text.removeprefix("npm:"), where="npm")
        return [self.target(spec, arguments)]

    def target(self, spec: str, arguments: Sequence[str] = (), script: str | None = None) -> Target:
        """Return the target for a package such as `@scope/name@1.2.3`."""
        found = _SPEC.fullmatch(spec)
        if found is None:
            raise BadInput(
                f"not a package name: {spec!r}", where="npm", remedy=f"write it as {self.example}"
            )
        version = found["version"]
        return Target(
            server=f"npm:{found['name']}",
            source=self.name,
            package=found["name"],
            version=None if version in (None, "latest") else version,
            arguments=secrets.without_secret_arguments(arguments),
            script=script,
        )

    async def fetch(self, target: Target, bench: Bench, listing: Listing) -> None:
        """Install and list."""
        node, npm = shutil.which("node"), shutil.which("npm")
        if node is None or npm is None:
            raise ServerFailed(
                "node and npm are not installed", where=target.server, outcome="install_failed"
            )
        listing.latest_version = await _latest(npm, str(target.package), bench.install_s)
        begun = time.monotonic()
        async with bench.turns["npm"]:
            folder = await _installed(npm, target, bench, listing)
        listing.install_s = time.monotonic() - begun
        manifest = _manifest(folder, target)
        listing.package_version = _text(manifest.get("version"))
        listing.licence = _text(manifest.get("license"))
        listing.homepage = _homepage(manifest)
        script = _script(manifest, folder, target)
        command = Command(
            argv=(node, str(script), *target.arguments),
            label=target.server,
            env=dict(target.env),
            readable=(folder,),
        )
        await list_server(command, bench, listing)


async def _installed(npm: str, target: Target, bench: Bench, listing: Listing) -> Path:
    package = str(target.package)
    kept = install.newest_kept(bench.cache / "npm", package)
    wanted = target.version or listing.latest_version or kept
    folder = bench.cache / "npm" / install.folder_name(package, wanted)
    done = folder / install.DONE
    async with install.exclusive(folder):
        if not done.exists():
            try:
                await _install(npm, folder, f"{package}@{wanted}" if wanted else package, bench)
            except ServerFailed as failure:
                shutil.rmtree(folder, ignore_errors=True)
                raise ServerFailed(
                    failure.what, where=target.server, outcome=failure.outcome
                ) from failure
            write_atomic(done, orjson.dumps({"package": package, "wanted": wanted}))
    return folder


async def _install(npm: str, folder: Path, spec: str, bench: Bench) -> None:
    """Install, first without asking again about packages that npm knows already."""
    command = [npm, "install", "--prefix", str(folder), "--ignore-scripts", *_QUIET]
    command += await _configuration(npm, bench.install_s)
    finished = None
    for extra in (["--prefer-offline"], []):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        finished = await install.run_installer(
            [*command, *extra, "--", spec], limit_s=bench.install_s
        )
        if finished.status == 0:
            return
    why = _why(finished.output) if finished else ""
    raise ServerFailed(why, outcome="install_failed")


async def _configuration(npm: str, limit_s: float) -> list[str]:
    """Return the option that names the machine's own configuration file.

    With `--prefix`, npm looks for it below the prefix, and knows neither registry nor certificates.
    """
    asked = await install.run_installer([npm, "config", "get", "globalconfig"], limit_s=limit_s)
    path = asked.output.strip()
    return [f"--globalconfig={path}"] if asked.status == 0 and path else []


async def _latest(npm: str, package: str, limit_s: float) -> str | None:
    """Return the version behind the tag `latest`; None when the registry does not answer."""
    ask = [npm, "view", package, "version", "--json", *_QUIET]
    try:
        done = await install.run_installer(ask, limit_s=min(limit_s, 60.0))
        return _text(orjson.loads(done.output)) if done.status == 0 else None
    except (ServerFailed, orjson.JSONDecodeError):
        return None


def _why(output: str) -> str:
    lines = [re.sub(r"^npm (error|ERR!)\s*", "", line) for line in output.splitlines()]
    return " ".join(line for line in lines if line.strip())[:500] or "npm failed silently"


def _manifest(folder: Path, target: Target) -> dict[str, Any]:
    try:
        text = (folder / "node_modules" / str(target.package) / "package.json").read_bytes()
        manifest = orjson.loads(text)
    except (OSError, orjson.JSONDecodeError) as error:
        raise ServerFailed(
            f"its package.json cannot be read: {error}",
            where=target.server,
            outcome="install_failed",
        ) from error
    return manifest if isinstance(manifest, dict) else {}


def _script(manifest: dict[str, Any], folder: Path, target: Target) -> Path:
    """Return the script that looks most like the server."""
    name = str(target.package).rpartition("/")[2]
    bins = manifest.get("bin")
    if isinstance(bins, str):
        bins = {name: bins}
    scripts = {str(k): str(v) for k, v in bins.items()} if isinstance(bins, dict) else {}
    if not scripts:
        raise ServerFailed("the package has no command", where=target.server, outcome="exited")
    chosen = target.script if target.script in scripts else None
    chosen = chosen or min(
        scripts, key=lambda s: (s != name, "mcp" not in s, "server" not in s, len(s))
    )
    home = (folder / "node_modules" / str(target.package)).resolve()
    script = (home / scripts[chosen]).resolve()
    if home not in script.parents:
        raise ServerFailed("its command lies elsewhere", where=target.server, outcome="exited")
    return script


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _homepage(manifest: dict[str, Any]) -> str | None:
    repository = manifest.get("repository")
    url = repository.get("url") if isinstance(repository, dict) else repository
    return _text(url) or _text(manifest.get("homepage"))


SOURCE = Npm()
