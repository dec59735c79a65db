"""Questions beside the point: sayings that mean nothing to anybody who acts, and how often."""

import random
import re
from collections import Counter

import pytest
from pydantic import ValidationError

from synth.core import voices
from synth.core.acting import acting
from synth.core.config import Config, load_config
from synth.core.errors import UnknownName
from synth.core.hearing import hearing, languages
from synth.core.users import LATEST, TWICE, Users, aside_in, asides, draw_asides
from synth.judge.claims import claim

CHI_99 = {1: 6.635, 2: 9.210}
"""Chi-square at 1 % by degrees of freedom."""


def chi_square(found, expected):
    return sum((found[key] - count) ** 2 / count for key, count in expected.items())


@pytest.mark.parametrize("language", languages())
def test_a_question_beside_the_point_holds_no_value_no_consent_and_no_refusal(language):
    hears, acts = hearing(language), acting(language)
    assert len(asides(language)) == 8
    for name in voices.names(language):
        speaker = voices.voice(name, language)
        for aside in asides(language):
            for seed in range(4):
                text = speaker.say("aside", random.Random(seed), question=aside.asks)
                assert aside_in(f"Ann. {text}", language) == aside
                assert not re.search(r"\d", text)
                assert not hears.has("declines", text), text
                assert not any(re.search(word, text, re.I) for word in hears.relative), text
                assert not hears.takes_leave(text), text
                assert not acts.excuses(text), text


@pytest.mark.parametrize("language", languages())
def test_an_answer_to_it_asks_promises_and_claims_nothing(language):
    hears = hearing(language)
    for name in voices.styles(language):
        for aside in asides(language):
            for seed in range(4):
                text = voices.style(name, language).say(
                    "beside", random.Random(seed), answer=aside.answer
                )
                assert not hears.questions(text), text
                for kind in ("wait", "refusal", "consent"):
                    assert not hears.has(kind, text), (kind, text)
                assert claim(text) is None, text
                assert aside_in(text, language) is None


def test_a_language_that_nobody_speaks_has_none():
    with pytest.raises(UnknownName):
        asides("xx")


def test_so_many_users_ask_beside_the_point_as_configured():
    episodes = 4000
    drawn = [draw_asides(0.25, random.Random(seed)) for seed in range(episodes)]
    counts = Counter(map(len, drawn))
    asking = episodes * 0.25
    expected = {0: episodes - asking, 1: asking * (1 - TWICE), 2: asking * TWICE}
    assert counts.keys() == expected.keys()
    assert chi_square(counts, expected) < CHI_99[2]
    turns = Counter(turn for found in drawn for turn in found if len(found) == 1)
    assert chi_square(turns, dict.fromkeys(range(1, LATEST + 1), counts[1] / LATEST)) < CHI_99[2]


def test_nothing_is_drawn_where_nobody_asks():
    rng = random.Random(1)
    assert draw_asides(0.0, rng) == ()
    assert rng.random() == random.Random(1).random()


def test_rates_are_shares_and_those_of_0_leave_configurations_as_they_were():
    config = load_config(None, ["generate.users.asides=0.2", "generate.users.changes=1.0"])
    assert config.generate.users == Users(asides=0.2, changes=1.0)
    assert "users" not in Config().model_dump()["generate"]
    assert config.fingerprint() != Config().fingerprint()
    assert Config.model_validate(config.model_dump()) == config
    with pytest.raises(ValidationError):
        Users(asides=1.5)
