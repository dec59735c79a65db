"""Playing an episode: the loop, its limits, and who is to blame."""

import asyncio
import json

import orjson
import pytest

from simulators.users.scripted import ScriptedUser
from synth.core.canonical import content_key
from synth.core.errors import ModelFailed, ServerFailed, ToolloomError
from synth.core.llm.reply import parse_reply
from synth.core.llm.scripted import ScriptedLLM
from synth.core.protocols import Reply, Sampler, Turn
from synth.core.seeds import rng
from synth.core.types import Effect, Fault, Message, StopReason, ToolCall, Usage
from synth.judge import judge
from synth.play import Limits, play
from synth.players import ModelAgent
from synth.reference import ReferenceAgent

FIND = ("find_member", {"email": "ann@example.org"})
BOOKS = ("find_books", {"title": "Dune"})
LEND = ("lend_book", {"book_id": "B11", "member_id": "M1", "days": 14})


@pytest.fixture
def run(library):
    def run(agent_lines, user_lines, *, limits=None, environment=None, agent=None, task=None):
        players = (library.Says("assistant", *agent_lines), library.Says("user", *user_lines))
        trajectory = asyncio.run(
            play(
                task=task or library.task(),
                agent=agent or library.agent(),
                environment=environment or library.Shelf(),
                agent_player=players[0],
                user_player=players[1],
                limits=limits or Limits(),
                episode="e1",
                seed=7,
            )
        )
        run.agent, run.user = players
        return trajectory

    return run


def roles(trajectory):
    return [message.role for message in trajectory.messages]


def test_an_episode_ends_with_the_users_goodbye_and_is_recorded_whole(run, library):
    trajectory = run([[FIND, BOOKS], [LEND], "It is done."], ["I want Dune.", "Thanks, bye."])
    assert trajectory.stop is StopReason.USER_DONE
    assert trajectory.fault is None
    assert roles(trajectory) == [
        "system", "user", "assistant", "tool", "tool", "assistant", "tool", "assistant", "user",
    ]  # fmt: skip
    assert trajectory.messages[-1].content == "Thanks, bye."
    assert [step.message for step in trajectory.steps] == [2, 2, 5]
    assert [step.effect for step in trajectory.steps] == [Effect.READ, Effect.READ, Effect.WRITE]
    assert trajectory.diff == library.task().blueprint.diffs[0]
    assert trajectory.players == {"agent": "script/1", "user": "script/1"}
    assert (trajectory.episode, trajectory.seed, trajectory.real) == ("e1", 7, False)


def test_results_follow_their_calls_in_order_with_the_same_ids(run):
    trajectory = run([[FIND, BOOKS], "Here you are."], ["Hello.", "bye."])
    asked, one, two = trajectory.messages[2:5]
    assert [call.id for call in asked.tool_calls] == [one.tool_call_id, two.tool_call_id]
    assert json.loads(one.content)["id"] == "M1"
    assert json.loads(two.content)["result"][0]["id"] == "B11"


def test_the_state_is_noted_after_writes_only(run):
    trajectory = run([[FIND], [LEND], [BOOKS], "Done."], ["Hello.", "bye."])
    assert [step.state is None for step in trajectory.steps] == [True, False, True]
    assert trajectory.steps[1].state == content_key(trajectory.diff)


NO_OBJECTS = (
    '{"email": ',
    '{"email": "ann@example.org",}',
    '{"email": NaN}',
    '{"email": [-Infinity]}',
    '{"email": 1e999}',
    '{"email": "ann@example.org", "email": "ann@example.org"}',
    '{"email": {"a": 1, "a": 1}}',
    '{"email": "\\ud83c"}',
    '{"email": "\ud83c"}',
    '{"email": ' + "9" * 5000 + "}",
    '{"email": ' + str(2**64) + "}",
    '{"email": ' + str(-(2**63) - 1) + "}",
    '{"email": ' + "[" * 100 + "]" * 100 + "}",
    '{"email": ' + '{"a":' * 900 + "1" + "}" * 901,
    "[" * 100_000,
    "[1]",
    '"text"',
    "",
)


