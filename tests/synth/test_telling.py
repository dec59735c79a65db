"""How values are told: in number with what they name, and in the language of who hears it."""

import random

import pytest

from synth.core.hearing import hearing, languages
from synth.core.speech import speech
from synth.core.types import Agent, Behaviour, OutputValue
from synth.reference import ReferenceAgent
from synth.telling import ended


@pytest.fixture(name="tells")
def _tells(library):
    def tells(label, *values, kind="integer"):
        behaviour = Behaviour(name="x", style="formal")
        agent = Agent(application="library", system="", tools=(), behaviour=behaviour)
        player = ReferenceAgent(library.task(), agent, random.Random(1))
        found = [OutputValue(label=label, type=kind, value=value) for value in values]
        return {player._tell(found) for _ in range(20)}

    return tells


def test_several_things_are_never_told_with_a_singular_verb(tells):
    assert tells("points", 33450) == {"Points: 33450."}
    assert tells("on hold", False, kind="boolean") == {"On hold: no."}
    assert tells("name", "Ann", "Bo", kind="text") == {"Name: Ann and Bo."}
    assert "The balance is 5." in tells("balance", 5)


def test_plurals_are_told_from_words_that_only_look_like_them():
    says = speech("en")
    assert [says.is_many(w) for w in ("points", "address", "status")] == [True, False, False]
    assert speech("es").is_many("los puntos")
    assert not speech("es").is_many("el saldo")


@pytest.mark.parametrize("language", languages())
def test_a_summary_a_fact_behind_a_wish_and_a_line_keep_their_values(language):
    says = speech(language)
    assert "X7" in says.summary.format(clause="X7")
    assert "customer" not in says.summary or language == "en"
    assert {"Q", "M 4"} <= {p for p in ("Q", "M 4") if p in says.added("Q", "M 4")}
    assert {"Q", "M 4"} <= {p for p in ("Q", "M 4") if p in says.line("Q", "M 4")}


def test_what_a_question_wants_to_know_is_said_without_the_knowing():
    assert hearing("en").after("asks_to_know", "find out when it is due") == "when it is due"
    assert ended("Done") == "Done."
