"""Whole episodes in other languages: what is right is accepted in them, what is wrong is not."""

import asyncio
import re
from collections import Counter
from pathlib import Path

import pytest

from simulators.sql.engine import Engine
from simulators.sql.load import load_application
from simulators.sql.tongues import lint_languages
from simulators.sql.world import SqlWorld
from synth.core.config import load_config
from synth.core.errors import BadConfig, UnknownName
from synth.core.hearing import hearing, languages
from synth.core.speech import speech
from synth.pipeline.generate import Goal
from synth.pipeline.job import generate
from synth.pipeline.worlds import open_worlds
from synth.report import funnel_lines
from synth.run import read_episodes, read_plan

LIBRARY = Path(__file__).parent.parent / "simulators" / "data" / "library.yaml"
"""An application with words in English alone."""
FOREIGN = tuple(language for language in languages() if language != "en")
SPOKEN = ("bank", "clinic", "hotel")
"""Applications that have words in every language."""
ENGLISH = re.compile(
    r"\b(the|your?|would|please|with|from|want|is|are|has|been|have|to|my|of|and|request|cannot|"
    r"could|what|when|which|appointment|invoice|booking|nights?|card|charges?)\b|[a-z]_[a-z]"
)
"""What is no word of another language here (German has `an` and `was`, French `on` and `phone`)."""


def wanting(languages, rate, *applications):
    return load_config(
        overrides=[
            f"generate.applications={list(applications)}",
            f"generate.languages={{ en = 0, {', '.join(f'{name} = 1' for name in languages)} }}",
            f"generate.errors.rate={rate}",
        ]
    )


def run(tmp_path, languages, rate, *, episodes, names=SPOKEN):
    config, folder = wanting(languages, rate, *names), tmp_path / "runs" / "r"
    asyncio.run(generate(config, folder, tmp_path, Goal(episodes=episodes)))
    return {p.episode: p.task for p in read_plan(folder)}, list(read_episodes(folder))


def own_words(task, text):
    """Return a text without its values: quoted text, facts, and what the agent has to tell."""
    known = task.blueprint
    values = {f.spoken for f in (*known.opening, *known.withheld, *known.background)}
    values |= {str(output.value) for output in known.outputs}
    text = re.sub(r'"[^"]*"|“[^”]*”|«[^»]*»', " ", text)
    for value in sorted(values, key=len, reverse=True):
        text = text.replace(value, " ")
    return text


def accepted(tmp_path, languages, episodes, names=SPOKEN):
    """Play episodes without mistakes; return how many were accepted, by language and name."""
    tasks, played = run(tmp_path, languages, 0, episodes=episodes, names=names)
    assert len(played) == episodes
    right = Counter()
    for episode in played:
        task = tasks[episode.trajectory.episode]
        language = task.persona.language
        right[language, episode.trajectory.world] += bool(episode.verdict.passed)
        for message in episode.trajectory.messages[1:]:
            if message.role in ("user", "assistant") and message.content:
                said = own_words(task, message.content).replace("IBAN", "")
                assert not ENGLISH.search(said), message.content
                assert language != "zh" or not re.search("[A-Za-z]{3,}", said), message.content
    return right


def test_whole_episodes_run_in_every_language_and_the_judge_accepts_them(tmp_path):
    right = accepted(tmp_path, FOREIGN, 48)
    assert set(right) == {(language, name) for language in FOREIGN for name in SPOKEN}
    assert right.total() >= 47


@pytest.mark.soak
@pytest.mark.parametrize("name", SPOKEN)
@pytest.mark.parametrize("language", FOREIGN)
def test_the_judge_accepts_as_many_episodes_in_every_language_as_in_english(
    tmp_path, language, name
):
    assert accepted(tmp_path, [language], 80, [name])[language, name] >= 78


def test_every_deliberate_mistake_is_rejected_in_every_language(tmp_path):
    tasks, episodes = run(tmp_path, FOREIGN, 1, episodes=28)
    assert {task.persona.language for task in tasks.values()} == set(FOREIGN)
    verdicts = [episode.verdict for episode in episodes]
    assert not [verdict for verdict in verdicts if verdict.passed]
    assert {verdict.broken_by for verdict in verdicts} == {None}
    assert {"state", "output"} <= {verdict.reason for verdict in verdicts}


@pytest.mark.soak
@pytest.mark.parametrize("language", FOREIGN)
def test_no_mistake_of_many_is_accepted_in_another_language(tmp_path, language):
    _, episodes = run(tmp_path, [language], 1, episodes=120)
    assert not [episode for episode in episodes if episode.verdict.passed]


def test_an_application_without_words_stays_in_english_and_that_is_told(tmp_path):
    config, folder = wanting(["de"], 0, "bank", str(LIBRARY)), tmp_path / "runs" / "r"
    told = []
    report = asyncio.run(
        generate(config, folder, tmp_path, Goal(episodes=16), on_progress=told.append)
    )
    spoken = {(p.world, p.task.persona.language) for p in read_plan(folder)}
    assert spoken == {("bank", "de"), ("library", "en")}
    assert told[0].english == {"de": ("library",)}
    of = Counter(p.task.persona.language for p in read_plan(folder))
    assert {name: row["episodes"] for name, row in report["by_language"].items()} == of
    lines = [line.split() for line in funnel_lines(report)]
    start = lines.index(["language", "episodes", "accepted"])
    assert [name for name, *_ in lines[start + 1 : start + 3]] == ["de", "en"]
    assert not lines[start + 3]


