"""Which evolved applications are dropped, and why.

The four rules of Evol-Instruct (WizardLM, section 3.2) in their form for tools, then what only
tools can be held to: names and schemas, soundness, and that they do something no other tool does.
What has to be executed is handed in, since this package runs no application.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from synth.core import schemas
from synth.core.application import Application, Parameter, Tool
from synth.core.canonical import content_key
from tool_registry.purpose import purpose

RULES = {
    "crash": "the operator failed, or what it made is no application",
    "no_gain": "no new parameter, effect, entity or constraint against the parent (WizardLM 1)",
    "no_example": "a tool for which no call succeeds (WizardLM 2)",
    "empty_words": "a description that says nothing (WizardLM 3)",
    "copied_words": "words of the machinery in a description (WizardLM 4)",
    "withheld": "a model wrote nothing",
    "form": "a model's reply has not the form that was asked for",
    "misfit": "what a model wrote does not fit together",
    "suspicious": "words that are meant for a model, or that nobody sees",
    "name": "a name that providers of models refuse",
    "schema": "parameters that are no valid JSON Schema, or too many",
    "unsound": "the lint of applications finds errors",
    "no_refusal": "a tool for which no call fails",
    "same_behaviour": "two tools that do the same on the same state, whatever their SQL",
    "duplicate": "every tool is for what another one is for",
    "near_duplicate": "nearly every tool is for what another one is for",
}
"""Rule -> what it drops."""

NEARLY = 0.9
"""Share of an application's tools that are for what others are for, from which it is dropped."""
MOST_PARAMETERS = 24
_NAME = re.compile(r"[a-z][a-z0-9_]{1,62}")
_MACHINE = re.compile(
    r"\b(given|rewritten|evolved|created|original) (tool|application|prompt)\b|\{\{|\}\}|\bTODO\b"
)
_EMPTY = frozenset(
    [
        "a",
        "an",
        "the",
        "of",
        "to",
        "and",
        "or",
        "for",
        "in",
        "on",
        "by",
        "with",
        "tool",
        "tools",
        "this",
        "that",
        "is",
        "it",
        "do",
        "does",
    ]
)


@dataclass(frozen=True, slots=True)
class Elimination:
    """Why an application was dropped."""

    rule: str
    detail: str


@dataclass(frozen=True, slots=True)
class Example:
    """A call of a tool that succeeds in a seeded state, and one that fails."""

    succeeds: Mapping[str, Any] | None
    fails: Mapping[str, Any] | None
    error: str = ""
    """Code of the failure."""


@dataclass(frozen=True, slots=True)
class Proof:
    """What executing an application showed."""

    findings: tuple[str, ...] = ()
    examples: Mapping[str, Example] = field(default_factory=dict)
    alike: tuple[tuple[str, str], ...] = ()
    """Pairs of tools of which the same calls on the same state had the same results and effects."""


def behaviour(tool: Tool) -> str:
    """Return a key of what a tool does: the same for tools that differ in names and words alone."""
    places = {name: f"p{place}" for place, name in enumerate(tool.parameters)}

    def sql(text: str | None) -> str | None:
        if text is None:
            return None
        text = re.sub(r"(?<![:\w]):([a-z_]\w*)", lambda m: ":" + places.get(m[1], m[1]), text)
        return " ".join(text.split())

    steps = [
        [sql(s.require), s.error, sql(s.write), s.rows, sql(s.returns), s.shape,
         {n: sql(q) for n, q in (s.let or {}).items()}]
        for s in tool.steps
    ]  # fmt: skip
    taken = [_taken(p) for p in tool.parameters.values()]
    return content_key([tool.effect, tool.by, taken, steps])


def _taken(parameter: Parameter) -> Any:
    found = parameter.model_dump(
        mode="json", exclude={"description", "label", "generate", "sample", "items", "properties"}
    )
    inner = parameter.properties or {}
    items = parameter.items and _taken(parameter.items)
    return [found, items, {name: _taken(p) for name, p in inner.items()}]


def examine(
    child: Application, parent: Application | None, prove: Callable[[Application], Proof]
) -> tuple[Elimination | None, Proof]:
    """Hold an application to every rule that looks at it alone.

    Args:
        child: the candidate.
        parent: what it was made from; None where it is new.
        prove: executes it: the lint, and example calls.

    Returns:
        Why it is dropped, or None; and what executing it showed, if it came to that.
    """
    found = _shown(child) or _gain(child, parent)
    if found:
        return found, Proof()
    proof = prove(child)
    return _proved(child, proof), proof


def _shown(child: Application) -> Elimination | None:
    for name, spec in child.specs.items():
        words = set(re.findall(r"[a-z]+", spec.description.lower())) - _EMPTY
        if len(words) < 2:
            return Elimination("empty_words", f"{name}: {spec.description!r}")
        if _MACHINE.search(spec.description):
            return Elimination("copied_words", f"{name}: {spec.description!r}")
        if not _NAME.fullmatch(name):
            return Elimination("name", name)
        if len(spec.parameters["properties"]) > MOST_PARAMETERS:
            return Elimination(
                "schema", f"{name} has {len(spec.parameters['properties'])} parameters"
            )
        try:
            schemas.check(spec.parameters)
        except schemas.BROKEN as error:
            return Elimination("schema", f"{name}: {str(error).splitlines()[0]}")
    return None


def _gain(child: Application, parent: Application | None) -> Elimination | None:
    if parent is None:
        return None
    known = {behaviour(tool) for tool in parent.tools.values()}
    rules = {rule.when for rule in parent.policy_rules}
    new = [n for n, tool in child.tools.items() if behaviour(tool) not in known]
    if new or any(rule.when not in rules for rule in child.policy_rules):
        return None
    return Elimination("no_gain", "only names and words are new")


def _proved(child: Application, proof: Proof) -> Elimination | None:
    if proof.findings:
        return Elimination("unsound", proof.findings[0])
    for name in child.specs:
        example = proof.examples.get(name)
        if example is None or example.succeeds is None:
            return Elimination("no_example", name)
        if example.fails is None:
            return Elimination("no_refusal", name)
    for one, other in proof.alike:
        return Elimination("same_behaviour", f"{other} does what {one} does")
    return None


class Pool:
    """What the tools of all applications that were kept are for (`tool_registry.purpose`)."""

    def __init__(self) -> None:
        self.purposes: set[str] = set()

    def refuses(self, application: Application) -> Elimination | None:
        """Return why an application adds nothing to the pool, or None."""
        found = [purpose(tool) for tool in application.tools.values()]
        known = sum(key in self.purposes for key in found)
        rule = "duplicate" if known == len(found) else "near_duplicate"
        if known >= NEARLY * len(found):
            return Elimination(rule, f"{known} of {len(found)} tools are for what others are for")
        return None

    def add(self, application: Application) -> list[str]:
        """Note an application; return those of its tools that are for something new."""
        new = []
        for name in application.specs:
            key = purpose(application.tools[name])
            if key not in self.purposes:
                self.purposes.add(key)
                new.append(name)
        return new
