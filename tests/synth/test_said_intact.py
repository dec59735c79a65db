"""What users and agents say in episodes of all applications: nothing doubled, no value hurt."""

import asyncio
import random
import re

import pytest

from simulators.sql.load import applications
from synth.core.config import load_config
from synth.core.hearing import languages
from synth.core.speech import speech
from synth.core.voices import Voice
from synth.pipeline.generate import Goal
from synth.pipeline.job import generate
from synth.run import read_episodes, read_plan

DAMAGE = re.compile(
    r"(?<![.])[.][\"”»]?[.](?![.])|[!?][\"”»]?[.](?![.])|\w [,.;!?](?![.])| {2}|。。|，，|"
    r"\b(?!K\d)(\w+) \1\b|\b((?:for|with|to|from) (?:you|us|me))\b.{0,12}\b\2\b|\bi\b|[{}<>|]",
)
"""What a careful writer never writes; values are `K1`, `K2` and so on."""


def damage(task, text):
    """Return what is damaged in a text, its values apart."""
    known = task.blueprint
    values = [f.spoken for f in (*known.opening, *known.withheld, *known.background)]
    values += re.findall(r'"[^"]*"', " ".join(known.clauses))
    for number, value in enumerate(sorted({v for v in values if v}, key=len, reverse=True)):
        # A full stop within a value is its own; one at its end counts.
        text = text.replace(value, f"K{number}{value[-1] if value[-1] in '.!?' else ''}")
    return [text[max(0, m.start() - 30) : m.end() + 30] for m in DAMAGE.finditer(text)]


def sound(tmp_path, episodes):
    folder = tmp_path / "runs" / "r"
    config = load_config(overrides=["generate.errors.rate=0"])
    asyncio.run(generate(config, folder, tmp_path, Goal(episodes=episodes)))
    tasks = {p.episode: p.task for p in read_plan(folder)}
    worlds = set()
    for episode in read_episodes(folder):
        trajectory = episode.trajectory
        worlds.add(trajectory.world)
        task = tasks[trajectory.episode]
        assert episode.verdict.passed, (trajectory.world, episode.verdict.reason)
        spoken = [m.content for m in trajectory.messages[1:] if m.role == "assistant" and m.content]
        for text in spoken:
            assert damage(task, text) == [], text
        whole = "\n".join(spoken)
        held = [f.spoken for f in (*task.blueprint.opening, *task.blueprint.background)]
        for value in held:  # the damage itself: the value with its words turned
            turned = speech().turned(value)
            if turned != value and value in " ".join(task.blueprint.clauses):
                assert turned not in whole, (value, whole)
    return worlds


def test_agents_say_nothing_twice_and_hurt_no_value(tmp_path):
    assert len(sound(tmp_path, 30)) >= 10


@pytest.mark.soak
def test_agents_say_nothing_twice_and_hurt_no_value_in_all_applications(tmp_path):
    assert sound(tmp_path, 600) == set(applications())


@pytest.mark.parametrize(
    ("language", "text", "values", "turned"),
    [
        ("en", "pay my order from Zupa i Już with my card", ["Zupa i Już"],
         "pay your order from Zupa i Już with your card"),
        ("en", "know which number you have for me", [], "know which number we have for you"),
        ("en", "say \"I love my dog\" as I said", [], "say \"I love my dog\" as you said"),
        ("en", "borrow Take Me Out with My Life, which I and my son want", [],
         "borrow Take Me Out with My Life, which you and your son want"),
        ("en", "My loan. My wish: my dog, US", [], "Your loan. Your wish: your dog, US"),
        ("en", "book a table at Me and my Bun for me", ["Me and my Bun"],
         "book a table at Me and my Bun for you"),
        ("de", "meine Karte bei Ihnen sperren, die Sie mir gaben", [],
         "Ihre Karte bei uns sperren, die wir Ihnen gaben"),
        ("de", "an Mein Laden mit meiner Karte", [], "an Mein Laden mit Ihrer Karte"),
        ("es", "enviar dinero a Casa mi Sol desde mi cuenta", ["Casa mi Sol"],
         "enviar dinero a Casa mi Sol desde su cuenta"),
    ],
)  # fmt: skip
def test_only_the_users_own_words_are_turned_round(language, text, values, turned):
    assert speech(language).turned(text, values) == turned


def test_a_value_that_ends_a_sentence_gets_no_second_full_stop():
    voice = Voice("v", {"say": ["Say {text}.|Well."]})
    said = {
        '"I am home."': 'Say "I am home." Well.',
        '"When?"': 'Say "When?" Well.',
        "it...": "Say it.... Well.",
        "it": "Say it. Well.",
    }
    for text, whole in said.items():
        assert voice.say("say", random.Random(1), text=text) == whole


@pytest.mark.parametrize("language", languages())
@pytest.mark.parametrize(
    ("minor", "currency", "digits"),
    [(1250, "EUR", "1250"), (1250, "JPY", "1250"), (1250, "KWD", "1250"), (5, "KWD", "0005")],
)
def test_money_has_the_decimals_of_its_currency(language, minor, currency, digits):
    said = speech(language).money(minor, currency)
    decimals = {"EUR": 2, "JPY": 0, "KWD": 3}[currency]
    number = re.match(r"[\d.,]+", re.sub("[\u00a0\u202f]", "", said))[0]
    assert re.sub(r"\D", "", number) == digits
    assert len(re.split(r"[.,]", number)[1:][0] if decimals else "") == decimals
