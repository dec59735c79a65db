"""The scripted user: tells what is asked, agrees to what it wants, and nothing else."""

import asyncio
import random
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulators.users.scripted import PATIENCE, ScriptedUser
from synth.core import voices
from synth.core.protocols import UserView
from synth.core.types import Fact, Message, Persona

pytestmark = pytest.mark.claim("k2-users")

FACTS = (
    Fact(name="user.name", label="name", value="Ann Lee", spoken="Ann Lee"),
    Fact(name="user.email", label="e-mail address", value="ann@ex.org", spoken="ann@ex.org"),
    Fact(name="box_id.size", label="size of the box", value="L", spoken="L"),
    Fact(name="box_id.name", label="name of the box", value="North", spoken="North"),
    Fact(name="loan_id.due", label="due date of the loan", value="2026-03-03",
         spoken="3 March 2026"),
    Fact(name="card_id.due", label="due date of the card", value="2026-05-09",
         spoken="9 May 2026"),
)  # fmt: skip
CLAUSE = 'extend my loan of "Dune" by 5 days'


class Talk:
    """Says an agent's lines to a user, one after another."""

    def __init__(self, voice="plain", seed=1, clauses=(CLAUSE,)):
        self.user = ScriptedUser("I would like to extend my loan.", random.Random(seed))
        self.persona, self.clauses = Persona(name="Ann", voice=voice), clauses
        self.messages = []

    def __call__(self, line=None):
        if line is not None:
            self.messages.append(Message(role="assistant", content=line))
        view = UserView(self.persona, self.clauses, FACTS, self.messages)
        turn = asyncio.run(self.user.turn(view))
        self.messages.append(turn.message)
        return turn.message.content, turn.done


@pytest.fixture
def talk():
    def begin(**given):
        talk = Talk(**given)
        assert talk() == ("I would like to extend my loan.", False)
        return talk

    return begin


def values(text):
    return {f.spoken for f in FACTS if re.search(rf"(?<!\w){re.escape(f.spoken)}(?!\w)", text)}


@pytest.mark.parametrize(
    ("question", "told"),
    [
        ("What is your name?", {"Ann Lee"}),
        ("Could you tell me your name and e-mail address?", {"Ann Lee", "ann@ex.org"}),
        ("I need your email to find you.", {"ann@ex.org"}),
        ("What is the name of the box?", {"North"}),
        ("What size do you need?", {"L"}),
        ("To go on, I need to know the size of the box. Could you give me that?", {"L"}),
        ("When is the due date of the card?", {"9 May 2026"}),
        ("Who am I speaking with?", {"Ann Lee", "ann@ex.org"}),
        ("Please confirm your e-mail address.", {"ann@ex.org"}),
        ("Missing: size of the box - can you tell me?", {"L"}),
        ("What is the name of the author?", set()),
        ("What is your customer number?", set()),
        ("What is the due date?", set()),
    ],
)
@pytest.mark.parametrize("voice", voices.names())
def test_what_a_question_names_is_told_and_nothing_else(talk, voice, question, told):
    text, done = talk(voice=voice)(question)
    assert values(text) == told
    assert done is False


def test_when_it_cannot_tell_the_user_asks_back(talk):
    text, _ = talk()("What is the due date?")
    assert "the due date of the loan or the due date of the card" in text
    assert text.endswith("?")


@pytest.mark.claim("d08")
@pytest.mark.parametrize("voice", voices.names())
def test_an_unknown_number_is_never_made_up(talk, voice):
    for seed in range(20):
        text, done = talk(voice=voice, seed=seed)("What is your customer number?")
        assert not re.search(r"\d", text)
        assert done is False


@pytest.mark.parametrize(
    "proposal",
    [
        "You want to extend your loan. Shall I go ahead?",
        'I would extend the loan of "Dune" by 5 days. Is that correct?',
        "I extend it by 5 days, until 8 March 2026, for loan L-77. OK?",
        "Your name is Ann Lee and the size of the box is L. Is that right?",
        "Your e-mail address is ann@ex.org, correct?",
        "The due date of the loan is 2026-03-03. Is this right?",
        "Please confirm.",
    ],
)
def test_a_proposal_that_fits_gets_a_yes_and_the_talk_goes_on(talk, proposal):
    for seed in range(8):
        text, done = talk(seed=seed)(proposal)
        assert re.match(r"Yes|Correct", text)
        assert done is False


