"""Entries of tools as people write them outside of MCP, in the shape of `tools/list`.

OpenAI wraps a function, Anthropic calls the schema `input_schema`, catalogs keep columns beside it.
What comes out has the keys of MCP; what is no object at all is left for the normaliser to refuse.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tool_registry.normalize import Unreadable

_RENAMED = {
    "tool": "name",
    "input_schema": "inputSchema",
    "parameters": "inputSchema",
    "output_schema": "outputSchema",
}
_KEPT = ("name", "title", "description", "inputSchema", "outputSchema", "annotations", "_meta")


def mcp_entry(raw: Any) -> Any:
    """Return an entry with the keys of `tools/list`; columns of catalogs are left out.

    Args:
        raw: `{"type": "function", "function": {…}}`, or an object with a name and a schema.
    """
    if not isinstance(raw, dict):
        return raw
    if isinstance(raw.get("function"), dict):
        raw = raw["function"]
    elif raw.get("type") not in (None, "function", "custom") and "inputSchema" not in raw:
        return Unreadable("not_a_function", f"a tool of type {raw['type']!r:.60}", raw)
    entry: dict[str, Any] = {}
    for key, value in raw.items():
        name = _RENAMED.get(key, key)
        if value is not None and name in _KEPT and name not in entry:
            entry[name] = value
    if "inputSchema" not in entry and isinstance(raw.get("arguments"), list):
        entry["inputSchema"] = _of_arguments(raw["arguments"])
    return entry


def _of_arguments(arguments: list[Any]) -> dict[str, Any]:
    """Return the schema of `[{"name", "type", "desc", "optional"}]`, an older form of Docker's."""
    properties: dict[str, Any] = {}
    required: list[str] = []
    for argument in arguments:
        if not isinstance(argument, Mapping) or not isinstance(argument.get("name"), str):
            continue
        described = argument.get("desc", argument.get("description"))
        schema = {"type": argument.get("type", "string"), "description": described}
        if isinstance(argument.get("items"), dict):
            schema["items"] = argument["items"]
        properties[argument["name"]] = {k: v for k, v in schema.items() if v is not None}
        if not argument.get("optional"):
            required.append(argument["name"])
    return {"type": "object", "properties": properties, "required": required}
