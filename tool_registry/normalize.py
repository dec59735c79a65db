"""From what a server wrote to a `ToolSpec`, one tool at a time.

One bad tool never costs its neighbours: each entry of a list becomes an `Accepted` with flags for
all that was odd, or a `Rejected` with the reason. Three hashes tell change apart: `raw` (anything),
`semantic` (what calls mean; serialisers add noise to 88 % of schemas between versions), and
`description` (what models read; a changed one in an unchanged package is a rug pull).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from synth.core.canonical import canonical, content_key, text_key
from synth.core.types import Provenance, ToolSpec
from tool_registry.effect import effect_of
from tool_registry.names import function_name
from tool_registry.schema import MAX_BYTES, BadSchema, arguments_schema, result_schema
from tool_registry.scrub import TooDeep, excerpt, storable, suspicions, visible
from tool_registry.sdk import sdk_rejects

MAX_DESCRIPTION = 10_000
"""Characters kept of a description; the longest of 977 live tools had 6,993."""
MAX_NAME = 256
_HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
_NOISE = frozenset({"$schema", "$id", "title", "examples", "description", "$comment"})
_NAMED = ("properties", "patternProperties", "$defs", "definitions")
HASH_DIGITS = 32


@dataclass(frozen=True, slots=True)
class Accepted:
    """A usable tool."""

    position: int
    name: str
    """As the server calls it; `spec.name` is the function name."""
    spec: ToolSpec
    raw: str
    """Canonical JSON of what the server wrote."""
    raw_hash: str
    semantic_hash: str
    description_hash: str
    flags: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Rejected:
    """An entry that is no usable tool, and why."""

    position: int
    name: str | None
    reason: str
    """One word: not_an_object, no_name, too_deep, too_large, invalid_schema, duplicate, …"""
    detail: str
    raw: str
    """JSON, shortened."""


Normalised: TypeAlias = Accepted | Rejected


@dataclass(frozen=True, slots=True)
class Unreadable:
    """An entry that its source could not turn into a raw tool: rejected, and the reason kept."""

    reason: str
    detail: str
    raw: Any
    name: str | None = None


def normalize_list(raw_tools: Sequence[Any], provenance: Provenance) -> list[Normalised]:
    """Normalise a server's whole list. Of tools with one name the first is kept.

    A tool that costs the official SDK's client this list is flagged `sdk_rejects`.
    """
    out: list[Normalised] = []
    names: set[str] = set()
    functions: set[str] = set()
    for position, raw in enumerate(raw_tools):
        tool = normalize(raw, provenance, position=position)
        if isinstance(tool, Accepted):
            if tool.name in names or tool.spec.name in functions:
                why = f"a second tool called {tool.name!r:.100}"
                tool = Rejected(position, tool.name, "duplicate", why, tool.raw)
            else:
                names.add(tool.name)
                functions.add(tool.spec.name)
                if sdk_rejects(raw):
                    tool = replace(tool, flags=tuple(sorted({*tool.flags, "sdk_rejects"})))
        out.append(tool)
    return out


def normalize(raw: Any, provenance: Provenance, *, position: int = 0) -> Normalised:
    """Normalise one entry of `tools/list`.

    Args:
        raw: the entry, of any type.
        provenance: where it comes from.
        position: its place in the list.
    """
    if isinstance(raw, Unreadable):
        return Rejected(
            position, raw.name, raw.reason, raw.detail[:500], canonical(excerpt(raw.raw))
        )
    flags: set[str] = set()
    name = raw.get("name") if isinstance(raw, dict) else None
    shown = str(storable(name[:MAX_NAME], set())) if isinstance(name, str) else None

    def rejected(reason: str, detail: str) -> Rejected:
        return Rejected(position, shown, reason, detail, canonical(excerpt(raw)))

    if not isinstance(raw, dict):
        return rejected("not_an_object", f"the entry is a {type(raw).__name__}")
    try:
        entry = storable(raw, flags)
    except TooDeep:
        return rejected("too_deep", "the definition nests too deep")
    if shown is None or not shown.strip():
        return rejected("no_name", "the entry has no name")
    if len(str(name)) > MAX_NAME:
        return rejected("long_name", f"the name has {len(str(name))} characters")
    try:
        text = canonical(entry)
    except ValueError as error:
        return rejected("not_json", str(error)[:300])
    try:
        return _accepted(entry, text, flags, provenance, position)
    except BadSchema as error:
        return rejected(error.reason, str(error))


def _accepted(
    entry: dict[str, Any], text: str, flags: set[str], provenance: Provenance, position: int
) -> Normalised:
    name = entry["name"]
    description = _description(entry, flags)
    parameters = arguments_schema(entry.get("inputSchema"), flags)
    if len(canonical(parameters)) > MAX_BYTES:
        raise BadSchema("too_large", f"the schema exceeds {MAX_BYTES >> 10} KiB")
    returns = result_schema(entry.get("outputSchema"), flags)
    annotations = _annotations(entry.get("annotations"), flags)
    effect, source = effect_of(name, annotations)
    function = function_name(name)
    if function != name:
        flags.add("renamed")
    if suspicions(entry):
        flags.add("suspicious")
    spec = ToolSpec(
        name=function,
        description=description,
        parameters=parameters,
        returns=returns,
        annotations=annotations,
        effect=effect,
        effect_source=source,
        provenance=provenance,
    )
    meaning = [name, _meaning(parameters), _meaning(returns), _hints(annotations)]
    prose = [entry.get("description"), entry.get("title"), _prose(parameters), _prose(returns)]
    return Accepted(
        position=position,
        name=name,
        spec=spec,
        raw=text,
        raw_hash=text_key(text, digits=HASH_DIGITS),
        semantic_hash=content_key(meaning, digits=HASH_DIGITS),
        description_hash=content_key(prose, digits=HASH_DIGITS),
        flags=tuple(sorted(flags)),
    )


def _description(entry: dict[str, Any], flags: set[str]) -> str:
    text = entry.get("description")
    if not isinstance(text, str):
        flags.add("no_description" if text is None else "bad_description")
        return ""
    text = visible(text, flags).strip()
    if not text:
        flags.add("no_description")
    if len(text) > MAX_DESCRIPTION:
        flags.add("cut_description")
        text = text[:MAX_DESCRIPTION] + "…"
    return text


def _annotations(raw: Any, flags: set[str]) -> dict[str, Any]:
    """Keep the known hints that are booleans, and a title."""
    if raw is None:
        return {}
    if not isinstance(raw, dict):
        flags.add("bad_annotations")
        return {}
    hints = {name: raw[name] for name in _HINTS if isinstance(raw.get(name), bool)}
    if any(name in raw and raw[name] is not None and name not in hints for name in _HINTS):
        flags.add("bad_annotations")
    title = raw.get("title")
    return hints | ({"title": visible(title, flags)[:200]} if isinstance(title, str) else {})


def _hints(annotations: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in annotations.items() if name != "title"}


def _meaning(schema: Any, *, names: bool = False) -> Any:
    """Return a schema without prose, order and serialiser noise.

    Args:
        schema: any part of a schema.
        names: True where keys are names (of properties) and not keywords.
    """
    if isinstance(schema, list):
        return [_meaning(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    out = {}
    for key, value in schema.items():
        if not names and (key in _NOISE or (key, value) == ("additionalProperties", False)):
            continue
        if not names and key == "required" and isinstance(value, list):
            value = sorted(map(str, value))
            if not value:
                continue
        out[key] = _meaning(value, names=not names and key in _NAMED)
    return out


def _prose(schema: Any, path: str = "") -> list[list[str]]:
    """Return every string a model reads in a schema, with its place."""
    if isinstance(schema, list):
        return [line for i, item in enumerate(schema) for line in _prose(item, f"{path}/{i}")]
    if not isinstance(schema, dict):
        return []
    out = []
    for key in sorted(schema):
        if key in ("description", "title", "$comment") and isinstance(schema[key], str):
            out.append([f"{path}/{key}", schema[key]])
        elif key == "examples" and isinstance(schema[key], list):
            out.append([f"{path}/{key}", canonical(schema[key])])
        else:
            out += _prose(schema[key], f"{path}/{key}")
    return out
