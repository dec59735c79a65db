"""How the servers of a repository are launched, told from its files; nothing of it is run.

What is looked at, the surest first: `server.json` (the official registry's form), `mcp.json` as
desktop clients write it, such JSON in a README, lines of a README that launch with `npx` or `uvx`,
and the names in `package.json` and `pyproject.toml` of packages that depend on an MCP library. All
of it is strangers' words: names pass the checks of the npm and PyPI sources, nothing reaches a
shell, and what is found and not usable is told with the reason.
"""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any, TypeAlias

import orjson

from synth.core.errors import BadInput
from tool_registry import secrets
from tool_registry.listing import WORK
from tool_registry.source import Target
from tool_registry.sources import mcp_json, mcp_registry, npm, pypi

MAX_FILE = 1 << 20
"""Bytes of a file that are read."""
MAX_FILES = 20
"""Files of a repository that are read, the outermost first."""
MAX_LINE = 1000
"""Characters of a line that are searched for a launch."""
MAX_LAUNCHES = 200
"""Launches of a README that are looked at."""
MAX_REASONS = 5
"""Reasons told of one file."""
_WANTED = re.compile(
    r"(?:[^/]+/){0,2}(server\.json|\.?mcp\.json|(?i:readme)(?:\.(?:md|rst|txt))?|package\.json|"
    r"pyproject\.toml)"
)
_PASSED_OVER = re.compile(
    r"(^|/)(\.(?!vscode/|cursor/|mcp\.json$)|node_modules/|tests?/|vendor/|dist/|build/|venv/)"
)
_LAUNCH = re.compile(
    r"(?:^[ \t>*-]{0,8}|[`$>(;&|]|-- )[ \t]{0,8}(?:\w{1,40}=[^\s`]{0,100} ){0,5}"
    r"((?:npx|bunx|pnpm dlx|uvx|pipx run|uv tool run) [^`|;&<>#]{1,300})"
)
_INDEX = {"npx": "npm", "uvx": "pypi"}
_ALIKE = {"bunx": "npx", "pnpm dlx": "npx", "pipx run": "uvx", "uv tool run": "uvx"}
_PUBLIC = re.compile(
    r"https://(?!localhost\b)(?:[a-z0-9-]+\.)+[a-z]{2,24}(?:[:/?]|$)", re.IGNORECASE
)
"""Addresses that a stranger's file may send us to: names, not numbers."""
_PLACE = re.compile(r"[/~.\\]|[A-Za-z]:\\|.*path/to|<[^>]*(dir|path|folder)", re.IGNORECASE)
"""An argument that means a place on the machine of whoever wrote it."""
_MCP = re.compile(r"@modelcontextprotocol/sdk|fastmcp|^mcp\b|mcp\[")
_NAMED = re.compile(r"mcp|server", re.IGNORECASE)

Finding: TypeAlias = Target | str
"""A server, or why something that was found is none."""


@dataclass(frozen=True, slots=True)
class Launches:
    """What the files of one repository tell."""

    targets: tuple[Target, ...]
    """Servers, each once, the surest telling first."""
    unusable: Mapping[str, str]
    """Path of a file, empty for the repository -> why something in it cannot be listed."""


def wanted(paths: Iterable[str]) -> list[str]:
    """Return those of a repository's paths that are worth reading, in the order to read them."""
    found = [p for p in paths if _WANTED.fullmatch(p) and not _PASSED_OVER.search(p)]
    return sorted(found, key=lambda path: (path.count("/"), path))[:MAX_FILES]


def launches_in(files: Mapping[str, bytes]) -> Launches:
    """Return the servers that files of one repository launch.

    Args:
        files: path -> content of those that are `wanted`, of which `MAX_FILE` bytes are read.
    """
    ordered = sorted(files, key=lambda path: (path.count("/"), _rank(path), path))
    own = {t.server for path in ordered for t in _manifest(path, files[path][:MAX_FILE])}
    found: dict[str, Target] = {}
    reasons: dict[str, list[str]] = {}
    for path in ordered:
        for finding in _findings(path, files[path][:MAX_FILE], own):
            if isinstance(finding, Target):
                found.setdefault(finding.server, finding)
            else:
                reasons.setdefault(path, []).append(finding[:120])
    unusable = {p: "; ".join(list(dict.fromkeys(r))[:MAX_REASONS]) for p, r in reasons.items()}
    return Launches(tuple(found.values()), unusable)


