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
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from synth.core.errors import UnknownName
from synth.core.types import ToolSpec
from tool_registry import profile_gemini as gemini
from tool_registry import profile_steps as steps
from tool_registry.names import MAX_LENGTH, function_name
from tool_registry.profile_steps import Change, Schema, Step, Work
from tool_registry.schema import located, parts

_GEMINI = frozenset(
    ("type", "format", "title", "description", "nullable", "enum", "maxItems", "minItems",
     "properties", "required", "minLength", "maxLength", "pattern", "anyOf", "items", "minimum",
     "maximum", "minProperties", "maxProperties", "default", "example")
)  # fmt: skip
_STRICT = frozenset(
    ("type", "format", "title", "description", "enum", "const", "anyOf", "items", "properties",
     "required", "additionalProperties", "$ref", "$defs", "pattern", "minimum", "maximum",
     "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minItems", "maxItems")
)  # fmt: skip
__all__ = ["PROVIDERS", "Change", "Declaration", "declaration"]


@dataclass(frozen=True, slots=True)
class Declaration:
    """A tool as a provider takes it."""

    provider: str
    body: dict[str, Any]
    changes: tuple[Change, ...]


def declaration(spec: ToolSpec, provider: str) -> Declaration:
    """Return a tool as a provider takes it.

    Args:
        spec: the tool.
        provider: one of `PROVIDERS`. A tool too large for `openai-strict` is declared without
            `strict`, and the first change says so.

    Raises:
        UnknownName: no such provider.
    """
    if provider not in PROVIDERS:
        raise UnknownName("provider", provider, PROVIDERS)
    profile = PROVIDERS[provider]
    work = Work(copy.deepcopy(spec.parameters))
    for step in profile.steps:
        step(work)
    if profile.strict and (why := _too_much(work.schema)):
        looser = declaration(spec, "openai")
        return Declaration(
            provider, looser.body, (Change("", "declared without strict", why), *looser.changes)
        )
    text = spec.description
    if profile.description is not None and len(text) > profile.description:
        text = text[: profile.description - 1] + "…"
        why = f"a description has {profile.description} characters at most"
        work.note("", f"description cut from {len(spec.description)}", why)
    body = profile.wrap(spec.name, text, work.schema)
    name = body.get("function", body)["name"]
    if name != spec.name:
        work.note("", f"called {name}", "a name begins with a letter or _")
    return Declaration(provider, body, tuple(work.changes))


def _too_much(schema: Schema) -> str:
    """Return which limit of strict functions a schema exceeds, in words; empty: none.

    The limits are those of the guide to structured outputs (supported schemas): 10 levels, 5,000
    properties, 1,000 values of enums, 120,000 characters of names and values, and 15,000 of the
    values of one enum of more than 250.
    """
    properties = values = letters = 0
    for _, node in located(schema):
        names = [*(node.get("properties") or {}), *(node.get("$defs") or {})]
        listed = [*node.get("enum", ()), *([node["const"]] if "const" in node else ())]
        size = sum(len(str(value)) for value in listed)
        if len(listed) > 250 and size > 15_000:
            return f"an enum of {len(listed)} values with {size} characters"
        properties += len(node.get("properties") or {})
        values += len(listed)
        letters += size + sum(map(len, names))
    counted = (
        (_levels(schema), 10, "levels"),
        (properties, 5_000, "properties"),
        (values, 1_000, "values of enums"),
        (letters, 120_000, "characters of names and values"),
    )
    over = [f"{count} {what}, {most} at most" for count, most, what in counted if count > most]
    return "; ".join(over)


def _levels(schema: Schema) -> int:
    found = [
        _levels(part) + (place.startswith("/properties/") or place == "/items")
        for place, part in parts(schema)
        if isinstance(part, dict)
    ]
    return max(found, default=0)


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
    first = name if re.match(r"[A-Za-z_]", name) else f"_x{ord(name[0]):x}_{name[1:]}"
    body = {
        "name": first if len(first) <= MAX_LENGTH else function_name(first),
        "description": text,
    }
    return body | ({"parameters": schema} if schema.get("properties") else {})


@dataclass(frozen=True, slots=True)
class _Profile:
    steps: tuple[Step, ...]
    wrap: Callable[[str, str, Schema], dict[str, Any]]
    description: int | None = None
    """Characters of a description at most."""
    strict: bool = False


PROVIDERS: Mapping[str, _Profile] = {
    "anthropic": _Profile((steps.plain_root, steps.draft_2020, steps.plain_keys), _anthropic),
    "gemini": _Profile(
        (
            steps.plain_root,
            steps.inlined,
            steps.no_booleans,
            steps.alike_items,
            steps.one_union,
            gemini.single_types,
            gemini.no_null,
            gemini.words_as_enum,
            steps.only(_GEMINI, "no keyword of its Schema"),
            gemini.known_formats,
            steps.whole("items"),
            steps.typed("string"),
            gemini.own_properties,
        ),
        _gemini,
    ),
    "kimi": _Profile(
        (
            steps.plain_root,
            steps.no_booleans,
            steps.alike_items,
            steps.types_within,
            steps.defined,
            steps.whole("items", "properties"),
        ),
        _openai,
    ),
    "openai": _Profile(
        (
            steps.plain_root,
            steps.no_booleans,
            steps.alike_items,
            steps.whole("items", "properties"),
        ),
        _openai,
        1024,
    ),
    "openai-strict": _Profile(
        (
            steps.plain_root,
            steps.no_booleans,
            steps.alike_items,
            steps.defined,
            steps.one_union,
            steps.only(_STRICT, "no keyword when strict"),
            steps.whole("items"),
            steps.lone_references,
            steps.typed("string", "number", "boolean", "null"),
            steps.strict,
        ),
        _openai_strict,
        1024,
        strict=True,
    ),
}
