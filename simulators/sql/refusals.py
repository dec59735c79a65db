"""Tasks that end in a hand-off: the policy forbids the wish, or no tool of the agent serves it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from simulators.sql.asking import Asked
from simulators.sql.attempt import Attempt, Move, Plot
from simulators.sql.decoys import compliance, over_write
from simulators.sql.facts import called
from simulators.sql.solve import Solver
from synth.core.application import PolicyRule
from synth.core.errors import NotSuitable
from synth.core.types import Diff, TaskKind

DRAWS = 12
"""Calls drawn until one breaks the rule."""
OUTSIDE = 0.5
"""Share of unserved requests that no tool of the whole application serves."""


def forbidden(attempt: Attempt, rule: PolicyRule | None = None) -> Plot:
    """Sample a write that would succeed although the policy (or `rule`) forbids it."""
    _check_handoff(attempt)
    rule = rule or _rule(attempt)
    move = _breaking(attempt, rule)
    asked = attempt.ask(*move)
    solver = attempt.solve([asked])
    solver.see(_read_by(attempt, rule))
    diff, handoff = _hand_off(attempt, "not_allowed", asked.clause, solver)
    plot = Plot(TaskKind.FORBIDDEN, [asked], solver, [[handoff]], (diff,), rule=rule.text)
    extra = over_write(attempt, plot.moves, plot.diffs)
    plot.decoys = {"wrongful_compliance": [[move]], **({"over_write": extra} if extra else {})}
    return plot


def _rule(attempt: Attempt) -> PolicyRule:
    rules = [
        rule
        for rule in attempt.application.policy_rules
        if rule.tool in attempt.tools and rule.tool in attempt.stage.intents
    ]
    if not rules:
        raise NotSuitable("no_rule")
    rules = [rule for rule in rules if attempt.can_find(rule.tool)]
    if not rules:
        raise NotSuitable("no_tools")
    return rules[int(attempt.rng.random() * len(rules))]


def _breaking(attempt: Attempt, rule: PolicyRule) -> Move:
    """Draw a call that the rule forbids and that nothing else prevents."""
    stage, reason = attempt.stage, "no_goal"
    stage.start(attempt.seed)
    for _ in range(DRAWS):
        attempt.meet(rule.tool)
        try:
            arguments = attempt.draw(rule.tool, fit=attempt.breaking(rule))
        except NotSuitable as error:
            reason = error.what
            continue
        if stage.call(rule.tool, arguments).ok:
            if not stage.diff():
                raise NotSuitable("empty_diff")
            return rule.tool, arguments
        reason = "tool_error"
    raise NotSuitable(reason)


def _check_handoff(attempt: Attempt) -> None:
    handoff = attempt.application.handoff
    if handoff is None or handoff not in attempt.tools:
        raise NotSuitable("no_handoff")
    if not attempt.can_find(handoff):
        raise NotSuitable("no_tools")


def _read_by(attempt: Attempt, rule: PolicyRule) -> set[str]:
    """Return the columns that a rule looks at (by name: every column it may mean)."""
    words = set(re.findall(r"[a-z_][a-z0-9_]*", rule.when))
    columns = attempt.stage.graph.columns
    return {f"{t}.{c}" for t in columns if t in words for c in columns[t] if c in words}


def _hand_off(attempt: Attempt, reason: str, clause: str, solver: Solver) -> tuple[Diff, Move]:
    """Execute the hand-off from the seeded state; its keys are looked up first."""
    summary = attempt.mind.speech.summary.format(clause=clause)
    tool, arguments = attempt.handoff(reason, summary)
    for binding in attempt.bindings(tool, arguments):
        if binding.parameter.entity is None:
            continue
        name = binding.name
        node = attempt.mind.node(binding.parameter.entity, binding.value, name, called(name))
        if node is None:
            raise NotSuitable("no_handoff")
        solver.find(node, binding.parameter.entity.split(".")[1])
    diff = attempt.stage.play(attempt.seed, [(tool, arguments)])
    if diff is None:
        raise NotSuitable("no_handoff")
    return diff, (tool, arguments)


def unserved(attempt: Attempt) -> Plot:
    """Sample a request that none of the agent's tools serves."""
    _check_handoff(attempt)
    missing = [
        tool
        for tool in attempt.stage.intents
        if tool not in attempt.tools and tool in attempt.stage.writes([tool])
    ]
    outside = attempt.application.out_of_scope
    if outside and (not missing or attempt.rng.random() < OUTSIDE):
        return _outside(attempt, outside)
    return _without_tool(attempt, missing)


def _outside(attempt: Attempt, clauses: Sequence[str]) -> Plot:
    """A request that the whole application has no tool for."""
    attempt.meet(None)
    clause = clauses[int(attempt.rng.random() * len(clauses))]
    solver = attempt.solve([])
    diff, handoff = _hand_off(attempt, "no_tool", clause, solver)
    plot = Plot(TaskKind.UNSERVED, [], solver, [[handoff]], (diff,), clauses=(clause,))
    return _add_decoys(attempt, plot)


def _without_tool(attempt: Attempt, missing: Sequence[str]) -> Plot:
    """A request whose tool the agent lacks."""
    tool = attempt.pick(missing)
    arguments = attempt.meet_and_draw(tool)
    attempt.stage.start(attempt.seed)
    attempt.call(tool, arguments)
    if not attempt.stage.diff():
        raise NotSuitable("empty_diff")
    asked: list[Asked] = [attempt.ask(tool, arguments)]
    # Nothing needs to be looked up for what cannot be done, but for the hand-off itself.
    solver = attempt.solve([])
    solver.plan.said.update(asked[0].said)
    diff, handoff = _hand_off(attempt, "no_tool", asked[0].clause, solver)
    plot = Plot(TaskKind.UNSERVED, asked, solver, [[handoff]], (diff,))
    return _add_decoys(attempt, plot)


def _add_decoys(attempt: Attempt, plot: Plot) -> Plot:
    found = {
        "over_write": over_write(attempt, plot.moves, plot.diffs),
        "wrongful_compliance": compliance(attempt, attempt.goals()),
    }
    plot.decoys = {name: moves for name, moves in found.items() if moves is not None}
    return plot
