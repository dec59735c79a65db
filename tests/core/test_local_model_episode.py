"""A small model plays whole episodes and every one of them ends in a state that has a name.

Needs the weights of a model of half a billion parameters, and a minute or two of one core.
"""

import asyncio
import os
from pathlib import Path

import pytest

from simulators.users.scripted import ScriptedUser
from synth.core.config import Limits, load_config
from synth.core.llm.local import open_local, weak_players
from synth.core.protocols import Sampler
from synth.core.seeds import rng
from synth.core.types import Fault, StopReason
from synth.episode import play_and_judge
from synth.pipeline.compose import Composer
from synth.pipeline.worlds import open_applications
from synth.players import ModelAgent

FILE = "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"
ROOT = Path(__file__).parents[2]
PLACES = [
    *filter(None, os.environ.get("TOOLLOOM_MODELS", "").split(os.pathsep)),
    ROOT.parent / "shared" / "models",
]
EPISODES = 3


@pytest.fixture
def model():
    pytest.importorskip("xllamacpp", reason="the extra `local` is not installed")
    found = [place for folder in PLACES if (place := Path(folder) / FILE).is_file()]
    if not found:
        pytest.skip(f"no {FILE} in the folders of TOOLLOOM_MODELS")
    model = open_local(f"local:{found[0]}", timeout_s=600)
    yield model
    asyncio.run(model.close())


async def play(model, index, composer):
    planned = await composer.planned(index)
    environment = composer.worlds[planned.world].environment()
    try:
        return await play_and_judge(
            composer.tools[planned.world],
            task=planned.task,
            agent=composer.agent(planned.world, planned.agent),
            environment=environment,
            agent_player=ModelAgent(model, Sampler(0.0, 1.0, 100)),
            user_player=ScriptedUser(planned.task.request, rng(planned.seed, "user")),
            limits=Limits(turns=3, calls=4, seconds=None),
            episode=planned.episode,
            seed=planned.seed,
        )
    finally:
        await environment.close()


def test_episodes_of_a_small_agent_end_in_a_named_state_and_are_judged(model):
    async def scene():
        composer = Composer(
            load_config(None, ["generate.states=1", "generate.tools=[3, 4]"]),
            open_applications(["bank"]),
        )
        played = [await play(model, index, composer) for index in range(EPISODES)]
        await composer.close()
        return played

    for trajectory, verdict in asyncio.run(scene()):
        assert trajectory.stop in set(StopReason) - {StopReason.ERROR}
        assert trajectory.fault is None
        assert verdict.passed in (True, False)
        assert verdict.fault in (None, Fault.AGENT)
        assert any(message.role == "assistant" for message in trajectory.messages)
        assert trajectory.usage["agent"].completion_tokens > 0
        assert weak_players(trajectory.players) == {"agent": model.weak}
