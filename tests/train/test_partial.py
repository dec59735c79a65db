"""Roll-outs that begin where another episode was: the model has said nothing of what was kept."""

import asyncio
from collections import Counter

import pytest

from synth.core.config import change_config, load_config
from synth.core.errors import BadInput
from synth.core.protocols import AgentView
from synth.core.seeds import rng
from synth.pipeline.forks import fork
from synth.pipeline.generate import Goal
from synth.pipeline.job import How, generate
from synth.pipeline.origins import Origin, Wish
from synth.pipeline.worlds import open_applications
from synth.reference import ReferenceAgent
from train.cases import Case, planned_cases
from train.engine import Drawn, Sampling
from train.evaluate import Table, play_cases
from train.gym.for_trl import TrlTasks
from train.gym.for_verifiers import dataset_rows
from train.gym.stepped import Stepped
from train.rl import EpisodeRollouts

SETTINGS = [
    "generate.applications=['hotel']",
    "generate.agents=2",
    "generate.errors.rate=0",
    "generate.outcomes={transient=0.4, edge=0.4}",
]


@pytest.fixture(scope="module", name="cases")
def _cases(tmp_path_factory):
    """Twelve episodes with faults, each to be gone on with from somewhere."""
    folder = tmp_path_factory.mktemp("partial")
    base, forks = folder / "runs" / "base", folder / "runs" / "forks"
    config = load_config(None, SETTINGS)
    asyncio.run(generate(config, base, folder, Goal(episodes=12)))
    config = change_config(Origin(base).config, [])
    asyncio.run(fork(base, forks, folder, Wish(at="random"), config, How()))
    return planned_cases(forks, open_applications(["hotel"]))


def played(case):
    """Let the reference agent take the episode over from outside."""

    async def play():
        episode = Stepped(case, seed=1)
        agent = ReferenceAgent(case.task, case.agent, rng(1, "agent"))
        await episode.begin()
        first = episode.news()
        while episode.outcome is None:
            await episode.step(await agent.turn(AgentView(episode.messages, episode.tools)))
        return first, episode

    return asyncio.run(play())


def test_an_episode_stepped_from_outside_begins_with_what_was_kept(cases):
    faults = Counter()
    for case in cases:
        kept = case.prefix.messages
        first, episode = played(case)
        assert first == kept
        assert episode.messages[: len(kept)] == kept
        assert all(message.role != "assistant" for message in episode.news())
        assert episode.outcome.reward == 1.0
        steps = episode.outcome.trajectory.steps
        faults.update(s.result.outcome for s in steps[: case.prefix.fork.calls])
        assert {s.result.outcome for s in steps[case.prefix.fork.calls :]} <= {"success"}
    assert faults["transient"]
    assert faults["edge"]


def test_whole_tasks_are_as_they_were(cases):
    whole = Case(cases[0].task, cases[0].agent, cases[0].world)
    first, episode = played(whole)
    assert [message.role for message in first] == ["system", "user"]
    assert episode.outcome.reward == 1.0
    assert whole.key != cases[0].key


class Silent:
    """An engine that says one thing, and remembers what it was asked."""

    version = 0

    def __init__(self, renderer):
        self.ids = [*renderer.encode_content("Goodbye."), renderer.stop_id]
        self.prompts = []

    def sample(self, prompts, sampling, seeds):
        self.prompts += prompts
        return [Drawn(list(self.ids), [-0.5] * len(self.ids), "stop", 0) for _ in prompts]


def test_only_what_the_model_said_is_learned_from(cases, renderer):
    engine = Silent(renderer)
    table = Table(renderer, context=60_000)
    sampling = Sampling(stop=(2,), max_tokens=40, temperature=0)
    found = asyncio.run(play_cases(engine, cases[:3], table, sampling, seed=[0, 1, 2]))
    for case, one in zip(cases, found, strict=False):
        specs = {tool.name: tool.openai() for tool in case.world.tools()}
        tools = [specs[name] for name in case.agent.tools]
        shown = renderer.prompt([m.openai() for m in case.prefix.messages], tools)
        row = one.player.row()
        assert row.ids[: len(shown)] == list(shown)
        assert sum(row.weights[: len(shown)]) == 0
        assert list(row.weights[len(shown) :])[: len(engine.ids)] == [1] * len(engine.ids)
        assert one.trajectory.fork == case.prefix.fork


def test_roll_outs_from_other_places_are_other_roll_outs(cases, renderer):
    table, sampling = Table(renderer), Sampling(stop=(2,), max_tokens=40, temperature=0)
    whole = [Case(case.task, case.agent, case.world) for case in cases]
    keys = {EpisodeRollouts(some, table, sampling).key() for some in (cases, whole, cases[::-1])}
    assert len(keys) == 3


def test_the_prompt_of_verifiers_holds_what_was_kept_and_trl_has_no_place_for_it(cases):
    rows = dataset_rows(cases)
    for case, row in zip(cases, rows, strict=True):
        assert row["prompt"] == [message.openai() for message in case.prefix.messages]
    with pytest.raises(BadInput, match="calls that were made before cannot stand in the prompt"):
        TrlTasks(cases)


def test_where_something_else_is_to_be_done_first_nobody_can_be_prompted(cases):
    case = next(c for c in cases if len(c.prefix.messages) > 3)
    place = next(i for i, m in enumerate(case.prefix.messages) if m.role == "assistant")
    early = case.prefix.model_copy(update={"messages": case.prefix.messages[: place + 1]})
    with pytest.raises(BadInput, match="not the agent's turn"):
        dataset_rows([Case(case.task, case.agent, case.world, early)])
