"""Tools read from the methods of a class: schemas from signatures, words from docstrings."""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Callable, Collection, Mapping
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from synth.core.types import Provenance, ToolSpec

_SECTION = re.compile(r"^\s*(Args|Arguments|Parameters|Returns|Return|Raises|Yields)\s*:", re.M)
_ARGUMENT = re.compile(r"^\s+(\w+)\s*(?:\([^)\n]*\))?\s*:\s*(.+)$")
_OPTIONAL = re.compile(r"^\[optional\]\s*", re.I)
_NAMES: Mapping[Any, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    type(None): "null",
    list: "array",
    tuple: "array",
    set: "array",
    dict: "object",
}


def methods_of(kind: type, leave_out: Collection[str] = ()) -> dict[str, Callable[..., Any]]:
    """Return the public methods of a class by name, sorted."""
    return {
        name: method
        for name, method in inspect.getmembers(kind, inspect.isfunction)
        if not name.startswith("_") and name not in leave_out
    }


def specs_of(kind: type, source: str, leave_out: Collection[str] = ()) -> tuple[ToolSpec, ...]:
    """Return a tool for each public method of a class. What it does to the state is unknown.

    Args:
        kind: the class.
        source: where it is from, for the record.
        leave_out: methods that are no tools.
    """
    return tuple(
        ToolSpec(
            name=name,
            description=_words(method),
            parameters=_parameters(method),
            application=kind.__name__,
            provenance=Provenance(source=source),
        )
        for name, method in methods_of(kind, leave_out).items()
    )


def _words(method: Callable[..., Any]) -> str:
    text = inspect.getdoc(method) or ""
    section = _SECTION.search(text)
    said = " ".join(text[: section.start() if section else len(text)].split())
    return said or method.__name__


def _parameters(method: Callable[..., Any]) -> dict[str, Any]:
    hints, told = _hints(method), _told(method)
    properties: dict[str, Any] = {}
    required = []
    for name, parameter in list(inspect.signature(method).parameters.items())[1:]:
        if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
            continue
        schema = schema_of(hints.get(name, Any))
        if name in told:
            schema["description"] = told[name]
        properties[name] = schema
        if parameter.default is parameter.empty:
            required.append(name)
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def _hints(method: Callable[..., Any]) -> dict[str, Any]:
    try:
        return get_type_hints(method)
    except (NameError, TypeError):  # what the author wrote is no type
        return {}


def _told(method: Callable[..., Any]) -> dict[str, str]:
    """Return what the section `Args:` of a docstring says, by parameter."""
    text = inspect.getdoc(method) or ""
    sections = [*_SECTION.finditer(text)]
    found = {}
    for place, section in enumerate(sections):
        if section[1] not in ("Args", "Arguments", "Parameters"):
            continue
        end = sections[place + 1].start() if place + 1 < len(sections) else len(text)
        name, depth = "", 0
        for line in text[section.end() : end].splitlines():
            match, indent = _ARGUMENT.match(line), len(line) - len(line.lstrip())
            if match and (not name or indent <= depth):
                name, depth = match[1], indent
                found[name] = _OPTIONAL.sub("", " ".join(match[2].split()))
            elif name and line.strip() and indent > depth:
                found[name] += " " + " ".join(line.split())
    return found


def schema_of(hint: Any) -> dict[str, Any]:
    """Return the JSON schema of a type hint; what is no JSON may be anything."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Union or isinstance(hint, types.UnionType):
        return _any_of([schema_of(one) for one in inner])
    if origin is Literal:
        return {"enum": list(inner)}
    kind = origin or hint
    if not isinstance(kind, type) or kind not in _NAMES:
        return {}
    schema: dict[str, Any] = {"type": _NAMES[kind]}
    if kind in (list, set) and inner and schema_of(inner[0]):
        schema["items"] = schema_of(inner[0])
    if kind is tuple and inner:
        places = [schema_of(one) for one in inner if one is not ...]
        schema |= {"items": places[0]} if ... in inner else _places(places)
    if kind is dict and len(inner) == 2 and schema_of(inner[1]):
        schema["additionalProperties"] = schema_of(inner[1])
    return schema


def _places(places: list[dict[str, Any]]) -> dict[str, Any]:
    return {"prefixItems": places, "minItems": len(places), "maxItems": len(places)}


def _any_of(choices: list[dict[str, Any]]) -> dict[str, Any]:
    if {} in choices:
        return {}
    if all(choice.keys() == {"type"} for choice in choices):
        return {"type": [choice["type"] for choice in choices]}
    return {"anyOf": choices}
