"""Goals on live servers: what every such world has in common.

A goal is one errand, or two side by side. It is carried out on the live server while it is sampled,
every good variant of it too, and what counts as done is what they left on disk. Whatever the
server does not do as planned is no goal.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar

from simulators.live.environment import LiveEnvironment
from simulators.live.folder import Tree
from simulators.live.host import HostPool, LiveServer
from synth.core.canonical import content_key
from synth.core.errors import BadInput, NotSuitable
from synth.core.protocols import Edge
from synth.core.types import (
    Blueprint,
    Diff,
    Effect,
    Fact,
    OutputValue,
    PlannedCall,
    TaskKind,
    ToolSpec,
)

Stages: TypeAlias = tuple[tuple[PlannedCall, ...], ...]
"""Calls in order; those of one stage do not depend on one another."""


@dataclass(frozen=True, slots=True)
class Errand:
    """One thing a user wants done or told. Only a plan: it is proved on the live server."""

    about: str
    """What it touches: errands about different things can be done side by side."""
    clauses: tuple[str, ...]
    stages: Stages
    wrong: Stages
    """The same done to, or read from, something else."""
    facts: tuple[Fact, ...] = ()
    outputs: tuple[OutputValue, ...] = ()
    evidence: tuple[str, ...] = ()
    """Texts that the server must return on the way, or the plan is wrong."""
    variants: tuple[Stages, ...] = ()
    """Other ways to do it whose outcome on disk differs and is as good."""


@dataclass(frozen=True, slots=True)
class Toolset:
    """The tools of one agent, and the chance that goals are drawn by."""

    effects: Mapping[str, Effect]
    rng: random.Random

    def call(self, tool: str, **arguments: Any) -> PlannedCall:
        """Return a call of `tool`.

        Raises:
            NotSuitable: the agent does not have it.
        """
        if tool not in self.effects:
            raise NotSuitable("toolset")
        return PlannedCall(tool=tool, arguments=arguments, group=0, effect=self.effects[tool])

    def two(self, items: Sequence[Any]) -> tuple[Any, Any]:
        """Draw the thing meant and another of the kind, for the decoy.

        Raises:
            NotSuitable: there are not two.
        """
        if len(items) < 2:
            raise NotSuitable("no_goal")
        first, second = self.rng.sample(list(items), 2)
        return first, second


D = TypeVar("D", bound=Toolset)
Recipe: TypeAlias = Callable[[D], Errand]
"""Draws an errand. Raises `NotSuitable` where state or toolset have nothing for it."""


@dataclass(frozen=True, slots=True)
class Recipes(Generic[D]):
    """All errands of a world."""

    writes: tuple[Recipe[D], ...]
    chains: tuple[Recipe[D], ...]
    """Writes that depend on one another."""
    questions: tuple[Recipe[D], ...]
    open_facts: tuple[Recipe[D], ...]
    """Those with a fact that can be left out of the request."""

    def of(self, kind: TaskKind) -> tuple[Recipe[D], ...]:
        """Return the errands of a kind of task; none where the kind cannot be sampled."""
        return {
            TaskKind.SINGLE_WRITE: self.writes,
            TaskKind.CHAINED_WRITES: self.chains,
            TaskKind.LOOKUP: self.questions,
            TaskKind.PARALLEL: (*self.questions, *self.writes),
            TaskKind.MISSING_FACT: self.open_facts,
        }.get(kind, ())


def question(clause: str, right: Stages, wrong: Stages, output: OutputValue) -> Errand:
    """Return the errand of somebody who only wants to know something."""
    return Errand(
        about=output.label, clauses=(clause,), stages=right, wrong=wrong, outputs=(output,)
    )


class LiveWorld(ABC, Generic[D]):
    """A world on one installed server; `D` is what its recipes draw errands from.

    Args:
        argv: command of the server.
        specs: its tools, as crawled.
        readable: folders in which its program is installed.
        keep: warm processes kept while nobody uses them.
        allow_weaker: run it on machines that cannot confine it.

    Raises:
        BadInput: the server lacks tools that the goals are made of.
    """

    name: ClassVar[str]
    category: ClassVar[str]
    package: ClassVar[str]
    """Source of the server it is made for."""
    effects: ClassVar[Mapping[str, Effect]]
    """Tools that the world offers."""
    needed: ClassVar[tuple[str, ...]]
    recipes: ClassVar[Recipes[Any]]
    rules: ClassVar[str]
    links: ClassVar[tuple[Edge, ...]]
    """Which results feed which parameters, of tools that the server may have."""
    real = True
    handoff: str | None = None
    clock: str | None = "2026-03-02T09:00:00"

    def __init__(
        self,
        argv: Sequence[str],
        specs: Sequence[ToolSpec],
        *,
        readable: Sequence[Path] = (),
        keep: int = 2,
        allow_weaker: bool = False,
    ) -> None:
        self._specs = tuple(self._declared(spec) for spec in specs if spec.name in self.effects)
        names = {spec.name for spec in self._specs}
        missing = [name for name in self.needed if name not in names]
        if missing:
            raise BadInput(
                f"the server lacks {', '.join(missing)}",
                where=f"live world {self.name!r}",
                remedy=f"use {self.package}",
            )
        self.key = content_key([spec.key for spec in self._specs] + [self.rules])
        server = self.serve(tuple(argv), names)
        self.server = replace(server, readable=tuple(readable), allow_weaker=allow_weaker)
        self.pool = HostPool(self.server, keep=keep)

    @abstractmethod
    def serve(self, argv: tuple[str, ...], tools: Set[str]) -> LiveServer:
        """Return how a server with these tools is started, and how its words are read."""

    @abstractmethod
    def template(self, seed: int) -> Tree:
        """Return the folder of a state seed."""

    @abstractmethod
    def desk(self, seed: int, tools: Toolset) -> D:
        """Return what recipes draw from."""

    @abstractmethod
    def unasked(self, desk: D) -> PlannedCall | None:
        """Return a write that nobody asked for, if the toolset has one that always works."""

    def edges(self) -> tuple[Edge, ...]:
        """Return the tool dependency graph."""
        names = {spec.name for spec in self._specs}
        return tuple(edge for edge in self.links if {edge.source, edge.target} <= names)

    def tools(self) -> tuple[ToolSpec, ...]:
        """Return the tools on offer."""
        return self._specs

    def kinds(self) -> tuple[TaskKind, ...]:
        """Return the kinds of task that can be sampled."""
        return tuple(kind for kind in TaskKind if self.recipes.of(kind))

    def policy(self) -> str:
        """Return the house rules."""
        return self.rules

    def environment(self) -> LiveEnvironment:
        """Return an environment; its process comes from the world's warm ones."""
        return LiveEnvironment(self.server, self._specs, self.template, pool=self.pool)

    async def close(self) -> None:
        """End every process."""
        await self.pool.close()

    async def blueprint(
        self, kind: TaskKind, tools: Sequence[str], state_seed: int, rng: random.Random
    ) -> Blueprint:
        """Sample a goal, carry it out on the live server, keep what it left on disk.

        Raises:
            NotSuitable: `kind` (never here), `toolset` (no goal with these tools), `no_goal`
                (nothing of that kind in this state), `solution_fails` (the server disagrees),
                `no_change` (it changed nothing).
            ServerFailed: the server broke down.
        """
        if not self.recipes.of(kind):
            raise NotSuitable("kind")
        effects = {spec.name: spec.effect for spec in self._specs if spec.name in set(tools)}
        desk = self.desk(state_seed, Toolset(effects, rng))
        errands = self._draw(desk, kind, rng)
        solution = _merged([errand.stages for errand in errands])
        environment = self.environment()
        try:
            diffs = await _outcomes(environment, state_seed, errands, solution)
        finally:
            await environment.close()
        outputs = tuple(output for errand in errands for output in errand.outputs)
        if (() in diffs) == (not outputs):
            raise NotSuitable("no_change")
        facts = tuple(fact for errand in errands for fact in errand.facts)
        withheld = facts[:1] if kind is TaskKind.MISSING_FACT else ()
        return Blueprint(
            kind=kind,
            world=self.name,
            state_seed=state_seed,
            tools=tuple(tools),
            clauses=tuple(clause for errand in errands for clause in errand.clauses),
            opening=tuple(fact for fact in facts if fact not in withheld),
            withheld=withheld,
            solution=solution,
            diffs=diffs,
            outputs=outputs,
            decoys=self._decoys(desk, errands, solution),
        )

    def _draw(self, desk: D, kind: TaskKind, rng: random.Random) -> list[Errand]:
        """Draw the errands of a goal: one, or two that do not touch the same thing."""
        recipes = list(self.recipes.of(kind))
        rng.shuffle(recipes)
        wanted = 2 if kind is TaskKind.PARALLEL else 1
        found: list[Errand] = []
        reason = "no_goal"
        for recipe in recipes * wanted:
            try:
                errand = recipe(desk)
            except NotSuitable as why:
                reason = why.what
                continue
            if not any(_clash(errand, other) for other in found):
                found.append(errand)
            if len(found) == wanted:
                return found
        raise NotSuitable(reason)

    def _decoys(
        self, desk: D, errands: Sequence[Errand], solution: tuple[PlannedCall, ...]
    ) -> dict[str, tuple[PlannedCall, ...]]:
        decoys = {"wrong_entity": _merged([errand.wrong for errand in errands])}
        extra = self.unasked(desk)
        if extra is not None:
            last = solution[-1].group + 1
            decoys["over_write"] = (*solution, extra.model_copy(update={"group": last}))
        return decoys

    def _declared(self, spec: ToolSpec) -> ToolSpec:
        """Return the spec with what this world knows of the tool; annotations are only hints."""
        return spec.model_copy(
            update={
                "effect": self.effects[spec.name],
                "effect_source": "declared",
                "application": self.name,
                "category": self.category,
            }
        )


