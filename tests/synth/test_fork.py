"""An episode goes on from the beginning of another one: in the loop, and in the players."""

import asyncio
import json

import pytest

from simulators.faulty import Faulty
from simulators.users.scripted import ScriptedUser
from synth.core.errors import BadInput
from synth.core.outcomes import Outcomes, Regime
from synth.core.seeds import rng
from synth.core.types import Fault, Fork, Message, StopReason
from synth.fork import after_calls, calls_in, cut, places, regimes_of
from synth.judge import judge
from synth.play import Limits, play
from synth.reference import ReferenceAgent

FIND = ("find_member", {"email": "ann@example.org"})
BOOKS = ("find_books", {"title": "Dune"})
LEND = ("lend_book", {"book_id": "B11", "member_id": "M1", "days": 14})


def went(trajectory):
    """Return the place of a fork that keeps so many messages of a trajectory."""

    def at(messages):
        calls = calls_in(trajectory, messages)
        return Fork(run="base", episode=trajectory.episode, messages=messages, calls=calls)

    return lambda messages: cut(trajectory, at(messages))


@pytest.fixture
def act(library):
    """Play with given players, from a prefix or from the start."""

    def act(agent_player, user_player, *, prefix=None, **given):
        return asyncio.run(
            play(
                task=given.get("task") or library.task(),
                agent=given.get("agent") or library.agent(),
                environment=given.get("environment") or library.Shelf(),
                agent_player=agent_player,
                user_player=user_player,
                limits=given.get("limits") or Limits(),
                episode=given.get("episode", "e1"),
                seed=7,
                prefix=prefix,
            )
        )

    return act


@pytest.fixture
def origin(act, library):
    """Return an episode of nine messages and three calls."""
    agent = library.Says("assistant", [FIND, BOOKS], [LEND], "It is done.")
    return act(agent, library.Says("user", "I want Dune.", "Thanks, bye."))


def test_what_is_kept_is_kept_to_the_byte_and_only_the_rest_is_asked_for(act, library, origin):
    rest = {2: [[FIND, BOOKS], [LEND], "Done."], 5: [[LEND], "Done."], 7: ["Done."]}
    for kept, lines in rest.items():
        agent, user = library.Says("assistant", *lines), library.Says("user", "Fine, bye.")
        fork = act(agent, user, prefix=went(origin)(kept), episode="e2")
        assert fork.messages[:kept] == origin.messages[:kept]
        assert fork.steps[: fork.fork.calls] == origin.steps[: fork.fork.calls]
        same = [[(s.message, s.result, s.state) for s in e.steps] for e in (fork, origin)]
        assert same[0] == same[1]
        assert fork.diff == origin.diff
        assert (fork.messages[-2].content, fork.messages[-1].content) == ("Done.", "Fine, bye.")
        assert (fork.episode, fork.fork.episode, fork.fork.messages) == ("e2", "e1", kept)
        assert len(agent.views) == len(lines)
        assert len(agent.views[0]) == kept
        heard = [m.content for m in origin.messages[:kept] if m.role != "tool" and m.content]
        assert user.views == [[*heard[1:], "Done."]]


def test_after_the_agents_words_it_is_the_users_turn(act, library, origin):
    agent, user = library.Says("assistant", "Anything else?"), library.Says("user", "No.", "bye.")
    fork = act(agent, user, prefix=went(origin)(8))
    assert [m.content for m in fork.messages[8:]] == ["No.", "Anything else?", "bye."]


def test_calls_of_one_message_that_are_not_kept_are_made_anew(act, library, origin):
    shelf = library.Shelf(flaky=[2])
    agent, user = library.Says("assistant", "Hm."), library.Says("user", "bye.")
    fork = act(agent, user, prefix=went(origin)(after_calls(origin, 1)), environment=shelf)
    assert fork.steps[0] == origin.steps[0]
    assert fork.steps[1].call == origin.steps[1].call
    assert fork.steps[1].result.error.code == "tool_fault"
    assert [step.message for step in fork.steps] == [2, 2]
    assert [m.role for m in fork.messages[3:6]] == ["tool", "tool", "assistant"]


