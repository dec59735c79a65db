"""`https://HOST/mcp`: an MCP server behind an address, over streamable HTTP or HTTP+SSE.

    https://mcp.example.com/mcp      streamable HTTP; where the server is older, HTTP+SSE
    http://127.0.0.1:8000/mcp        a server on this machine: the only one without encryption
    sse:https://HOST/sse             HTTP+SSE at once

One session at a time with each host, and a pause after it. Credentials come from the `headers` of
an mcp.json: they are sent to that origin alone, and cut out of all that the server says.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import re
import time
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlunsplit

from synth.core.errors import BadInput, ServerFailed
from synth.core.mcp.address import split_address
from synth.core.mcp.session import McpSession, ServerAddress
from synth.core.mcp.wire import TOO_DEEP
from tool_registry import secrets
from tool_registry.source import Bench, Listing, Target

PAUSE_S = 0.1
"""Between two sessions with one host."""
MAX_HEADERS = 20
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_VALUE = re.compile(r"[\x20-\x7e\x80-\xff]{0,8000}")
_OURS = re.compile(
    r"host|connection|content-.*|transfer-encoding|te|trailer|upgrade|expect|accept.*|mcp-.*|"
    r"user-agent|last-event-id|keep-alive|proxy-.*",
    re.IGNORECASE,
)
"""Headers that belong to the transport."""
_PLACEHOLDER = re.compile(r"\$\{|<[^>]*>|\{[^}]*\}")
_RANDOM = re.compile(
    r"(.*[-_.])?(?=[^0-9]*[0-9])(?=[^A-Za-z]*[A-Za-z])[A-Za-z0-9=]{16,}([-_.].*)?"
    r"|[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
)
"""What nobody would choose for a name: some services put the key of a user into the address."""
_SHORTEST = 6
"""Characters of a credential; shorter ones would be found in ordinary words."""


class Url:
    """Servers behind an address."""

    name = "url"
    example = "https://HOST/mcp"

    def claims(self, text: str) -> bool:
        """Say whether `text` is for this source."""
        return text.removeprefix("sse:").startswith(("https://", "http://"))

    def targets(self, text: str) -> Sequence[Target]:
        """Return the server at an address.

        Raises:
            BadInput: no address that can be asked.
        """
        return [self.target(text.removeprefix("sse:"), older=text.startswith("sse:"))]

    def target(
        self, url: str, *, headers: Mapping[str, str] | None = None, older: bool = False
    ) -> Target:
        """Return the server at an address, its name without what may be a credential.

        Args:
            url: of streamable HTTP, or of the stream of HTTP+SSE.
            headers: to be sent; placeholders that nobody filled in are left out.
            older: speak HTTP+SSE at once.

        Raises:
            BadInput: no address that can be asked.
        """
        shown = shown_address(url)
        sent = {
            name: value
            for name, value in (headers or {}).items()
            if not _OURS.fullmatch(name) and not _PLACEHOLDER.search(value)
        }
        name = f"url:{shown}"
        return Target(
            server=name,
            source=self.name,
            address=ServerAddress(url.partition("#")[0], sent, name=name, older=older),
        )

    async def fetch(self, target: Target, bench: Bench, listing: Listing) -> None:
        """List a server; what it says holds nothing of the credentials that it was sent."""
        address = target.address
        if address is None:
            raise ServerFailed("its address is not known", where=target.server, outcome="invalid")
        listing.argv, listing.network = [target.server.removeprefix("url:")], True
        words = credentials_in(address)
        turn = bench.turns[f"host {split_address(address.url).netloc}"]
        async with turn:
            try:
                await _list(address, bench, listing, words)
            finally:
                await asyncio.sleep(PAUSE_S)


async def _list(address: ServerAddress, bench: Bench, listing: Listing, words: list[str]) -> None:
    session = McpSession(address, bench.limits)
    try:
        async with session:
            listing.protocol = cut_out(session.protocol, words)
            listing.server_info = cut_out(session.server_info, words)
            listing.instructions = cut_out(session.instructions, words)
            listing.start_s = session.start_s
            begun = time.monotonic()
            listing.tools = [_without(tool, words) for tool in await session.list_tools()]
            listing.list_s = time.monotonic() - begun
    except ServerFailed as failure:
        raise ServerFailed(
            cut_out(failure.what, words),
            where=failure.where,
            remedy=failure.remedy,
            outcome=failure.outcome,
        ) from None
    finally:
        listing.flags |= session.flags


def checked_headers(value: Any, where: str) -> dict[str, str]:
    """Return the headers of a configuration file.

    Raises:
        BadInput: they are not an object of header names and texts.
    """
    value = {} if value is None else value
    if not isinstance(value, dict) or len(value) > MAX_HEADERS:
        raise BadInput(f"headers is not an object of at most {MAX_HEADERS} texts", where=where)
    for name, text in value.items():
        if not _HEADER.fullmatch(name) or not isinstance(text, str) or not _VALUE.fullmatch(text):
            raise BadInput(f"headers.{name[:60]!r} cannot be sent", where=where)
    return dict(value)


def shown_address(url: str) -> str:
    """Return an address as it may be written down: what may be a credential is a hash of it.

    Raises:
        BadInput: no address that can be asked.
    """
    parts = split_address(url)
    path = "/".join(_shown(part) if _key_like(part) else part for part in parts.path.split("/"))
    asked = parse_qsl(parts.query, keep_blank_values=True)
    query = urlencode(
        [(name, _shown(value) if _hides(name, value) else value) for name, value in asked],
        safe="{}",
    )
    return urlunsplit((parts.scheme, parts.netloc.lower(), path or "/", query, ""))


def _hides(name: str, value: str) -> bool:
    return bool(value) and (secrets.is_secret(name, value) or _key_like(value))


def _key_like(part: str) -> bool:
    return bool(_RANDOM.fullmatch(part)) or secrets.redacted(part) != part


def _shown(secret: str) -> str:
    """Tell two credentials apart without saying one: 16 bits of a hash."""
    return f"{{hidden-{hashlib.sha256(secret.encode()).hexdigest()[:4]}}}"


def credentials_in(address: ServerAddress) -> list[str]:
    """Return the texts that a server may have learnt from us alone, longest first."""
    parts = split_address(address.url)
    found = {value for name, value in parse_qsl(parts.query) if _hides(name, value)}
    found |= {part for part in parts.path.split("/") if _key_like(part)}
    for value in address.headers.values():
        found |= {value, value.partition(" ")[2]}
        found |= _basic(value)
    return sorted((word for word in found if len(word) >= _SHORTEST), key=len, reverse=True)


def _basic(value: str) -> set[str]:
    """Return user:password and password of HTTP Basic authentication."""
    scheme, _, coded = value.partition(" ")
    if scheme.lower() != "basic":
        return set()
    try:
        plain = base64.b64decode(coded, validate=True).decode("utf-8", errors="replace")
    except (binascii.Error, ValueError):
        return set()
    return {plain, plain.partition(":")[2]}


def _without(tool: Any, words: Sequence[str]) -> Any:
    try:
        return cut_out(tool, words)
    except RecursionError:  # no tool, and nobody can say what is in it
        return TOO_DEEP


def cut_out(value: Any, words: Sequence[str]) -> Any:
    """Return a JSON value with `words` replaced in its texts and names."""
    if not words:
        return value
    if isinstance(value, str):
        for word in words:
            value = value.replace(word, secrets.DUMMY)
        return value
    if isinstance(value, list):
        return [cut_out(item, words) for item in value]
    if isinstance(value, dict):
        return {cut_out(name, words): cut_out(item, words) for name, item in value.items()}
    return value


SOURCE = Url()
