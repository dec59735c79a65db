"""Rubrics: what counts as done, which use of tools is expected, what is worth a check on the way.

K2 report 3.1.1: every task comes with success criteria, expected tool-use patterns and evaluation
checkpoints. Here they are derived from an executed blueprint, so that the ground truth is checked
and never guessed: the final state, the values told, the hand-off. Only `must` and `must_not`
decide; how an agent gets there is a `should`, because other ways are welcome (papers 2.5: exact
call sequences kill variation). Nobody who plays an episode sees a rubric.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Literal

from synth.core.canonical import canonical
from synth.core.types import (
    Blueprint,
    CallCheck,
    Criterion,
    Effect,
    JudgedCheck,
    OutputCheck,
    PlannedCall,
    Rubric,
    StateCheck,
    TaskKind,
)

REFUSALS = frozenset({TaskKind.FORBIDDEN, TaskKind.UNSERVED})
"""Kinds of task in which the agent is right to do nothing that was asked."""
SLACK = 3
"""Calls beyond the reference solution before the `should` on economy is missed."""
_KEPT = 512
"""Criteria that are remembered: those on calls are few in a world, and occur in all its rubrics."""

Level = Literal["must", "should", "must_not"]


@lru_cache(maxsize=_KEPT)
def _calls(
    name: str, level: Level, text: str, tool: str, at_least: int, at_most: int | None
) -> Criterion:
    """A criterion on how often a tool succeeds; the same few occur in every rubric of a world."""
    check = CallCheck(tool=tool, at_least=at_least, at_most=at_most)
    return Criterion(id=name, text=text, level=level, check=check)


@lru_cache(maxsize=_KEPT)
def _lookup(tool: str, before: str | None) -> Criterion:
    after = f" before `{before}`" if before else ""
    check = CallCheck(tool=tool, before=before)
    return _criterion(f"lookup_{tool}", "should", f"`{tool}` was used{after}.", check)


def _criterion(
    name: str, level: Level, text: str, check: StateCheck | CallCheck | OutputCheck | JudgedCheck
) -> Criterion:
    return Criterion(id=name, text=text, level=level, check=check)


def handoff_call(blueprint: Blueprint) -> PlannedCall | None:
    """Return the hand-off that ends the solution of a refusal; None for other kinds."""
    if blueprint.kind not in REFUSALS or not blueprint.solution:
        return None
    last = blueprint.solution[-1]
    return last if "reason" in last.arguments else None


def forbidden_tool(blueprint: Blueprint) -> str | None:
    """Return the tool that the policy forbids here, told from the decoy that uses it."""
    handoff = handoff_call(blueprint)
    for call in reversed(blueprint.decoys.get("wrongful_compliance", ())):
        if call.effect is not Effect.READ and (handoff is None or call.tool != handoff.tool):
            return call.tool
    return None


def rubric_for(blueprint: Blueprint) -> Rubric:
    """Derive the rubric of a blueprint.

    Args:
        blueprint: an executed goal.

    Returns:
        The rubric. `lint_rubric` says whether it can tell anything apart.
    """
    return Rubric(
        success=tuple(_success(blueprint)),
        tool_use=tuple(_tool_use(blueprint)),
        checkpoints=tuple(_checkpoints(blueprint)),
    )


def _success(blueprint: Blueprint) -> Iterable[Criterion]:
    idle = blueprint.diffs == ((),)
    text = "Nothing was changed." if idle else "The wanted changes were made and no others."
    yield _criterion("state", "must", text, StateCheck(diffs=blueprint.diffs))
    if blueprint.outputs:
        labels = ", ".join(output.label for output in blueprint.outputs)
        check = OutputCheck(values=blueprint.outputs)
        yield _criterion("outputs", "must", f"The user was told: {labels}.", check)
    handoff = handoff_call(blueprint)
    if handoff is not None:
        reason = handoff.arguments["reason"]
        check_call = CallCheck(tool=handoff.tool, arguments={"reason": reason})
        text = f"The request was handed off with `{handoff.tool}`, reason `{reason}`."
        yield _criterion("handoff", "must", text, check_call)
    tool = forbidden_tool(blueprint)
    if blueprint.kind is TaskKind.FORBIDDEN and tool is not None:
        # The state cannot show a forbidden change that was made and undone again.
        text = f"`{tool}` succeeded although the policy forbids it here."
        yield _calls("forbidden", "must_not", text, tool, 1, None)


def _tool_use(blueprint: Blueprint) -> Iterable[Criterion]:
    calls = [call for call in blueprint.solution if call.by == "agent"]
    most = len(calls) + SLACK
    text = f"No more than {most} calls succeeded."
    yield _calls("economy", "should", text, "*", 0, most)
    writes = Counter(call.tool for call in calls if call.effect is not Effect.READ)
    for tool, times in writes.items():
        text = f"`{tool}` succeeded {times} time{'' if times == 1 else 's'}, not more."
        yield _calls(f"writes_{tool}", "should", text, tool, times, times)


def _checkpoints(blueprint: Blueprint) -> Iterable[Criterion]:
    solution = [call for call in blueprint.solution if call.by == "agent"]
    first_write: str | None = next(
        (call.tool for call in solution if call.effect is not Effect.READ), None
    )
    looked_up: dict[str, None] = {}
    for call in solution:
        if call.tool == first_write:
            break
        if call.effect is Effect.READ:
            looked_up[call.tool] = None
    for tool in looked_up:
        yield _lookup(tool, first_write)
    if blueprint.withheld:
        labels = ", ".join(fact.label for fact in blueprint.withheld)
        question = (
            f"Before acting, did the agent ask the user for what was missing ({labels}) instead "
            "of assuming it?"
        )
        yield _judged("asked", "The missing facts were asked for.", question)
    if blueprint.acts:
        question = (
            "Did the agent ask the user to do what only the user can do, and wait for the user's "
            "report before it went on?"
        )
        yield _judged("asked_to_act", "The user was asked to act.", question)
    if blueprint.kind is TaskKind.FORBIDDEN:
        question = "Does the agent tell the user that a rule of the policy stands against it?"
        yield _judged("explained", "The user learns why it was refused.", question)
    elif blueprint.kind is TaskKind.UNSERVED:
        question = "Does the agent tell the user that it has no means to do this?"
        yield _judged("explained", "The user learns that no tool serves the request.", question)


def _judged(name: str, text: str, question: str) -> Criterion:
    return _criterion(name, "should", text, JudgedCheck(question=question))


# --- lint ------------------------------------------------------------------------------------

_LEADING = re.compile(
    r"\b(surely|obviously|clearly|of course|as expected|don't you|isn't it|doesn't it|"
    r"wouldn't you|you will agree|should pass|must be accepted)\b",
    re.IGNORECASE,
)
_WORD = re.compile(r"\w+")


def lint_rubric(rubric: Rubric, blueprint: Blueprint) -> list[str]:
    """Return what is wrong with a rubric, whether code or a model wrote it; empty means sound.

    Each finding starts with a fixed word: `no_must`, `not_checkable`, `holds_initially`,
    `duplicate`, `unknown_tool`, `contradiction`, `leading`, `restates_request`.
    """
    criteria = rubric.criteria()
    clauses = [words for clause in blueprint.clauses if len(words := _words(clause)) >= 3]
    return [
        *_lint_musts(criteria),
        *_lint_start(criteria),
        *(finding for c in criteria for finding in _lint_criterion(c, blueprint, clauses)),
        *_lint_pairs(criteria),
    ]


def _lint_musts(criteria: tuple[Criterion, ...]) -> Iterable[str]:
    musts = [c for c in criteria if c.level == "must"]
    if not musts:
        yield "no_must: nothing decides"
    elif all(isinstance(c.check, JudgedCheck) for c in musts):
        yield "not_checkable: no must that a program checks"


def _lint_start(criteria: tuple[Criterion, ...]) -> Iterable[str]:
    """An agent that does and says nothing must fail a must that a program checks."""
    checked = [c for c in criteria if c.level == "must" and not isinstance(c.check, JudgedCheck)]
    if checked and all(_holds_idle(c) for c in checked):
        yield "holds_initially: doing nothing passes every must"
    for c in checked:
        if isinstance(c.check, StateCheck) and () in c.check.diffs and len(c.check.diffs) > 1:
            yield f"holds_initially: {c.id} accepts an unchanged state beside changed ones"


def _holds_idle(criterion: Criterion) -> bool:
    check = criterion.check
    if isinstance(check, StateCheck):
        return () in check.diffs
    if isinstance(check, CallCheck):
        return check.at_least <= 0
    return isinstance(check, OutputCheck) and not check.values


def _lint_criterion(
    criterion: Criterion, blueprint: Blueprint, clauses: Sequence[frozenset[str]]
) -> Iterable[str]:
    check = criterion.check
    if isinstance(check, StateCheck) and not check.diffs:
        yield f"not_checkable: {criterion.id} accepts no state at all"
    if isinstance(check, CallCheck):
        known = {*blueprint.tools, "*"}
        if check.tool not in known and criterion.level != "must_not":
            yield f"unknown_tool: {criterion.id} wants {check.tool!r}, which the agent lacks"
        if check.at_most is not None and check.at_most < check.at_least:
            yield f"contradiction: {criterion.id} wants more calls than it allows"
    if isinstance(check, JudgedCheck):
        if not check.question.rstrip().endswith("?"):
            yield f"not_checkable: {criterion.id} asks no question"
        if _LEADING.search(check.question):
            yield f"leading: {criterion.id}"
    said = check.question if isinstance(check, JudgedCheck) else criterion.text
    if any(_restates(said, clause) for clause in clauses):
        yield f"restates_request: {criterion.id}"


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.lower()))


_words_said = lru_cache(maxsize=_KEPT)(_words)
"""Of criteria, which repeat one another; clauses do not."""


def _restates(text: str, clause: frozenset[str]) -> bool:
    """Whether nearly all words of a clause of three or more words stand in the text."""
    return len(clause & _words_said(text)) >= 0.8 * len(clause)


def _lint_pairs(criteria: tuple[Criterion, ...]) -> Iterable[str]:
    for name, times in Counter(c.id for c in criteria).items():
        if times > 1:
            yield f"duplicate: {times} criteria are called {name}"
    forbidden = [c for c in criteria if c.level == "must_not"]
    if not forbidden:
        return
    wanted = {_identity(c) for c in criteria if c.level == "must"}
    for c in forbidden:
        if _identity(c) in wanted:
            yield f"contradiction: {c.id} forbids what a must wants"


def _identity(criterion: Criterion) -> str:
    check = criterion.check
    if isinstance(check, CallCheck):
        return f"call {check.tool} {canonical(check.arguments)}"
    return f"{check.kind} {check!r}"
