"""The composer: what comes out of it runs, is sound, and makes tasks whose rubrics hold."""

import asyncio
import re
import subprocess
import sys
import time
from collections import Counter

import pytest

from simulators.sql.engine import Engine
from simulators.sql.lint import lint
from synth.core.errors import UnknownName
from synth.core.types import Effect
from synth.pipeline.admitting import admissions
from tool_registry.classify import taxonomy
from tool_registry.composer import categories, compose
from tool_registry.composer.vocabulary import vocabulary
from tool_registry.quality import quality_of

CATEGORIES = categories()
FEW = [(category, 3) for category in CATEGORIES[:40]]
MANY = [(category, seed) for category in CATEGORIES for seed in range(100, 110)]
NOISE = re.compile(r"\{[a-z_.]*\}|\bNone\b|TODO|: \.|  |\bundefined\b|,,|\.\.")


def sound(category, seed, *, states, draws):
    report = lint(Engine(compose(category, seed)), seeds=range(states), draws=draws)
    assert report.errors == (), "\n".join(map(str, report.errors))
    # Each condition was broken and each tool succeeded, or there would be errors; a tool without
    # conditions can only fail for a key that does not exist.
    assert all(figures.calls["ok"] for figures in report.figures.values())


@pytest.mark.parametrize(("category", "seed"), FEW)
def test_a_composed_application_compiles_and_is_sound(category, seed):
    sound(category, seed, states=1, draws=6)


@pytest.mark.soak
@pytest.mark.parametrize(("category", "seed"), MANY)
def test_hundreds_of_composed_applications_are_sound(category, seed):
    sound(category, seed, states=2, draws=20)


def test_at_least_forty_categories_of_the_taxonomy_and_three_hundred_entities_have_a_vocabulary():
    assert len(CATEGORIES) >= 40
    assert set(CATEGORIES) <= set(taxonomy())
    assert sum(1 + len(vocabulary(name).entities) for name in CATEGORIES) >= 300


def test_the_same_seed_gives_the_same_application_in_another_process():
    program = (
        "from tool_registry.composer import compose\n"
        "print(compose('health', 11).model_dump_json(by_alias=True))"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == compose("health", 11).model_dump_json(by_alias=True)


def test_a_category_without_vocabulary_is_refused():
    with pytest.raises(UnknownName, match="category"):
        compose("witchcraft", 0)


def distinct(each):
    made = [compose(category, seed) for category in CATEGORIES for seed in range(each)]
    assert len({application.application for application in made}) == len(made)
    sizes = [len(application.tools) for application in made]
    assert min(sizes) >= 13
    # Two applications of one category differ in more than names.
    schemas = Counter((a.category, frozenset(a.tools), a.table_sql) for a in made)
    assert max(schemas.values()) == 1
    return len(made), sum(sizes)


def test_applications_differ_in_name_tables_and_tools():
    made, tools = distinct(6)
    assert tools / made > 20


@pytest.mark.soak
def test_fifteen_hundred_applications_are_distinct_and_have_over_twenty_thousand_tools():
    made, tools = distinct(36)
    assert made >= 1500
    assert tools >= 20_000


def test_composing_takes_milliseconds():
    vocabulary("travel")
    start = time.process_time()
    for seed in range(20):
        compose("travel", seed)
    assert (time.process_time() - start) / 20 < 0.04


@pytest.mark.parametrize("category", CATEGORIES)
def test_what_an_agent_reads_is_whole_sentences_about_every_parameter(category):
    for seed in range(4):
        application = compose(category, seed)
        for spec in application.specs.values():
            assert not NOISE.search(spec.description), spec.description
            assert spec.description[0].isupper()
            assert spec.description.endswith("."), spec.description
            for name, schema in spec.parameters["properties"].items():
                assert len(schema["description"]) > 3, (spec.name, name)
                assert not NOISE.search(schema["description"]), schema["description"]
        scores = [quality_of(spec)[0] for spec in application.specs.values()]
        assert sum(scores) / len(scores) > 0.8


def test_applications_have_rules_promises_reads_writes_and_final_writes():
    for category in CATEGORIES:
        made = [compose(category, seed) for seed in range(4)]
        assert all(a.policy_rules and a.out_of_scope and a.handoff for a in made)
        assert any(a.never for a in made)
        effects = {spec.effect for a in made for spec in a.specs.values()}
        assert effects == {Effect.READ, Effect.WRITE, Effect.DESTRUCTIVE}


# --- tasks -----------------------------------------------------------------------------------


def admitted(pairs, each):
    found = Counter()
    for category, seed in pairs:
        found += asyncio.run(admissions(compose(category, seed), each))[0]
    assert len({kind for kind, _ in found}) >= 7
    accepted = sum(count for (_, reason), count in found.items() if reason == "admitted")
    assert accepted >= 0.95 * found.total(), found


def test_of_tasks_of_every_kind_the_reference_passes_and_idleness_fails():
    admitted([(CATEGORIES[n], n) for n in range(0, len(CATEGORIES), 5)], 2)


@pytest.mark.soak
def test_of_many_tasks_the_reference_passes_and_idleness_fails():
    admitted(MANY[::4], 4)
