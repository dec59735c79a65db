"""A tool as each provider's API takes it, with every change written down.

    declared = declaration(spec, "gemini")
    declared.body      what goes into the request
    declared.changes   what it says less, or otherwise, than the server's own schema

Derived when asked and never stored; arguments are always checked against the server's own schema,
so a looser declaration costs a refused call and no wrong one. The rules are those of the providers'
references as of 2026: OpenAI (function calling, structured outputs), Anthropic (Messages API,
tools), Google (Gemini API, Schema), Moonshot (Kimi API, tools); `docs/decisions/0026` lists them.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from synth.core.errors import UnknownName
from synth.core.types import ToolSpec
from tool_registry.names import function_name

Schema = dict[str, Any]
DEEPEST = 64
"""Levels that a reference is followed; a schema that refers to itself has no end."""
_COMBINED = ("anyOf", "oneOf", "allOf", "not", "enum", "if", "then", "else")
_GEMINI = frozenset(
    ("type", "format", "title", "description", "nullable", "enum", "maxItems", "minItems",
     "properties", "required", "minLength", "maxLength", "pattern", "anyOf", "items", "minimum",
     "maximum", "minProperties", "maxProperties", "default", "example")
)  # fmt: skip
_GEMINI_FORMATS = {
    "string": {"date-time", "enum"}, "number": {"float", "double"}, "integer": {"int32", "int64"},
}  # fmt: skip
_STRICT = frozenset(
    ("type", "format", "title", "description", "enum", "const", "anyOf", "items", "properties",
     "required", "additionalProperties", "$ref", "$defs", "pattern", "minimum", "maximum",
     "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minItems", "maxItems")
)  # fmt: skip
_STRICT_FORMATS = frozenset(
    ("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid")
)


@dataclass(frozen=True, slots=True)
class Change:
    """One difference between a server's definition and a declaration."""

    path: str
    """Where, as a JSON pointer into the server's schema; empty for the tool itself."""
    what: str
    why: str


@dataclass(frozen=True, slots=True)
class Declaration:
    """A tool as a provider takes it."""

    provider: str
    body: dict[str, Any]
    changes: tuple[Change, ...]


@dataclass(slots=True)
class _Work:
    """A schema on its way, and what was changed."""

    schema: Schema
    changes: list[Change] = field(default_factory=list)

    def note(self, path: str, what: str, why: str) -> None:
        self.changes.append(Change(path, what, why))


def declaration(spec: ToolSpec, provider: str) -> Declaration:
    """Return a tool as a provider takes it.

    Args:
        spec: the tool.
        provider: one of `PROVIDERS`.

    Raises:
        UnknownName: no such provider.
    """
    if provider not in PROVIDERS:
        raise UnknownName("provider", provider, PROVIDERS)
    profile = PROVIDERS[provider]
    work = _Work(copy.deepcopy(spec.parameters))
    for step in profile.steps:
        step(work)
    text = spec.description
    if profile.description is not None and len(text) > profile.description:
        text = text[: profile.description - 1] + "…"
        why = f"a description has {profile.description} characters at most"
        work.note("", f"description cut from {len(spec.description)}", why)
    body = profile.wrap(spec.name, text, work.schema)
    return Declaration(provider, body, tuple(work.changes))


# --- steps -----------------------------------------------------------------------------------


def _nodes(schema: Any, path: str = "") -> Iterator[tuple[str, Schema]]:
    """Yield every schema within one, itself first, with its path."""
    if not isinstance(schema, dict):
        return
    yield path, schema
    for key in ("properties", "$defs", "definitions", "patternProperties"):
        for name, child in list(_mapping(schema.get(key)).items()):
            yield from _nodes(child, f"{path}/{key}/{name}")
    for key in ("anyOf", "oneOf", "allOf", "prefixItems"):
        for number, child in enumerate(schema.get(key) or ()):
            yield from _nodes(child, f"{path}/{key}/{number}")
    for key in ("items", "additionalProperties", "not"):
        yield from _nodes(schema.get(key), f"{path}/{key}")


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _plain_root(work: _Work) -> None:
    """The root is an object, and says nothing that combines schemas."""
    for key in [key for key in _COMBINED if key in work.schema]:
        del work.schema[key]
        work.note("", f"{key} of the whole dropped", "arguments must be one plain object")
    work.schema["type"] = "object"
    work.schema.setdefault("properties", {})