@pytest.mark.claim("a27")
@pytest.mark.claim("f-calls")
def test_arguments_that_do_not_parse_are_an_error_the_agent_can_recover_from(run, library):
    shelf = library.Shelf()
    trajectory = run(
        [*([("find_member", text)] for text in NO_OBJECTS), [FIND], "Found you."],
        ["Hello.", "bye."],
        environment=shelf,
    )
    errors = [step.result.error and step.result.error.code for step in trajectory.steps]
    assert errors == ["invalid_arguments"] * len(NO_OBJECTS) + [None]
    assert json.loads(trajectory.messages[3].content)["error"] == "invalid_arguments"
    assert shelf.made == 1
    assert trajectory.fault is None


@pytest.mark.claim("a09")
def test_a_call_without_any_arguments_is_told_what_it_lacks(library):
    """Arguments that are no text at all become {} on the way; the tool says what it wants."""
    raw = {"id": "c", "function": {"name": "find_member", "arguments": ""}}
    message = {"content": None, "tool_calls": [raw]}
    body = {"choices": [{"finish_reason": "tool_calls", "message": message}]}
    read = parse_reply(orjson.dumps(body), "here", tools=[library.tools["find_member"].openai()])
    llm = ScriptedLLM([read, "I need your e-mail address.", "Goodbye."])
    trajectory = asyncio.run(
        play(
            task=library.task(),
            agent=library.agent(),
            environment=library.Shelf(),
            agent_player=ModelAgent(llm),
            user_player=library.Says("user", "Hello.", "bye."),
            limits=Limits(),
            episode="e",
            seed=1,
        )
    )
    assert trajectory.steps[0].call.arguments == "{}"
    assert trajectory.steps[0].result.error.code == "invalid_arguments"
    assert "invalid_arguments" in llm.requests[1].messages[-1]["content"]
    assert trajectory.fault is None


@pytest.mark.claim("f-calls")
def test_a_tool_outside_the_agents_set_does_not_exist_for_it(run, library):
    shelf = library.Shelf()
    trajectory = run(
        [[LEND], [("fly", {})], "I cannot."],
        ["Hello.", "bye."],
        environment=shelf,
        agent=library.agent(tools=("find_member", "find_books")),
    )
    assert [step.result.error.code for step in trajectory.steps] == ["unknown_tool"] * 2
    assert "find_books, find_member" in trajectory.steps[0].result.error.message
    assert (shelf.made, trajectory.diff) == (0, ())


@pytest.mark.claim("d06")
@pytest.mark.parametrize(
    ("agent_line", "user_line", "broken", "fault", "says"),
    [
        ([FIND], "Hi.", ServerFailed("exited", outcome="exited"), Fault.ENVIRONMENT, "exited"),
        ([FIND], "Hi.", KeyError("no"), Fault.ENVIRONMENT, "KeyError"),
        (ModelFailed("HTTP 500"), "Hi.", None, Fault.INFRASTRUCTURE, "HTTP 500"),
        (ZeroDivisionError("x"), "Hi.", None, Fault.AGENT, "ZeroDivisionError"),
        ("Hm.", ToolloomError("invented 'X1'"), None, Fault.USER, "invented"),
        ("Hm.", ModelFailed("cut off"), None, Fault.INFRASTRUCTURE, "cut off"),
        ("Hm.", Turn(Message(role="assistant", content="x")), None, Fault.USER, "plain text"),
        (TimeoutError("read timed out"), "Hi.", None, Fault.INFRASTRUCTURE, "read timed out"),
    ],
)
def test_whoever_breaks_an_episode_is_named_and_nobody_is_judged(
    run, library, agent_line, user_line, broken, fault, says
):
    shelf = library.Shelf(broken={1: broken} if broken else None)
    trajectory = run([agent_line], [user_line], environment=shelf)
    assert (trajectory.stop, trajectory.fault) == (StopReason.ERROR, fault)
    assert says in trajectory.error
    task = library.task()
    verdict = asyncio.run(judge(task, library.agent(), trajectory, shelf, library.tools))
    assert (verdict.passed, verdict.reason, verdict.fault) == (None, f"fault:{fault}", fault)


