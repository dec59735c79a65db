"""Every operator, on applications that people wrote: the child runs, and says what is new."""

import re

import pytest

from simulators.sql.engine import Engine
from simulators.sql.load import load_application
from synth.core.application import Application
from synth.pipeline.proving import prove, subject_of
from tool_registry.composer import compose
from tool_registry.edits import bound, remade, with_column
from tool_registry.elimination import behaviour
from tool_registry.operator import OPERATORS, Subject, evolve

APPLICATIONS = ("bank", "clinic", "hotel", "tracker", "warehouse", "insurance")
BARE = {"describe", "style"}
"""Change names and words alone."""


@pytest.fixture(scope="module")
def subjects() -> dict[str, Subject]:
    found = {}
    for name in APPLICATIONS:
        application = remade(load_application(name), languages={})
        found[name] = subject_of(Engine(application))
    found["depot"] = subject_of(Engine(compose("logistics", 0)))
    # Two acts on a row, which the written applications lack: made by another operator.
    for seed in range(20):
        held = evolve("hold", found["bank"], seed)
        if held:
            found["held"] = subject_of(Engine(held.application))
            break
    return found


def test_there_are_operators_of_every_kind() -> None:
    kinds = {OPERATORS.get(name).kind for name in OPERATORS.names()}
    assert kinds == {"constrain", "deepen", "concretise", "steps", "input", "breadth"}
    assert len(OPERATORS.names()) >= 14


@pytest.mark.parametrize("name", OPERATORS.names())
def test_an_operator_makes_a_child_that_compiles_and_tells_what_is_new(
    name: str, subjects: dict[str, Subject]
) -> None:
    children = 0
    for subject in subjects.values():
        for seed in range(2):
            found = evolve(name, subject, seed)
            if found is None:
                continue
            children += 1
            parent, (change,) = subject.application, found.changes
            Engine(found.application)
            assert change.parents == (parent.key,)
            assert change.words
            assert change.tools
            assert set(change.tools) <= set(found.application.tools)
            known = {behaviour(tool) for tool in parent.tools.values()}
            new = [t for t, tool in found.application.tools.items() if behaviour(tool) not in known]
            rules = len(found.application.policy_rules) > len(parent.policy_rules)
            assert bool(new or rules) != (name in BARE)
            assert set(new) <= set(change.tools)
    assert children >= 2


@pytest.mark.parametrize("name", OPERATORS.names())
def test_an_operator_makes_the_same_child_of_the_same_seed(
    name: str, subjects: dict[str, Subject]
) -> None:
    for subject in subjects.values():
        one, two = evolve(name, subject, 7), evolve(name, subject, 7)
        assert (one and one.application.key) == (two and two.application.key)


@pytest.mark.parametrize("name", OPERATORS.names())
def test_of_an_operators_children_some_are_sound_and_answer(
    name: str, subjects: dict[str, Subject]
) -> None:
    for subject in subjects.values():
        for seed in range(3):
            found = evolve(name, subject, seed)
            if found is None:
                continue
            proof = prove(found.application, only=found.changes[0].tools)
            if not proof.findings:
                assert all(example.succeeds is not None for example in proof.examples.values())
                assert all(example.error for example in proof.examples.values())
                return
    pytest.fail("no child is sound")


def test_a_nested_parameter_does_what_the_plain_one_did(subjects: dict[str, Subject]) -> None:
    subject = subjects["hotel"]
    found = evolve("nest", subject, 0)
    assert found is not None
    (name,) = found.changes[0].tools
    proof, before = prove(found.application, only=()), prove(subject.application, only=())
    assert proof.examples[name].succeeds
    assert before.examples[name].succeeds
    (holder,) = set(found.application.tools[name].parameters) - set(
        subject.application.tools[name].parameters
    )
    nested = found.application.tools[name].parameters[holder].properties or {}
    assert len(nested) >= 2
    flat = {k: v for k, v in proof.examples[name].succeeds.items() if k != holder}
    flat |= proof.examples[name].succeeds[holder]
    environments = (
        Engine(subject.application).environment(),
        Engine(found.application).environment(),
    )
    for environment in environments:
        environment.reset_now(0)
    first = environments[0].call_now(name, flat)
    second = environments[1].call_now(name, proof.examples[name].succeeds)
    assert first.ok
    assert second.ok
    assert environments[0].diff_now() == environments[1].diff_now()


def test_a_name_is_replaced_in_sql_only_where_it_is_a_parameter() -> None:
    sql = "SELECT :day, :day_two, ':x' FROM days WHERE day = :day"
    assert bound(sql, "day", ":when") == "SELECT :when, :day_two, ':x' FROM days WHERE day = :when"


def test_a_column_is_added_before_the_constraints_of_a_table() -> None:
    application = load_application("smart_home")
    changed = with_column(application, "rooms", "floor", "INTEGER NOT NULL DEFAULT 0", None)
    assert isinstance(changed, Application)
    made = re.search(r"CREATE TABLE rooms \(.*?\) STRICT", changed.table_sql, re.DOTALL)
    assert made is not None
    assert made[0].index("floor") < made[0].index("UNIQUE")
    assert "floor" in set(Engine(changed).tables["rooms"].columns)
