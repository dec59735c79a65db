"""Function names for models: `[A-Za-z0-9_-]`, at most 64 characters, no two tools alike.

Servers may use any string; providers refuse the whole request for one dot or space. A character
outside the alphabet becomes `_xHEX_`, and so does the underscore of a name that already looks like
that, so different names stay different. A result over 64 characters ends in `__` and 12 hexadecimal
digits of its hash; only the registry can turn that back.
"""

from __future__ import annotations

import hashlib
import re

MAX_LENGTH = 64
"""Limit of the OpenAI API for function names."""
_NEEDS_ESCAPE = re.compile(r"_(?=x[0-9a-f]{1,6}_)|[^A-Za-z0-9_-]")
_HASHED = re.compile(r"__[0-9a-f]{12}\Z")


def function_name(raw: str) -> str:
    """Return the function name of a tool called `raw` (not empty)."""
    escaped = _NEEDS_ESCAPE.sub(lambda found: f"_x{ord(found.group()):x}_", raw)
    looks_hashed = len(escaped) == MAX_LENGTH and _HASHED.search(escaped)
    if len(escaped) <= MAX_LENGTH and not looks_hashed:
        return escaped
    digest = hashlib.blake2b(raw.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()
    return f"{escaped[: MAX_LENGTH - 14]}__{digest}"