def test_the_deadline_is_infrastructure_and_keeps_what_was_said(library):
    class Sleeps:
        who = "sleeps/1"

        async def turn(self, view):
            await asyncio.Event().wait()

    trajectory = asyncio.run(
        play(
            task=library.task(),
            agent=library.agent(),
            environment=library.Shelf(),
            agent_player=Sleeps(),
            user_player=library.Says("user", "Hello."),
            limits=Limits(seconds=0.02),
            episode="e",
            seed=1,
        )
    )
    assert (trajectory.stop, trajectory.fault) == (StopReason.ERROR, Fault.INFRASTRUCTURE)
    assert "0.02 s" in trajectory.error
    assert roles(trajectory) == ["system", "user"]


def test_a_cancelled_episode_is_not_swallowed(library):
    task = library.task()

    async def cancelled():
        class Hangs:
            who = "hangs/1"

            async def turn(self, view):
                await asyncio.Event().wait()

        work = asyncio.ensure_future(
            play(
                task=task,
                agent=library.agent(),
                environment=library.Shelf(),
                agent_player=Hangs(),
                user_player=library.Says("user", "Hello."),
                limits=Limits(),
                episode="e",
                seed=1,
            )
        )
        await asyncio.sleep(0)
        work.cancel()
        await work

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cancelled())


def test_turns_and_calls_are_limited(run, library):
    talk = run(["Which one?"] * 3, ["Hi."] * 4, limits=Limits(turns=3))
    assert (talk.stop, len([r for r in roles(talk) if r == "assistant"])) == (
        StopReason.MAX_TURNS,
        3,
    )
    shelf = library.Shelf()
    calls = run([[FIND], [BOOKS, BOOKS]], ["Hi."], limits=Limits(calls=2), environment=shelf)
    assert calls.stop is StopReason.MAX_CALLS
    assert (shelf.made, len(calls.steps)) == (1, 1)


@pytest.mark.parametrize("content", [None, "", "  \n"])
def test_a_message_with_neither_text_nor_a_call_is_the_agents_failure(run, library, content):
    trajectory = run([Turn(Message(role="assistant", content=content))], ["Hi."])
    assert (trajectory.stop, trajectory.fault) == (StopReason.AGENT_INVALID, None)
    verdict = asyncio.run(judge(library.task(), library.agent(), trajectory, None, library.tools))
    assert verdict.passed is False


@pytest.mark.claim("d01")
def test_a_goodbye_that_also_consents_leaves_the_agent_one_last_act(run, library):
    # tau2-bench 182, 297: ending at once, the agent never acts on the yes.
    trajectory = run(
        [[FIND, BOOKS], "Shall I lend you Dune?", [LEND], "Dune is yours."],
        ["I want Dune.", "Yes, go on, and goodbye, bye."],
    )
    assert trajectory.stop is StopReason.USER_DONE
    assert trajectory.messages[-1].content == "Dune is yours."
    assert trajectory.diff == library.task().blueprint.diffs[0]


@pytest.mark.claim("d02")
def test_a_goodbye_after_a_courtesy_is_the_end(run):
    trajectory = run(["It is done. Is there anything else?"], ["Hi.", "No, bye."])
    assert trajectory.messages[-1].content == "No, bye."


def test_the_user_hears_words_and_never_prompts_calls_or_results(run):
    run([[FIND], [BOOKS], "Here you are."], ["Hello.", "bye."])
    assert run.user.views == [[], ["Hello.", "Here you are."]]


def test_usage_is_summed_and_unknown_stays_unknown(run):
    def turn(text, **usage):
        return Turn(Message(role="assistant", content=text), usage=Usage(**usage))

    trajectory = run(
        [
            turn("One?", prompt_tokens=5, completion_tokens=1),
            turn("Two.", prompt_tokens=7, completion_tokens=2, cached_tokens=3),
        ],
        ["Hi.", "Go on.", "bye."],
    )
    assert trajectory.usage == {"agent": Usage(prompt_tokens=12, completion_tokens=3)}


