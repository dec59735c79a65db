"""Steps that turn a server's schema into one that a provider takes (`profiles`).

Each changes a copy in place and notes what it changed. What it makes says less than the server's
schema, or the same in another form, so that no call that the server takes is ruled out; where a
provider leaves no other way, the note says so.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from tool_registry.names import function_name
from tool_registry.schema import located, resolve

Schema: TypeAlias = dict[str, Any]
DEEPEST = 64
"""Levels that references are followed."""
LARGEST = 5_000
"""Schemas that putting references in place may make; definitions that name each other twice each
double with every step."""
_COMBINED = ("anyOf", "oneOf", "allOf", "not", "enum", "if", "then", "else")
_STRICT_FORMATS = frozenset(
    ("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid")
)
_DEFINED = re.compile(r"#/\$defs/[^/]*\Z")
_KEY = re.compile(r"[A-Za-z0-9_.-]{1,64}")


@dataclass(frozen=True, slots=True)
class Change:
    """One difference between a server's definition and a declaration."""

    path: str
    """Where, as a JSON pointer into the server's schema; empty for the tool itself."""
    what: str
    why: str


@dataclass(slots=True)
class Work:
    """A schema on its way, and what was changed."""

    schema: Schema
    changes: list[Change] = field(default_factory=list)

    def note(self, path: str, what: str, why: str) -> None:
        """Write down a change."""
        self.changes.append(Change(path, what, why))


Step: TypeAlias = Callable[[Work], None]


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _types(schema: Schema) -> tuple[str, ...]:
    kind = schema.get("type")
    return tuple(kind) if isinstance(kind, list) else (kind,) if isinstance(kind, str) else ()


# --- for several providers -------------------------------------------------------------------


def plain_root(work: Work) -> None:
    """The root is an object, and says nothing that combines schemas."""
    seen: set[str] = set()
    while isinstance(reference := work.schema.pop("$ref", None), str) and reference not in seen:
        seen.add(reference)
        found = _mapping(resolve(work.schema, reference))
        work.note("", f"{reference} put in place", "arguments must be one plain object")
        own = {key: value for key, value in work.schema.items() if value or key not in found}
        work.schema = {**found, **own}
    for key in [key for key in _COMBINED if key in work.schema]:
        del work.schema[key]
        work.note("", f"{key} of the whole dropped", "arguments must be one plain object")
    work.schema["type"] = "object"
    work.schema.setdefault("properties", {})


def inlined(work: Work) -> None:
    """No references: what they name stands in their place."""
    root, left = work.schema, LARGEST

    def follow(value: Any, path: str, within: frozenset[str]) -> Any:
        nonlocal left
        if isinstance(value, list):
            return [follow(one, f"{path}/{n}", within) for n, one in enumerate(value)]
        if not isinstance(value, dict):
            return value
        left -= 1
        reference = value.get("$ref")
        if not isinstance(reference, str):
            return {key: follow(one, f"{path}/{key}", within) for key, one in value.items()}
        if reference in within:
            work.note(path, "a schema that contains itself ends here", "no references")
            return {"type": "object"}
        if left < 0 or len(within) > DEEPEST or path.count("/") > DEEPEST:
            work.note(path, f"{reference} left out", "too large without references")
            return {"type": "object"}
        work.note(path, f"{reference} put in place", "no references")
        rest = {key: one for key, one in value.items() if key != "$ref"}
        found = {**_mapping(resolve(root, reference)), **rest}
        return follow(found, path, within | {reference})

    work.schema = follow(root, "", frozenset())
    for key in ("$defs", "definitions"):
        work.schema.pop(key, None)


def no_booleans(work: Work) -> None:
    """What may be anything is an empty schema, and what may be nothing is no property."""
    for path, schema in located(work.schema):
        if isinstance(schema.get("items"), bool):
            schema["items"] = {}
        properties = schema.get("properties", {})
        for name in [name for name, one in properties.items() if isinstance(one, bool)]:
            if properties[name]:
                properties[name] = {}
            else:
                del properties[name]
                work.note(path, f"property {name} dropped", "nothing may be given for it")


def one_union(work: Work) -> None:
    """Of the ways to combine schemas, `anyOf` alone."""
    for path, schema in located(work.schema):
        for key in ("oneOf", "allOf"):
            if key in schema:
                schema["anyOf"] = [*schema.get("anyOf", []), *schema.pop(key)]
                work.note(path, f"{key} as anyOf", f"{key} is unknown")


def alike_items(work: Work) -> None:
    """A list whose places have schemas of their own holds any of these."""
    for path, schema in located(work.schema):
        places = schema.pop("prefixItems", None)
        further = schema.get("items")
        if isinstance(further, list):
            places, further = further, schema.pop("additionalItems", None)
        if not places:
            continue
        schema["items"] = {"anyOf": [*places, *([further] if isinstance(further, dict) else [])]}
        work.note(path, "items in any order", "places of a list have no schemas of their own")


def defined(work: Work) -> None:
    """References name definitions in `$defs`, where what others name is copied to."""
    root, origin = work.schema, copy.deepcopy(work.schema)
    names: dict[str, str] = {}

    def point(node: Any, path: str) -> None:
        for where, schema in located(node, path):
            reference = schema.get("$ref")
            if not isinstance(reference, str) or reference == "#" or _DEFINED.match(reference):
                continue
            if reference not in names:
                made = function_name(reference.strip("#/").removeprefix("definitions/"))
                while made in root.get("$defs", ()):
                    made = function_name(f"{made} ")
                found = copy.deepcopy(resolve(origin, reference))
                names[reference] = made
                root.setdefault("$defs", {})[made] = found
                point(found, where)
            schema["$ref"] = f"#/$defs/{names[reference]}"
            work.note(where, f"{reference} among $defs", "references name $defs only")

    point({key: value for key, value in root.items() if key != "definitions"}, "")
    root.pop("definitions", None)


