"""Tasks of every kind, sampled: the one door to what `writes`, `lookups` and `refusals` do."""

from __future__ import annotations

import random
from collections.abc import Sequence

from simulators.sql import acts, lookups, refusals, writes
from simulators.sql.attempt import Attempt, Plot
from simulators.sql.stage import Stage
from synth.core.errors import NotSuitable
from synth.core.types import Blueprint, Effect, TaskKind

REASONS = {
    "no_goal": "nothing in this state that the user could want with these tools",
    "no_words": "the wish cannot be said without a value that nobody knows",
    "tool_error": "the sampled call fails",
    "forbidden": "the policy forbids the sampled call, and the kind is another",
    "allowed": "the policy allows the sampled call, and the kind is FORBIDDEN",
    "empty_diff": "the sampled call changes nothing",
    "ambiguous": "what the user knows does not leave one row",
    "unsolvable": "the tools cannot find what the call needs",
    "no_tools": "the toolset has no tool of the kind, or cannot find what any of them needs",
    "nothing_to_ask": "no fact can be left out of the request and asked for",
    "dependent": "the calls do not commute",
    "stale": "a later wish names what an earlier write changes",
    "superseded": "a later write makes an earlier one pointless",
    "same_answer": "two questions have answers that cannot be told apart",
    "no_answer": "the question has no answer here, or too many",
    "told_already": "the request contains the answer",
    "no_rule": "no policy rule is about these tools",
    "no_handoff": "the tools have no hand-off, or it cannot be filled in",
    "no_other_wish": "nothing else that the user could have wanted first, said as briefly",
    "no_act": "nothing that these tools do waits for something that the user can do",
}
"""Every reason for which a sampler gives up."""

_FINAL = frozenset({"no_rule", "no_handoff", "no_tools", "no_act"})
"""Reasons that lie in the toolset: no state, user or chance changes them."""
TRIES = 8
"""Samples for one blueprint; most failures are a call that its own conditions refuse."""
QUESTIONS = 0.5
"""Share of PARALLEL tasks that ask instead of write, where the toolset can do both."""


def sample(
    stage: Stage, kind: TaskKind, tools: Sequence[str], seed: int, rng: random.Random
) -> Blueprint:
    """Sample one task; give up at the first obstacle.

    Args:
        stage: the application.
        kind: what kind of task.
        tools: names of the agent's tools.
        seed: which seeded state.
        rng: the only source of chance.

    Raises:
        NotSuitable: the reason is a key of `REASONS`.
    """
    attempt = Attempt(stage, tools, seed, rng)
    return attempt.blueprint(_plot(attempt, kind))


def _plot(attempt: Attempt, kind: TaskKind) -> Plot:
    if kind is TaskKind.SINGLE_WRITE:
        return writes.single(attempt)
    if kind is TaskKind.CHAINED_WRITES:
        return writes.chained(attempt)
    if kind is TaskKind.LOOKUP:
        return lookups.lookup(attempt)
    if kind is TaskKind.MISSING_FACT:
        return writes.missing_fact(attempt)
    if kind is TaskKind.FORBIDDEN:
        return refusals.forbidden(attempt)
    if kind is TaskKind.UNSERVED:
        return refusals.unserved(attempt)
    if kind is TaskKind.USER_ACT:
        return acts.user_act(attempt)
    return _parallel(attempt)


def _parallel(attempt: Attempt) -> Plot:
    can_ask = len(lookups.askable(attempt)) > 1
    if can_ask and (not attempt.wishes() or attempt.rng.random() < QUESTIONS):
        return lookups.parallel(attempt)
    return writes.parallel(attempt)


def blueprint(
    stage: Stage, kind: TaskKind, tools: Sequence[str], seed: int, rng: random.Random
) -> Blueprint:
    """Sample one task; try a few times before giving up.

    Raises:
        NotSuitable: the reason of the last try, a key of `REASONS`.
    """
    for _ in range(TRIES - 1):
        try:
            return sample(stage, kind, tools, seed, rng)
        except NotSuitable as reason:
            if reason.what in _FINAL:
                raise
    return sample(stage, kind, tools, seed, rng)


def kinds(stage: Stage) -> tuple[TaskKind, ...]:
    """Return the kinds of task that the application has the makings of."""
    application = stage.application
    asks = sum(len(questions) for questions in stage.questions.values())
    goals = [t for t in stage.writes(tuple(application.specs)) if t in stage.intents]
    refuses = application.handoff is not None and (
        stage.effects[application.handoff] is not Effect.READ
    )
    ruled = any(rule.tool in stage.intents for rule in application.policy_rules)
    able = {
        TaskKind.SINGLE_WRITE: bool(goals),
        TaskKind.CHAINED_WRITES: bool(goals),
        TaskKind.LOOKUP: bool(asks),
        TaskKind.PARALLEL: bool(goals) or asks > 1,
        TaskKind.MISSING_FACT: bool(goals),
        TaskKind.FORBIDDEN: refuses and ruled,
        TaskKind.UNSERVED: refuses and bool(goals or application.out_of_scope),
        TaskKind.USER_ACT: any(aid.tool in stage.intents for aid in stage.aids),
    }
    return tuple(kind for kind in TaskKind if able[kind])