def test_episodes_side_by_side_are_the_episodes_one_by_one(library):
    task = library.task()

    async def episode(seed):
        agent = library.agent(confirms=bool(seed % 2))
        return await play(
            task=task,
            agent=agent,
            environment=library.Shelf(),
            agent_player=ReferenceAgent(task, agent, rng(seed, "agent")),
            user_player=ScriptedUser(task.request, rng(seed, "user")),
            limits=Limits(),
            episode=str(seed),
            seed=seed,
        )

    async def together():
        return await asyncio.gather(*(episode(seed) for seed in range(32)))

    alone = [asyncio.run(episode(seed)) for seed in range(32)]
    assert asyncio.run(together()) == alone


@pytest.mark.claim("a01")
def test_a_model_plays_through_the_llm_protocol_with_tools_and_unique_ids(library):
    task, agent = library.task(), library.agent()

    def call(name, arguments):
        # Some servers number the calls of every reply anew.
        return Message(
            role="assistant",
            tool_calls=(ToolCall(id="call_0", name=name, arguments=json.dumps(arguments)),),
        )

    llm = ScriptedLLM([call(*FIND), call(*BOOKS), call(*LEND), "Dune is yours for 14 days."])
    trajectory = asyncio.run(
        play(
            task=task,
            agent=agent,
            environment=library.Shelf(),
            agent_player=ModelAgent(llm, Sampler(temperature=0.1)),
            user_player=ScriptedUser(task.request, rng(1)),
            limits=Limits(),
            episode="e",
            seed=1,
        )
    )
    ids = [step.call.id for step in trajectory.steps]
    assert len(set(ids)) == 3
    verdict = asyncio.run(judge(task, agent, trajectory, library.Shelf(), library.tools))
    assert (verdict.reason, verdict.passed) == ("accepted", True)
    assert [len(request.messages) for request in llm.requests] == [2, 4, 6, 8]
    assert [t["function"]["name"] for t in llm.requests[0].tools] == list(agent.tools)
    assert llm.requests[0].sampler.temperature == 0.1
    assert llm.requests[1].messages[3] == {
        "role": "tool",
        "content": trajectory.messages[3].content,
        "tool_call_id": ids[0],
    }


@pytest.mark.claim("f-finish")
def test_a_reply_that_the_token_limit_cut_off_ends_the_episode_and_is_not_acted_on(library):
    calls = (ToolCall(id="c", name=LEND[0], arguments=json.dumps(LEND[1])),)
    half = Message(role="assistant", content="I will now lend", tool_calls=calls)
    task, shelf = library.task(), library.Shelf()
    llm = ScriptedLLM([Reply(half, "length", "m", Usage(completion_tokens=64))])
    trajectory = asyncio.run(
        play(
            task=task,
            agent=library.agent(),
            environment=shelf,
            agent_player=ModelAgent(llm, Sampler(max_tokens=64)),
            user_player=library.Says("user", task.request),
            limits=Limits(),
            episode="e",
            seed=1,
        )
    )
    assert (trajectory.stop, trajectory.fault) == (StopReason.CUT_OFF, None)
    assert trajectory.messages[-1] == half
    assert (shelf.made, trajectory.usage["agent"].completion_tokens) == (0, 64)
    verdict = asyncio.run(judge(task, library.agent(), trajectory, shelf, library.tools))
    assert (verdict.passed, verdict.reason) == (False, "format:cut_off")


def test_a_row_names_the_model_and_how_its_tokens_were_drawn():
    assert ModelAgent(ScriptedLLM([], name="m")).who == (
        "model:m (temperature=0.6, top_p=1, max_tokens=1024)"
    )
    seeded = ModelAgent(ScriptedLLM([], name="m"), Sampler(0.0, 1.0, 64, seed=3)).who
    assert seeded == "model:m (temperature=0, top_p=1, max_tokens=64, seed=3)"
