"""A model as the agent: what it is sent, and what becomes of replies that are of no use."""

import asyncio

import pytest

from synth.core.config import Limits
from synth.core.errors import BudgetSpent, DiskFull, ModelFailed
from synth.core.llm.scripted import ScriptedLLM
from synth.core.protocols import Finish, Reply
from synth.core.types import Fault, Message, StopReason, Usage
from synth.episode import play_and_judge
from synth.players import ModelAgent


def played(library, llm):
    task = library.task()
    return asyncio.run(
        play_and_judge(
            library.tools,
            task=task,
            agent=library.agent(),
            environment=library.Shelf(),
            agent_player=ModelAgent(llm),
            user_player=library.Says("user", task.request, "Thanks, bye."),
            limits=Limits(),
            episode="e",
            seed=1,
        )
    )


def reply(content, finish="stop", reasoning=None, repairs=()):
    message = Message(role="assistant", content=content, reasoning=reasoning)
    return Reply(message, finish, "m", Usage(completion_tokens=3), repairs)


@pytest.mark.claim("a25")
@pytest.mark.parametrize(
    ("finish", "content"),
    [
        (Finish.CONTENT_FILTER, None),
        (Finish.CONTENT_FILTER, "I have lent"),
        (Finish.REFUSAL, "I cannot help."),
        (Finish.UNREADABLE, '<tool_call>{"name": '),
    ],
)
def test_what_was_withheld_or_cannot_be_read_ends_the_episode_and_never_passes(
    library, finish, content
):
    llm = ScriptedLLM([reply(content, finish)])
    trajectory, verdict = played(library, llm)
    assert (trajectory.stop, trajectory.fault) == (StopReason.AGENT_INVALID, None)
    assert trajectory.messages[-1].content == content
    assert trajectory.usage["agent"].completion_tokens == 3
    assert verdict.passed is False
    assert len(llm.requests) == 1  # it is not asked again


@pytest.mark.claim("a26")
def test_earlier_reasoning_is_handed_on_and_kept_in_the_record(library):
    llm = ScriptedLLM([reply("Which one?", reasoning="I must ask."), reply("Done.")])
    trajectory, _ = played(library, llm)
    assert trajectory.messages[2].reasoning == "I must ask."
    sent = [message for message in llm.requests[1].messages if message["role"] == "assistant"]
    assert [message.get("reasoning_content") for message in sent] == ["I must ask."]


def test_repairs_come_with_the_turn(library):
    view = type("View", (), {"messages": [], "tools": ()})
    agent = ModelAgent(ScriptedLLM([reply("x", repairs=("missing_id",))]))
    assert asyncio.run(agent.turn(view)).repairs == ("missing_id",)


@pytest.mark.parametrize("error", [BudgetSpent("spent"), DiskFull("full")])
def test_what_is_nobodys_failure_ends_no_episode(library, error):
    def stop(request):
        raise error

    with pytest.raises(type(error)):
        played(library, ScriptedLLM(stop))


def test_an_endpoint_that_fails_is_infrastructure(library):
    def fail(request):
        raise ModelFailed("no reply", outcome="timeout")

    trajectory, verdict = played(library, ScriptedLLM(fail))
    assert trajectory.fault is Fault.INFRASTRUCTURE
    assert verdict.passed is None
