"""Arguments of a call as endpoints send them: text, an object, text of a text.

Only what has one meaning is repaired. Text that is no JSON is the agent's own mistake, and stays.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any


def read_arguments(
    raw: str | Mapping[str, Any] | None, name: str, tools: Sequence[Mapping[str, Any]]
) -> tuple[str, str | None]:
    """Return the text of the arguments, and the name of a repair if there was one.

    Args:
        raw: what the endpoint sent.
        name: the tool that is called.
        tools: those on offer, in the OpenAI shape: a schema tells a list from its text.
    """
    if raw is None:
        return "{}", "no_arguments"
    if not isinstance(raw, str):
        return json.dumps(raw, ensure_ascii=False), "arguments_as_object"
    text = raw.strip()
    if not text:
        return "{}", "no_arguments"
    if text[0] == '"':
        inner = _loaded(text)
        if isinstance(inner, str) and isinstance(_loaded(inner), dict):
            return inner, "arguments_as_text"
    elif '"[' in text or '"{' in text:
        decoded = _decoded_once(text, name, tools)
        if decoded is not None:
            return decoded, "double_encoded"
    return raw, None


def _decoded_once(text: str, name: str, tools: Sequence[Mapping[str, Any]]) -> str | None:
    """Decode members that are texts where the schema wants a list or an object; None if none is."""
    value = _loaded(text)
    if not isinstance(value, dict):
        return None
    properties = _properties(name, tools)
    decoded = dict(_wrongly_encoded(value, properties))
    if not decoded:
        return None
    return json.dumps({**value, **decoded}, ensure_ascii=False)


def _wrongly_encoded(
    value: Mapping[str, Any], properties: Mapping[str, Any]
) -> Iterator[tuple[str, Any]]:
    for key, member in value.items():
        schema = properties.get(key)
        wanted = schema.get("type") if isinstance(schema, dict) else None
        kind = {"array": list, "object": dict}.get(wanted) if isinstance(wanted, str) else None
        if kind is not None and isinstance(member, str):
            inner = _loaded(member)
            if isinstance(inner, kind):
                yield key, inner


def _properties(name: str, tools: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    for tool in tools:
        function = tool.get("function")
        if isinstance(function, dict) and function.get("name") == name:
            parameters = function.get("parameters")
            found = parameters.get("properties") if isinstance(parameters, dict) else None
            return found if isinstance(found, dict) else {}
    return {}


def _loaded(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return None


def _no_constant(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")
