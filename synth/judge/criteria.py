"""Fourth stage: the rubric's criteria, each decided by a program or left to a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from synth.core.types import (
    CallCheck,
    Check,
    Criterion,
    CriterionResult,
    OutputCheck,
    StateCheck,
    Step,
    Trajectory,
)
from synth.judge.evidence import Evidence, quote
from synth.judge.outputs import Telling
from synth.judge.replay import difference

NOT_JUDGED = "left to a model"


def judge_criterion(
    criterion: Criterion, trajectory: Trajectory, evidence: Evidence
) -> CriterionResult:
    """Decide one criterion; `passed` is whether it is met, for a `must_not` that it is false."""
    holds, why = _holds(criterion.check, trajectory, evidence)
    passed = not holds if holds is not None and criterion.level == "must_not" else holds
    return CriterionResult(id=criterion.id, passed=passed, evidence=why)


def _holds(check: Check, trajectory: Trajectory, evidence: Evidence) -> tuple[bool | None, str]:
    if isinstance(check, StateCheck):
        return _state(check, trajectory)
    if isinstance(check, CallCheck):
        return _call(check, trajectory.steps)
    if isinstance(check, OutputCheck):
        telling = Telling(check.values, evidence)
        problem = telling.problem()
        return problem is None, telling.told() if problem is None else problem
    return None, NOT_JUDGED


def _state(check: StateCheck, trajectory: Trajectory) -> tuple[bool, str]:
    diff = trajectory.diff
    if diff in check.diffs:
        return (
            True,
            f"{len(diff)} changed rows, as wanted" if diff else "nothing changed, as wanted",
        )
    closest = min(check.diffs, key=lambda wanted: len(set(wanted) ^ set(diff)), default=())
    return False, difference(diff, closest)


def _call(check: CallCheck, steps: tuple[Step, ...]) -> tuple[bool, str]:
    count, last = 0, None
    for step in steps:
        if not step.result.ok:
            continue
        if check.before is not None and step.call.name == check.before:
            break
        named = check.tool in ("*", step.call.name)
        if named and _includes(step.call.value or {}, check.arguments):
            count, last = count + 1, step
    holds = count >= check.at_least and (check.at_most is None or count <= check.at_most)
    example = f": {last.call.name} {quote(last.call.arguments)}" if last else ""
    return holds, f"{count} such calls succeeded{example}"


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
