"""`mcp-registry:URL`: a registry of MCP servers that speaks the official API (`/v0.1/servers`).

    mcp-registry:https://HOST?search=files&updated_since=2026-11-01T00:00:00Z&most=50

A registry knows servers and no tools. Its npm and PyPI packages become targets of those sources,
in the exact version it names; servers elsewhere become targets of the url source, if they have no
such package. What cannot be listed here (containers, other package formats, addresses that need
values of a user) is kept as a server with the reason. What it calls deleted is spam or malware, and
is left out. An entry says what strangers wrote: arguments are passed as they are and never to a
shell, values for variables are dummies, no header is sent, and no address of this machine is asked.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import httpx2

from synth.core.errors import BadInput, ServerFailed
from synth.core.mcp.address import LOOPBACK
from synth.core.mcp.wire import parse
from tool_registry import secrets
from tool_registry.listing import WORK
from tool_registry.source import Bench, Listing, Target
from tool_registry.sources import npm, pypi, url

PAGE = 100
MAX_PAGES = 1000
MAX_BYTES = 8 << 20
"""Bytes of a page."""
TIMEOUT_S = 20.0
TRIES = 3
LONGEST_WAIT_S = 30.0
"""A registry that asks for more patience than this is asked another day."""
_META = "io.modelcontextprotocol.registry/official"
_FORWARDED = ("search", "updated_since", "version")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9._-]+")
_BUSY = (429, 502, 503, 504)


class McpRegistry:
    """Servers that a registry of the official API knows."""

    name = "mcp-registry"
    example = "mcp-registry:https://HOST"

    def claims(self, text: str) -> bool:
        """Say whether `text` is for this source."""
        return text.startswith("mcp-registry:")

    def targets(self, text: str) -> Sequence[Target]:
        """Ask the registry, page by page, and return what it names, newest versions only.

        Raises:
            BadInput: the address is none, or the registry does not answer as one.
        """
        base, query, most = _address(text.removeprefix("mcp-registry:"))
        found: dict[str, Target] = {}
        for entry in _entries(base, query):
            target = target_of(entry)
            if target is not None:
                found.setdefault(target.server, target)
            if len(found) >= most:
                break
        return list(found.values())

    async def fetch(self, target: Target, bench: Bench, listing: Listing) -> None:
        """Say why a server that has no package and no address for us is not listed."""
        listing.package_version = target.version
        raise ServerFailed(
            f"{target.script}: not listed here", where=target.server, outcome="unsupported"
        )


def _address(text: str) -> tuple[str, dict[str, str], int]:
    """Return the address of the API, what to ask it, and how many servers at most."""
    parts = urlsplit(text)
    safe = parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in LOOPBACK)
    if not safe or not parts.hostname or "@" in parts.netloc:
        raise BadInput(
            f"not the address of a registry: {secrets.redacted(text)!r}",
            remedy="write mcp-registry:https://HOST",
        )
    asked = dict(parse_qsl(parts.query))
    unknown = set(asked) - {*_FORWARDED, "most"}
    if unknown:
        what = f"unknown in its address: {', '.join(sorted(unknown))}"
        raise BadInput(what, where=text, remedy=f"known: {', '.join(_FORWARDED)}, most")
    most = asked.pop("most", "1000000")
    if not most.isdecimal() or not int(most):
        raise BadInput(f"most={most!r} is no number of servers", where=text)
    path = parts.path.rstrip("/") or "/v0.1"
    base = urlunsplit((parts.scheme, parts.netloc, f"{path}/servers", "", ""))
    return base, {"limit": str(PAGE), "version": "latest"} | asked, int(most)


def _entries(base: str, query: dict[str, str]) -> Iterator[dict[str, Any]]:
    """Yield every entry; ends where the cursor does, or where it leads in a circle."""
    cursor: str | None = None
    seen: set[str] = set()
    with httpx2.Client(timeout=TIMEOUT_S, follow_redirects=False) as client:
        for _ in range(MAX_PAGES):
            asked = query | ({"cursor": cursor} if cursor else {})
            page = _page(client, f"{base}?{urlencode(asked)}", base)
            for entry in page["servers"]:
                if isinstance(entry, dict):
                    yield entry
            metadata = page.get("metadata")
            metadata = metadata if isinstance(metadata, dict) else {}
            cursor = metadata.get("nextCursor", metadata.get("next_cursor"))
            if not isinstance(cursor, str) or not cursor or cursor in seen:
                return
            seen.add(cursor)


def _page(client: httpx2.Client, address: str, base: str) -> dict[str, Any]:
    for left in reversed(range(TRIES)):
        try:
            status, wait, body = _get(client, address)
        except httpx2.HTTPError as error:
            if left:
                time.sleep(0.2)
                continue
            what = f"does not answer: {type(error).__name__}: {error}"
            raise BadInput(what, where=base, remedy="check the address, or try later") from error
        if status not in _BUSY or not left or wait > LONGEST_WAIT_S:
            break
        time.sleep(wait)
    if status != 200:
        raise BadInput(f"answers with status {status}", where=base, remedy="check the address")
    page = parse(body)
    if not isinstance(page, dict) or not isinstance(page.get("servers"), list):
        what = "does not answer with a list of servers"
        raise BadInput(what, where=base, remedy="is it a registry of the official API?")
    return page


def _get(client: httpx2.Client, address: str) -> tuple[int, float, bytes]:
    """Return status, seconds to wait before another try, and the body, bounded."""
    body = bytearray()
    with client.stream("GET", address, headers={"Accept": "application/json"}) as response:
        for chunk in response.iter_bytes():
            body += chunk
            if len(body) > MAX_BYTES:
                raise BadInput(f"a page of more than {MAX_BYTES >> 20} MiB", where=address)
        after = response.headers.get("Retry-After", "")
        return response.status_code, float(after) if after.isdecimal() else 1.0, bytes(body)


# --- entries ---------------------------------------------------------------------------------


def target_of(entry: dict[str, Any]) -> Target | None:
    """Return what is to be listed of an entry, or None for what is deleted or no server."""
    server, meta = entry.get("server", entry), entry.get("_meta")
    server = server if isinstance(server, dict) else {}
    official = meta.get(_META) if isinstance(meta, dict) else None
    status = (official if isinstance(official, dict) else server).get("status")
    name = server.get("name")
    if status == "deleted" or not isinstance(name, str) or not _NAME.fullmatch(name[:200]):
        return None
    version = server.get("version")
    kinds: list[str] = []
    for package in _objects(server.get("packages")):
        kind = _first(package, "registryType", "registry_type", "registry_name")
        target = _packaged(kind, package)
        if target is not None:
            return target
        kinds.append(f"a package of kind {kind or 'unknown'!r:.40}")
    for remote in _objects(server.get("remotes")):
        try:
            return _remote(remote)
        except BadInput as error:
            kinds.append(f"remote, {_first(remote, 'type') or 'unknown'!r:.40}: {error.what:.80}")
    return Target(
        server=f"mcp-registry:{name}",
        source=SOURCE.name,
        version=version[:100] if isinstance(version, str) else None,
        script=" and ".join(dict.fromkeys(kinds)) or "neither package nor remote",
    )


def _remote(remote: dict[str, Any]) -> Target:
    """Return the target of a server elsewhere.

    Raises:
        BadInput: it is no public address, or needs something that only a user knows.
    """
    kind, address = _first(remote, "type", "transport_type"), _first(remote, "url")
    if kind not in ("streamable-http", "streamable", "http", "sse"):
        raise BadInput("not listed here")
    if urlsplit(address or "").hostname in LOOPBACK:
        raise BadInput("an address of this machine")
    return url.SOURCE.target(address or "", older=kind == "sse")


def _packaged(kind: str | None, package: dict[str, Any]) -> Target | None:
    """Return the target of an npm or PyPI package that speaks over stdio, or None."""
    transport = package.get("transport")
    if isinstance(transport, dict) and transport.get("type") not in (None, "stdio"):
        return None
    identifier, version = _first(package, "identifier", "name"), _first(package, "version")
    if kind not in ("npm", "pypi") or identifier is None:
        return None
    exact = version not in (None, "", "latest")
    try:
        if kind == "npm":
            target = npm.SOURCE.target(f"{identifier}@{version}" if exact else identifier)
        else:
            target = pypi.SOURCE.target(f"{identifier}=={version}" if exact else identifier)
    except BadInput:
        return None
    words = _arguments(package.get("packageArguments", package.get("package_arguments")))
    env = _variables(package.get("environmentVariables", package.get("environment_variables")))
    return replace(target, arguments=secrets.without_secret_arguments(words), env=env)


def _arguments(listed: Any) -> list[str]:
    """Return the words of a command line; a value that only the user knows is made up."""
    words: list[str] = []
    for argument in _objects(listed):
        named = argument.get("type") == "named" or "name" in argument
        value = _first(argument, "value", "default")
        hint = _first(argument, "valueHint", "value_hint", "name") or "value"
        if value is None:
            if argument.get("isRequired", argument.get("is_required")) is not True:
                continue
            value = WORK if re.search("dir|path|folder", hint, re.I) else secrets.dummy(hint)
        name = _first(argument, "name")
        words += [name, value] if named and name else [value]
    return words


def _variables(listed: Any) -> dict[str, str]:
    """Return a dummy or the default for each variable that a server says it needs."""
    out: dict[str, str] = {}
    for variable in _objects(listed)[: secrets.MAX_VARIABLES]:
        name = _first(variable, "name")
        if name is None or not re.fullmatch(r"[A-Za-z_]\w{0,63}", name):
            continue
        default = _first(variable, "value", "default")
        if default is not None:
            out[name] = default
        elif variable.get("isRequired", variable.get("is_required")) is True:
            out[name] = secrets.dummy(name)
    return secrets.without_secrets(out)


def _objects(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _first(holder: dict[str, Any], *keys: str) -> str | None:
    """Return the first of `keys` that is a short text."""
    found = (holder.get(key) for key in keys)
    return next((v for v in found if isinstance(v, str) and v and len(v) <= 500), None)


SOURCE = McpRegistry()
