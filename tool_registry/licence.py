"""What people write where a licence is asked for, as SPDX identifiers.

Catalogs hold whole licence texts, names of hosting companies, addresses, and `[NOT GIVEN]`. What
names no licence is no licence: an export that filters must not take it for one.
"""

from __future__ import annotations

import re

MAX_LENGTH = 100
_NONE = frozenset(
    ("", "[]", "none", "null", "n/a", "unknown", "not given", "not found", "not specified",
     "unspecified", "no license", "no licence", "noassertion", "other",
     "smithery", "unlicensed", "proprietary", "custom", "tbd")
)  # fmt: skip
_KNOWN = (
    (r"\bAGPL\W*(?:v|version )?3|affero general public", "AGPL-3.0"),
    (r"\bLGPL\W*(?:v|version )?3|lesser general public license,? (?:v|version )3", "LGPL-3.0"),
    (r"\bLGPL\W*(?:v|version )?2|lesser general public", "LGPL-2.1"),
    (r"\bGPL\W*(?:v|version )?2|general public license,? (?:v|version )2", "GPL-2.0"),
    (r"\bGPL\W*(?:v|version )?3|general public license", "GPL-3.0"),
    (
        r"(?<![\w-])apache\W*(?:software )?(?:licen[cs]e)?,?\W*(?:v|version )?2|^apache$",
        "Apache-2.0",
    ),
    (r"\bMPL\W*v?2|mozilla public", "MPL-2.0"),
    (r"\bBSD\W*2|simplified bsd", "BSD-2-Clause"),
    (r"\bBSD\W*3|new bsd", "BSD-3-Clause"),
    (r"\bISC\b", "ISC"),
    (r"\bunlicense$|^the unlicense", "Unlicense"),
    (r"\bCC0\b", "CC0-1.0"),
    (r"^(?:the )?MIT\b|\bMIT licen[cs]e|permission is hereby granted, free of charge", "MIT"),
)
_PATTERNS = tuple((re.compile(pattern, re.IGNORECASE), name) for pattern, name in _KNOWN)
_NO_LICENCE = re.compile(r"^https?://|^see licen[cs]e|^@[\w-]+/|smithery", re.IGNORECASE)
"""Addresses, references, and names of packages and of a company that hosts them."""


def spdx(text: object) -> str | None:
    """Return the identifier of the licence that `text` names, or None.

    What is no placeholder but not known either (`EUPL-1.2`, two licences joined by OR) is returned
    as it is, in one line and shortened.
    """
    if not isinstance(text, str):
        return None
    words = " ".join(text[:4000].split())
    if words.strip("[]() ").lower() in _NONE or _NO_LICENCE.search(words):
        return None
    if re.search(r"\s(?:OR|AND|WITH)\s", words) and len(words) <= MAX_LENGTH:
        return words
    for pattern, name in _PATTERNS:
        if pattern.search(words):
            suffix = re.search(r"-(?:only|or-later)$", words)
            return name + (suffix.group() if suffix and "GPL" in name else "")
    return words[:MAX_LENGTH]
