"""Whatever the seed: what is composed and rewritten compiles, keeps its names and reads well."""

import random
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulators.sql.engine import Engine
from synth.core.application import Application
from synth.pipeline.proving import prove, subject_of
from tool_registry.composer import categories, compose
from tool_registry.composer.phrases import a
from tool_registry.edits import portable
from tool_registry.operator import Subject, drawn, evolve
from tool_registry.purpose import purpose

SEEDS = st.integers(0, 2**40)
CATEGORIES = st.sampled_from(categories())
RESIDUE = re.compile(
    r"\{[a-z_.]*\}|\{\{|\}\}|\bNone\b|\bTODO\b|: \.|  |\bundefined\b|,,|\.\.|\ba [aeio][a-z]|"
    r"\ban [bcdfgjklmnpqrstvwxyz][a-z]|\bstared\b|\b(\w+) \1\b|\[\]|^The [a-z ]+ concerned$"
)
"""What templates leave behind, wrong articles, a word said twice."""
RIGHT = re.compile(r"\ba (one|euro)|\bthat that\b")


def texts(application: Application) -> list[str]:
    found = []
    for spec in application.specs.values():
        found.append(spec.description)
        found += descriptions(spec.parameters)
    return found


def descriptions(schema: dict) -> list[str]:
    found = []
    for inner in schema.get("properties", {}).values():
        assert inner.get("description", "").strip(), inner
        found += [inner["description"], *descriptions(inner)]
        found += descriptions(inner.get("items", {}))
    return found


def reads_well(application: Application) -> None:
    for text in texts(application):
        left = RESIDUE.search(RIGHT.sub("", text))
        assert left is None, (application.application, text, left)
        assert text[0].isupper() or text[0] in "`[", text
        assert not text.endswith((",", ":", ";", " ")), text


def child(application: Application, seed: int, changes: int) -> Application:
    """A child by so many operators, as `evolve` makes it, unproved."""
    chance = random.Random(seed)
    subject: Subject = subject_of(Engine(application))
    for name in drawn(chance):
        if changes == 0:
            break
        found = evolve(name, subject, seed)
        if found is None:
            continue
        subject = subject_of(Engine(found.application))
        changes -= 1
    return subject.application


@settings(max_examples=40, deadline=None)
@given(category=CATEGORIES, seed=SEEDS)
def test_any_seed_composes_what_compiles_and_reads_well(category: str, seed: int) -> None:
    application = compose(category, seed)
    Engine(application)
    reads_well(application)
    assert application.key == compose(category, seed).key
    back = Application.model_validate_json(portable(application).model_dump_json(by_alias=True))
    assert back == portable(application)
    assert {purpose(t) for t in back.tools.values()} == {
        purpose(t) for t in application.tools.values()
    }


@settings(max_examples=15, deadline=None)
@given(category=CATEGORIES, seed=SEEDS, changes=st.integers(1, 8))
def test_any_chain_of_operators_compiles_reads_well_and_loses_no_table(
    category: str, seed: int, changes: int
) -> None:
    parent = compose(category, seed)
    made = child(parent, seed, changes)
    reads_well(made)
    assert set(Engine(parent).tables) <= set(Engine(made).tables)
    assert len({*made.tools}) == len(made.tools)
    assert made.handoff in made.tools
    assert all(rule.tool in made.tools for rule in made.policy_rules)


@pytest.mark.soak
@settings(max_examples=1_000, deadline=None)
@given(category=CATEGORIES, seed=SEEDS, changes=st.integers(0, 12))
def test_thousands_of_chains_compile_and_read_well(category: str, seed: int, changes: int) -> None:
    reads_well(child(compose(category, seed), seed, changes))


@pytest.mark.soak
@settings(max_examples=300, deadline=None)
@given(category=CATEGORIES, seed=SEEDS)
def test_hundreds_of_seeds_compose_what_is_sound(category: str, seed: int) -> None:
    proof = prove(compose(category, seed))
    assert proof.findings == ()
    assert proof.alike == ()


@pytest.mark.parametrize(
    ("noun", "said"),
    [
        ("order", "an order"), ("user", "a user"), ("unit", "a unit"), ("hour", "an hour"),
        ("one-way ticket", "a one-way ticket"), ("hotel", "a hotel"), ("invoice", "an invoice"),
        ("european parcel", "a european parcel"), ("umbrella", "an umbrella"),
    ],
)  # fmt: skip
def test_a_noun_gets_the_article_that_is_spoken(noun: str, said: str) -> None:
    assert a(noun) == said
