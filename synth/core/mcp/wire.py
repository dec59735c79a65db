"""Bytes from a server to JSON-RPC messages, within bounds and without trust.

Messages are lines of UTF-8 JSON (MCP 2025-11-25, transports: stdio). A line may be anything: noise
printed by the server, invalid UTF-8, JSON nested a million deep. None of it may cost more than time
linear in its length.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import orjson

MAX_DEPTH = 128
"""Nesting levels kept; deeper values are replaced by `TOO_DEEP`."""
TOO_DEEP = "\x00toolloom: nested too deep"
PRUNE_BYTES = 1 << 20
"""Longer lines are not searched for deep nesting: the search costs 0.3 µs a bracket."""

_TOKEN = re.compile(rb'"(?:[^"\\]+|\\.)*"?|[\[\]{}]', re.DOTALL)


class LineTooLong(ValueError):
    """A line exceeds the limit; nothing of it was kept."""


class LineBuffer:
    """Cuts a byte stream into lines of at most `limit` bytes."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._parts: list[bytes] = []
        self._held = 0

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Yield each line that `chunk` completes.

        Raises:
            LineTooLong: the line under way is longer than the limit.
        """
        start = 0
        while (end := chunk.find(b"\n", start)) >= 0:
            self._hold(chunk[start:end])
            line = b"".join(self._parts)
            self._parts, self._held = [], 0
            yield line
            start = end + 1
        self._hold(chunk[start:])

    def _hold(self, part: bytes) -> None:
        self._held += len(part)
        if self._held > self.limit:
            raise LineTooLong
        if part:
            self._parts.append(part)


def messages(line: bytes) -> list[dict[str, Any]] | None:
    """Return the JSON-RPC messages of a line (a batch holds several), or None for noise."""
    line = line.removeprefix(b"\xef\xbb\xbf").strip()
    if line[:1] not in (b"{", b"["):
        return None
    value = parse(line)
    found = [item for item in (value if isinstance(value, list) else [value]) if _is_message(item)]
    return found or None


def parse(text: bytes) -> Any:
    """Return the JSON value of `text`, deep nesting cut away, or None where it is not JSON.

    NaN and infinity, which Python servers write, come back as floats; the caller decides.
    """
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        pass  # the standard library takes more: NaN, integers beyond 64 bits, lone surrogates
    try:
        return json.loads(text.decode("utf-8"))
    except ValueError:
        return None
    except RecursionError:
        if len(text) > PRUNE_BYTES:
            return None
    try:
        return json.loads(prune(text).decode("utf-8"))
    except (ValueError, RecursionError):
        return None


def prune(text: bytes, *, depth: int = MAX_DEPTH) -> bytes:
    """Return `text` with every array or object nested deeper than `depth` replaced."""
    out: list[bytes] = []
    level, kept = 0, 0
    for token in _TOKEN.finditer(text):
        first = token.group()[:1]
        if first in (b"[", b"{"):
            level += 1
            if level == depth + 1:
                out += [text[kept : token.start()], json.dumps(TOO_DEEP).encode()]
        elif first in (b"]", b"}"):
            if level == depth + 1:
                kept = token.end()
            level -= 1
    if level > depth:  # never closed: cut-off JSON, which does not parse either way
        return b""
    return b"".join([*out, text[kept:]])


def _is_message(value: Any) -> bool:
    return isinstance(value, dict) and (
        "method" in value or "result" in value or "error" in value or "jsonrpc" in value
    )