@pytest.mark.parametrize(
    ("proposal", "right"),
    [
        ("The size of the box is M. Is that correct?", "L"),
        ("Your e-mail address is bob@ex.org. Shall I go ahead?", "ann@ex.org"),
        ("The due date of the loan is 2026-03-04, right?", "3 March 2026"),
        ('Shall I extend the loan of "Emma"?', '"Dune"'),
        ("I would extend it by 7 days. Shall I?", "5 days"),
    ],
)
def test_a_proposal_that_contradicts_gets_a_no_and_the_right_value(talk, proposal, right):
    text, done = talk()(proposal)
    assert text.startswith("No")
    assert right in text
    assert done is False


def test_the_values_of_two_wishes_under_one_label_are_both_right(talk):
    clauses = (
        'send 20 EUR to Ann with the size of the box "Large one"',
        'send 30 EUR to Tom with the size of the box "Small one"',
    )
    text, _ = talk(clauses=clauses)(f"You want to {clauses[0]} and {clauses[1]}, correct?")
    assert re.match(r"Yes|Correct", text)


def test_a_yes_and_an_answer_come_together(talk):
    text, _ = talk()("I would extend it. Is that correct? And what is your name?")
    assert re.match(r"Yes|Correct", text)
    assert "Ann Lee" in text


@pytest.mark.parametrize(
    "report",
    [
        "Done: your loan is extended.",
        "Your loan is due on 3 March 2026. Is there anything else I can help with?",
        "I am sorry, I cannot do that. The rule is: no loan is extended twice.",
        'I found "Who goes there?" for you.',
        "I have your phone number on file: +49 157 747 45 74. If you need to change it, please "
        "let me know.",
        "Your loan is extended. Please let me know if you have any other questions.",
        "All done. Please feel free to tell me if something is missing. Did that help?",
    ],
)
@pytest.mark.parametrize("voice", voices.names())
def test_a_report_an_answer_or_a_refusal_ends_the_talk_with_a_closing_sentence(talk, voice, report):
    text, done = talk(voice=voice)(report)
    assert done is True
    assert text
    assert not values(text)


@pytest.mark.parametrize("question", ["Hello! How can I help you?", "What would you like to do?"])
def test_who_asks_for_the_wish_hears_it_again_and_not_for_ever(talk, question):
    talk = talk()
    answers = [talk(question) for _ in range(PATIENCE + 1)]
    assert all(CLAUSE in text and not done for text, done in answers[:-1])
    assert answers[-1][1] is True


def test_one_moment_is_waited_for_and_not_for_ever(talk):
    talk = talk()
    assert [talk("One moment, I will check that.")[1] for _ in range(PATIENCE)] == [
        False
    ] * PATIENCE
    assert talk("One moment, I will check that.")[1] is True


@pytest.mark.parametrize("question", ["What is your name?", "What is your shoe size?"])
def test_asking_the_same_again_and_again_ends_in_impatience(talk, question):
    talk = talk()
    answers = [talk(question) for _ in range(PATIENCE + 2)]
    assert answers[0][1] is False
    assert answers[-1][1] is True
    if "name" in question:
        assert values(answers[1][0]) == {"Ann Lee"}  # told again, with a sigh
        assert re.match(r"I already said|As I wrote before", answers[1][0])
        assert not values(answers[-1][0])


def test_identifiers_the_agent_brings_up_are_not_taken_over(talk):
    text, _ = talk()("Is your loan L-77 or L-78?")
    assert "L-7" not in text


@given(line=st.text(max_size=120), voice=st.sampled_from(voices.names()))
@settings(max_examples=60, deadline=None)
def test_whatever_an_agent_says_the_user_answers_and_invents_nothing(line, voice):
    talk = Talk(voice=voice)
    talk()
    text, _ = talk(line)
    assert text.strip()
    known = " ".join([CLAUSE, *(f.spoken for f in FACTS)])
    assert set(re.findall(r"\d+", text)) <= set(re.findall(r"\d+", known))
