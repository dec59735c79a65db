"""Identity is content: canonical JSON text and the keys hashed from it."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import orjson


def canonical(value: Any) -> str:
    """Return the one JSON text of `value`: keys sorted, no spaces, UTF-8 kept.

    Raises:
        ValueError: NaN, infinity, a lone surrogate, nesting without end, or no JSON at all.
    """
    try:
        # orjson writes NaN as null, so floats take the strict path below when they occur.
        if not _has_float(value):
            return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
    except TypeError:
        pass  # integers beyond 64 bits: the standard library writes them
    try:
        text = json.dumps(
            value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
        )
        text.encode()
    except (TypeError, UnicodeEncodeError, RecursionError) as error:
        raise ValueError(f"not JSON: {error}") from error
    return text


_PLAIN = frozenset({str, int, bool, type(None)})


def _has_float(value: Any) -> bool:
    left = [value]
    for item in left:  # grows while it is walked: no recursion, which would cost more than orjson
        if type(item) in _PLAIN:  # nearly always, and cheaper to ask than what it is an instance of
            continue
        if isinstance(item, dict):
            left.extend(item.values())
        elif isinstance(item, (list, tuple)):
            left.extend(item)
        elif isinstance(item, float):
            return True
    return False


def content_key(value: Any, *, digits: int = 20) -> str:
    """Hash the canonical JSON of `value` to `digits` hexadecimal characters (4 bits each)."""
    return text_key(canonical(value), digits=digits)


def text_key(text: str, *, digits: int = 20) -> str:
    """Hash canonical JSON text as `content_key` does, where it is at hand already."""
    return hashlib.blake2b(text.encode(), digest_size=32).hexdigest()[:digits]
