"""How the server of a repository is launched, told from its files; nothing of it is run.

What is looked at, the surest first: `server.json` (the official registry's form), `mcp.json` as
desktop clients write it, such JSON in a README, lines of a README that begin with `npx` or `uvx`,
and the names in `package.json` and `pyproject.toml` of packages that depend on an MCP library. All
of it is strangers' words: names pass the checks of the npm and PyPI sources, and nothing reaches a
shell.
"""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson

from synth.core.errors import BadInput
from tool_registry.source import Target
from tool_registry.sources import mcp_json, mcp_registry, npm, pypi

CONFIGURATIONS = ("mcp.json", ".mcp.json", ".vscode/mcp.json", ".cursor/mcp.json")
READMES = ("README.md", "README.rst", "README", "README.txt", "readme.md", "Readme.md")
WANTED = ("server.json", *CONFIGURATIONS, *READMES, "package.json", "pyproject.toml")
"""Files that are looked for, by their path in a repository."""
MAX_FILE = 1 << 20
"""Bytes of a file that are read."""
MAX_LINES = 20
"""Launch lines of a README that are read."""
_FENCE = re.compile(r"^ *```[a-z]*\s*$(.*?)^ *```", re.MULTILINE | re.DOTALL)
_LINE = re.compile(r"^[ \t>$`-]{0,8}((?:npx|uvx|pipx run) [^\n`|;&<>]{1,300})", re.MULTILINE)
_NOT_OURS = re.compile(r"inspector|@smithery/cli|mcp-remote|supergateway|create-|mcpo\b")
"""Packages that launch other servers."""
_PUBLIC = re.compile(
    r"https://(?!localhost\b)(?:[a-z0-9-]+\.)+[a-z]{1,24}(?:[:/?]|$)", re.IGNORECASE
)
_MCP = re.compile(r"@modelcontextprotocol/sdk|fastmcp|^mcp\b|mcp\[")


def launches_in(files: Mapping[str, bytes]) -> list[Target]:
    """Return the servers that files of one repository launch, each once.

    Args:
        files: path -> content of those of `WANTED` that there are.
    """
    found: dict[str, Target] = {}
    for target in _all(files):
        found.setdefault(target.server, target)
    return list(found.values())


def _all(files: Mapping[str, bytes]) -> Iterator[Target]:
    if "server.json" in files:
        yield from _registered(_object(files["server.json"]))
    for name in CONFIGURATIONS:
        yield from _configured(_object(files.get(name, b"")))
    for name in READMES:
        yield from _told(files.get(name, b"").decode(errors="replace"))
    yield from _npm(_object(files.get("package.json", b"")))
    yield from _pypi(files.get("pyproject.toml", b""))


def _object(data: bytes) -> dict[str, Any]:
    """Return a JSON object, empty where the bytes are none."""
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        return {}
    return value if isinstance(value, dict) else {}


def _registered(entry: dict[str, Any]) -> Iterator[Target]:
    target = mcp_registry.target_of(entry)
    if target is not None and target.source != mcp_registry.SOURCE.name:
        yield target


def _configured(document: dict[str, Any]) -> Iterator[Target]:
    """Yield the packages and addresses of a configuration; its local commands are not here."""
    for key in ("mcpServers", "servers"):
        entries = document.get(key)
        for name, entry in (entries if isinstance(entries, dict) else {}).items():
            if not isinstance(entry, dict) or not _PUBLIC.match(
                str(entry.get("url", "https://a.b"))
            ):
                continue  # a stranger's file does not send us to this machine's own network
            try:
                target = mcp_json.target_of(Path("mcp.json"), str(name), entry)
            except BadInput:
                continue
            if target.source != mcp_json.SOURCE.name and not _NOT_OURS.search(target.server):
                yield target


def _told(text: str) -> Iterator[Target]:
    """Yield what a README tells to write or to run."""
    for block in _FENCE.findall(text[:MAX_FILE]):
        yield from _configured(_object(block.strip().encode()))
    for line in _LINE.findall(text[:MAX_FILE])[:MAX_LINES]:
        try:
            program, *arguments = shlex.split(line, comments=True)
        except ValueError:
            continue
        if program == "pipx":
            program, arguments = "uvx", arguments[1:]
        server = {"command": program, "args": arguments}
        yield from _configured({"mcpServers": {"told": server}})


def _npm(package: dict[str, Any]) -> Iterator[Target]:
    name, needs = package.get("name"), package.get("dependencies")
    needed = needs if isinstance(needs, dict) else {}
    if not isinstance(name, str) or not package.get("bin") or package.get("private") is True:
        return
    if any(_MCP.search(str(one)) for one in needed):
        yield from _packaged(npm.SOURCE, name)


def _pypi(data: bytes) -> Iterator[Target]:
    try:
        project = tomllib.loads(data.decode()).get("project")
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        return
    if not isinstance(project, dict) or not isinstance(project.get("name"), str):
        return
    needs = project.get("dependencies")
    needed = needs if isinstance(needs, list) else []
    if project.get("scripts") and any(_MCP.search(str(one)) for one in needed):
        yield from _packaged(pypi.SOURCE, project["name"])


def _packaged(source: npm.Npm | pypi.PyPI, name: str) -> Iterator[Target]:
    try:
        yield source.target(name)
    except BadInput:
        return
