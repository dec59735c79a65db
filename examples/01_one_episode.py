"""Sample one task, prove it, play it, judge it, and read it. Offline, about two seconds.

    python examples/01_one_episode.py

Prints the transcript of one episode in the hotel, ending in `passed: accepted`.
"""

import asyncio

from simulators.sql.engine import Engine
from simulators.sql.load import load_application
from simulators.sql.world import SqlWorld
from simulators.users.scripted import ScriptedUser
from synth.agents import agents_for
from synth.core.errors import NotSuitable
from synth.core.seeds import rng
from synth.core.types import TaskKind
from synth.gate import admit
from synth.judge import judge
from synth.play import Limits, play
from synth.reference import ReferenceAgent
from synth.run import Episode
from synth.tasks import sample_task
from synth.transcript import transcript


async def main() -> None:
    world = SqlWorld(Engine(load_application("hotel")))
    tools = {tool.name: tool for tool in world.tools()}
    environment = world.environment()
    agent = agents_for(world, 1, seed=1, size=(8, 12))[0]
    for attempt in range(100):
        draw = rng("example", attempt)
        try:
            task = await sample_task(world, agent, TaskKind.CHAINED_WRITES, 3, draw)
        except NotSuitable:
            continue
        if (await admit(task, agent, environment, tools)).accepted:
            break
    trajectory = await play(
        task=task,
        agent=agent,
        environment=environment,
        agent_player=ReferenceAgent(task, agent, rng("agent")),
        user_player=ScriptedUser(task.request, rng("user")),
        limits=Limits(),
        episode="example",
        seed=0,
    )
    verdict = await judge(task, agent, trajectory, environment, tools)
    for line in transcript(Episode(trajectory=trajectory, verdict=verdict), task):
        print(f"{line.speaker:<8}{line.text}")


if __name__ == "__main__":
    asyncio.run(main())
