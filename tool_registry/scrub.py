"""Strings of strangers: made storable and visible, and looked at with suspicion.

Descriptions are read by models, so they are an attack surface (tool poisoning; also parameter
names, enums and defaults). The raw text is always kept beside what comes out here. `suspicions` is
a review queue, not a filter: 74 of 34,000 real tools match, all seen were harmless.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

from synth.core import unseen

MAX_DEPTH = 64
"""Nesting of a tool definition; deeper ones are refused. Real ones reach 15."""

_SURROGATE = re.compile(f"[{unseen.SURROGATES}]")
_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_CONTROL = re.compile(f"[{unseen.CONTROL}]")
_INVISIBLE = re.compile(f"[{unseen.INVISIBLE}]")
_SUSPICIOUS = re.compile(
    r"<\s*/?\s*(important|system|secret|instructions?)\s*>|<!--|"
    r"\b(ignore|disregard|forget)\b.{0,30}\b(previous|prior|above|earlier|all)\b.{0,20}\b"
    r"(instruction|prompt|message|rule)s?|"
    r"\b(do not|don't|never)\s+(tell|mention|inform|show|reveal)\b.{0,40}\buser\b|"
    r"\b(must|should)\s+(be\s+)?(always\s+)?call(ed)?\s+(this\s+)?(tool\s+)?(first|before)\b|"
    r"(~|\$HOME|/root)/\.(ssh|aws|config|netrc)|\bid_rsa\b",
    re.IGNORECASE,
)
_ENCODED = re.compile(r"(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{200}")
_CLUES = ("<", "ignore", "disregard", "forget", "do not", "don't", "never", "must", "should", "/.",
          "id_rsa")  # fmt: skip
"""Something of these is in all that `_SUSPICIOUS` finds: looking for them is ten times cheaper."""


class TooDeep(ValueError):
    """A value nests deeper than `MAX_DEPTH`."""


def storable(value: Any, flags: set[str], depth: int = 0) -> Any:
    """Return `value` as strict JSON: no NaN, no infinity, no lone surrogates.

    Raises:
        TooDeep: it nests deeper than `MAX_DEPTH`.
    """
    if depth > MAX_DEPTH:
        raise TooDeep
    if isinstance(value, dict):
        return {_string(str(k), flags): storable(v, flags, depth + 1) for k, v in value.items()}
    if isinstance(value, list):
        return [storable(item, flags, depth + 1) for item in value]
    if isinstance(value, str):
        return _string(value, flags)
    if isinstance(value, float) and not math.isfinite(value):
        flags.add("not_a_number")
        return None
    return value


def _string(text: str, flags: set[str]) -> str:
    if text.isascii() or not _SURROGATE.search(text):
        return text
    flags.add("bad_unicode")
    return _SURROGATE.sub("\ufffd", text)


def visible(text: str, flags: set[str]) -> str:
    """Return prose without escape sequences, control and invisible characters."""
    if text.isascii() and text.isprintable():
        return text
    for pattern, flag in ((_ANSI, "ansi"), (_CONTROL, "control"), (_INVISIBLE, "invisible")):
        if pattern.search(text):
            flags.add(flag)
            text = pattern.sub("", text)
    return text


def suspicions(value: Any) -> bool:
    """Say whether any string in `value`, keys included, looks like words meant for a model."""
    texts = list(_strings(value))
    folded = "\0".join(texts).casefold()
    if any(clue in folded for clue in _CLUES) and any(map(_SUSPICIOUS.search, texts)):
        return True
    return len(folded) >= 200 and any(map(_ENCODED.search, texts))


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield str(key)
            yield from _strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)


def excerpt(value: Any, depth: int = 8, width: int = 50) -> Any:
    """Return a storable sketch of any value, for the record of what was refused."""
    if isinstance(value, dict):
        if depth == 0:
            return "…"
        items = list(value.items())[:width]
        return {_string(str(k)[:200], set()): excerpt(v, depth - 1, width) for k, v in items}
    if isinstance(value, list):
        return "…" if depth == 0 else [excerpt(item, depth - 1, width) for item in value[:width]]
    if isinstance(value, str):
        return _string(value[:2000], set())
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, int) and abs(value) >= 1 << 63:
        return "a huge integer"
    return value
