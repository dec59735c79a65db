"""A user played by a model: what it is shown, and which replies never reach the agent."""

import asyncio
import re

import pytest

from simulators.users.model import STOP, TRIES, ModelUser
from synth.core.config import load_config
from synth.core.errors import BadConfig, ModelFailed, ToolloomError
from synth.core.llm.scripted import ScriptedLLM
from synth.core.protocols import Reply, Sampler, UserView
from synth.core.types import Fact, Message, Persona, Usage
from synth.pipeline.cast import Cast

PERSONA = Persona(name="Ann Lee", voice="terse", traits=("is at work",))
FACTS = (
    Fact(name="user.email", label="e-mail", value="ann@ex.org", spoken="ann@ex.org"),
    Fact(name="phone", label="phone", value="+49 30 1234567", spoken="+49 30 1234567"),
)


def turn(llm, *said, opening=()):
    roles = ("user", "assistant")
    messages = [Message(role=roles[i % 2], content=text) for i, text in enumerate(said)]
    view = UserView(PERSONA, ("borrow a book",), FACTS, messages, opening)
    return asyncio.run(ModelUser(llm, Sampler(temperature=0.3)).turn(view))


def test_the_model_sees_persona_wishes_and_facts_with_the_roles_turned():
    llm = ScriptedLLM(["Sure."])
    turn(llm, "I want a book.", "Which one? Your loan is L-77.")
    system, start, mine, agents = llm.requests[0].messages
    for part in ("Ann Lee", "terse", "is at work", "to borrow a book", "e-mail: ann@ex.org", STOP):
        assert part in system["content"]
    assert [m["role"] for m in (start, mine, agents)] == ["user", "assistant", "user"]
    assert agents["content"] == "Which one? Your loan is L-77."
    assert llm.requests[0].tools == ()
    assert llm.requests[0].sampler.temperature == 0.3


def test_the_prompt_speaks_of_neither_tools_nor_rubrics():
    llm = ScriptedLLM(["Hello, I want a book."])
    turn(llm)
    text = str(llm.requests[0].messages).lower()
    assert not [word for word in ("tool", "rubric", "database", "criteri", "json") if word in text]


@pytest.mark.claim("d02")
@pytest.mark.parametrize(
    ("reply", "said", "done"),
    [
        ("I want a book.", "I want a book.", False),
        (f"No thanks, close it. {STOP}", "No thanks, close it.", True),
        (f"{STOP} Bye then.", "Bye then.", True),
        (f"Thanks.\n{STOP}\nGoodbye.", "Thanks. Goodbye.", True),
        ("Thanks. ###STOP###", "Thanks.", True),
        (f"<think>I am the user, so I stop.</think>Bye. {STOP}", "Bye.", True),
        ("<think>never closed", "Good, thank you. Goodbye.", None),
    ],
)
def test_a_closing_sentence_is_delivered_and_the_token_is_not(reply, said, done):
    if done is None:  # nothing is left of it: asked again
        result = turn(ScriptedLLM([reply, f"{STOP}"]), "Hi.", "Done.")
        assert (result.message.content, result.done) == (said, True)
        return
    result = turn(ScriptedLLM([reply]), "Hi.", "Done.")
    assert (result.message.content, result.done) == (said, done)


@pytest.mark.claim("d04")
@pytest.mark.claim("d06")
@pytest.mark.claim("d08")
@pytest.mark.parametrize(
    ("reply", "why"),
    [
        ("As the user I should agree. Yes.", "leak"),
        ('<tool_call>{"name": "read_key_card", "arguments": {}}</tool_call>', "leak"),
        ('Just a moment. {"name": "read_key_card", "parameters": {}}', "leak"),
        ("My instructions say that I want a book.", "leak"),
        ("I was told not to reveal my phone. Yes.", "leak"),
        ("As an AI language model I cannot borrow books.", "leak"),
        ("What you want: to borrow a book.", "leak"),
        ("I write one message at a time, in the first person. A book, please.", "leak"),
        ("I am here:\n- to borrow a book\n- e-mail: ann@ex.org", "leak"),
        ("1. phone: +49 30 1234567\n2. e-mail: ann@ex.org", "leak"),
        ("How can I help you today?", "role"),
        ("Thank you for contacting us!", "role"),
        ("Yes, please. I have now cancelled your booking.", "role"),
        ("Your booking has been successfully cancelled.", "role"),
        ("I want a book.\nAgent: Of course, which one?", "role"),
        ("Yes. Let me check that loan for you.", "role"),
        ("Let me look that up.", "role"),
        ("Could you please provide me with your e-mail address?", "role"),
        ("I am a virtual assistant.", "role"),
        ("My number is K-4711.", "invented: nobody told it 'K-4711'"),
        ("Write to bob@ex.org.", "invented: nobody told it 'bob@ex.org'"),
        ("My PIN is 20394.", "invented: nobody told it '20394'"),
        ("It is +49 30 765 43 21.", "invented: nobody told it '.49 30 765 43 21'"),
        ("I would pay 20 EUR for it.", "invented: nobody told it '20 EUR'"),
        ("I was born on 3 May 1990.", "invented: nobody told it '3 May"),
        ("", "empty: said nothing"),
    ],
)
def test_what_no_user_says_is_asked_for_again_and_then_the_users_fault(reply, why):
    llm = ScriptedLLM([reply, "I want a book."])
    assert turn(llm, "Hi.", "And?").message.content == "I want a book."
    assert len(llm.requests) == 2
    with pytest.raises(ToolloomError, match=why) as failed:
        turn(ScriptedLLM([reply] * TRIES), "Hi.", "And?")
    assert not isinstance(failed.value, ModelFailed)


