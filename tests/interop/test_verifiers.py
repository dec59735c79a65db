"""Tasks as an environment of verifiers: their loop, our tools, user and verdict."""

import asyncio
import json
import math
import sys

import pytest

from synth.core.config import ModelConfig, Models
from synth.core.errors import BadInput, ServerFailed
from synth.core.llm.mock.child import child
from synth.core.llm.open import OpenModels
from synth.core.protocols import Sampler, Turn
from synth.core.types import Message
from synth.episode import play_and_judge
from synth.play import Limits
from synth.players import ModelAgent
from train.cases import scripted_user
from train.gym.for_verifiers import _message, dataset_rows, verifiers_env
from train.gym.stepped import Stepped


def test_a_row_holds_the_prompt_and_the_tools_of_its_agent(cases):
    rows = dataset_rows(cases)
    for number, (row, case) in enumerate(zip(rows, cases, strict=True)):
        info = json.loads(row["info"])
        assert info["case"] == number
        assert [tool["name"] for tool in info["tool_defs"]] == list(case.agent.tools)
        assert [message["role"] for message in row["prompt"]] == ["system", "user"]
        assert row["prompt"][1]["content"] == case.task.request


def test_a_message_of_theirs_becomes_one_of_ours():
    call = {"id": "a", "name": "find", "arguments": '{"x": 1}'}
    said = _message({"role": "assistant", "content": None, "tool_calls": [call]})
    function = {"name": "find", "arguments": '{"x": 1}'}
    assert said["tool_calls"] == [{"id": "a", "type": "function", "function": function}]
    assert _message({"content": "Hello.", "tool_calls": None}) == {
        "content": "Hello.",
        "tool_calls": [],
    }


def test_without_verifiers_one_line_says_how_to_get_it(cases, monkeypatch):
    monkeypatch.setitem(sys.modules, "verifiers", None)
    with pytest.raises(BadInput, match="pip install verifiers"):
        verifiers_env(cases)


# --- the real package ----------------------------------------------------------------------------


@pytest.fixture
def vf(monkeypatch):
    import signal

    before = {one: signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)}
    monkeypatch.setenv("TEST_KEY", "none")
    yield pytest.importorskip("verifiers", reason="verifiers is not installed")
    for one, handler in before.items():  # their environments set their own
        signal.signal(one, handler)


@pytest.fixture
def scripted(cases, reference, tmp_path):
    """An endpoint that knows how to do every other task, and says something else otherwise."""

    async def played(number):
        episode, agent = Stepped(cases[number], seed=number), reference(cases[number], number)
        await episode.begin()
        while episode.outcome is None:
            await episode.step(await agent.turn(episode))
        return [message.openai() for message in episode.messages]

    script = tmp_path / "script.jsonl"
    rows = [{"messages": asyncio.run(played(number))} for number in range(0, len(cases), 2)]
    script.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    with child(tmp_path / "ledger.jsonl", f"--script={script}") as mock:
        yield mock


def own_verdicts(cases, url):
    """Play the tasks with our own loop and client at the same endpoint."""

    async def go():
        config = ModelConfig(model="mock", base_url=url, key_env="TEST_KEY")
        models, found = OpenModels(Models(agent=config)), []
        for number, case in enumerate(cases):
            environment = case.world.environment()
            _, verdict = await play_and_judge(
                {tool.name: tool for tool in case.world.tools()},
                task=case.task,
                agent=case.agent,
                environment=environment,
                agent_player=ModelAgent(models.bound("agent", f"e{number}"), Sampler()),
                user_player=scripted_user(case, number),
                limits=Limits(seconds=None),
                episode=f"e{number}",
                seed=number,
            )
            await environment.close()
            found.append(verdict.passed)
        await models.close()
        return found

    return asyncio.run(go())


def evaluated(vf, environment, url):
    client = vf.ClientConfig(api_base_url=url, api_key_var="TEST_KEY")
    made = asyncio.run(environment.evaluate(client, "mock", {"temperature": 0}, max_concurrent=4))
    return sorted(made["outputs"], key=lambda row: row["example_id"])


@pytest.mark.filterwarnings("ignore")
def test_their_evaluation_gives_the_verdicts_of_ours(vf, cases, scripted):
    outputs = evaluated(vf, verifiers_env(cases), scripted.url)
    rewards = [row["reward"] for row in outputs]
    assert rewards == [float(passed) for passed in own_verdicts(cases, scripted.url)]
    assert 0 < sum(rewards) < len(rewards)
    assert all(row["error"] is None for row in outputs)
    assert all(row["metrics"]["verdict"] == row["reward"] for row in outputs)
    assert outputs[0]["completion"][-1]["role"] == "user"  # who has the last word with us, too


@pytest.mark.filterwarnings("ignore")
def test_an_episode_without_a_verdict_is_an_error_and_its_reward_no_number(vf, cases, scripted):
    def leaving(case, seed):
        class Leaving:
            who = "leaving"

            async def turn(self, view):
                if view.messages:
                    raise ServerFailed("is gone", where="the user", outcome="exited")
                return Turn(Message(role="user", content=case.task.request))

        return Leaving()

    outputs = evaluated(vf, verifiers_env(cases[:2], user=leaving), scripted.url)
    assert [math.isnan(row["reward"]) for row in outputs] == [True, True]
    assert all(row["error"]["error"] == "InfraError" for row in outputs)
    assert all("fault:user" in row["error"]["error_chain_repr"] for row in outputs)


@pytest.mark.filterwarnings("ignore")
def test_a_model_that_cannot_be_reached_is_nobodys_reward(vf, cases, tmp_path):
    with child(tmp_path / "other.jsonl", "--fault-rate=1", "--faults=http_500") as broken:
        outputs = evaluated(vf, verifiers_env(cases[:1]), broken.url)
    assert math.isnan(outputs[0]["reward"])
    assert outputs[0]["error"]["error"] == "ModelError"
