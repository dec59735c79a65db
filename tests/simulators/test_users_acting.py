"""What a scripted user does with tools of their own: just what they are asked to."""

import asyncio
import random

import pytest

from simulators.sql.acts import user_act
from simulators.sql.attempt import Attempt
from simulators.sql.engine import Engine
from simulators.sql.load import load_application
from simulators.sql.stage import Stage
from simulators.users.scripted import ScriptedUser
from synth.core.acting import acting
from synth.core.errors import NotSuitable
from synth.core.hearing import languages
from synth.core.protocols import UserView
from synth.core.types import Act, Effect, Message, Persona, Provenance, ToolSpec

PERSONA = Persona(name="Ann", voice="plain")
ACTS = (
    Act(tool="plug_in", arguments={"gate": "east gate"}, words="plug in the east gate"),
    Act(tool="plug_in", arguments={"gate": "west gate"}, words="plug in the west gate"),
    Act(
        tool="read_pin",
        arguments={"gate": "east gate"},
        words="read the pin on the east gate",
        labels={"pin": "pin"},
    ),
)
TOOLS = tuple(
    ToolSpec(name=name, description="", effect=effect, provenance=Provenance(source="here"))
    for name, effect in (("plug_in", Effect.WRITE), ("read_pin", Effect.READ))
)
REQUEST = Message(role="user", content="I want to have my gate opened.")


def answer(heard, *before, acts=ACTS):
    """Return the turn of a scripted user who hears something."""
    agent = Message(role="assistant", content=heard)
    view = UserView(
        PERSONA, ("have the gate opened",), (), [REQUEST, *before, agent], (), acts, TOOLS
    )
    return asyncio.run(ScriptedUser("", random.Random(1)).turn(view))


def called(turn):
    return [(call.name, call.value) for call in turn.message.tool_calls]


@pytest.mark.parametrize(
    ("heard", "tool", "gate"),
    [
        (
            "Could you please plug in the east gate, and tell me when it is done?",
            "plug_in",
            "east gate",
        ),
        ("Please make sure that the west gate is plugged in.", "plug_in", "west gate"),
        ("You need to read me the pin on your east gate.", "read_pin", "east gate"),
    ],
)
def test_a_user_does_what_a_request_names(heard, tool, gate):
    turn = answer(heard)
    assert called(turn) == [(tool, {"gate": gate})]
    assert (turn.done, turn.message.content) == (False, None)


@pytest.mark.parametrize(
    "heard",
    [
        "Could you please plug in the south gate?",
        "Please read the pin on the west gate to me.",
    ],
)
def test_a_user_cannot_find_what_is_not_there(heard):
    turn = answer(heard)
    assert not turn.message.tool_calls
    assert acting("en").excuses(turn.message.content) or "nothing like that" in turn.message.content


@pytest.mark.parametrize(
    "heard",
    [
        "The east gate has no power: nobody has plugged it in.",
        "Your wish to have the gate opened has been fulfilled.",
        "Shall I open the east gate?",
        "What is your name?",
    ],
)
def test_a_user_does_nothing_that_nobody_asked_for(heard):
    assert not answer(heard).message.tool_calls


def test_a_user_asks_which_of_two_things_is_meant():
    turn = answer("Please plug in the gate, east or west: either gate.")
    assert not turn.message.tool_calls
    assert "plug in the east gate or plug in the west gate" in turn.message.content


def test_it_is_the_thing_that_was_spoken_of():
    before = Message(role="assistant", content="Your east gate has no power.")
    assert called(answer("Could you please plug it in?", before, acts=ACTS[:1])) == [
        ("plug_in", {"gate": "east gate"})
    ]
    assert not answer("Could you please plug it in?", acts=ACTS[:1]).message.tool_calls


def acted(act, content):
    call = answer(f"Please {act.words}.").message
    return call, Message(role="tool", content=content, tool_call_id=call.tool_calls[0].id)


@pytest.mark.parametrize(
    ("act", "content", "said"),
    [
        (ACTS[2], '{"pin":"11-22"}', "the pin is 11-22"),
        (ACTS[0], '{"error":"not_there","message":"There is no such plug."}', "no such plug."),
        (ACTS[0], '{"done":true}', "that"),
    ],
)
def test_a_user_reports_what_came_of_it(act, content, said):
    call, result = acted(act, content)
    ask = Message(role="assistant", content=f"Please {act.words}.")
    view = UserView(PERSONA, (), (), [REQUEST, ask, call, result], (), ACTS, TOOLS)
    turn = asyncio.run(ScriptedUser("", random.Random(1)).turn(view))
    assert said in turn.message.content
    assert acting("en").excuses(turn.message.content) is ("error" in content)
    assert not turn.done


def test_what_is_done_is_done_once_and_what_can_be_read_is_read_again():
    for act, content, again in ((ACTS[0], '{"done":true}', 0), (ACTS[2], '{"pin":"11-22"}', 1)):
        call, result = acted(act, content)
        turn = answer(f"Please {act.words}.", call, result)
        assert len(turn.message.tool_calls) == again


def test_a_user_who_is_asked_for_the_impossible_again_and_again_leaves():
    user = ScriptedUser("", random.Random(1))
    heard = Message(role="assistant", content="Could you please plug in the south gate?")
    view = UserView(PERSONA, (), (), [REQUEST, heard], (), ACTS, TOOLS)
    turns = [asyncio.run(user.turn(view)) for _ in range(6)]
    assert [turn.done for turn in turns[:4]] == [False] * 4
    assert any(turn.done for turn in turns[4:])


@pytest.mark.parametrize("language", languages())
def test_a_request_and_an_excuse_are_understood_in_every_language(language):
    says, rng = acting(language), random.Random(1)
    act = Act(tool="t", arguments={"g": "Tor Ost"}, words="Tor Ost anschalten enchufar brancher")
    for _ in range(12):
        for symbol in ("ask", "ask_read"):
            heard = says.say(symbol, rng, words=act.words)
            assert says.meant([act], heard) == [act]
        for symbol in ("done", "again"):
            assert not says.excuses(says.say(symbol, rng))
        assert not says.excuses(says.say("read", rng, values="X"))
        assert says.excuses(says.say("failed", rng, reason="X."))
        assert says.excuses(says.say("missing", rng))


# --- what users of applications hold ---


@pytest.mark.parametrize("name", ["smart_home", "clinic", "hotel"])
def test_every_tool_that_users_of_an_application_hold_is_needed_for_something(name):
    stage = Stage(Engine(load_application(name)))
    tools = tuple(stage.application.specs)
    held = set(stage.application.user_specs)
    assert len(held) >= 2
    found = set()
    for number in range(60):
        attempt = Attempt(stage, tools, number % 3, random.Random(number))
        try:
            task = attempt.blueprint(user_act(attempt))
        except NotSuitable:
            continue
        acts = [call for call in task.solution if call.by == "user"]
        found |= {call.tool for call in acts}
        # None of the acts can be spared: whoever asks for one too many changes too much.
        for spared in acts:
            moves = [(c.tool, c.arguments) for c in task.solution if c is not spared]
            if spared.effect is not Effect.READ:
                assert not stage.replay(task.state_seed, moves, task.user)
        if found == held:
            break
    assert found == held
