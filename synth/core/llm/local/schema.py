"""Schemas of strangers, reduced to what constrained decoding can hold a small model to.

The result is a superset-or-equal of the schema in shape, small and without references, patterns or
conditions; what it no longer says is checked where every call is checked, against the real schema.
An engine that meets a keyword it does not know constrains nothing and does not say so (measured):
therefore only a closed list of keywords comes out of here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

KEYWORDS = frozenset({
    "type", "properties", "required", "additionalProperties", "items", "enum", "anyOf", "format",
    "minItems", "maxItems", "minLength", "maxLength", "minimum", "maximum",
})  # fmt: skip
"""All that a reduced schema may contain."""
MOST_NODES, DEEPEST = 200, 6
"""Sub-schemas of one tool, and their nesting; what lies beyond is a free scalar."""
LONGEST_TEXT, MOST_ITEMS, MOST_WORDS, MOST_PROPERTIES, MOST_CHOICES = 300, 8, 100, 40, 8
_FORMATS = frozenset({"date", "uuid"})
"""Formats an engine and we mean the same by (a `date-time` would be forced into a time zone)."""
_LARGEST = 10**9
FREE: dict[str, Any] = {
    "anyOf": [
        {"type": "string", "maxLength": LONGEST_TEXT},
        {"type": "number"},
        {"type": "boolean"},
        {"type": "null"},
    ]
}
"""Any scalar."""
OPEN: dict[str, Any] = {"type": "object", "additionalProperties": FREE}
"""An object of scalars."""


def reduce_schema(schema: Any, *, most_nodes: int = MOST_NODES) -> dict[str, Any]:
    """Return a small schema of only `KEYWORDS` that takes what `schema` takes, as far as it can.

    Args:
        schema: a JSON schema from anywhere, valid or not.
        most_nodes: sub-schemas that may come out; the rest become free scalars.
    """
    return _Reducer(schema, most_nodes).node(schema, 0, ())


def reduce_arguments(schema: Any, *, most_nodes: int = MOST_NODES) -> dict[str, Any]:
    """Return the same for a tool's arguments, which are an object whatever the schema says."""
    reduced = reduce_schema(schema, most_nodes=most_nodes)
    return reduced if reduced.get("type") == "object" else OPEN


