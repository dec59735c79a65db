"""Which events a task may meet: those that its solution does not notice, whenever they happen."""

import asyncio
import random
import re
from pathlib import Path

import pytest
from pydantic import ValidationError

from simulators.sql.engine import Engine
from simulators.sql.eventful import lint_events
from simulators.sql.load import load_application
from simulators.sql.schedule import schedule
from simulators.sql.world import SqlWorld
from simulators.sql.yaml12 import read_yaml
from synth.core.application import Application
from synth.core.errors import BadApplication, NotSuitable
from synth.core.happenings import Due
from synth.core.types import Blueprint, Effect, PlannedCall, TaskKind

RAW = read_yaml((Path(__file__).parent / "data" / "library.yaml").read_text(encoding="utf-8"))
EVENTFUL = ("brokerage", "food_delivery", "hotel", "tracker", "warehouse")


def event(write, **more):
    writes = [write] if isinstance(write, str) else write
    return {"minutes": [1, 9], "write": writes, "says": "It happens.", **more}


def library(never=None, tools=None, **events):
    raw = {**RAW, "events": events, "never": never or {}}
    return Engine(Application.model_validate({**raw, "tools": RAW["tools"] | (tools or {})}))


def call(tool, effect=Effect.WRITE, **arguments):
    return PlannedCall(tool=tool, arguments=arguments, group=0, effect=effect)


LEND = call("lend_book", book_id="B1", member_id="M001")
LOOK = call("list_loans", Effect.READ, member_id="M001")


def goal(engine, *calls, **decoys):
    """Return a goal with these calls as its solution, and wrong ones by name."""
    environment = engine.environment()
    environment.reset_now(7)
    for one in calls:
        assert environment.call_now(one.tool, one.arguments).ok
    return Blueprint(
        kind=TaskKind.SINGLE_WRITE,
        world="library",
        state_seed=7,
        tools=tuple(engine.programs),
        clauses=("borrow it",),
        solution=calls,
        diffs=(environment.diff_now(),),
        decoys={name: (wrong,) for name, wrong in decoys.items()},
    )


def due(engine, blueprint, share=1.0, seed=1):
    return [one.event for one in schedule(engine, blueprint, share, seed).due]


ELSEWHERE = event("UPDATE members SET fees = fees + 10 WHERE id = 'M030'")
WRONG = call("lend_book", book_id="B2", member_id="M001")


@pytest.mark.parametrize(
    "write",
    [
        "UPDATE books SET copies = copies + 1 WHERE id = 'B1'",  # both write the row
        "UPDATE loans SET due = date_add(due, 1) WHERE member_id = 'M001'",  # it is read
        "UPDATE books SET copies = 0 WHERE id = 'B1'",  # the call would fail
        "UPDATE members SET fees = 900 WHERE id = 'M001'",  # the policy would forbid it
        "UPDATE members SET fees = 900 WHERE id = 'M999'",  # it cannot happen
        "UPDATE books SET copies = 0 WHERE id = 'B2'",  # a wrong solution would fail for it
    ],
)
def test_an_event_that_the_task_would_notice_does_not_happen_in_it(write):
    engine = library(noticed=event(write), elsewhere=ELSEWHERE)
    assert due(engine, goal(engine, LOOK, LEND, wrong_entity=WRONG)) == ["elsewhere"]


def test_an_event_that_only_another_task_would_notice_happens():
    engine = library(
        other_book=event("UPDATE books SET copies = copies + 1 WHERE id = 'B2'"),
        other_member=event("UPDATE members SET fees = 900 WHERE id = 'M002'"),
    )
    assert sorted(due(engine, goal(engine, LOOK, LEND))) == ["other_book", "other_member"]


def test_an_event_that_another_one_makes_possible_is_tried_after_that():
    second = event("UPDATE books SET copies = 2 WHERE id = 'B1'", minutes=2)
    second["when"] = "SELECT copies = 9 FROM books WHERE id = 'B2'"
    first = event("UPDATE books SET copies = 9 WHERE id = 'B2'", minutes=1)
    engine = library(second=second, first=first)
    assert due(engine, goal(engine, LOOK)) == ["first", "second"]
    assert due(engine, goal(engine, LEND)) == ["first"]


def test_tables_by_which_a_rule_judges_who_speaks_stay_as_they_are():
    rule = {**RAW["policy_rules"][0], "when": "SELECT fees > 0 FROM members WHERE id = :user_id"}
    raw = {**RAW, "policy_rules": [rule], "events": {"elsewhere": ELSEWHERE}}
    engine = Engine(Application.model_validate(raw))
    assert due(engine, goal(engine, LEND)) == []
    assert due(engine, goal(engine, LOOK)) == ["elsewhere"]


@pytest.mark.parametrize(
    "step",
    [
        {"return": "SELECT now() AS now", "shape": "object"},
        {"write": "UPDATE members SET email = now() WHERE id = 'M001'"},
        {"require": "SELECT now() < '2026-03-02T09:30:00'", "error": "late", "message": "Late."},
    ],
    ids=["reads", "writes", "requires"],
)
def test_where_the_solution_depends_on_the_time_the_clock_stands_still(step):
    after = [{"return": "SELECT 1 AS x", "shape": "list"}] if "require" in step else []
    effect = "write" if "write" in step else "read"
    tool = {"description": "By the clock.", "effect": effect, "steps": [step, *after]}
    engine = library(tools={"by_clock": tool}, elsewhere=ELSEWHERE)
    assert schedule(engine, goal(engine, call("by_clock")), 1.0, 1) is None
    assert due(engine, goal(engine, LEND)) == ["elsewhere"]


