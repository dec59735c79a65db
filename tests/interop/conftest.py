"""A few tasks, and an agent that knows how to do them."""

import pytest

from synth.core import seeds
from synth.core.config import load_config
from synth.core.protocols import AgentView
from synth.core.types import TaskKind
from synth.pipeline.worlds import open_applications
from synth.reference import ReferenceAgent
from train.cases import sample_cases


@pytest.fixture(scope="session")
def cases():
    worlds = open_applications(["hotel"])
    kinds = (TaskKind.SINGLE_WRITE, TaskKind.LOOKUP, TaskKind.MISSING_FACT, TaskKind.FORBIDDEN)
    return sample_cases(load_config(None, ["seed=5"]), worlds, 8, kinds)


class Reference:
    """The reference agent, asked with an episode in hand."""

    def __init__(self, case, seed):
        self._agent = ReferenceAgent(case.task, case.agent, seeds.rng("agent", seed))

    async def turn(self, episode):
        return await self._agent.turn(AgentView(episode.messages, episode.tools))


@pytest.fixture(scope="session")
def reference():
    return Reference
