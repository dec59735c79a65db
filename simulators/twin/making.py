"""Values of a twin's columns: what suits the parameter that a column comes from."""

from __future__ import annotations

from typing import Any

from simulators.twin.reading import Read

MANY = 24
"""Rows of a table, and the most that a list shows where it is not told how many."""
MARKS = frozenset({"name", "title", "id"})
"""Columns that say which row it is: nobody asks what rows have them."""
WORDS = (
    "amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "harbour", "indigo", "juniper",
    "kelp", "larch", "meadow", "nimbus", "ochre", "prairie", "quartz", "river", "sable", "tundra",
)  # fmt: skip
_GROUPS = WORDS[:8]
_TITLES = ("{a} {b} notes", "{a} plan for {b}", "{a} and {b}", "{b} review", "first {a} draft")


def generator(one: Read, *, unique: bool) -> dict[str, Any]:
    """Return the generator of a column.

    Args:
        one: the parameter that it comes from.
        unique: whether no two rows may have the same.
    """
    made = _plain(one, unique)
    return made | {"unique": True} if unique and "choice" not in made else made


def _plain(one: Read, unique: bool) -> dict[str, Any]:
    schema = one.schema
    if "enum" in schema:
        return {"choice": list(dict.fromkeys(schema["enum"]))}
    if one.type == "boolean":
        return {"choice": [0, 1]}
    if one.type == "integer":
        low = int(schema.get("minimum", 1))
        return {"integer": [low, min(int(schema.get("maximum", low + 899)), low + 899)]}
    if one.type == "number":
        least = float(schema.get("minimum", 1))
        return {"number": [least, min(float(schema.get("maximum", 10**9)), least + 899), 2]}
    return _text(one, unique)


def _text(one: Read, unique: bool) -> dict[str, Any]:
    form, name = one.schema.get("format", ""), one.name
    if form == "date":
        return {"date": [-60, 60]}
    if form == "date-time":
        return {"datetime": [-60, 60, 30]}
    if form in ("uri", "url") or name.endswith(("url", "uri", "link")):
        return {"code": "https://example.org/####"}
    if form == "email" or "email" in name:
        return {"code": "??.####@example.org"}
    if name.endswith(("path", "file", "filename", "folder", "directory")):
        return {"code": "files/??-####.txt"}
    if any(word in name for word in ("title", "text", "description", "content", "body", "message")):
        return {
            "choice": [t.format(a=a, b=b) for t in _TITLES for a in WORDS[:6] for b in WORDS[6:9]]
        }
    if unique or one.is_key or name.endswith(("id", "key", "code", "number", "hash", "address")):
        return {"code": "??-####"}
    return {"choice": list(_GROUPS)}