def test_events_are_drawn_as_often_as_wanted_and_alike_for_the_same_seed():
    engine = library(elsewhere=ELSEWHERE)
    blueprint = goal(engine, LEND)
    drawn = [schedule(engine, blueprint, 0.3, seed) for seed in range(150)]
    assert 28 < sum(len(one.due) for one in drawn) < 62
    assert drawn == [schedule(engine, blueprint, 0.3, seed) for seed in range(150)]
    assert all(60 <= one.second <= 540 for found in drawn for one in found.due)
    assert schedule(engine, blueprint, 0.0, 1) is None
    assert schedule(library(), blueprint, 1.0, 1) is None


@pytest.mark.parametrize("name", EVENTFUL)
def test_solutions_of_what_ships_end_as_wanted_whatever_happens_between_their_calls(name):
    world = SqlWorld(Engine(load_application(name)))
    tools = [tool.name for tool in world.tools()]
    environment, happened, rng = world.environment(), set(), random.Random(name)
    for number in range(12):
        kind = world.kinds()[number % len(world.kinds())]
        try:
            blueprint = asyncio.run(world.blueprint(kind, tools, number % 3, rng))
        except NotSuitable:
            continue
        found = world.schedule(blueprint, 1.0, number)
        places = range(len(blueprint.solution) + 1)
        waiting = [(rng.choice(places), one) for one in (found.due if found else ())]
        environment.reset_now(blueprint.state_seed)
        for place, one in enumerate([*blueprint.solution, None]):
            for _, two in (pair for pair in waiting if pair[0] == place):
                happened |= {told.event for told in [environment.happen_now(two)] if told}
            environment.wind(3600 if found else 0)
            if one is not None and one.by == "user":
                assert environment.act_now(blueprint.user, one.tool, one.arguments).ok
            elif one is not None:
                assert environment.call_now(one.tool, one.arguments).ok
        assert environment.diff_now() in blueprint.diffs
    assert len(happened) >= 2


# --- the format ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (
            event("UPDATE books SET copies = :number"),
            r"events.e.write\[0\]: unknown parameter :num",
        ),
        (event("SELECT 1"), r"events.e.write\[0\]: the statement writes nothing"),
        (event("DELETE FROM sqlite_master"), r"events.e.write\[0\]"),
        (event("DELETE FROM holds", when="SELECT 1, 2"), "events.e.when: 2 columns"),
        (event("DELETE FROM holds", when="DELETE FROM loans"), "events.e.when"),
        (event("DELETE FROM holds", let={"chance": "SELECT 1"}), "'chance' is bound already"),
        (event("DELETE FROM holds", says="{nobody} goes."), "events.e.says: unknown parameter"),
        (event("DELETE FROM holds", says="{chance!s:>9}"), "events.e.says"),
    ],
)
def test_an_event_that_cannot_run_is_told_by_its_place(wrong, told):
    with pytest.raises(BadApplication, match=told):
        library(e=wrong)


@pytest.mark.parametrize("minutes", [[5, 1], -1, [0, 241], "soon"])
def test_minutes_that_are_none_are_refused(minutes):
    with pytest.raises(ValidationError, match="minutes"):
        library(e=event("DELETE FROM holds", minutes=minutes))


def test_an_event_writes_something():
    with pytest.raises(ValidationError, match="writes something"):
        library(e=event([]))


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (event("UPDATE books SET copies = 1", when="SELECT 0"), "changes nothing .*not_now"),
        (event("UPDATE books SET copies = copies WHERE id = 'B1'"), "changes nothing"),
        (event("DELETE FROM branches"), "changes nothing .*FOREIGN KEY"),
        (event("UPDATE members SET fees = 5000"), "somebody owes a lot after it, in state"),
    ],
)
def test_the_lint_finds_events_that_are_of_no_use_or_break_a_promise(wrong, told):
    never = {"somebody owes a lot": "SELECT 1 FROM members WHERE fees > 4000"}
    findings = list(lint_events(library(never=never, wrong=wrong, sound=ELSEWHERE), seeds=(0, 1)))
    assert findings
    assert all(re.search(told, one.what) or "others have happened" in one.what for one in findings)
    assert all(one.where == "library: events.wrong" for one in findings)


def test_the_lint_lets_events_happen_one_upon_the_other():
    never = {"somebody owes a lot": "SELECT 1 FROM members WHERE fees >= 7 * 10 + 420"}
    slowly = event("UPDATE members SET fees = fees + 20")
    (found,) = lint_events(library(never=never, slowly=slowly), seeds=(0,))
    assert "when others have happened" in found.what


def test_what_happens_is_told_with_the_names_that_it_bound():
    fees = {"member": "SELECT name FROM members ORDER BY id LIMIT 1 OFFSET :chance % 2"}
    write = "UPDATE members SET fees = 10 WHERE name = :member"
    owed = event(write, let=fees, says="{member} owes.")
    environment = library(owed=owed).environment()
    environment.reset_now(7)
    told = [environment.happen_now(Due(event="owed", second=0, chance=n)).text for n in (2, 3)]
    names = environment.query("SELECT name FROM members ORDER BY id LIMIT 2")
    assert told == [f"{row['name']} owes." for row in names]
