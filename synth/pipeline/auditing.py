"""The audit of every run: a few of its accepted episodes, spoilt and put in other orders."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack
from typing import Any

from simulators.imagined.world import ImaginedWorld
from synth.audit_runs import Audited, Case, audit
from synth.core.config import Config
from synth.core.protocols import Environment, World
from synth.core.seeds import rng
from synth.pipeline.engine import staged
from synth.run import Episode, Planned, Run, Written

MOST = 24
"""Accepted episodes that are audited unless told otherwise: four hundred mutants, half a second."""


async def audited(
    run: Run | Written,
    used: int,
    worlds: Mapping[str, World],
    config: Config,
    most: int = MOST,
) -> dict[str, Any]:
    """Audit accepted episodes of a run, and return what was found.

    Args:
        run: its finished episodes.
        used: places of its plan that count.
        worlds: of the run, by name. Only applications are audited: a live server is not asked a
            thousand times more, and a model's tools answer only what they were asked.
        config: of the run.
        most: episodes at most, spread evenly over the plan.
    """
    found = Audited()
    tools = {name: {tool.name: tool for tool in world.tools()} for name, world in worlds.items()}
    environments: dict[str, Environment] = {}
    async with AsyncExitStack() as stack:
        for planned, episode in _spread(run, used, most):
            world, trajectory = worlds.get(planned.world), episode.trajectory
            if world is None or trajectory.real or isinstance(world, ImaginedWorld):
                found.left_out["live" if trajectory.real else "imagined"] += 1
                continue
            if planned.world not in environments:
                environments[planned.world] = environment = world.environment()
                stack.push_async_callback(environment.close)
            meets = staged(environments[planned.world], world, planned, config.generate.outcomes)
            agent = run.agents[planned.agent]
            case = Case(planned.task, agent, trajectory, meets, tools[planned.world])
            await audit(case, rng("audit", planned.episode), found)
    return found.row()


def _spread(run: Run | Written, used: int, most: int) -> Iterator[tuple[Planned, Episode]]:
    """Yield accepted episodes, the next one at or behind each of evenly spread places."""
    at = 0
    for number in range(most):
        at = max(at, number * used // most)
        while at < used:
            planned = run.plan[at]
            episode = run.episodes.get(planned.episode)
            at += 1
            if episode is not None and episode.verdict.passed:
                yield planned, episode
                break