def unusable_targets(launches: Launches, name: str, source: str) -> list[Target]:
    """Return what is kept of a repository's files that tell nothing usable.

    Args:
        launches: what its files tell.
        name: of the repository, as the source writes it: `github:OWNER/REPO`.
        source: the plug-in that says so when it is asked to list them.
    """
    told = {f"{name}#{path}" if path else name: why for path, why in launches.unusable.items()}
    if not launches.targets and not told:
        told = {name: "no file of it tells how its server is launched"}
    return [Target(server=server, source=source, script=why) for server, why in told.items()]


def _rank(path: str) -> int:
    """Return 0 for the surest kind of file."""
    name = PurePosixPath(path).name.lower()
    kinds = ("server.json", "mcp.json", "readme", "package.json")
    return next((n for n, kind in enumerate(kinds) if name.lstrip(".").startswith(kind)), 9)


def _findings(path: str, data: bytes, own: set[str]) -> Iterator[Finding]:
    rank = _rank(path)
    if rank == 0:
        yield from _registered(_object(data))
    elif rank == 1:
        document = _object(data)
        yield from _configured(document) if document else ["not a JSON object"]
    elif rank == 2:
        yield from _told(data.decode(errors="replace"), own)
    else:
        yield from _manifest(path, data)


def _object(data: bytes) -> dict[str, Any]:
    """Return a JSON object, empty where the bytes are none."""
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        return {}
    return value if isinstance(value, dict) else {}


# --- files that are meant for it -------------------------------------------------------------


def _registered(entry: dict[str, Any]) -> Iterator[Finding]:
    """Yield the server of a `server.json`; other files of that name say nothing of a server."""
    target = mcp_registry.target_of(entry)
    if target is not None:
        usable = target.source != mcp_registry.SOURCE.name
        yield target if usable else f"{target.script}: not listed here"


def _configured(document: dict[str, Any]) -> Iterator[Finding]:
    """Yield what each entry of a configuration gives."""
    holders = [document, document.get("mcp")]
    for holder in (one for one in holders if isinstance(one, dict)):
        for key in ("mcpServers", "servers", "context_servers"):
            entries = holder.get(key)
            for name, entry in (entries if isinstance(entries, dict) else {}).items():
                yield from _entry(str(name), entry)


def _entry(name: str, entry: Any) -> Iterator[Finding]:
    """Yield the package or the public address of an entry; its local commands are not here."""
    if not isinstance(entry, dict):
        yield f"{name!r:.40}: not an object"
        return
    address = next((entry[k] for k in ("url", "serverUrl") if isinstance(entry.get(k), str)), None)
    if address is not None and not entry.get("command"):
        if not _PUBLIC.match(address):
            yield f"{name!r:.40}: not the address of a public server"
            return
        # its headers are of whoever wrote it, and are not sent
        entry = {"url": address, "type": entry.get("type")}
    try:
        target = mcp_json.target_of(Path("mcp.json"), name, entry)
    except BadInput as error:
        yield secrets.redacted(error.what)
        return
    if target.source == mcp_json.SOURCE.name:
        yield f"{Path(target.command[0]).name!r:.40}: a local command, which is not run"
    elif target.package is None:
        yield target
    else:
        yield from _package(target)


def _package(target: Target) -> Iterator[Finding]:
    """Yield a package; of one that launches others what it leads to, or nothing."""
    if str(target.package).removesuffix("-client") == "mcp-remote":
        for address in target.arguments:
            if _PUBLIC.match(address):
                yield from _entry("mcp-remote", {"url": address})
                return
    elif not _launches_others(str(target.package)):
        places = [WORK if _PLACE.match(word) else word for word in target.arguments]
        yield replace(target, arguments=tuple(places))


