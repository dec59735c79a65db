"""Tasks to play, without a trainer: for evaluation, reinforcement and other projects' trainers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from simulators.faulty import Faulty
from simulators.users.scripted import ScriptedUser
from synth.core import seeds
from synth.core.canonical import content_key
from synth.core.config import Config
from synth.core.errors import UnknownName
from synth.core.outcomes import Outcomes
from synth.core.protocols import Environment, UserPlayer, World
from synth.core.types import Agent, Message, Task, TaskKind
from synth.fork import Prefix, regimes_of
from synth.pipeline.compose import Composer
from synth.pipeline.replay import config_of
from synth.run import Planned, read_agents, read_plan, read_settings

EVAL_KINDS = (TaskKind.SINGLE_WRITE, TaskKind.LOOKUP, TaskKind.UNSERVED)
"""Kinds a small model has a chance with; the report says which were played."""


@dataclass(frozen=True, slots=True)
class Case:
    """One episode to play."""

    task: Task
    agent: Agent
    world: World
    prefix: Prefix | None = None
    """What it begins with, if it is the rest of another episode; the model has said none of it."""

    @property
    def key(self) -> str:
        """Return what tells it from other cases."""
        where = [] if self.prefix is None else [self.prefix.fork.key]
        return content_key([self.task.key, self.agent.key, self.world.name, *where])

    def opening(self) -> tuple[Message, ...]:
        """Return what is said before the agent speaks, where the user is the scripted one."""
        if self.prefix is not None:
            return self.prefix.messages
        system = Message(role="system", content=self.agent.system)
        return system, Message(role="user", content=self.task.request)

    def environment(self) -> Environment:
        """Return where it is played: nothing goes wrong there but what did in what is kept."""
        environment = self.world.environment()
        if self.prefix is None or not self.prefix.regimes:
            return environment
        needed = {call.tool for call in self.task.blueprint.solution}
        needed |= set() if self.world.handoff is None else {self.world.handoff}
        before = self.prefix.regimes
        return Faulty(environment, Outcomes(), seed=0, needed=needed, before=before)


def scripted_user(case: Case, seed: int) -> UserPlayer:
    """Return the user of an episode: same seed, same words."""
    return ScriptedUser(case.task.request, seeds.rng("user", seed))


def sample_cases(
    config: Config,
    worlds: Mapping[str, World],
    count: int,
    kinds: Sequence[TaskKind] = EVAL_KINDS,
) -> list[Case]:
    """Return `count` admitted tasks of `worlds`, the same for the same configuration.

    The seed differs from that of generation, so that no task was in a dataset; toolsets are small
    and agents few, so that prompts are short and computed once.
    """
    mix = {kind: config.generate.mix.get(kind, 0.0) for kind in kinds}
    settings = config.generate.model_copy(
        update={"mix": mix, "tools": (4, 7), "agents": 2, "live_share": 0.0}
    )
    held_out = config.model_copy(update={"generate": settings, "seed": config.seed + 1_000_003})

    async def draw() -> list[Case]:
        composer = Composer(held_out, worlds)
        try:
            planned = [await composer.planned(index) for index in range(count)]
        finally:
            await composer.close()
        return [Case(p.task, composer.agent(p.world, p.agent), worlds[p.world]) for p in planned]

    return asyncio.run(draw())


def planned_cases(run: Path, worlds: Mapping[str, World]) -> list[Case]:
    """Return the tasks of a run of `toolloom generate`, in the order of its plan.

    Those of a run of `toolloom fork` begin with what their episodes kept: partial roll-outs, as in
    K1.5 2.6.2, from wherever others came.

    Args:
        run: the folder of the run.
        worlds: by name; those that the run was made with.

    Raises:
        BadRow: a row is damaged; names file and line.
        UnknownName: a task is of a world that is not among `worlds`.
    """
    agents = {agent.key: agent for agent in read_agents(run)}
    settings = read_settings(run / "config.json")
    outcomes = config_of(settings["config"], run, "train on").generate.outcomes
    cases = []
    for planned in read_plan(run):
        if planned.world not in worlds:
            raise UnknownName("world", planned.world, worlds)
        agent, world = agents[planned.agent], worlds[planned.world]
        cases.append(Case(planned.task, agent, world, _bare(planned, outcomes)))
    return cases


def _bare(planned: Planned, outcomes: Outcomes) -> Prefix | None:
    """Return a prefix with all that decided over its faults: here, no setting of a run does."""
    prefix = planned.prefix
    if prefix is None:
        return None
    rules = (outcomes, planned.seed), (Outcomes(), 0)
    regimes = regimes_of(prefix.steps, prefix.regimes, *rules)
    return prefix.model_copy(update={"regimes": regimes})
