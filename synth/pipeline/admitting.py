"""Whether tasks can be made of an application that hold what the gate asks of tasks."""

from __future__ import annotations

import random
from collections import Counter

from simulators.sql.engine import Engine
from simulators.sql.world import SqlWorld
from synth.agents import agents_for
from synth.core.application import Application
from synth.core.errors import NotSuitable
from synth.core.types import TaskKind
from synth.gate import admit
from synth.tasks import sample_task

TRIES = 30
"""Draws for the tasks of one kind."""
AGENTS = 6
TOOLS = (8, 16)
"""Of an agent: fewest and most."""

Found = Counter[tuple[TaskKind, str]]
"""(kind, `admitted` or the reason of the gate) -> tasks."""


async def admissions(
    application: Application, each: int, *, tries: int = TRIES
) -> tuple[Found, Found]:
    """Draw tasks of every kind that an application can make, and bring them to the gate.

    The gate lets the reference play, and does nothing at all, among other things.

    Args:
        application: the document.
        each: tasks of each kind, at most.
        tries: draws of each kind, at most.

    Returns:
        What the gate said of the tasks, and why draws came to none.
    """
    world = SqlWorld(Engine(application))
    agents = agents_for(world, AGENTS, 5, size=TOOLS)
    tools = {spec.name: spec for spec in world.tools()}
    said: Found = Counter()
    undrawn: Found = Counter()
    for kind in world.kinds():
        drawn = 0
        for attempt in range(tries):
            if drawn == each:
                break
            rng = random.Random(attempt)
            agent = rng.choice(agents)
            try:
                task = await sample_task(world, agent, kind, rng.randrange(3), rng)
            except NotSuitable as error:
                undrawn[kind, str(error)] += 1
                continue
            environment = world.environment()
            admission = await admit(task, agent, environment, tools)
            await environment.close()
            said[kind, admission.reason] += 1
            drawn += 1
    await world.close()
    return said, undrawn