def test_a_call_that_gives_something_else_now_breaks_the_environment_and_nobody_is_asked(
    act, library, origin
):
    agent, user = library.Says("assistant"), library.Says("user")
    shelf = library.Shelf(flaky=[1])
    fork = act(agent, user, prefix=went(origin)(5), environment=shelf)
    assert (fork.stop, fork.fault) == (StopReason.ERROR, Fault.ENVIRONMENT)
    assert "call 1: find_member does not give again" in fork.error
    assert not agent.views + user.views


def test_an_agent_with_another_system_prompt_does_not_take_over(act, library, origin):
    other = library.agent().model_copy(update={"system": "You sell shoes."})
    agent, user = library.Says("assistant"), library.Says("user")
    fork = act(agent, user, prefix=went(origin)(5), agent=other)
    assert fork.stop is StopReason.ERROR
    assert "another system prompt" in fork.error


def test_limits_count_what_is_kept(act, library, origin):
    agent, user = library.Says("assistant", [BOOKS], [BOOKS]), library.Says("user")
    fork = act(agent, user, prefix=went(origin)(7), limits=Limits(turns=4))
    assert (fork.stop, len(fork.steps)) == (StopReason.MAX_TURNS, 5)
    agent = library.Says("assistant", [BOOKS])
    fork = act(agent, user, prefix=went(origin)(7), limits=Limits(calls=3))
    assert (fork.stop, len(fork.steps)) == (StopReason.MAX_CALLS, 3)
    agent = library.Says("assistant")
    fork = act(agent, user, prefix=went(origin)(3), limits=Limits(calls=1))
    assert (fork.stop, len(fork.steps)) == (StopReason.MAX_CALLS, 0)


def test_after_a_goodbye_that_was_an_answer_the_agent_has_one_more_message(act, library):
    agent = library.Says("assistant", "Shall I lend it?", [LEND], "It is done.")
    origin = act(agent, library.Says("user", "I want Dune.", "Yes, bye."))
    assert (origin.stop, len(origin.messages)) == (StopReason.USER_DONE, 7)
    for kept, lines in ((4, [[LEND], "All right."]), (6, ["All right."])):
        fork = act(
            library.Says("assistant", *lines), library.Says("user"), prefix=went(origin)(kept)
        )
        assert (fork.stop, fork.messages[-1].content) == (StopReason.USER_DONE, "All right.")


def test_places_are_where_the_agent_speaks_next(origin):
    assert places(origin) == (2, 5, 7)
    assert [calls_in(origin, kept) for kept in (2, 3, 4, 5, 7, 9)] == [0, 0, 1, 2, 3, 3]
    assert [after_calls(origin, calls) for calls in range(4)] == [2, 4, 5, 7]


@pytest.mark.parametrize("kept", [-1, 0, 1, 9, 10])
def test_a_place_that_the_episode_has_not_is_refused(origin, kept):
    with pytest.raises(BadInput, match=r"of its 9 messages \(keep 2 to 8\)"):
        went(origin)(kept)


@pytest.mark.parametrize("calls", [-1, 4])
def test_a_call_that_the_episode_has_not_is_refused(origin, calls):
    with pytest.raises(BadInput, match="it has 3 calls"):
        after_calls(origin, calls)


def test_what_ended_for_want_of_turns_can_go_on_from_its_end(act, library):
    agent = library.Says("assistant", [FIND], [BOOKS])
    origin = act(agent, library.Says("user", "I want Dune."), limits=Limits(turns=2))
    assert origin.stop is StopReason.MAX_TURNS
    agent, user = library.Says("assistant", [LEND], "Done."), library.Says("user", "bye.")
    fork = act(agent, user, prefix=went(origin)(len(origin.messages)))
    assert (fork.stop, fork.diff) == (StopReason.USER_DONE, library.task().blueprint.diffs[0])