def test_a_language_that_no_application_of_a_run_speaks_is_refused(tmp_path):
    config = wanting(["de"], 0, str(LIBRARY))
    with pytest.raises(BadConfig, match=r"no.* words in 'de': library .*add one that has: .*bank"):
        open_worlds(config, tmp_path)


def test_a_language_nobody_speaks_is_no_configuration():
    with pytest.raises(BadConfig, match="not spoken here"):
        load_config(overrides=["generate.languages={ xx = 1.0 }"])
    with pytest.raises(BadConfig, match="no language has a weight"):
        load_config(overrides=["generate.languages={ en = 0.0 }"])


def test_a_world_knows_its_languages():
    world = SqlWorld(Engine(load_application("bank")))
    assert world.languages[0] == "en"
    assert set(FOREIGN) <= set(world.languages)
    assert world.speaking("en") is world
    assert world.speaking("de") is world.speaking("de")
    assert world.speaking("de").policy() == world.policy()  # the agent's own rules stay
    with pytest.raises(UnknownName, match="language"):
        world.speaking("xx")


def test_words_for_what_does_not_exist_are_found():
    application = load_application("bank")
    assert list(lint_languages(Engine(application))) == []
    words = application.languages["de"]
    wrong = words.model_copy(
        update={
            "labels": words.labels | {"cards.colour": "die Farbe"},
            "rules": words.rules | {"no_rule": "Nein."},
            "intents": words.intents | {"fly": "fliegen", "add_payee": "{{ nobody }} speichern"},
            "questions": {"get_card": {"colour": "welche Farbe"}},
        }
    )
    broken = application.model_copy(update={"languages": {"de": wrong, "xx": words}})
    found = {finding.what for finding in lint_languages(Engine(broken))}
    assert found == {
        "nobody here speaks it",
        "unknown name 'nobody'",
        *(
            f"nothing is called {n!r}"
            for n in ("cards.colour", "no_rule", "fly", "get_card.colour")
        ),
    }


def test_a_language_is_whole_or_absent():
    application = load_application("bank")
    words = application.languages["fr"]
    without = words.model_copy(
        update={
            "labels": {k: v for k, v in words.labels.items() if k != "payees.name"},
            "intents": {k: v for k, v in words.intents.items() if k != "block_card"},
            "rules": {k: v for k, v in words.rules.items() if k != "high_fee"},
            "values": {k: v for k, v in words.values.items() if k != "stolen"},
            "out_of_scope": (),
            "questions": {"get_card": {"expires": "ma carte expire bientôt"}},
        }
    )
    broken = application.model_copy(update={"languages": {"fr": without}})
    assert {finding.what for finding in lint_languages(Engine(broken))} == {
        "no words for labels.payees.name",
        "no words for intents.block_card",
        "no words for rules.high_fee",
        "no words for values.stolen",
        "no words for out_of_scope",
        "does not read as a question: 'ma carte expire bientôt'",
    }


@pytest.mark.parametrize(
    ("language", "day", "moment", "money", "mine", "listed"),
    [
        ("de", "3. März 2026", "3. März 2026 um 09:30 Uhr", "1250,50 EUR", "meine Adresse",
         "a, b oder c"),
        ("es", "3 de marzo de 2026", "3 de marzo de 2026 a las 09:30", "1250,50 EUR",
         "mi dirección", "a, b o c"),
        ("fr", "3 mars 2026", "3 mars 2026 à 09:30", "1\u202f250,50\u00a0€", "mon adresse",
         "a, b ou c"),
        ("zh", "2026年3月3日", "2026年3月3日09:30", "1250.50欧元", "我的地址", "a、b还是c"),
    ],
)  # fmt: skip
def test_values_are_said_as_the_language_says_them(language, day, moment, money, mine, listed):
    says = speech(language)
    assert says.date("2026-03-03") == day
    assert says.moment("2026-03-03T09:30:00") == moment
    assert says.money(125050, "EUR") == money
    labels = {"de": "die Adresse", "es": "la dirección", "fr": "l'adresse", "zh": "地址"}
    assert says.mine(labels[language]) == mine
    assert says.listed(["a", "b", "c"], choice=True) == listed


@pytest.mark.parametrize(
    ("language", "text", "asked"),
    [
        ("de", "Wenn Sie sie ändern möchten, sagen Sie mir bitte Bescheid.", False),
        ("de", "Kann ich sonst noch etwas für Sie tun?", False),
        ("de", "Wie lautet Ihre E-Mail-Adresse?", True),
        ("de", "Soll ich fortfahren?", True),
        ("de", "Bitte um Ihre Bestätigung.", True),
        ("es", "Si necesita cambiarlo, por favor dígamelo.", False),
        ("es", "¿Puedo ayudarle en algo más?", False),
        ("es", "¿Cuál es su correo?", True),
        ("es", "Confirme, por favor.", True),
        ("fr", "Si vous voulez la modifier, dites-le-moi.", False),
        ("fr", "Puis-je vous aider avec autre chose\u00a0?", False),
        ("fr", "N’hésitez pas à me recontacter.", False),
        ("fr", "Quelle est votre adresse e-mail\u202f?", True),
        ("fr", "Veuillez m’indiquer votre adresse.", True),
        ("fr", "Dois-je continuer ?", True),
        ("fr", "Veuillez confirmer.", True),
        ("zh", "如果需要更改，请随时告诉我。", False),
        ("zh", "还有什么可以帮您的吗？", False),
        ("zh", "您的邮箱是什么？", True),
        ("zh", "请提供您的邮箱。", True),
        ("zh", "可以办理吗？", True),
        ("zh", "请确认。", True),
    ],
)
def test_questions_are_told_from_courtesies_in_every_language(language, text, asked):
    assert bool(hearing(language).questions(text)) is asked
