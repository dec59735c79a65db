"""How well a definition tells a model what a tool does: a number, and what is missing, in words.

The score starts at 1 and loses the points of each fault (`_POINTS`); shares of parameters lose a
share of theirs. It judges the definition alone: nothing is called.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from synth.core.types import Effect, ToolSpec
from tool_registry.search import WORD

_POINTS = {
    "silent": 0.5,  # no description
    "terse": 0.25,  # it is of a word or three
    "short": 0.1,  # it is of a few
    "echo": 0.25,  # it repeats the name
    "residue": 0.3,  # of a template, or a note to self
    "suspicious": 0.2,  # somebody should read it first
    "undescribed": 0.3,  # parameters
    "untyped": 0.15,
    "shapeless": 0.1,  # objects and lists that say nothing of what is in them
    "optionality": 0.05,  # nobody says what must be given
    "result": 0.05,
    "effect": 0.05,
    "long": 0.05,
    "crowded": 0.1,  # more parameters than anybody reads
}
TERSE, SHORT = 4, 8
"""Words of a description that is not terse, and of one that is not short."""
LONG = 2_000
"""Characters after which a description is long."""
CROWDED = 20
"""Parameters after which a tool is crowded."""
_REVIEW = frozenset({"suspicious", "invisible", "control", "ansi", "bad_unicode"})
_RESIDUE = re.compile(
    r"\b(?:TODO:|FIXME|TBD)|\{\{ *\w+ *\}\}|\$\{\w+\}|(?i:lorem ipsum|\bdescription here\b)"
)
_RESULT = re.compile(r"\breturn|\bresult|\boutput|\bresponse|\brespond|\byield", re.IGNORECASE)
_NAMED = re.compile(r"(?<![\w.])(\w+)`?(?= ?(?:\([^()\n]*\))? ?[:–—=-] ?\S)")
_TYPED = ("type", "enum", "const", "anyOf", "oneOf", "allOf", "$ref", "properties", "items")
Fault = tuple[float, str]
"""Points lost, and why."""


def quality_of(spec: ToolSpec, flags: Sequence[str] = ()) -> tuple[float, list[str]]:
    """Return the score of a definition, 0 to 1, and what it lacks, the worst first.

    Args:
        spec: the definition.
        flags: what was odd about it (`normalize.Accepted.flags`).
    """
    faults = [*_description(spec, flags), *_parameters(spec), *_rest(spec)]
    faults.sort(key=lambda fault: -fault[0])
    score = max(0.0, 1.0 - sum(points for points, _ in faults))
    return round(score, 3), [why for _, why in faults]


def _description(spec: ToolSpec, flags: Sequence[str]) -> Iterator[Fault]:
    words = [found[0] for found in islice(WORD.finditer(spec.description), SHORT)]
    if not words:
        yield _POINTS["silent"], "no description"
        return
    if len(words) < SHORT:
        wide = sum(len(word) for word in words if not word.isascii())  # written without spaces
        if len(words) + wide // 2 < SHORT:
            few = "terse" if len(words) + wide // 2 < TERSE else "short"
            yield _POINTS[few], f"a description of {len(words)} words"
    named = {"the", "a", "an", *map(_form, WORD.findall(spec.name))}
    if all(_form(found[0]) in named for found in WORD.finditer(spec.description)):
        yield _POINTS["echo"], "the description repeats the name"
    if found := _RESIDUE.search(spec.description):
        yield _POINTS["residue"], f"left over from a template: {found[0]}"
    if not _REVIEW.isdisjoint(flags):
        yield _POINTS["suspicious"], "should be read by a person first"
    if len(spec.description) > LONG:
        yield _POINTS["long"], f"a description of {len(spec.description)} characters"


def _form(word: str) -> str:
    return word.lower().rstrip("s")


def _parameters(spec: ToolSpec) -> Iterator[Fault]:
    schema = spec.parameters
    properties = schema.get("properties")
    found = properties if isinstance(properties, dict) else {}
    count = len(found)
    if not count:
        return
    schemas = [one if isinstance(one, dict) else {} for one in found.values()]
    mute = [name for name, one in zip(found, schemas, strict=True) if not _says(one)]
    if mute:  # as docstrings do: `city: where to look`
        described = set(_NAMED.findall(spec.description))
        mute = [name for name in mute if name not in described]
    untyped = sum(not any(key in one for key in _TYPED) for one in schemas)
    shapeless = sum(map(_shapeless, schemas))
    for key, number, what in (
        ("undescribed", len(mute), "without a description"),
        ("untyped", untyped, "without a type"),
        ("shapeless", shapeless, "with an object or list of unknown content"),
    ):
        if number:
            yield _POINTS[key] * number / count, f"{number} of {count} parameters {what}"
    if not isinstance(schema.get("required"), list) and not any("default" in s for s in schemas):
        yield _POINTS["optionality"], "no word on what must be given"
    if count > CROWDED:
        yield _POINTS["crowded"], f"{count} parameters"


def _says(schema: Mapping[str, Any]) -> bool:
    return bool(str(schema.get("description") or "").strip()) or "const" in schema


def _shapeless(schema: Mapping[str, Any]) -> bool:
    kind = schema.get("type")
    if kind == "object":
        return not any(k in schema for k in ("properties", "additionalProperties", "$ref", "anyOf"))
    return kind == "array" and not schema.get("items")


def _rest(spec: ToolSpec) -> Iterator[Fault]:
    if spec.returns is None and not _RESULT.search(spec.description):
        yield _POINTS["result"], "no word on what comes back"
    if spec.effect is Effect.UNKNOWN:
        yield _POINTS["effect"], "unknown whether it changes anything"
