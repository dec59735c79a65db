"""Tools in one line each: `find_customer(email: string, limit?: integer) - Find a customer.`

A JSON Schema spends most of its tokens on braces and on words that every schema has. The report's
declarations are TypeScript for the same reason (K2 appendix B). What an agent needs stays: names,
types, which are optional, enums, formats, bounds, nested members. Schemas come from strangers, so
anything may be missing or of the wrong type; then the part is written as `any`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

_DEEPEST = 4
_MOST_ENUMERATED = 24
_PLAIN = re.compile(r"[\w.$-]+")
_SIMPLE = frozenset({"string", "integer", "number", "boolean", "null"})


def declare(tools: Sequence[Mapping[str, Any]], *, describe_parameters: bool = False) -> str:
    """Return one line for each OpenAI-shape tool.

    Args:
        tools: entries of a chat-completions `tools` list.
        describe_parameters: also write each parameter's description, as a comment on its own line
            below the tool.
    """
    lines = []
    for tool in tools:
        function = tool.get("function", tool)
        schema = function.get("parameters") or {}
        summary = _one_line(function.get("description"))
        line = f"{function['name']}({_members(schema, _DEEPEST)})"
        lines.append(f"{line} - {summary}" if summary else line)
        if describe_parameters:
            lines.extend(_comments(schema))
    return "\n".join(lines)


def _one_line(text: Any) -> str:
    return " ".join(text.split()) if isinstance(text, str) else ""


def _comments(schema: Mapping[str, Any]) -> list[str]:
    out = []
    for name, part in _properties(schema).items():
        text = _one_line(part.get("description")) if isinstance(part, Mapping) else ""
        if text:
            out.append(f"  {name}: {text}")
    return out


def _properties(schema: Any) -> Mapping[str, Any]:
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    return properties if isinstance(properties, Mapping) else {}


def _members(schema: Any, depth: int) -> str:
    required = schema.get("required") if isinstance(schema, Mapping) else None
    needed = set(map(str, required)) if isinstance(required, list) else set()
    return ", ".join(
        f"{_name(name)}{'' if name in needed else '?'}: {_type(part, depth)}"
        for name, part in _properties(schema).items()
    )


def _name(name: Any) -> str:
    plain = isinstance(name, str) and _PLAIN.fullmatch(name)
    return str(name) if plain else _literal(name)


def _type(schema: Any, depth: int) -> str:
    if not isinstance(schema, Mapping) or depth == 0:
        return "any"
    if "const" in schema:
        return _literal(schema["const"])
    if isinstance(schema.get("enum"), list) and schema["enum"]:
        return _choices(schema["enum"])
    for union in ("anyOf", "oneOf"):
        if isinstance(schema.get(union), list) and schema[union]:
            return " | ".join(dict.fromkeys(_type(part, depth - 1) for part in schema[union]))
    if isinstance(schema.get("$ref"), str):
        return _name(str(schema["$ref"]).rsplit("/", 1)[-1])
    kinds = schema.get("type")
    if isinstance(kinds, list) and kinds:
        return " | ".join(_kind(schema, kind, depth) for kind in kinds)
    return _kind(schema, kinds, depth)


def _kind(schema: Mapping[str, Any], kind: Any, depth: int) -> str:
    if kind == "array":
        inner = _type(schema.get("items"), depth - 1)
        return f"({inner})[]" if " | " in inner else f"{inner}[]"
    if kind == "object" or (kind is None and _properties(schema)):
        inside = _members(schema, depth - 1)
        return f"{{{inside}}}" if inside else "object"
    if not isinstance(kind, str) or kind not in _SIMPLE:
        return "any"
    note = _bounds(schema) if kind in ("integer", "number") else _format(schema)
    return f"{kind}({note})" if note and kind not in ("boolean", "null") else str(kind)


def _format(schema: Mapping[str, Any]) -> str:
    return _one_line(schema.get("format"))


def _bounds(schema: Mapping[str, Any]) -> str:
    low, high = (
        str(value) if isinstance(value, (int, float)) else ""
        for value in (schema.get("minimum"), schema.get("maximum"))
    )
    return f"{low}..{high}" if low or high else ""


def _choices(values: list[Any]) -> str:
    shown = " | ".join(map(_literal, values[:_MOST_ENUMERATED]))
    return shown if len(values) <= _MOST_ENUMERATED else f"{shown} | …"


def _literal(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