# --- faults ------------------------------------------------------------------------------------

NEVER, ALWAYS = Outcomes(), Outcomes(transient=1.0)
OUT_OF_ORDER = Outcomes(permanent=1.0)


def many(environment, count):
    async def made():
        await environment.reset(5)
        return [(await environment.call(*FIND)).outcome for _ in range(count)]

    return asyncio.run(made())


class Rooms:
    """The library with states that can be kept, as wrappers need."""

    def __new__(cls, shelf):
        shelf.snapshot = lambda: asyncio.sleep(0, json.dumps(shelf.state).encode())

        async def restore(state):
            shelf.state = json.loads(state)

        shelf.restore = restore
        return shelf


def test_faults_of_the_prefix_are_the_origins_and_those_after_it_the_forks(library):
    before = [Regime(outcomes=NEVER, seed=1, until=2), Regime(outcomes=ALWAYS, seed=2, until=4)]
    environment = Faulty(Rooms(library.Shelf()), OUT_OF_ORDER, seed=3, before=before)
    for _ in range(2):  # a reset begins with the first ones again
        outcomes = many(environment, 6)
        assert outcomes == ["success"] * 2 + ["transient"] * 2 + ["permanent"] * 2


def test_a_snapshot_and_a_copy_know_what_decides(library):
    before = [Regime(outcomes=NEVER, seed=1, until=2)]
    environment = Faulty(Rooms(library.Shelf()), ALWAYS, seed=3, before=before)

    async def told():
        await environment.reset(5)
        await environment.call(*FIND)
        state = await environment.snapshot()
        first = [(await environment.call(*FIND)).outcome for _ in range(2)]
        await environment.restore(state)
        return first, [(await environment.call(*FIND)).outcome for _ in range(2)]

    assert asyncio.run(told()) == (["success", "transient"],) * 2


def test_only_what_decides_otherwise_is_kept(origin):
    rules = (NEVER, 1), (ALWAYS, 2)
    assert regimes_of(origin.steps, (), rules[0], (NEVER, 9)) == ()
    assert regimes_of(origin.steps, (), rules[1], rules[1]) == ()
    (rule,) = regimes_of(origin.steps, (), rules[0], rules[1])
    assert (rule.outcomes, rule.seed, rule.until) == (NEVER, 1, 3)
    earlier = (Regime(outcomes=NEVER, seed=1, until=2), Regime(outcomes=ALWAYS, seed=8, until=9))
    found = regimes_of(origin.steps, earlier, rules[1], (NEVER, 4))
    assert [(rule.seed, rule.until) for rule in found] == [(1, 2), (8, 3)]
    assert regimes_of((), earlier, rules[1], (NEVER, 4)) == ()


# --- players that take over --------------------------------------------------------------------


@pytest.fixture
def reference(library):
    def reference(task, seed, *, confirms=False):
        agent = library.agent(confirms=confirms)
        user = ScriptedUser(task.request, rng(seed, "user"))
        return ReferenceAgent(task, agent, rng(seed, "agent")), user, agent

    return reference


def verdict(task, agent, trajectory, library):
    return asyncio.run(judge(task, agent, trajectory, library.Shelf(), library.tools))


@pytest.mark.parametrize("confirms", [False, True])
@pytest.mark.parametrize("flaky", [(), (2,), (3, 4)])
def test_the_same_players_go_on_as_if_nobody_had_stopped_them(
    act, library, reference, confirms, flaky
):
    task = library.task(withheld=(library.days,))
    agent, user, who = reference(task, 3, confirms=confirms)
    shelf = library.Shelf(flaky=flaky)
    origin = act(agent, user, task=task, agent=who, environment=shelf)
    assert verdict(task, who, origin, library).reason in ("accepted", "replay")
    for kept in range(2, len(origin.messages)):
        agent, user, _ = reference(task, 3, confirms=confirms)
        fork = act(agent, user, task=task, agent=who, environment=shelf, prefix=went(origin)(kept))
        assert (fork.messages, fork.steps) == (origin.messages, origin.steps), kept


