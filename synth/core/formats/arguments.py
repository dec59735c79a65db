r"""Arguments that a tool's schema can repair, whether they came as text or over an API.

Models write nested values as JSON text inside JSON: `{"jobs": "[{\"t\": 1}]"}` where the schema
wants a list. Such a text is decoded once, and only where the schema admits no text at that place
and admits what the text decodes to: then it has one meaning. A text that belongs there stays text.
Everything else is left to validation, whose message the model can act on.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from synth.core.formats.base import Parsed, Wire
from synth.core.formats.calls import Broken, arguments_of
from synth.core.formats.values import DEEPEST, is_blank, value_at
from synth.core.types import ToolCall

_MOST_REFERENCES = 8
_KINDS: dict[type, frozenset[str]] = {
    str: frozenset({"string"}),
    bool: frozenset({"boolean"}),
    int: frozenset({"integer", "number"}),
    float: frozenset({"number"}),
    list: frozenset({"array"}),
    dict: frozenset({"object"}),
    type(None): frozenset({"null"}),
}


def fit_parsed(parsed: Parsed, tools: Sequence[Wire]) -> Parsed:
    """Return `parsed` with the arguments of each call fitted to its tool.

    Args:
        parsed: the outcome of a reply.
        tools: OpenAI-shape tools; a call of any other tool stays as it is.
    """
    schemas = {}
    for tool in tools:
        function = tool.get("function", tool)
        schemas[function["name"]] = function.get("parameters") or {}
    calls, repairs = [], list(parsed.repairs)
    for call in parsed.calls:
        fitted, notes = fit_call(call, schemas.get(call.name, {}))
        calls.append(fitted)
        repairs += notes
    return replace(parsed, calls=tuple(calls), repairs=tuple(dict.fromkeys(repairs)))


def fit_call(call: ToolCall, schema: Mapping[str, Any]) -> tuple[ToolCall, tuple[str, ...]]:
    """Return a call with arguments that fit `schema` better, and what was repaired.

    Noted: `no_arguments` (an empty text, for the empty object), `arguments_as_text` (the whole
    object as a JSON string), `double_encoded` (a part of it). What cannot be repaired comes back
    unchanged, with nothing noted.

    Args:
        call: a call in any state.
        schema: JSON Schema of the tool's arguments; anything may be wrong with it.
    """
    notes: list[str] = []
    text = call.arguments
    try:
        if is_blank(text):
            text = arguments_of("", "", notes)
        value, start, end = value_at(text, 0)
        if not is_blank(text[end:]):
            return call, ()
        text = arguments_of(value, text[start:end], notes)
        value = value_at(text, 0)[0]
    except (Broken, ValueError):
        return call, ()
    decoded = _Fit(schema).value(value, schema, DEEPEST)
    if decoded is not value:
        notes.append("double_encoded")
        text = json.dumps(decoded, ensure_ascii=False)
    if not notes:
        return call, ()
    return ToolCall(id=call.id, name=call.name, arguments=text), tuple(notes)


class _Fit:
    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root

    def value(self, value: Any, schema: Any, depth: int) -> Any:
        """Return `value` fitted to `schema`: the same object where nothing had to be done."""
        schema = self._resolved(schema)
        if schema is None or depth == 0:
            return value
        if isinstance(value, str):
            return self._decoded(value, schema)
        if isinstance(value, dict):
            parts = schema.get("properties")
            parts = parts if isinstance(parts, Mapping) else {}
            rest = schema.get("additionalProperties")
            members = {k: self.value(v, parts.get(k, rest), depth - 1) for k, v in value.items()}
            return members if any(members[k] is not v for k, v in value.items()) else value
        if isinstance(value, list):
            items = [self.value(item, schema.get("items"), depth - 1) for item in value]
            changed = any(new is not old for new, old in zip(items, value, strict=True))
            return items if changed else value
        return value

    def _decoded(self, text: str, schema: Mapping[str, Any]) -> Any:
        kinds = self._kinds(schema, _MOST_REFERENCES)
        if kinds is None or "string" in kinds:
            return text
        try:
            value, _, end = value_at(text, 0)
        except ValueError:
            return text
        fits = not kinds.isdisjoint(_KINDS[type(value)]) and is_blank(text[end:])
        return value if fits else text

    def _kinds(self, schema: Any, depth: int) -> frozenset[str] | None:
        """Return the types that `schema` admits; None where that is not plain to see."""
        schema = self._resolved(schema)
        if schema is None or depth == 0:
            return None
        for union in ("anyOf", "oneOf"):
            if isinstance(schema.get(union), list):
                return self._union(schema[union], depth)
        if "const" in schema or isinstance(schema.get("enum"), list):
            values = [schema["const"]] if "const" in schema else schema["enum"]
            return frozenset().union(*(_KINDS.get(type(value), frozenset()) for value in values))
        kinds = schema.get("type")
        listed = [kinds] if isinstance(kinds, str) else kinds
        if not isinstance(listed, list) or not listed or "allOf" in schema:
            return None
        return frozenset(kind for kind in listed if isinstance(kind, str))

    def _union(self, parts: Sequence[Any], depth: int) -> frozenset[str] | None:
        out: set[str] = set()
        for part in parts:
            kinds = self._kinds(part, depth - 1)
            if kinds is None:
                return None
            out |= kinds
        return frozenset(out)

    def _resolved(self, schema: Any) -> Mapping[str, Any] | None:
        """Follow references inside the schema; None where there is no schema in the end."""
        for _ in range(_MOST_REFERENCES):
            if not isinstance(schema, Mapping):
                return None
            reference = schema.get("$ref")
            if reference is None:
                return schema
            if not isinstance(reference, str) or not reference.startswith("#/"):
                return None
            schema = self._root
            for step in reference[2:].split("/"):
                step = step.replace("~1", "/").replace("~0", "~")
                schema = schema.get(step) if isinstance(schema, Mapping) else None
        return None