def _launches_others(name: str) -> bool:
    return name in _launchers() or name.startswith("create-")


@cache
def _launchers() -> frozenset[str]:
    text = Path(__file__).with_name("launchers.txt").read_text(encoding="utf-8")
    return frozenset(line for line in text.splitlines() if line and line[0] != "#")


# --- what a README tells ---------------------------------------------------------------------


def _told(text: str, own: set[str]) -> Iterator[Finding]:
    """Yield what a README tells to write, then what it tells to run."""
    for block in _blocks(text):
        if '"command"' in block or '"url"' in block:
            yield from _written(block)
    lines = (line[:MAX_LINE] for line in text.splitlines() if len(line) > 7)
    for found in islice((one for line in lines for one in _LAUNCH.finditer(line)), MAX_LAUNCHES):
        yield from _launched(found[1], own)


def _blocks(text: str) -> Iterator[str]:
    """Yield the code between fences; one pass, whatever is written."""
    inside: list[str] | None = None
    for line in text.splitlines():
        if line.lstrip(" >").startswith(("```", "~~~")):
            if inside is not None:
                yield "\n".join(inside)
            inside = [] if inside is None else None
        elif inside is not None and not line.lstrip().startswith("//"):
            inside.append(line)


def _written(block: str) -> Iterator[Finding]:
    """Yield the servers of a configuration, of a part of one, or of one entry."""
    document = _object(block.encode()) or _object(f"{{{block.strip().rstrip(',')}}}".encode())
    if not document:
        yield "a block of JSON that cannot be read"
    elif "command" in document or "url" in document:
        yield from _entry("told", document)
    elif any(key in document for key in ("mcpServers", "servers", "context_servers", "mcp")):
        yield from _configured(document)
    elif all(isinstance(v, dict) and ("command" in v or "url" in v) for v in document.values()):
        yield from _configured({"mcpServers": document})


def _launched(line: str, own: set[str]) -> Iterator[Finding]:
    """Yield the package of a launch line, if it is the repository's own or named as a server."""
    for program, alike in _ALIKE.items():
        line = line.replace(f"{program} ", f"{alike} ")
    try:
        words = shlex.split(line.strip().rstrip("\\*_.,:)"))
    except ValueError:
        words = line.split()
    # `npx inspector uvx server`: the last one is the server
    last = max(n for n, word in enumerate(["npx", *words]) if word in ("npx", "uvx")) - 1
    program, *arguments = words[max(last, 0) :]
    for finding in _entry("told", {"command": program, "args": arguments}):
        package = finding.package if isinstance(finding, Target) else None
        if package is None or _NAMED.search(package) or f"{_INDEX[program]}:{package}" in own:
            yield finding


# --- names of packages -----------------------------------------------------------------------


def _manifest(path: str, data: bytes) -> Iterator[Target]:
    """Yield the package of a manifest that has a command and depends on an MCP library."""
    name = PurePosixPath(path).name
    try:
        if name == "package.json":
            yield from _npm(_object(data))
        elif name == "pyproject.toml":
            yield from _pypi(tomllib.loads(data.decode()).get("project"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError, BadInput):
        return


def _npm(package: dict[str, Any]) -> Iterator[Target]:
    name, needs = package.get("name"), package.get("dependencies")
    needed = needs if isinstance(needs, dict) else {}
    if not isinstance(name, str) or not package.get("bin") or package.get("private") is True:
        return
    if any(_MCP.search(str(one)) for one in needed) and not _launches_others(name):
        yield npm.SOURCE.target(name)


def _pypi(project: Any) -> Iterator[Target]:
    if not isinstance(project, dict) or not isinstance(project.get("name"), str):
        return
    name, needs = project["name"], project.get("dependencies")
    needed = needs if isinstance(needs, list) else []
    depends = any(_MCP.search(str(one)) for one in needed)
    if project.get("scripts") and depends and not _launches_others(name):
        yield pypi.SOURCE.target(name)