def _inlined(work: _Work) -> None:
    """No references: what they name stands in their place."""
    root = work.schema

    def follow(value: Any, path: str, depth: int) -> Any:
        if isinstance(value, list):
            return [follow(one, f"{path}/{n}", depth) for n, one in enumerate(value)]
        if not isinstance(value, dict):
            return value
        reference = value.get("$ref")
        if isinstance(reference, str):
            if depth >= DEEPEST or path.count("/") > DEEPEST:
                work.note(path, "a schema that contains itself ends here", "no references")
                return {"type": "object"}
            work.note(path, f"{reference} put in place", "no references")
            rest = {key: one for key, one in value.items() if key != "$ref"}
            found = _named(root, reference)
            return follow({**found, **rest} if isinstance(found, dict) else rest, path, depth + 1)
        return {key: follow(one, f"{path}/{key}", depth) for key, one in value.items()}

    work.schema = follow(root, "", 0)
    for key in ("$defs", "definitions"):
        work.schema.pop(key, None)


def _named(root: Schema, reference: str) -> Any:
    found: Any = root
    for part in reference.removeprefix("#").strip("/").split("/") if reference != "#" else ():
        found = _mapping(found).get(part.replace("~1", "/").replace("~0", "~"))
    return found


def _one_union(work: _Work) -> None:
    """Of the ways to combine schemas, `anyOf` alone."""
    for path, schema in _nodes(work.schema):
        for key in ("oneOf", "allOf"):
            if key in schema:
                schema["anyOf"] = [*schema.get("anyOf", []), *schema.pop(key)]
                work.note(path, f"{key} as anyOf", f"{key} is unknown")


def _single_types(work: _Work) -> None:
    """One type each, several become `anyOf`; `const` is an enum of one."""
    for path, schema in _nodes(work.schema):
        if "const" in schema:
            schema["enum"] = [schema.pop("const")]
            work.note(path, "const as an enum of one", "const is unknown")
        kinds = schema.get("type")
        if isinstance(kinds, list):
            work.note(path, f"type {kinds} in another form", "a schema has one type")
            branches = [{"type": kind} for kind in kinds]
            del schema["type"]
            schema["anyOf"] = schema.get("anyOf") or branches


def _no_null(work: _Work) -> None:
    """Null is no type: what may be null is `nullable`."""
    for _, schema in _nodes(work.schema):
        union = schema.get("anyOf")
        if not isinstance(union, list):
            continue
        others = [one for one in union if _mapping(one).get("type") != "null"]
        if len(others) < len(union):
            schema["nullable"] = True
        if len(others) == 1 and isinstance(others[0], dict):
            del schema["anyOf"]
            for key, value in others[0].items():
                schema.setdefault(key, value)
        elif others:
            schema["anyOf"] = others
        else:
            schema["type"] = "null"
            del schema["anyOf"]
    for path, schema in _nodes(work.schema):
        if schema.get("type") == "null":
            schema |= {"type": "string", "nullable": True}
            work.note(path, "null as a text that may be null", "null is no type of its own")


def _words_as_enum(work: _Work) -> None:
    """Enums are of texts: others are told in the description."""
    for path, schema in _nodes(work.schema):
        values = schema.get("enum")
        if values is None or (values and all(isinstance(v, str) and v for v in values)):
            continue
        del schema["enum"]
        listed = ", ".join(map(str, values))
        schema["description"] = f"{schema.get('description', '')} One of: {listed}".strip()
        work.note(path, "enum told in the description", "an enum holds texts that are not empty")


def _only(keywords: frozenset[str], why: str) -> Callable[[_Work], None]:
    """Make a step that drops all other keywords."""

    def step(work: _Work) -> None:
        for path, schema in _nodes(work.schema):
            for key in [key for key in schema if key not in keywords]:
                del schema[key]
                if key not in ("$schema", "$id", "$comment"):
                    work.note(path, f"{key} dropped", why)

    return step


def _gemini_formats(work: _Work) -> None:
    for path, schema in _nodes(work.schema):
        known = _GEMINI_FORMATS.get(str(schema.get("type")), set())
        if "format" in schema and schema["format"] not in known:
            work.note(path, f"format {schema.pop('format')!r} dropped", "unknown for its type")


def _strict(work: _Work) -> None:
    """Every property is required, those that were not may be null; nothing else is allowed."""
    for path, schema in _nodes(work.schema):
        if "format" in schema and schema["format"] not in _STRICT_FORMATS:
            work.note(path, f"format {schema.pop('format')!r} dropped", "unknown when strict")
        if schema.get("type") != "object" and "properties" not in schema:
            continue
        properties = _mapping(schema.get("properties"))
        schema["type"], schema["properties"] = "object", dict(properties)
        if schema.get("additionalProperties") is not False:
            if schema.get("additionalProperties") or not properties:
                work.note(path, "further properties refused", "a strict object is closed")
            schema["additionalProperties"] = False
        required = set(schema.get("required") or ())
        for name, child in properties.items():
            if name not in required:
                schema["properties"][name] = _nullable(child)
                work.note(f"{path}/properties/{name}", "may be null", "all must be given")
        schema["required"] = list(properties)


