"""One attempt at a task: who speaks, what they want, what must be looked up, and the blueprint."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

from simulators.sql.asking import Asked, Asking
from simulators.sql.facts import Mind
from simulators.sql.fitting import Fit
from simulators.sql.goals import Binding, Drawer, bindings
from simulators.sql.solve import Solver
from simulators.sql.stage import Stage
from simulators.sql.words import Words
from synth.core.application import PolicyRule
from synth.core.errors import NotSuitable
from synth.core.types import (
    Act,
    Blueprint,
    Diff,
    Effect,
    Fact,
    OutputValue,
    PlannedCall,
    Scalar,
    TaskKind,
    ToolResult,
)

USERS = 4
"""Users met until one of them can mean the wanted call."""
NAMES_THEMSELVES = 0.5
"""Share of openings that state who speaks although nothing needs it."""

T = TypeVar("T")
Move: TypeAlias = tuple[str, dict[str, Any]]
"""A tool and its arguments."""


@dataclass(slots=True)
class Plot:
    """A worked-out task on its way to a blueprint."""

    kind: TaskKind
    asked: list[Asked]
    solver: Solver
    moves: list[list[Move]]
    """What follows the look-ups: groups of calls that may be made in one turn."""
    diffs: tuple[Diff, ...]
    clauses: tuple[str, ...] = ()
    """Instead of the clauses of `asked`."""
    outputs: tuple[OutputValue, ...] = ()
    rule: str | None = None
    withheld: tuple[Fact, ...] = ()
    decoys: dict[str, list[list[Move]]] = field(default_factory=dict)
    """By name: what follows the look-ups instead of `moves`."""
    acts: tuple[Act, ...] = ()
    """What the user can do with tools of their own."""
    retracted: str = ""
    """What the user asks for before they take it back for the only clause."""


class Attempt:
    """Samples one task.

    Args:
        stage: the application.
        tools: names of the agent's tools.
        seed: which seeded state.
        rng: the only source of chance.
    """

    def __init__(self, stage: Stage, tools: Sequence[str], seed: int, rng: random.Random) -> None:
        self.stage, self.tools, self.seed, self.rng = stage, tuple(tools), seed, rng
        self.scene = stage.scene(seed)
        self.application = stage.application
        self.mind: Mind
        self.asking: Asking

    def meet(self, tool: str | None) -> None:
        """Draw the user, one for whom `tool` can make sense."""
        self.mind = Mind(self.scene, self.stage.speaker(self.scene, tool, self.rng))
        self.asking = Asking(self.mind)

    def meet_and_draw(
        self, tool: str, lacks: str | None = None, users: int = USERS
    ) -> dict[str, Any]:
        """Draw a user and a call by their wish that succeeds and is allowed, as far as can be told.

        Args:
            tool: its name.
            lacks: one `require` of the tool for which alone it is to fail.
            users: how many are met until one can mean it.

        Raises:
            NotSuitable: none of a few users can mean such a call.
        """
        for left in range(users, 0, -1):
            self.meet(tool)
            try:
                fit = self.succeeding(tool) if lacks is None else self.lacking(tool, lacks)
                return self.draw(tool, fit=fit)
            except NotSuitable:
                if left == 1:
                    raise
        raise AssertionError("the last user draws or raises")

    @property
    def user(self) -> Scalar:
        """Key of the user's row."""
        return self.mind.user

    def pick(self, options: Sequence[T]) -> T:
        """Draw one of the options, tools for instance.

        Raises:
            NotSuitable: there is none (`no_goal`).
        """
        if not options:
            raise NotSuitable("no_goal")
        return options[int(self.rng.random() * len(options))]

    def goals(self) -> list[str]:
        """Return the write tools of the set that people can ask for without doing anything."""
        shown = {aid.tool for aid in self.stage.aids if aid.parameter is not None}
        intents = self.stage.intents
        return [t for t in self.stage.writes(self.tools) if t in intents and t not in shown]

    def can_find(self, tool: str, made: str | None = None) -> bool:
        """Return whether the toolset can find the keys that `tool` needs at all.

        Args:
            tool: its name.
            made: a key that is known without looking it up.
        """
        return self.stage.can_find(self.tools, tool, made)

    def wishes(self, made: str | None = None) -> list[str]:
        """Return the goals for which the toolset can find what they need; `made`: `can_find`."""
        return [tool for tool in self.goals() if self.can_find(tool, made)]

    def wish(self) -> str:
        """Draw one of `wishes`.

        Raises:
            NotSuitable: there is none (`no_tools`).
        """
        options = self.wishes()
        if not options:
            raise NotSuitable("no_tools")
        return self.pick(options)

    def draw(
        self,
        tool: str,
        fixed: Mapping[str, Any] | None = None,
        *,
        words: Words | None = None,
        fit: Fit | None = None,
    ) -> dict[str, Any]:
        """Draw the arguments of a call for the user.

        Args:
            tool: its name.
            fixed: arguments that are already decided.
            words: what will be said; what it prints is drawn although it is optional.
            fit: what the call must fit; None draws any that could be meant.
        """
        words = words or self.stage.intents.get(tool)
        drawer = Drawer(self.stage.engine, self.mind, tool, self.rng, fit)
        return drawer.arguments(fixed, words.printed if words else ())

    def succeeding(self, tool: str, *, allowed: bool = True, live: bool = False) -> Fit:
        """Return what a call must fit to succeed.

        Args:
            tool: its name.
            allowed: by the policy, too.
            live: on the current state instead of the seeded one.
        """
        conditions = self.stage.conditions
        wanted = conditions.allowed if allowed else conditions.required
        return Fit(wanted[tool], self.user, self.stage.query if live else self.scene.select)

    def lacking(self, tool: str, require: str) -> Fit:
        """Return what an allowed call must fit that fails for this `require` and no other."""
        return Fit(self.stage.conditions.lacking(tool, require), self.user, self.scene.select)

    def breaking(self, rule: PolicyRule) -> Fit:
        """Return what a call must fit that this rule forbids and that nothing else prevents."""
        conditions = self.stage.conditions.breaking(rule.tool, rule.name)
        return Fit(conditions, self.user, self.scene.select)

    def bindings(self, tool: str, arguments: Mapping[str, Any]) -> list[Binding]:
        """Return every plain value of a call with its parameter."""
        return list(bindings(self.application.tools[tool].parameters, arguments))

    def ask(self, tool: str, arguments: Mapping[str, Any], asking: Asking | None = None) -> Asked:
        """Put a write into the user's words."""
        parameters = self.application.tools[tool].parameters
        return (asking or self.asking).ask(tool, parameters, arguments, self.stage.intents[tool])

    def execute(self, tool: str, arguments: Mapping[str, Any]) -> ToolResult:
        """Run a call of the goal on the current state.

        Raises:
            NotSuitable: policy forbids it (`forbidden`) or it fails (`tool_error`).
        """
        if self.stage.forbidden(tool, arguments, self.user) is not None:
            raise NotSuitable("forbidden")
        return self.call(tool, arguments)

    def call(self, tool: str, arguments: Mapping[str, Any]) -> ToolResult:
        """Run a call on the current state that was drawn to be allowed.

        Raises:
            NotSuitable: it fails (`tool_error`).
        """
        result = self.stage.call(tool, arguments)
        if not result.ok:
            raise NotSuitable("tool_error")
        return result

    def solve(self, asked: Sequence[Asked], *, withheld: frozenset[str] = frozenset()) -> Solver:
        """Plan the look-ups that the wishes need.

        Args:
            asked: the wishes.
            withheld: names of facts the user does not state.

        Raises:
            NotSuitable: `ambiguous` or `unsolvable`.
        """
        said = {name: fact for wish in asked for name, fact in wish.said.items()}
        given = {name: value for wish in asked for name, value in wish.arguments.items()}
        solver = Solver(self.mind, self.tools, said=said, given=given, withheld=withheld)
        for wish in asked:
            for node, column in wish.targets:
                solver.find(node, column)
        return solver

    # --- the blueprint -------------------------------------------------------------------

    def blueprint(self, plot: Plot) -> Blueprint:
        """Return the blueprint of a worked-out task."""
        solver = plot.solver
        withheld = {fact.name for fact in plot.withheld}
        said = {n: f for n, f in solver.plan.said.items() if n not in withheld}
        implied: set[str] = set().union(*(wish.implied for wish in plot.asked))
        opening = self._opening(said, implied, withheld)
        background = self._background(plot.asked, said)
        told = {(fact.label, fact.spoken) for fact in (*opening, *plot.withheld)}
        lookups = self._lookups(solver)
        first = 1 + max((call.group for call in lookups), default=-1)
        return Blueprint(
            kind=plot.kind,
            world=self.application.application,
            state_seed=self.seed,
            tools=self.tools,
            clauses=plot.clauses or tuple(wish.clause for wish in plot.asked),
            opening=tuple(opening),
            retracted=plot.retracted,
            withheld=plot.withheld,
            background=_distinct(background.values(), told),
            solution=(*lookups, *self._moves(first, plot.moves)),
            diffs=plot.diffs,
            outputs=plot.outputs,
            rule=plot.rule,
            decoys={
                name: (*lookups, *self._moves(first, moves)) for name, moves in plot.decoys.items()
            },
            acts=plot.acts,
            user=self.user if plot.acts else None,
        )

    def _lookups(self, solver: Solver) -> tuple[PlannedCall, ...]:
        return tuple(
            PlannedCall(
                tool=call.tool, arguments=call.arguments, group=call.group, effect=Effect.READ
            )
            for call in sorted(solver.plan.calls, key=lambda call: call.group)
        )

    def _moves(self, first: int, moves: Iterable[Sequence[Move]]) -> Iterator[PlannedCall]:
        for number, group in enumerate(moves, first):
            for tool, arguments in group:
                yield self.stage.planned(tool, arguments, number)

    def _opening(
        self, said: Mapping[str, Fact], implied: set[str], withheld: set[str]
    ) -> list[Fact]:
        conveyed = {(said[name].label, said[name].spoken) for name in implied if name in said}
        facts = list(_distinct(said.values(), conveyed))
        facts.sort(key=lambda fact: not fact.name.startswith("user."))
        me = self.mind.me
        known = any(name.startswith("user.") for name in (*said, *withheld))
        if me is not None and not known and self.rng.random() < NAMES_THEMSELVES:
            facts[:0] = [k.fact for k in me.facts()[:1]]
        return facts

    def _background(self, asked: Iterable[Asked], said: Mapping[str, Fact]) -> dict[str, Fact]:
        found = dict(said)
        nodes = [node for wish in asked for node, _ in wish.targets]
        if self.mind.me is not None:
            nodes.insert(0, self.mind.me)
        for node in nodes:
            for known in node.facts():
                found.setdefault(known.fact.name, known.fact)
        return found

    # --- the hand-off --------------------------------------------------------------------

    def handoff(self, reason: str, summary: str) -> Move:
        """Return a hand-off by the user's wish.

        Args:
            reason: `not_allowed` or `no_tool`.
            summary: what its free text says.

        Raises:
            NotSuitable: the toolset has no hand-off (`no_handoff`).
        """
        tool = self.application.handoff
        if tool is None or tool not in self.tools:
            raise NotSuitable("no_handoff")
        fixed: dict[str, Any] = {"reason": reason}
        for name, parameter in self.application.tools[tool].parameters.items():
            free = parameter.enum is None and not (parameter.entity or parameter.match)
            if parameter.type == "string" and free and not (parameter.pattern or parameter.format):
                fixed[name] = summary[: parameter.maxLength or len(summary)]
        drawn = self.draw(tool, fixed)
        needed = self.application.tools[tool].parameters
        return tool, {n: v for n, v in drawn.items() if n in fixed or not needed[n].optional}


def _distinct(facts: Iterable[Fact], told: Iterable[tuple[str, str]]) -> tuple[Fact, ...]:
    """Leave out facts that say what another, or one told already, says of the same thing."""
    known = set(told)
    found: dict[tuple[str, str], Fact] = {}
    for fact in facts:
        if (fact.label, fact.spoken) not in known:
            found.setdefault((fact.label, fact.spoken), fact)
    return tuple(found.values())
