"""Second stage: every call is one the agent may make, as the schema demands, about known things.

ToolACE's rule checks (papers 14.2): the name is in the toolset, the arguments are valid, and
identifiers were read somewhere before. Schemas of crawled servers are foreign input: no reference
is fetched, and patterns run on an engine of linear time (a pattern such as `^(a+)+$` would stop the
process).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jsonschema_rs

from synth.core.types import Agent, ToolSpec, Trajectory
from synth.judge.evidence import Evidence, quote

_KEY = re.compile(
    r"(^|_)(id|ids|uuid|guid|iban|email|e_mail)$|[a-z](Id|Ids|ID|IDs|Uuid|Email)$", re.ASCII
)
CODE = re.compile(r"(?=\S*\d)(?=\S*[A-Za-z])\S{3,}|[^@\s]+@[^@\s]+", re.ASCII)
"""An address, or a code of letters and digits."""
_TIME = re.compile(
    r"\d{4}-\d\d(-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?)?)?|"
    r"\d{1,2}(:\d\d)?(am|pm)|\d+(st|nd|rd|th)|P(T?\d+[DHMSWY])+|\d+([.,]\d+)?[a-zA-Z%]{1,3}",
    re.I,
)
"""Dates, times and quantities: derived from what was said, never looked up."""
_CACHE = 4096

_Leaf = tuple[str, str | int]


class Checker:
    """What one tool demands of its arguments.

    Args:
        spec: the tool.
    """

    def __init__(self, spec: ToolSpec) -> None:
        self.is_valid = _validator(spec.parameters)
        self._schema = spec.parameters

    def why(self, arguments: Mapping[str, Any]) -> str:
        """Return what the schema has against the arguments."""
        validator = _compile(self._schema)
        error = next(iter(validator.iter_errors(dict(arguments))), None) if validator else None
        return quote(error.message) if error else "not valid"

    def keys(self, arguments: Mapping[str, Any]) -> Iterator[_Leaf]:
        """Yield parameter and value of every argument that has to be known from somewhere."""
        yield from _leaves("", arguments, self._schema)


_checkers: dict[str, Checker] = {}


def checker(spec: ToolSpec) -> Checker:
    """Return the checker of a tool, compiled once a process."""
    found = _checkers.get(spec.key)
    if found is None:
        if len(_checkers) >= _CACHE:
            _checkers.clear()
        found = _checkers[spec.key] = Checker(spec)
    return found


def rule_problem(
    trajectory: Trajectory, agent: Agent, tools: Mapping[str, ToolSpec], evidence: Evidence
) -> tuple[str, str] | None:
    """Return which rule a call breaks, as a fixed word and evidence; None if none does."""
    for step in trajectory.steps:
        if step.by == "user":
            continue  # a user reads nothing in the dialogue that they may not go by
        call = step.call
        spec = tools.get(call.name) if call.name in agent.tools else None
        if spec is None:
            return "unknown_tool", f"{call.name!r} is not among the agent's tools"
        arguments = call.value or {}
        rules = checker(spec)
        if not rules.is_valid(arguments):
            return "schema", f"{call.name} {quote(call.arguments)}: {rules.why(arguments)}"
        for name, value in rules.keys(arguments):
            if not _known(name, value, evidence, step.message):
                return "ungrounded", f"{call.name}: {name} {value!r} was not read anywhere before"
    return None


def _known(name: str, value: str | int, evidence: Evidence, index: int) -> bool:
    text = str(value)
    if evidence.holds(text, index):
        return True
    if CODE.fullmatch(text) and evidence.holds(f"/{text}", index):
        return True  # the last part of a path that was read
    if "/" in text:
        parts = [part for part in text.split("/") if CODE.fullmatch(part)]
        return all(evidence.holds(p, index) or evidence.composed(p, index) for p in parts)
    return not _KEY.search(name) and evidence.composed(text, index)


def _leaves(name: str, value: Any, schema: Any) -> Iterator[_Leaf]:
    if isinstance(value, Mapping):
        inner = schema.get("properties") if isinstance(schema, Mapping) else None
        inner = inner if isinstance(inner, Mapping) else {}
        for key, item in value.items():
            yield from _leaves(str(key), item, inner.get(key))
    elif isinstance(value, list):
        items = schema.get("items") if isinstance(schema, Mapping) else None
        for item in value:
            yield from _leaves(name, item, items)
    elif isinstance(schema, Mapping) and ("enum" in schema or "const" in schema):
        return  # one of a list that the schema gives
    elif isinstance(schema, Mapping) and schema.get("default") == value is not None:
        return
    elif _is_key(name, value):
        yield name, value


def _is_key(name: str, value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        return False
    if _KEY.search(name):
        return True
    return isinstance(value, str) and bool(CODE.fullmatch(value)) and not _TIME.fullmatch(value)


# --- schemas ---------------------------------------------------------------------------------


def _validator(schema: Mapping[str, Any]) -> Callable[[Any], bool]:
    validator = _compile(schema)
    # Where a schema itself is broken nobody can be held to it.
    return validator.is_valid if validator is not None else lambda arguments: True


def _compile(schema: Mapping[str, Any]) -> Any:
    for options in (jsonschema_rs.RegexOptions(), jsonschema_rs.FancyRegexOptions(10_000)):
        try:
            return jsonschema_rs.validator_for(
                dict(schema), retriever=_retrieve, pattern_options=options
            )
        except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError):
            continue  # look-around needs the other engine, whose steps are bounded
    return None


def _retrieve(uri: str) -> Any:
    raise ValueError(f"not fetched: {uri}")