@pytest.mark.parametrize("confirms", [False, True])
def test_whoever_takes_over_asks_nothing_twice_and_repeats_no_call(
    act, library, reference, confirms
):
    task = library.task(withheld=(library.days,))
    agent, user, who = reference(task, 3, confirms=confirms)
    origin = act(agent, user, task=task, agent=who)
    calls = [(step.call.name, step.call.value) for step in origin.steps]
    for kept in places(origin):
        agent, user, _ = reference(task, 4, confirms=confirms)
        fork = act(agent, user, task=task, agent=who, prefix=went(origin)(kept))
        assert verdict(task, who, fork, library).reason == "accepted", kept
        assert [(step.call.name, step.call.value) for step in fork.steps] == calls
        assert len({step.call.id for step in fork.steps}) == len(calls)
        if kept < places(origin)[-1]:
            assert len(fork.messages) == len(origin.messages)


def test_a_yes_to_one_write_is_none_to_the_next(act, library, reference):
    fee = library.planned("pay_fee", 2, member_id="M1", amount=50)
    task = library.task(
        clauses=('borrow "Dune" for 14 days', "pay 0.50 EUR"),
        solution=(*library.task().blueprint.solution, fee),
        decoys={},
    )
    agent, user, who = reference(task, 3, confirms=True)
    origin = act(agent, user, task=task, agent=who)
    assert [step.call.name for step in origin.steps][-2:] == ["lend_book", "pay_fee"]
    lent = next(i for i, m in enumerate(origin.messages) if '"due"' in (m.content or ""))
    agent, user, _ = reference(task, 4, confirms=True)
    fork = act(agent, user, task=task, agent=who, prefix=went(origin)(lent + 1))
    assert fork.messages[lent + 1].tool_calls == ()
    assert fork.messages[lent + 2].role == "user"
    assert fork.messages[lent + 3].tool_calls[0].name == "pay_fee"


def test_a_call_that_failed_for_a_moment_is_made_again_by_who_takes_over(act, library, reference):
    task = library.task()
    agent = library.Says("assistant", [FIND, BOOKS], "Wait.", "Bye.")
    shelf = library.Shelf(flaky=[2])
    origin = act(agent, library.Says("user", task.request, "bye."), task=task, environment=shelf)
    agent, user, who = reference(task, 4)
    fork = act(agent, user, task=task, agent=who, environment=shelf, prefix=went(origin)(5))
    names = [step.call.name for step in fork.steps]
    assert names == ["find_member", "find_books", "find_books", "lend_book"]


def test_the_scripted_user_has_heard_what_was_kept(act, library):
    task = library.task(withheld=(library.days,))
    ask = "What is the number of days?"
    agent = library.Says("assistant", ask, ask, "All done.")
    origin = act(agent, ScriptedUser(task.request, rng(1)), task=task)
    told = [m.content for m in origin.messages if m.role == "user"]
    assert told[1] != told[2]  # it says so the second time
    agent = library.Says("assistant", ask, "All done.")
    fork = act(agent, ScriptedUser(task.request, rng(1)), task=task, prefix=went(origin)(4))
    assert fork.messages == origin.messages
    fresh = ScriptedUser(task.request, rng(1))
    fork = act(library.Says("assistant", ask, "All done."), fresh, task=task,
               prefix=went(origin)(2))  # fmt: skip
    assert fork.messages[3].content == told[1]


def test_a_player_that_remembers_nothing_sees_what_was_kept(act, library, origin):
    """Models are asked for what comes next only; what was said is in what they are shown."""
    agent, user = library.Says("assistant", "Done."), library.Says("user", "bye.")
    act(agent, user, prefix=went(origin)(7))
    assert agent.views == [[m.content for m in origin.messages[:7]]]
    assert Message(role="user", content="I want Dune.") in origin.messages