class _Reducer:
    """One walk through a schema; `_left` bounds what comes out of it."""

    def __init__(self, root: Any, most_nodes: int) -> None:
        self._root, self._left = root, most_nodes

    def node(self, schema: Any, depth: int, within: tuple[str, ...]) -> dict[str, Any]:
        self._left -= 1
        if self._left < 0 or depth > DEEPEST or not isinstance(schema, Mapping):
            return FREE
        if isinstance(reference := schema.get("$ref"), str):
            target = self._resolve(reference)
            if reference in within or target is None:
                return FREE
            return self.node(target, depth + 1, (*within, reference))
        if isinstance(parts := schema.get("allOf"), list) and parts:
            return self.node(self._merged(schema, parts, within), depth + 1, within)
        if (words := _words(schema)) is not None:
            return {"enum": words} if words else FREE
        kinds = _kinds(schema)
        choices = schema.get("anyOf") or schema.get("oneOf")
        if isinstance(choices, list) and "properties" not in schema:
            return self._choice(choices, depth, within)
        if len(kinds) == 1:
            return self._typed(kinds[0], schema, depth, within)
        return self._choice([{**schema, "type": kind} for kind in kinds], depth, within)

    def _choice(
        self, choices: Sequence[Any], depth: int, within: tuple[str, ...]
    ) -> dict[str, Any]:
        found: list[dict[str, Any]] = []
        for choice in choices[:MOST_CHOICES]:
            reduced = self.node(choice, depth + 1, within)
            found += [one for one in reduced.get("anyOf", [reduced]) if one not in found]
        if not found:
            return FREE
        return found[0] if len(found) == 1 else {"anyOf": found}

    def _typed(
        self, kind: str, schema: Mapping[str, Any], depth: int, within: tuple[str, ...]
    ) -> dict[str, Any]:
        if kind == "object":
            return self._object(schema, depth, within)
        if kind == "array":
            most = min(_count(schema.get("maxItems"), MOST_ITEMS), MOST_ITEMS)
            least = min(_count(schema.get("minItems"), 0), most)
            items = self.node(schema.get("items"), depth + 1, within)
            return {"type": "array", "items": items, "minItems": least, "maxItems": most}
        if kind == "string":
            return _text(schema)
        return {"type": kind, **(_range(schema) if kind == "integer" else {})}

    def _object(
        self, schema: Mapping[str, Any], depth: int, within: tuple[str, ...]
    ) -> dict[str, Any]:
        properties = schema.get("properties")
        if not isinstance(properties, Mapping):
            return OPEN
        required = schema.get("required")
        needed = [name for name in required if name in properties] if _texts(required) else []
        # What must be there comes first into the few that are kept.
        order = sorted(properties, key=lambda name: name not in needed)[:MOST_PROPERTIES]
        kept = [name for name in properties if name in order]
        return {
            "type": "object",
            "properties": {n: self.node(properties[n], depth + 1, within) for n in kept},
            "required": [name for name in dict.fromkeys(needed) if name in kept],
            "additionalProperties": False,
        }

    def _merged(
        self, schema: Mapping[str, Any], parts: Sequence[Any], within: tuple[str, ...]
    ) -> dict[str, Any]:
        """Return one schema that says what all parts say; the later part wins where they differ."""
        merged = {key: value for key, value in schema.items() if key != "allOf"}
        own, needed = merged.get("properties"), merged.get("required")
        properties = dict(own) if isinstance(own, Mapping) else {}
        required = list(needed) if _texts(needed) else []
        for part in parts[:MOST_CHOICES]:
            if isinstance(part, Mapping) and isinstance(reference := part.get("$ref"), str):
                part = None if reference in within else self._resolve(reference)
            if not isinstance(part, Mapping) or "allOf" in part:
                continue
            merged |= part
            if isinstance(more := part.get("properties"), Mapping):
                properties |= more
            required += more if _texts(more := part.get("required")) else []
        if properties:
            merged |= {"properties": properties, "required": required}
        return merged

    def _resolve(self, reference: str) -> Any:
        if not reference.startswith("#"):
            return None
        target = self._root
        for part in reference[1:].split("/")[1:]:
            name = part.replace("~1", "/").replace("~0", "~")
            target = target.get(name) if isinstance(target, Mapping) else None
        return target if isinstance(target, Mapping) else None


_KINDS = ("object", "array", "string", "integer", "number", "boolean", "null")


def _kinds(schema: Mapping[str, Any]) -> tuple[str, ...]:
    said = schema.get("type")
    said = [said] if isinstance(said, str) else said
    kinds = tuple(k for k in _KINDS if k in said) if _texts(said) else ()
    if kinds:
        return kinds
    if "properties" in schema:
        return ("object",)
    return ("array",) if "items" in schema else ("string", "number", "boolean", "null")


def _words(schema: Mapping[str, Any]) -> list[Any] | None:
    """Return the values of an enumeration; None where there is none, or one too long to hold to."""
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    if not isinstance(values, list) or len(values) > MOST_WORDS:
        return None
    return [value for value in values if _is_word(value)]


def _is_word(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) <= LONGEST_TEXT and value.isprintable()
    return value is None or isinstance(value, bool | int) or _is_finite(value)


def _is_finite(value: Any) -> bool:
    return isinstance(value, float) and abs(value) < float("inf")


def _text(schema: Mapping[str, Any]) -> dict[str, Any]:
    if (form := str(schema.get("format"))) in _FORMATS:
        return {"type": "string", "format": form}
    most = min(_count(schema.get("maxLength"), LONGEST_TEXT), LONGEST_TEXT)
    least = min(_count(schema.get("minLength"), 0), most, 16)
    return {"type": "string", "minLength": least, "maxLength": most}


def _range(schema: Mapping[str, Any]) -> dict[str, int]:
    found = {
        name: value
        for name in ("minimum", "maximum")
        if _is_integer(value := schema.get(name)) and abs(value) <= _LARGEST
    }
    return found if found.get("minimum", -_LARGEST) <= found.get("maximum", _LARGEST) else {}


def _count(value: Any, otherwise: int) -> int:
    return int(value) if _is_integer(value) and value >= 0 else otherwise


def _is_integer(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _texts(value: Any) -> TypeGuard[list[str]]:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)
