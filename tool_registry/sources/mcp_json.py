"""A file as desktop clients write it: `{"mcpServers": {NAME: {"command", "args", "env"}}}`.

`npx PACKAGE` and `uvx PACKAGE` become targets of the npm and pypi sources, so that versions are
recorded and nothing is fetched while a server runs. Other commands run as they are. Credentials of
programs are replaced: listing needs none. Entries with an `url` become targets of the url source,
and their `headers` are sent to that address alone: servers elsewhere do want them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import orjson

from synth.core.errors import BadInput, ServerFailed
from synth.core.inputs import read_input
from tool_registry import secrets
from tool_registry.listing import WORK, Command, list_server
from tool_registry.source import Bench, Listing, Target
from tool_registry.sources import npm, pypi, url

_FORM = '{"mcpServers": {"name": {"command": "...", "args": []}}}'
_CONTAINERS = frozenset({"docker", "podman"})
_PROJECT_OPTIONS = frozenset({"--directory", "--project", "--prefix", "-C"})
_OF_ANOTHER = re.compile("[a-z-]{2,}:")
"""How words for other sources begin: `tools:FILE.json`."""
_CODE = frozenset({".py", ".js", ".mjs", ".cjs", ".ts"})


class McpJson:
    """Servers listed in the configuration file of a desktop client."""

    name = "mcp-json"
    example = "path/to/mcp.json"

    def claims(self, text: str) -> bool:
        """Say whether `text` is for this source."""
        return text.endswith(".json") and not _OF_ANOTHER.match(text)

    def targets(self, text: str) -> Sequence[Target]:
        """Return every server of the file that is not disabled."""
        path = Path(text).expanduser()
        return [
            target_of(path, str(name), entry)
            for name, entry in _entries(path).items()
            if not (isinstance(entry, dict) and entry.get("disabled") is True)
        ]

    async def fetch(self, target: Target, bench: Bench, listing: Listing) -> None:
        """List a server that is already installed."""
        program = Path(target.command[0]).name
        if program in _CONTAINERS:
            raise ServerFailed(
                f"servers in {program} are not started here",
                where=target.server,
                outcome="unsupported",
            )
        listing.flags.add("local_command")
        argv, shown = _shown((*target.command, *target.arguments))
        cwd = Path(target.cwd) if target.cwd else None
        command = Command(
            argv=argv,
            label=target.server,
            env=dict(target.env),
            cwd=cwd,
            readable=(*shown, cwd) if cwd else shown,
        )
        await list_server(command, bench, listing)


def _entries(path: Path) -> dict[str, Any]:
    data = read_input(path)
    try:
        document = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise BadInput(f"not JSON: {error}", where=str(path), remedy=f"write {_FORM}") from error
    for key in ("mcpServers", "servers"):
        if isinstance(document, dict) and isinstance(document.get(key), dict):
            return dict(document[key])
    raise BadInput(
        "no object called mcpServers in it",
        where=str(path),
        remedy=f"write {_FORM}",
    )


def target_of(path: Path, name: str, entry: Any) -> Target:
    """Return the server of one entry.

    Args:
        path: of the file, for messages and names.
        name: of the entry.
        entry: `{"command", "args", "env"}` or `{"url", "headers"}`.

    Raises:
        BadInput: it is neither; names the place.
    """
    where = f"{path}: mcpServers.{name}"
    if not isinstance(entry, dict):
        raise BadInput("not an object", where=where)
    command, arguments = entry.get("command"), entry.get("args", [])
    if command is None and (address := entry.get("url", entry.get("serverUrl"))) is not None:
        return _remote(address, entry, where)
    if not isinstance(command, str) or not command:
        raise BadInput("neither command nor url", where=where, remedy=f"write {_FORM}")
    if not isinstance(arguments, list) or not all(isinstance(a, str) for a in arguments):
        raise BadInput("args is not a list of strings", where=where)
    env, cwd = entry.get("env", {}), entry.get("cwd")
    if not isinstance(env, dict) or not all(isinstance(v, str) for v in env.values()):
        raise BadInput("env is not an object of strings", where=where)
    harmless = secrets.without_secrets(env)
    packaged = _packaged(command, arguments, where)
    if packaged is not None:
        return replace(packaged, env=harmless)
    return Target(
        server=f"mcp.json:{path}#{name}",
        source=SOURCE.name,
        command=(command,),
        arguments=secrets.without_secret_arguments(arguments),
        env=harmless,
        cwd=cwd if isinstance(cwd, str) else None,
    )


def _remote(address: Any, entry: dict[str, Any], where: str) -> Target:
    if not isinstance(address, str):
        raise BadInput("url is no text", where=where)
    headers = url.checked_headers(entry.get("headers"), where)
    try:
        return url.SOURCE.target(address, headers=headers, older=entry.get("type") == "sse")
    except BadInput as error:
        raise BadInput(f"url: {error.what}", where=where, remedy=error.remedy) from None


def _packaged(command: str, arguments: Sequence[str], where: str) -> Target | None:
    """Return the package that `npx` or `uvx` would fetch and run, or None for other commands."""
    words = [Path(command).name.removesuffix(".cmd"), *arguments]
    if words[0] == "npx":
        return _npx(words[1:], where)
    if words[0] == "uvx":
        return _uvx(words[1:], where)
    if words[:3] == ["uv", "tool", "run"]:
        return _uvx(words[3:], where)
    if words[:2] == ["pipx", "run"]:
        return _uvx(words[2:], where)
    return None


def _npx(words: Sequence[str], where: str) -> Target:
    package = None
    rest = list(words)
    while rest and rest[0].startswith("-"):
        option = rest.pop(0)
        if option in ("-y", "--yes", "-q", "--quiet", "--"):
            continue
        if option in ("-p", "--package") and rest:
            package = rest.pop(0)
        elif option.startswith("--package="):
            package = option.partition("=")[2]
        else:
            raise BadInput(f"npx {option} is not accepted", where=where)
    return _named(npm.SOURCE, package, rest, where)


def _uvx(words: Sequence[str], where: str) -> Target:
    package = None
    rest = list(words)
    while rest and rest[0].startswith("-"):
        option = rest.pop(0)
        name, _, value = option.partition("=")
        if name in ("--from", "--spec") and (value or rest):
            package = value or rest.pop(0)
        elif name in ("--python", "-p", "--with") and (value or rest):
            value or rest.pop(0)
        elif option not in ("-q", "--quiet", "--isolated", "--"):
            raise BadInput(f"uvx {option} is not accepted", where=where)
    return _named(pypi.SOURCE, package, rest, where)


def _named(source: npm.Npm | pypi.PyPI, package: str | None, rest: list[str], where: str) -> Target:
    """Return the target where the first word is the package, or a command of `package`."""
    if not rest:
        raise BadInput("no package is named", where=where)
    first, *arguments = rest
    if package is not None:
        return source.target(package, arguments, script=first)
    spec = first.removesuffix("@latest")
    if isinstance(source, pypi.PyPI):
        spec = spec.replace("@", "==", 1)
    return source.target(spec, arguments)


def _shown(words: Sequence[str]) -> tuple[tuple[str, ...], tuple[Path, ...]]:
    """Return the command line, and what of the machine it needs to see to start.

    Its own code is shown. A folder of data becomes the private folder, and a file of data stays
    hidden: a list needs neither, and both could end up in a description.
    """
    argv, shown = [words[0]], []
    for before, word in pairwise(words):
        path = Path(word).expanduser()
        if not path.is_absolute() or not path.exists():
            argv.append(word)
        elif path.is_dir() and before not in _PROJECT_OPTIONS:
            argv.append(WORK)
        else:
            argv.append(word)
            if path.is_dir() or path.suffix in _CODE:
                shown.append(path if path.is_dir() else _project(path))
    return tuple(argv), tuple(dict.fromkeys(shown))


def _project(script: Path) -> Path:
    """Return the folder that holds what a script imports, or the script alone."""
    homes = (Path("/"), Path.home())
    for folder in script.parents:
        if folder in homes:
            break
        if any((folder / name).exists() for name in ("package.json", "pyproject.toml")):
            return folder
    return script.parent if script.parent not in homes else script


SOURCE = McpJson()
