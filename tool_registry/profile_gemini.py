"""Steps for the Schema of the Gemini API, which is OpenAPI's and not JSON Schema (`profiles`)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tool_registry.profile_steps import Work
from tool_registry.schema import located

_FORMATS = {
    "string": {"date-time", "enum"}, "number": {"float", "double"}, "integer": {"int32", "int64"},
}  # fmt: skip


def single_types(work: Work) -> None:
    """One type each, several become `anyOf`; `const` is an enum of one."""
    for path, schema in located(work.schema):
        if "const" in schema:
            schema["enum"] = [schema.pop("const")]
            work.note(path, "const as an enum of one", "const is unknown")
        kinds = schema.get("type")
        if isinstance(kinds, list):
            work.note(path, f"type {kinds} in another form", "a schema has one type")
            branches = [{"type": kind} for kind in kinds]
            del schema["type"]
            schema["anyOf"] = schema.get("anyOf") or branches


def no_null(work: Work) -> None:
    """Null is no type: what may be null is `nullable`."""
    for path, schema in located(work.schema):
        union = schema.get("anyOf")
        if not isinstance(union, list):
            continue
        others = [one for one in union if _branch(one).get("type") != "null"]
        if len(others) < len(union):
            schema["nullable"] = True
            work.note(path, "null as nullable", "null is no type of its own")
        if len(others) == 1 and isinstance(others[0], dict):
            del schema["anyOf"]
            for key, value in others[0].items():
                schema.setdefault(key, value)
        elif others:
            schema["anyOf"] = others
        else:
            schema["type"] = "null"
            del schema["anyOf"]
    for path, schema in located(work.schema):
        if schema.get("type") == "null":
            schema |= {"type": "string", "nullable": True}
            work.note(path, "null as a text that may be null", "null is no type of its own")


def words_as_enum(work: Work) -> None:
    """Enums are of texts: null among them is `nullable`, others are told in the description."""
    for path, schema in located(work.schema):
        values = schema.get("enum")
        if values is None:
            continue
        if None in values:
            values = schema["enum"] = [value for value in values if value is not None]
            schema["nullable"] = True
            work.note(path, "null as nullable", "an enum holds texts that are not empty")
        if values and all(isinstance(v, str) and v for v in values):
            continue
        del schema["enum"]
        if values:
            listed = ", ".join(v if isinstance(v, str) and v else json.dumps(v) for v in values)
            schema["description"] = f"{schema.get('description', '')} One of: {listed}".strip()
            work.note(path, "enum told in the description", "an enum holds texts, none empty")


def known_formats(work: Work) -> None:
    """Formats that are known for the type."""
    for path, schema in located(work.schema):
        known = _FORMATS.get(str(schema.get("type")), set())
        if "format" in schema and schema["format"] not in known:
            work.note(path, f"format {schema.pop('format')!r} dropped", "unknown for its type")


def own_properties(work: Work) -> None:
    """Objects alone have properties, and require none but theirs."""
    for path, schema in located(work.schema):
        if schema.get("type") != "object":
            for key in [key for key in ("properties", "required") if key in schema]:
                del schema[key]
                work.note(path, f"{key} dropped", "for objects only")
        elif "required" in schema:
            own = [name for name in schema["required"] if name in schema.get("properties", ())]
            if own != schema["required"]:
                work.note(path, "required ones that are no properties dropped", "refused")
                schema["required"] = own
            if not own:
                del schema["required"]


def _branch(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