def only(keywords: frozenset[str], why: str) -> Step:
    """Make a step that drops all other keywords."""

    def step(work: Work) -> None:
        for path, schema in located(work.schema):
            for key in [key for key in schema if key not in keywords]:
                del schema[key]
                if key not in ("$schema", "$id", "$comment"):
                    work.note(path, f"{key} dropped", why)

    return step


def whole(*keys: str) -> Step:
    """Make a step that adds what is missing and refused for it.

    Args:
        keys: `items` of arrays, `properties` of objects.
    """
    kinds = {"items": "array", "properties": "object"}

    def step(work: Work) -> None:
        for path, schema in list(located(work.schema)):
            for key in keys:
                kind = kinds[key]
                if kind in _types(schema) and key not in schema and "prefixItems" not in schema:
                    schema[key] = {}
                    work.note(path, f"empty {key} added", f"an {kind} without {key} is refused")

    return step


def typed(*anything: str) -> Step:
    """Make a step that gives a type to what has none, told by what else it says.

    Args:
        anything: types of what says nothing at all.
    """

    def step(work: Work) -> None:
        for path, schema in located(work.schema):
            if "type" in schema or "anyOf" in schema or "$ref" in schema:
                continue
            kinds = _kinds_of(schema) or list(anything)
            schema["type"] = kinds[0] if len(kinds) == 1 else kinds
            work.note(path, f"called {' or '.join(kinds)}", "what has no type is refused")

    return step


_JSON_TYPES = {
    str: "string", bool: "boolean", int: "integer", float: "number", list: "array",
    dict: "object", type(None): "null",
}  # fmt: skip


def _kinds_of(schema: Schema) -> list[str]:
    if "properties" in schema:
        return ["object"]
    if "items" in schema:
        return ["array"]
    values = [schema["const"]] if "const" in schema else schema.get("enum", ())
    return list(dict.fromkeys(_JSON_TYPES[type(value)] for value in values))


# --- OpenAI, strict --------------------------------------------------------------------------


def lone_references(work: Work) -> None:
    """Nothing stands beside a reference: it moves into an `anyOf` of one."""
    for path, schema in list(located(work.schema)):
        if "$ref" in schema and len(schema) > 1:
            schema["anyOf"] = [{"$ref": schema.pop("$ref")}, *schema.get("anyOf", [])]
            work.note(path, "$ref moved into anyOf", "nothing may stand beside a reference")


def strict(work: Work) -> None:
    """Every property is required, those that were not may be null; nothing else is allowed."""
    for path, schema in located(work.schema):
        if "format" in schema and schema["format"] not in _STRICT_FORMATS:
            work.note(path, f"format {schema.pop('format')!r} dropped", "unknown when strict")
        if "object" not in _types(schema) and "properties" not in schema:
            continue
        properties = _mapping(schema.get("properties"))
        schema.setdefault("type", "object")
        schema["properties"] = dict(properties)
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
    inner = schema if isinstance(schema, dict) else {}
    kinds = _types(inner)
    if "null" in kinds and "enum" not in inner:
        return inner
    if kinds and "enum" not in inner and "const" not in inner:
        return {**inner, "type": [*kinds, "null"]}
    return {"anyOf": [inner, {"type": "null"}]}


# --- Anthropic and Kimi ----------------------------------------------------------------------


def draft_2020(work: Work) -> None:
    """What earlier drafts write otherwise is as JSON Schema 2020-12 has it."""
    for path, schema in located(work.schema):
        if isinstance(schema.get("items"), list):
            schema["prefixItems"] = schema.pop("items")
            if "additionalItems" in schema:
                schema["items"] = schema.pop("additionalItems")
            work.note(path, "items as prefixItems", "schemas are of 2020-12")
        for key, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
            if isinstance(schema.get(key), bool):
                if schema.pop(key) and bound in schema:
                    schema[key] = schema.pop(bound)
                work.note(path, f"{key} as a number", "schemas are of 2020-12")
    if "$schema" in work.schema:
        work.schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"


def plain_keys(work: Work) -> None:
    """Names of properties are letters, digits, `_.-`: others are written as function names."""
    for path, schema in located(work.schema):
        properties = schema.get("properties")
        if not isinstance(properties, dict):
            continue
        for name in [name for name in properties if not _KEY.fullmatch(name)]:
            other = function_name(name) if name else "_empty"
            while other in properties:
                other = function_name(f"{other} ")
            properties[other] = properties.pop(name)
            required = schema.get("required") or []
            schema["required"] = [other if one == name else one for one in required]
            why = "names of properties are letters, digits, _ . -"
            work.note(f"{path}/properties/{name}", f"called {other}", why)


def types_within(work: Work) -> None:
    """A type beside `anyOf` moves into its branches."""
    for path, schema in located(work.schema):
        if "anyOf" in schema and "type" in schema:
            kind = schema.pop("type")
            schema["anyOf"] = [
                {"type": kind, **one} if isinstance(one, dict) else one for one in schema["anyOf"]
            ]
            work.note(path, "type moved into anyOf", "a type beside anyOf is refused")