def _clash(one: Errand, other: Errand) -> bool:
    """Side by side, both look or both write, and each at something of its own."""
    return one.about == other.about or bool(one.outputs) != bool(other.outputs)


def _merged(parts: Sequence[Stages]) -> tuple[PlannedCall, ...]:
    """Merge errands stage by stage; stages become groups, equal look-ups are made once."""
    calls: list[PlannedCall] = []
    for group, stages in enumerate(zip_longest(*parts, fillvalue=())):
        for stage in stages:
            for call in stage:
                placed = call.model_copy(update={"group": group})
                if placed not in calls:
                    calls.append(placed)
    return tuple(calls)


async def _outcomes(
    environment: LiveEnvironment,
    state_seed: int,
    errands: Sequence[Errand],
    solution: tuple[PlannedCall, ...],
) -> tuple[Diff, ...]:
    """Carry out the solution and every variant of it; return what each left on disk."""
    evidence = [text for errand in errands for text in errand.evidence]
    evidence += [_as_written(output) for errand in errands for output in errand.outputs]
    found = [await _outcome(environment, state_seed, solution, evidence)]
    for place, errand in enumerate(errands):
        for variant in errand.variants:
            parts = [other.stages for other in errands]
            parts[place] = variant
            found.append(await _outcome(environment, state_seed, _merged(parts), ()))
    if len(errands) > 1 and all(errand.variants for errand in errands):
        parts = [errand.variants[0] for errand in errands]
        found.append(await _outcome(environment, state_seed, _merged(parts), ()))
    return tuple(dict.fromkeys(found))


async def _outcome(
    environment: LiveEnvironment,
    state_seed: int,
    calls: Sequence[PlannedCall],
    evidence: Sequence[str],
) -> Diff:
    await environment.reset(state_seed)
    said = []
    for call in calls:
        result = await environment.call(call.tool, call.arguments)
        if not result.ok:
            raise NotSuitable("solution_fails")
        said.append(result.content)
    if any(not any(text in words for words in said) for text in evidence):
        raise NotSuitable("solution_fails")
    return await environment.diff()


def _as_written(output: OutputValue) -> str:
    """Return how a value stands in a server's files."""
    if output.type == "money" and isinstance(output.value, int):
        return f"{output.value // 100:,}.{output.value % 100:02d}"
    return str(output.value)
