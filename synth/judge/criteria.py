"""Fourth stage: the rubric's criteria, each decided by a program or left to a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, TypeAlias

from synth.core.types import (
    CallCheck,
    Check,
    Criterion,
    CriterionResult,
    Diff,
    OutputCheck,
    StateCheck,
    Step,
)
from synth.judge.evidence import Evidence, quote
from synth.judge.outputs import Telling
from synth.judge.replay import difference

NOT_JUDGED = "left to a model"

_Why: TypeAlias = Callable[[], str]
"""Says why. Whoever only wants to know whether does not wait for it."""


class Played(Protocol):
    """What was done: the calls, and the state at the end. A `Trajectory` is one."""

    @property
    def steps(self) -> tuple[Step, ...]:
        """Return the calls in order."""

    @property
    def diff(self) -> Diff:
        """Return the net change of the state."""


def judge_criterion(criterion: Criterion, played: Played, evidence: Evidence) -> CriterionResult:
    """Decide one criterion; `passed` is whether it is met, for a `must_not` that it is false."""
    holds, why = _holds(criterion.check, played, evidence)
    return CriterionResult(id=criterion.id, passed=_passed(criterion, holds), evidence=why())


def meets(criterion: Criterion, played: Played, evidence: Evidence) -> bool | None:
    """Return what `judge_criterion` says of `passed`, without its reasons."""
    return _passed(criterion, _holds(criterion.check, played, evidence)[0])


def _passed(criterion: Criterion, holds: bool | None) -> bool | None:
    return not holds if holds is not None and criterion.level == "must_not" else holds


def _holds(check: Check, played: Played, evidence: Evidence) -> tuple[bool | None, _Why]:
    if isinstance(check, StateCheck):
        diff = played.diff
        return diff in check.diffs, partial(_state, check, diff)
    if isinstance(check, CallCheck):
        return _call(check, played.steps)
    if isinstance(check, OutputCheck):
        telling = Telling(check.values, evidence)
        problem = telling.problem()
        return problem is None, telling.told if problem is None else lambda: problem
    return None, lambda: NOT_JUDGED


def _state(check: StateCheck, diff: Diff) -> str:
    if diff in check.diffs:
        return f"{len(diff)} changed rows, as wanted" if diff else "nothing changed, as wanted"
    closest = min(check.diffs, key=lambda wanted: len(set(wanted) ^ set(diff)), default=())
    return difference(diff, closest)


def _call(check: CallCheck, steps: Sequence[Step]) -> tuple[bool, _Why]:
    count, last = 0, None
    for step in steps:
        if not step.result.ok or step.by == "user":
            continue
        if check.before is not None and step.call.name == check.before:
            break
        named = check.tool in ("*", step.call.name)
        if named and _includes(step.call.value or {}, check.arguments):
            count, last = count + 1, step
    holds = count >= check.at_least and (check.at_most is None or count <= check.at_most)
    return holds, partial(_count, count, last)


def _count(count: int, last: Step | None) -> str:
    example = f": {last.call.name} {quote(last.call.arguments)}" if last else ""
    return f"{count} such calls succeeded{example}"


def _includes(arguments: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    return all(name in arguments and same(arguments[name], wanted[name]) for name in wanted)


def same(one: Any, two: Any) -> bool:
    """Compare two JSON values by type: 25 is 25.0, but 1 is not true."""
    if isinstance(one, bool) or isinstance(two, bool):
        return one is two
    if isinstance(one, Mapping) and isinstance(two, Mapping):
        return one.keys() == two.keys() and all(same(one[key], two[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(two, list | tuple):
        return len(one) == len(two) and all(map(same, one, two))
    return bool(one == two)
