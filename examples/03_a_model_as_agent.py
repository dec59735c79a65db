"""A model plays the agent: here a scripted one, in its place any OpenAI-compatible endpoint.

    python examples/03_a_model_as_agent.py

Offline, about two seconds. The scripted model only apologises, so the judge rejects the episode:
what a model says about itself is never the verdict.
"""

import asyncio

from simulators.users.scripted import ScriptedUser
from synth.core.config import load_config
from synth.core.llm.scripted import ScriptedLLM
from synth.core.seeds import rng
from synth.judge import judge
from synth.pipeline.compose import Composer
from synth.pipeline.worlds import open_applications
from synth.play import Limits, play
from synth.players import ModelAgent


async def main() -> None:
    worlds = open_applications(["bank"])
    composer = Composer(load_config(None, ["generate.states=1"]), worlds)
    planned = await composer.planned(0)
    agent = composer.agent(planned.world, planned.agent)
    environment = worlds[planned.world].environment()
    model = ScriptedLLM(lambda request: "I have done everything you asked for. Goodbye!")
    trajectory = await play(
        task=planned.task,
        agent=agent,
        environment=environment,
        agent_player=ModelAgent(model),
        user_player=ScriptedUser(planned.task.request, rng("user")),
        limits=Limits(turns=6),
        episode=planned.episode,
        seed=planned.seed,
    )
    tools = composer.tools[planned.world]
    verdict = await judge(planned.task, agent, trajectory, environment, tools)
    print("user: ", planned.task.request)
    print("agent:", trajectory.messages[2].content)
    print("judge:", {True: "passed", False: "rejected"}[bool(verdict.passed)], verdict.reason)
    await composer.close()


if __name__ == "__main__":
    asyncio.run(main())