def _nullable(schema: Any) -> Schema:
    if isinstance(schema, dict) and isinstance(schema.get("type"), str) and "enum" not in schema:
        return {**schema, "type": [schema["type"], "null"]}
    inner = schema if isinstance(schema, dict) else {}
    return {"anyOf": [inner, {"type": "null"}]}


def _types_within(work: _Work) -> None:
    """A type beside `anyOf` moves into its branches; definitions are called `$defs`."""
    for path, schema in _nodes(work.schema):
        if "anyOf" in schema and "type" in schema:
            kind = schema.pop("type")
            schema["anyOf"] = [
                {"type": kind, **one} if isinstance(one, dict) else one for one in schema["anyOf"]
            ]
            work.note(path, "type moved into anyOf", "a type beside anyOf is refused")
        reference = schema.get("$ref")
        if isinstance(reference, str) and reference.startswith("#/definitions/"):
            schema["$ref"] = reference.replace("#/definitions/", "#/$defs/", 1)
            work.note(path, "definitions are called $defs", "references name $defs only")
    if "definitions" in work.schema:
        work.schema["$defs"] = {**work.schema.pop("definitions"), **work.schema.get("$defs", {})}


_KEY = re.compile(r"[A-Za-z0-9_.-]{1,64}")


def _plain_keys(work: _Work) -> None:
    """Names of properties are letters, digits, `_.-`: others are written as function names."""
    for path, schema in _nodes(work.schema):
        properties = schema.get("properties")
        if not isinstance(properties, dict):
            continue
        for name in [name for name in properties if not _KEY.fullmatch(name)]:
            other = function_name(name) if name else "_empty"
            properties[other] = properties.pop(name)
            required = schema.get("required") or []
            schema["required"] = [other if one == name else one for one in required]
            why = "names of properties are letters, digits, _ . -"
            work.note(f"{path}/properties/{name}", f"called {other}", why)


def _whole(work: _Work) -> None:
    """Arrays say what they hold and objects what they have: what says nothing is refused."""
    for path, schema in list(_nodes(work.schema)):
        for kind, key in (("array", "items"), ("object", "properties")):
            if kind in _types(schema) and key not in schema and "prefixItems" not in schema:
                schema[key] = {}
                work.note(path, f"empty {key} added", f"an {kind} without {key} is refused")


def _types(schema: Schema) -> tuple[str, ...]:
    kind = schema.get("type")
    return tuple(kind) if isinstance(kind, list) else (kind,) if isinstance(kind, str) else ()


# --- providers -------------------------------------------------------------------------------


def _openai(name: str, text: str, schema: Schema) -> dict[str, Any]:
    function = {"name": name, "description": text, "parameters": schema}
    return {"type": "function", "function": function}


def _openai_strict(name: str, text: str, schema: Schema) -> dict[str, Any]:
    tool = _openai(name, text, schema)
    tool["function"]["strict"] = True
    return tool


def _anthropic(name: str, text: str, schema: Schema) -> dict[str, Any]:
    return {"name": name, "description": text, "input_schema": schema}


def _gemini(name: str, text: str, schema: Schema) -> dict[str, Any]:
    first = name if re.match(r"[A-Za-z_]", name) else f"_{name}"[:64]
    body = {"name": first, "description": text}
    return body | ({"parameters": schema} if schema.get("properties") else {})


@dataclass(frozen=True, slots=True)
class _Profile:
    steps: tuple[Callable[[_Work], None], ...]
    wrap: Callable[[str, str, Schema], dict[str, Any]]
    description: int | None = None
    """Characters of a description at most."""


PROVIDERS: Mapping[str, _Profile] = {
    "anthropic": _Profile((_plain_root, _plain_keys), _anthropic),
    "gemini": _Profile(
        (
            _inlined,
            _plain_root,
            _one_union,
            _single_types,
            _no_null,
            _words_as_enum,
            _only(_GEMINI, "no keyword of its Schema"),
            _gemini_formats,
        ),
        _gemini,
    ),
    "kimi": _Profile((_plain_root, _types_within, _whole), _openai),
    "openai": _Profile((_plain_root, _whole), _openai, 1024),
    "openai-strict": _Profile(
        (
            _plain_root,
            _one_union,
            _only(_STRICT, "no keyword when strict"),
            _strict,
        ),
        _openai_strict,
        1024,
    ),
}
