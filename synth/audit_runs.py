"""What a dataset's own accepted trajectories say of its judge: spoilt copies, and other orders.

Spoilt copies (`synth.mutate`) must fail; those that do the task after all are left out, which is
proved by executing them. Calls in another order must pass where the order does not matter: a judge
that wants one sequence kills the variation that the K2 report keeps (papers 2.5).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random
from typing import Any

from synth.calibration import Share
from synth.core.canonical import content_key
from synth.core.protocols import Environment, run_call
from synth.core.types import Agent, Step, Task, ToolSpec, Trajectory
from synth.harmless import harmless
from synth.judge import judge
from synth.mutate import mutants
from synth.surgery import exchanged, with_results

MOST_NAMED = 20


@dataclass(slots=True)
class Audited:
    """What came of an audit."""

    originals: int = 0
    rejected: dict[str, str] = field(default_factory=dict)
    """Accepted episode -> why the judge rejects it now."""
    tried: Counter[str] = field(default_factory=Counter)
    """Fault -> mutants that were judged."""
    passed: Counter[str] = field(default_factory=Counter)
    """Fault -> those of them that did not fail."""
    missed: list[str] = field(default_factory=list)
    """`EPISODE~FAULT` of each of these."""
    harmless: int = 0
    several: int = 0
    """Episodes with several different calls."""
    orders: int = 0
    """Those of them of which another order of the calls passes as well."""
    left_out: Counter[str] = field(default_factory=Counter)
    """Episodes that nothing can be executed for, by why."""

    def row(self) -> dict[str, Any]:
        """Return it as JSON; shares of nothing are None."""
        kinds = {name: Share(self.passed[name], of).row() for name, of in self.tried.items()}
        return {
            "originals": Share(len(self.rejected), self.originals).row(),
            "rejected": dict(list(self.rejected.items())[:MOST_NAMED]),
            "mutants": Share(self.passed.total(), self.tried.total()).row(),
            "kinds": kinds,
            "missed": self.missed[:MOST_NAMED],
            "harmless": self.harmless,
            "orders": Share(self.orders, self.several).row(),
            "left_out": dict(self.left_out),
        }


@dataclass(frozen=True, slots=True)
class Case:
    """An accepted episode with what it was played on."""

    task: Task
    agent: Agent
    trajectory: Trajectory
    environment: Environment
    """Meets it with the faults and events that the episode met; it is reset."""
    tools: Mapping[str, ToolSpec]


async def audit(case: Case, chance: Random, into: Audited) -> None:
    """Judge an accepted episode again, every mutant of it, and its calls in other orders.

    Args:
        case: the episode.
        chance: draws the mutants.
        into: counts what is found.
    """
    name = case.trajectory.episode
    into.originals += 1
    verdict = await judge(case.task, case.agent, case.trajectory, case.environment, case.tools)
    if not verdict.passed:
        into.rejected[name] = verdict.reason
        return
    for fault, mutant in mutants(case.trajectory, case.task, chance):
        if await harmless(mutant, case.task, case.environment):
            into.harmless += 1
            continue
        into.tried[fault] += 1
        found = await judge(case.task, case.agent, mutant, case.environment, case.tools)
        if found.passed is not False:
            into.passed[fault] += 1
            into.missed.append(f"{name}~{fault}")
    other = await other_order(case)
    if other is not None:
        into.several += 1
        into.orders += other


async def other_order(case: Case) -> bool | None:
    """Say whether the calls of an accepted episode pass in another order, too.

    Only neighbours change places: where calls may come in several orders at all, two neighbours
    may. Neighbours between which the user speaks stay: what was agreed on comes first.

    Returns:
        None where there are no two different calls.
    """
    trajectory = case.trajectory
    own = [step for step in trajectory.steps if step.by == "agent"]
    if len({(step.call.name, step.call.arguments) for step in own}) < 2:
        return None
    for one, two in pairwise(trajectory.steps):
        if not _may_change(trajectory, one, two):
            continue
        other = await _played(exchanged(trajectory, one, two), case)
        verdict = await judge(case.task, case.agent, other, case.environment, case.tools)
        if verdict.passed:
            return True
    return False


def _may_change(trajectory: Trajectory, one: Step, two: Step) -> bool:
    between = trajectory.messages[one.message : two.message]
    spoken = any(message.role == "user" for message in between)
    calls = [(step.call.name, step.call.arguments) for step in (one, two)]
    return one.by == two.by == "agent" and not spoken and calls[0] != calls[1]


async def _played(trajectory: Trajectory, case: Case) -> Trajectory:
    """Return the same calls with the results and states that they really have."""
    environment, blueprint = case.environment, case.task.blueprint
    await environment.reset(blueprint.state_seed)
    results, states = {}, {}
    for step in trajectory.steps:
        call = step.call
        results[call.id] = await run_call(
            environment, step.by, blueprint.user, call.name, call.value or {}
        )
        if step.state is not None:
            states[call.id] = content_key(await environment.diff())
    told = with_results(trajectory, results)
    steps = tuple(s.model_copy(update={"state": states.get(s.call.id)}) for s in told.steps)
    return told.model_copy(update={"steps": steps, "diff": await environment.diff()})