def test_a_reply_that_was_cut_off_is_asked_for_again():
    half = Reply(Message(role="assistant", content="I want a"), "length", "m", Usage())
    llm = ScriptedLLM([half, "I want a book."])
    assert turn(llm).message.content == "I want a book."
    with pytest.raises(ToolloomError, match="was cut off"):
        turn(ScriptedLLM([half] * TRIES))


@pytest.mark.parametrize(
    "reply",
    [
        "It is ann@ex.org.",
        "My phone is +49301234567.",
        "Yes, loan L-77 please.",
        "I need 2 books for 14 days.",
        "I have checked my mail, and your letter is not there.",
        "Please support: it is urgent, and I will wait for you.",
        "Could you tell me your opening hours?",
        "Let me check my papers. It is ann@ex.org.",
        "Good, so my booking has been cancelled? Then book another one for me.",
        "I want two things:\n- a book\n- a card",
    ],
)
def test_facts_and_what_the_agent_said_may_be_repeated(reply):
    result = turn(ScriptedLLM([reply]), "I want a book.", "Do you mean loan L-77?")
    assert result.message.content == " ".join(reply.split())


@pytest.mark.claim("d02")
@pytest.mark.parametrize(
    ("heard", "said", "done"),
    [
        ("Your book is lent to you.", "Thank you, goodbye.", True),
        ("Good day to you.", "Thank you.", True),
        ("You're welcome. Let me know if you need anything.", "Thank you so much!", True),
        ("Shall I lend it to you?", "Yes, thank you, bye.", False),
        ("One moment, I will look.", "Thank you.", False),
        ("Your book is lent to you.", "Thanks. When is it due?", False),
        ("Your book is lent to you.", "Thank you, and now another one.", False),
    ],
)
def test_a_user_that_takes_leave_without_the_token_has_left(heard, said, done):
    assert turn(ScriptedLLM([said]), "I want a book.", heard).done is done


def test_a_first_message_that_leaves_out_what_it_should_state_is_asked_for_again():
    opening = FACTS[:1]
    llm = ScriptedLLM(["I want a book.", "I want a book, I am ANN@ex.org."])
    assert turn(llm, opening=opening).message.content.endswith("ANN@ex.org.")
    system = llm.requests[0].messages[0]["content"]
    assert "first message says what you want and states" in system
    assert "e-mail ann@ex.org" in system
    late = turn(ScriptedLLM(["I want a book."] * TRIES), opening=opening)
    assert late.message.content == "I want a book."  # the agent can ask
    answer = turn(ScriptedLLM(["Yes."]), "I want a book.", "Shall I?", opening=opening)
    assert answer.message.content == "Yes."


@pytest.mark.parametrize("note", ["<note>they lie</note>", "[private: be careful]", "<think>x"])
def test_private_notes_never_reach_the_agent(note):
    assert turn(ScriptedLLM([f"Yes. {note}"]), "Hi.", "And?").message.content == "Yes."


def best_of(drafts, verdict, candidates=3):
    critic = ScriptedLLM([verdict])
    user = ModelUser(ScriptedLLM(drafts), Sampler(0.9), critic, candidates)
    view = UserView(PERSONA, ("borrow a book",), FACTS, [])
    return asyncio.run(user.turn(view)), critic, user


@pytest.mark.parametrize(
    ("verdict", "chosen"),
    [("2", "B, please."), ("Draft 3.", "C, please."), ("none", "A, please."), ("9", "A, please.")],
)
def test_a_critic_chooses_among_drafts(verdict, chosen):
    drafts = ["A, please.", "B, please.", "How can I help you?", "C, please."]
    turn, critic, user = best_of(drafts, verdict)
    assert turn.message.content == chosen
    page = critic.requests[0].messages[0]["content"]
    assert "1. A, please.\n2. B, please.\n3. C, please." in page  # what no user says is no draft
    assert "ann@ex.org" in page
    assert re.search(r" best of 3 by scripted\S*@critic/[0-9a-f]+$", user.who)


def test_drafts_that_are_alike_need_no_critic():
    turn, critic, _ = best_of(["A, please."] * 3, "2")
    assert turn.message.content == "A, please."
    assert critic.requests == []


def test_fewer_drafts_than_wanted_are_enough():
    turn, *_ = best_of(["A, please.", "B, please.", *["How can I help you?"] * 3], "2")
    assert turn.message.content == "B, please."


def test_a_failing_endpoint_is_not_the_users_fault():
    with pytest.raises(ModelFailed):
        turn(ScriptedLLM([]), "Hi.", "And?")


def test_the_prompt_version_is_on_record():
    who = ModelUser(ScriptedLLM([], name="m"), Sampler(0.5, 0.9, 64)).who
    assert re.fullmatch(
        r"model:m@user/[0-9a-f]+ \(temperature=0\.5, top_p=0\.9, max_tokens=64\)", who
    )


def test_drafts_without_a_critic_are_no_configuration():
    config = load_config(overrides=["models.user={ model = 'm', candidates = 3 }"])
    with pytest.raises(BadConfig, match="nobody chooses among the drafts"):
        Cast(config)
