"""The program's verdict on one trajectory: form, rules, replay, criteria, claims.

K2 report 3.1.1: only trajectories that meet the success criteria are kept, whatever way they took.
The gate order is that of papers 2.5; the first stage that fails is the reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from synth.core.errors import ToolloomError
from synth.core.protocols import Environment
from synth.core.types import (
    Agent,
    CriterionResult,
    Effect,
    Fault,
    StateCheck,
    Task,
    ToolSpec,
    Trajectory,
    Verdict,
)
from synth.judge.acts import unasked
from synth.judge.claims import claim, last_words
from synth.judge.criteria import judge_criterion
from synth.judge.evidence import Evidence, quote
from synth.judge.form import form_problem
from synth.judge.replay import replay_problem
from synth.judge.rules import rule_problem
from synth.judge.users import users_fault


async def judge(
    task: Task,
    agent: Agent,
    trajectory: Trajectory,
    environment: Environment | None,
    tools: Mapping[str, ToolSpec],
) -> Verdict:
    """Judge one trajectory.

    Args:
        task: its rubric decides.
        agent: whose system prompt and toolset the trajectory must keep to.
        trajectory: what happened.
        environment: of the same world, for the replay, and reset by it; None leaves the replay
            out (a live server whose results do not repeat).
        tools: the world's tools by name.

    Returns:
        The verdict. `passed` is None where something other than the agent failed, or where a
        `must` is left to a model.
    """
    settled = _settled(task, agent, trajectory)
    if settled is not None:
        return settled
    evidence = Evidence(trajectory)
    results, reasons = [_stage("format", None)], []
    problem = rule_problem(trajectory, agent, tools, evidence)
    results.append(_stage("rules", problem and problem[1]))
    if problem is not None:
        reasons.append(f"rule:{problem[0]}")
    elif environment is not None:
        try:
            seed, user = task.blueprint.state_seed, task.blueprint.user
            why = await replay_problem(trajectory, environment, seed, user)
        except ToolloomError as error:
            return _no_verdict(trajectory, Fault.ENVIRONMENT, str(error))
        results.append(_stage("replay", why))
        reasons += ["replay"] if why is not None else []
    criteria, decided = _criteria(task, trajectory, evidence)
    results += criteria
    reasons += decided
    false_claim = _false_claim(task, trajectory, evidence, criteria)
    results.append(_stage("no_false_claim", false_claim))
    reasons += ["false_claim"] if false_claim is not None else []
    if reasons:
        return _failed(task, trajectory, reasons, results)
    open_must = _open_must(task, criteria)
    if open_must is not None:
        return Verdict(
            episode=trajectory.episode,
            passed=None,
            reason=f"not_judged:{open_must}",
            results=tuple(results),
        )
    return Verdict(
        episode=trajectory.episode, passed=True, reason="accepted", results=tuple(results)
    )


def _settled(task: Task, agent: Agent, trajectory: Trajectory) -> Verdict | None:
    """Return the verdict where nothing is to be weighed: it broke, is malformed, or spoiled."""
    if trajectory.fault is not None:
        return _no_verdict(trajectory, trajectory.fault)
    problem = form_problem(trajectory, agent)
    if problem is not None:
        return _verdict(trajectory, f"format:{problem[0]}", [_stage("format", problem[1])])
    spoiled = unasked(task, trajectory)
    if spoiled is not None:
        return _no_verdict(trajectory, Fault.USER, f"the user {spoiled}")
    return None


def _failed(
    task: Task,
    trajectory: Trajectory,
    reasons: Sequence[str],
    results: Sequence[CriterionResult],
) -> Verdict:
    """Return the verdict of a failure: the user's fault where it explains all that is wrong.

    A missing or wrong value explains a wrong state or answer; no word of a user makes an agent
    break a rule, claim what it did not do, or record what did not happen.
    """
    excusable = {"state", "output"} & set(reasons) and not any(
        reason in ("replay", "false_claim") or reason.startswith("rule:") for reason in reasons
    )
    wrong = users_fault(task, trajectory) if excusable else None
    if wrong is None:
        return _verdict(trajectory, reasons[0], results)
    said = f"{reasons[0]}, but the user {wrong}"
    return _no_verdict(trajectory, Fault.USER, said, results)


def _stage(name: str, problem: str | None) -> CriterionResult:
    return CriterionResult(id=name, passed=problem is None, evidence=problem or "nothing found")


def _verdict(trajectory: Trajectory, reason: str, results: Sequence[CriterionResult]) -> Verdict:
    return Verdict(episode=trajectory.episode, passed=False, reason=reason, results=tuple(results))


def _no_verdict(
    trajectory: Trajectory,
    fault: Fault,
    error: str | None = None,
    results: Sequence[CriterionResult] = (),
) -> Verdict:
    said = error or trajectory.error or str(trajectory.stop)
    return Verdict(
        episode=trajectory.episode,
        passed=None,
        reason=f"fault:{fault}",
        results=(CriterionResult(id="fault", passed=None, evidence=quote(said)), *results),
        fault=fault,
    )


def _criteria(
    task: Task, trajectory: Trajectory, evidence: Evidence
) -> tuple[list[CriterionResult], list[str]]:
    results, reasons = [], []
    for criterion in task.rubric.criteria():
        result = judge_criterion(criterion, trajectory, evidence)
        results.append(result)
        if result.passed is False and criterion.level != "should":
            kind = criterion.check.kind
            reasons.append(kind if kind in ("state", "output") else f"{kind}:{criterion.id}")
    return results, reasons


def _open_must(task: Task, results: Sequence[CriterionResult]) -> str | None:
    for criterion, result in zip(task.rubric.criteria(), results, strict=True):
        if result.passed is None and criterion.level != "should":
            return criterion.id
    return None


def _false_claim(
    task: Task, trajectory: Trajectory, evidence: Evidence, results: Sequence[CriterionResult]
) -> str | None:
    """Return the sentence in which the agent claims what it did not do, or None."""
    if not evidence.told:
        return None
    own = (step for step in trajectory.steps if step.by == "agent")
    wrote = any(s.result.ok and s.effect is not Effect.READ for s in own)
    states = [
        result.passed
        for criterion, result in zip(task.rubric.criteria(), results, strict=True)
        if isinstance(criterion.check, StateCheck) and criterion.level != "should"
    ]
    reads_only = all(call.effect is Effect.READ for call in task.blueprint.solution)
    asks_only = reads_only and bool(task.blueprint.outputs)
    if (wrote and False not in states) or asks_only:
        return None
    closing = last_words(trajectory.messages, task.persona.language)
    said = next(filter(None, map(claim, closing)), None)
    return quote(said) if said else None
