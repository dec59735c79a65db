"""Tasks to play, without a trainer: for evaluation, reinforcement and other projects' trainers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from simulators.users.scripted import ScriptedUser
from synth.core import seeds
from synth.core.config import Config
from synth.core.errors import UnknownName
from synth.core.protocols import UserPlayer, World
from synth.core.types import Agent, Task, TaskKind
from synth.pipeline.compose import Composer
from synth.run import read_agents, read_plan

EVAL_KINDS = (TaskKind.SINGLE_WRITE, TaskKind.LOOKUP, TaskKind.UNSERVED)
"""Kinds a small model has a chance with; the report says which were played."""


@dataclass(frozen=True, slots=True)
class Case:
    """One episode to play."""

    task: Task
    agent: Agent
    world: World


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

    Args:
        run: the folder of the run.
        worlds: by name; those that the run was made with.

    Raises:
        BadRow: a row is damaged; names file and line.
        UnknownName: a task is of a world that is not among `worlds`.
    """
    agents = {agent.key: agent for agent in read_agents(run)}
    cases = []
    for planned in read_plan(run):
        if planned.world not in worlds:
            raise UnknownName("world", planned.world, worlds)
        cases.append(Case(planned.task, agents[planned.agent], worlds[planned.world]))
    return cases
