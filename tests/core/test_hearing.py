"""What an agent's sentences want of a user, and what a user's words are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from synth.core.errors import BadInput, UnknownName
from synth.core.hearing import Hearing, hearing, languages

HEARS = hearing("en")


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("What is your name?", ["What is your name?"]),
        ("Done. Is there anything else I can do?", []),
        ("I need your name. Then we go on.", ["I need your name."]),
        ("Please tell me the size of the box.", ["Please tell me the size of the box."]),
        ('I lent you "Who goes there?". Bye.', []),
        ("Can I help you with anything else?", []),
        ("First?\nSecond?", ["First?", "Second?"]),
        ("Thank you for the information.", []),
    ],
)
def test_questions_that_want_an_answer_are_told_from_courtesies(text, asked):
    assert HEARS.questions(text) == asked


CLOSERS = (
    "If you need to change it, please let me know.",
    "Let me know if there is anything else.",
    "Please let me know if you have any questions.",
    "Please don't hesitate to tell me if something is missing.",
    "Is there anything else I can help you with?",
    "Is there anything I can do for you?",
    "Anything else?",
    "Something else?",
    "What else can I do for you today?",
    "How else may I assist?",
    "Do you need any further assistance?",
    "Would you like help with any other matters?",
    "Can I help you with that?",
    "Can I assist you further?",
    "Feel free to ask.",
    "Please feel free to send us a message any time.",
    "Should you need more details, please tell me.",
    "Please let us know in case you notice anything odd.",
    "If anything changes, please let me know right away.",
    "Whenever you need me, please just ask and I will send it again.",
    "Does that answer your question?",
    "Did that help?",
    "Is that all?",
    "Will that be everything for today?",
    "Are you all set?",
    "Please let me know if this isn't what you meant.",
    "Could you let me know if there is more that I can do?",
)


@pytest.mark.parametrize("text", CLOSERS)
def test_an_offer_of_more_asks_nothing(text):
    assert HEARS.questions(f"Your phone number is on file: +49 157 747 45 74. {text}") == []


REAL = (
    "If you know your customer number, please tell me.",
    "If you have your card number at hand, please share it.",
    "If you want me to look it up, please tell me your e-mail address.",
    "If that suits you, which day shall I take?",
    "Please let me know which account you mean.",
    "Let me know whether you want the window or the aisle.",
    "Let me know if I should go ahead.",
    "Please let me know if that is correct.",
    "If everything is right, please confirm.",
    "Is that all right?",
    "Is there anything else I should know before I go ahead?",
    "Feel free to tell me your order number.",
    "What would you like to change?",
    "How many more days do you need?",
    "Who else should be invited?",
    "Could you give me a date?",
    "Do you want me to send you the rest if you are at home?",
)


@pytest.mark.parametrize("text", REAL)
def test_a_question_stays_one_however_politely_it_is_put(text):
    assert HEARS.questions(f"Thank you. {text}") == [text]


@pytest.mark.parametrize(
    "text",
    ["How can I help you?", "What can I do for you today?",
     "What would you like to do?", "Could you clarify your request?"],
)  # fmt: skip
def test_who_asks_for_the_wish_is_understood(text):
    assert HEARS.questions(text) == [text]
    assert HEARS.has("wish", text)
    assert not HEARS.has("wish", "What is your name?")


@pytest.mark.parametrize(
    ("text", "leaves"),
    [
        ("Thank you.", True),
        ("Thanks a lot, you're welcome!", True),
        ("Thank you for your message.", True),
        ("OK, perfect. Thank you so much!", True),
        ("Great, that's all. Bye!", True),
        ("Goodbye, then.", True),
        ("Thank you, and please block my card too.", False),
        ("Thanks. My name is Ann.", False),
        ("That is all right.", False),
        ("Thanks, is that all?", False),
        ("Yes, please do that.", False),
        ("Yes.", False),
    ],
)
def test_a_goodbye_is_told_from_thanks_that_go_on(text, leaves):
    assert HEARS.takes_leave(text) is leaves


def test_a_language_nobody_understands_is_named():
    with pytest.raises(UnknownName, match="language"):
        hearing("xx")
    with pytest.raises(BadInput, match=r"kinds of sentence or word are missing: .*farewell"):
        Hearing("xx", {"consent": ["x"]})


@given(st.text(max_size=300), st.sampled_from(languages()))
def test_any_text_can_be_heard(text, language):
    hears = hearing(language)
    for sentence in hears.questions(text):
        assert sentence
        assert not hears.is_polite(sentence)
    assert hears.takes_leave(text) in (True, False)


def test_a_title_ends_no_sentence():
    asks = "Do you confirm that you wish to see Dr. Thomas Pichler on 3 March 2026?"
    assert hearing("en").questions(f"I found Dr. Conti. {asks}") == [asks]
    assert hearing("en").has("consent", asks)


def test_a_second_pillow_is_no_second_to_wait():
    for text in ("A second, please.", "Just a second", "I need a second while this loads."):
        assert HEARS.has("wait", text), text
    for text in ("Your request for a second pillow is complete.", "No tool prints a second copy."):
        assert not HEARS.has("wait", text), text
