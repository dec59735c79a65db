"""Voices: complete, verbatim, different from one another, and various in themselves."""

import random
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synth.core import voices
from synth.core.errors import BadInput, UnknownName
from synth.core.types import Fact, Persona

NAME = Fact(name="user.name", label="name", value="Ann Lee", spoken="Ann Lee")
SIZE = Fact(name="box_id.size", label="size of the box", value="M", spoken="M")
CLAUSES = ('borrow "Dune"', "know when my loan is due")


def opening(name, seed, clauses=CLAUSES, facts=(NAME, SIZE)):
    return voices.opening(Persona(name="A", voice=name), clauses, facts, random.Random(seed))


def test_there_are_eight_voices_and_four_styles():
    assert voices.names() == (
        "casual", "chatty", "formal", "hesitant", "impatient", "plain", "polite", "terse",
    )  # fmt: skip
    assert voices.styles() == ("brief", "formal", "plain", "warm")


@pytest.mark.parametrize("name", voices.names())
def test_an_opening_states_every_clause_and_fact_verbatim(name):
    for seed in range(60):
        text = opening(name, seed)
        for part in (*CLAUSES, "Ann Lee"):
            assert part in text
        assert re.search(r"(?<!\w)M(?!\w)", text)
        assert "  " not in text
        assert not re.search(r"[{}<>|]", text)


@pytest.mark.parametrize("name", voices.names())
def test_a_voice_has_many_ways_to_say_the_same(name):
    assert len({opening(name, seed) for seed in range(300)}) > 60
    assert opening(name, 5) == opening(name, 5)


def test_no_two_voices_share_a_sentence():
    spoken = {}
    for name in voices.names():
        speaker, rng = voices.voice(name), random.Random(1)
        fields = {**voices.fact_fields(SIZE), "options": "A or B", "clause": "go", "first": "a",
                  "second": "b", "wants": "W", "facts": "F", "question": "Q"}  # fmt: skip
        symbols = voices.USER_SYMBOLS - {"opening", "and"}
        spoken[name] = {
            (symbol, speaker.say(symbol, rng, **fields)) for symbol in symbols for _ in range(80)
        }
    names = voices.names()
    for one, two in ((a, b) for i, a in enumerate(names) for b in names[i + 1 :]):
        assert not spoken[one] & spoken[two]


@given(
    value=st.text(
        alphabet=st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), min_size=1
    ),
    name=st.sampled_from(voices.names()),
    seed=st.integers(0, 50),
)
@settings(max_examples=60, deadline=None)
def test_values_are_never_read_as_grammar(value, name, seed):
    fact = Fact(name="x", label="code", value=value, spoken=value)
    assert value in opening(name, seed, ("open {clause} <want> | now",), (fact,))


def test_a_bare_question_gets_what_makes_it_a_wish_that_any_sentence_can_go_on_with():
    assert voices.wish("when my loan is due") == "find out when my loan is due"
    assert voices.wish("at what time it starts") == "find out at what time it starts"
    assert voices.wish("know whether it is open") == "know whether it is open"
    assert voices.wish("whisk the eggs") == "whisk the eggs"


@pytest.mark.parametrize(
    ("label", "name", "said"),
    [
        ("name", "user.name", "my name"),
        ("shoe size", "user.shoe", "my shoe size"),
        ("e-mail address", "email", "my e-mail address"),
        ("size of the box", "box_id.size", "the size of the box"),
        ("the reason", "reason", "the reason"),
    ],
)
def test_people_call_their_own_things_theirs(label, name, said):
    assert voices.possessive(Fact(name=name, label=label, value="x", spoken="x")) == said


def test_unknown_voices_and_languages_are_named_with_a_hint():
    with pytest.raises(UnknownName, match="did you mean 'polite'"):
        opening("polit", 1)
    with pytest.raises(UnknownName, match="known: de, en"):
        voices.names("xx")


def test_a_broken_grammar_says_which_symbol():
    with pytest.raises(BadInput, match="greet: <hallo> has no alternatives"):
        voices.Voice("v", {"greet": ["<hallo>!"]})
