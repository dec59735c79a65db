"""Drawing calls that succeed: what a tool requires and what the policy says, asked on the way."""

import random

import pytest

from simulators.sql.attempt import Attempt
from simulators.sql.blueprint import sample
from simulators.sql.engine import Engine
from simulators.sql.fitting import Condition, Conditions, Fit, hold, waiting
from simulators.sql.load import load_application
from simulators.sql.stage import Stage
from synth.core.application import Application
from synth.core.errors import NotSuitable, ToolloomError
from synth.core.types import Effect, TaskKind


@pytest.fixture(name="hotel", scope="module")
def _hotel():
    return Stage(Engine(load_application("hotel")))


def attempt_for(stage, seed, tool):
    attempt = Attempt(stage, tuple(stage.application.specs), 0, random.Random(seed))
    attempt.meet(tool)
    return attempt


def outcomes(stage, tool, seeds, fit):
    """Draw a call for each seed and make it; the codes of what became of them."""
    found = []
    for seed in seeds:
        attempt = attempt_for(stage, seed, tool)
        try:
            arguments = attempt.draw(tool, fit=fit(attempt))
        except NotSuitable as reason:
            found.append(reason.what)
            continue
        stage.start(0)
        result = stage.call(tool, arguments)
        forbidden = stage.forbidden(tool, arguments, attempt.user)
        found.append("forbidden" if forbidden else "ok" if result.ok else result.error.code)
    return found


@pytest.mark.parametrize("tool", ["book_room", "change_stay", "waive_charge", "cancel_booking"])
def test_calls_that_fit_succeed_and_are_allowed(hotel, tool):
    found = outcomes(hotel, tool, range(40), lambda attempt: attempt.succeeding(tool))
    assert set(found) <= {"ok", "no_goal"}
    assert found.count("ok") > 10
    loose = outcomes(hotel, tool, range(40), lambda attempt: None)
    assert loose.count("ok") < found.count("ok")


def test_calls_that_break_a_rule_are_found_by_asking_for_them(hotel):
    rule = next(r for r in hotel.application.policy_rules if r.name == "saver_change")
    found = outcomes(hotel, rule.tool, range(40), lambda attempt: attempt.breaking(rule))
    assert set(found) <= {"forbidden", "no_goal"}
    assert found.count("forbidden") > 10


def test_every_value_of_what_fits_can_be_drawn(hotel):
    drawn = set()
    for seed in range(60):
        attempt = attempt_for(hotel, seed, "book_room")
        fit = attempt.succeeding("book_room")
        drawn.add(attempt.draw("book_room", fit=fit)["room_type_id"])
    assert drawn == {f"RT{number}" for number in range(1, 8)}


def test_a_left_out_argument_can_be_what_does_not_fit(hotel):
    # One of the two must be given, and either may be the one.
    seen = set()
    for seed in range(60):
        attempt = attempt_for(hotel, seed, "change_stay")
        try:
            arguments = attempt.draw("change_stay", fit=attempt.succeeding("change_stay"))
        except NotSuitable:
            continue
        seen.add(tuple(sorted(set(arguments) - {"booking_id"})))
    assert seen == {("arrival",), ("nights",), ("arrival", "nights")}


def application(workshop_file, steps):
    tool = workshop_file["tools"]["move_job"]
    tool["steps"] = [*steps, tool["steps"][-1]]
    return Application.model_validate(workshop_file)


def test_conditions_on_computed_names_and_after_a_write_are_left_to_the_execution(workshop_file):
    require = {"error": "no", "message": "No."}
    steps = [
        {"require": "SELECT :job_id <> 'none'", **require},
        {"let": {"top": "SELECT max(due) FROM jobs"}},
        {"require": "SELECT :due <= :top", **require},
        {"require": "SELECT next_id('J') > :due", **require},
        {"write": "UPDATE jobs SET due = :due WHERE id = :job_id"},
        {"require": "SELECT count(*) < 9 FROM jobs WHERE due = :due", **require},
    ]
    conditions = Conditions(application(workshop_file, steps))
    asked = conditions.required["move_job"]
    assert {name: [c.sql for c, _ in found] for name, found in asked.items()} == {
        "job_id": ["SELECT :job_id <> 'none'"]
    }


def test_a_condition_waits_until_all_it_names_is_decided():
    asked = []

    def query(sql, values):
        asked.append((sql, dict(values)))
        return [{"holds": False}]

    conditions = waiting([Condition("SELECT :a < :b", ("a", "b"), True)], ["a", "b"])
    fit = Fit(conditions, "U", query)
    assert fit.decide("b", 1)
    assert not asked
    assert not fit.decide("a", True)
    assert asked == [("SELECT :a < :b", {"a": 1, "b": 1})]
    fit.clear()
    assert fit.decide("a", 2)


@pytest.mark.parametrize(
    "text", ["SELECT {} -- why", "SELECT {};", "SELECT {} /* why */", "SELECT {}"]
)
def test_conditions_are_asked_together_only_where_their_text_allows_it(hotel, text):
    hotel.start(0)
    one = Condition(text.format(":a = 1"), ("a",), True)
    other = Condition(text.format("count(*) FROM guests WHERE id = :b"), ("b",), False)
    none = Condition(text.format("1 FROM guests WHERE id = :b"), ("b",), False)
    query = hotel.scene(0).select
    assert hold((one, other, none), {"a": 1, "b": "nobody"}, query)
    assert not hold((one, other), {"a": 2, "b": "nobody"}, query)
    assert not hold((one, none), {"a": 1, "b": "G0001"}, query)


def test_no_later_wish_of_a_chain_names_what_an_earlier_one_changed(hotel):
    tools = tuple(hotel.application.specs)
    there = set(hotel.scene(0).column("SELECT id FROM bookings"))
    chains = 0
    for seed in range(80):
        try:
            task = sample(hotel, TaskKind.CHAINED_WRITES, tools, 0, random.Random(seed))
        except NotSuitable:
            continue
        chains += 1
        environment = hotel.engine.environment()
        environment.reset_now(0)
        dates = {}
        for call in (c for c in task.solution if c.effect is not Effect.READ):
            booking = call.arguments.get("booking_id")
            if booking in there:
                sql = "SELECT arrival FROM bookings WHERE id = :id"
                arrival = environment.query(sql, {"id": booking})[0]["arrival"]
                dates.setdefault(booking, set()).add(arrival)
            assert environment.call_now(call.tool, call.arguments).ok
        # A stay is named by its arrival: it is the same each time a wish is about it.
        assert all(len(found) == 1 for found in dates.values())
    assert chains > 20


@pytest.mark.parametrize("kind", TaskKind)
def test_most_attempts_at_a_task_succeed(hotel, kind):
    # Sampling costs what its attempts cost; before goals were drawn to fit, half of them failed.
    tools = tuple(hotel.application.specs)
    found = 0
    for seed in range(30):
        try:
            sample(hotel, kind, tools, seed % 3, random.Random(f"{kind} {seed}"))
            found += 1
        except NotSuitable:
            continue
    assert found >= (12 if kind is TaskKind.CHAINED_WRITES else 18)


def test_arguments_on_which_a_condition_breaks_do_not_fit_and_one_that_never_ends_is_named(hotel):
    hotel.start(0)
    later = Condition("SELECT date_add(:day, 1) > '2026'", ("day",), wanted=True)
    fit = Fit(waiting([later], ["day"]), None, hotel.query)
    assert not fit.decide("day", "some day")
    assert fit.decide("day", "2026-05-04")
    rule = Condition("SELECT date_add(:day, 2) < '2026'", ("day",), wanted=False, rule=True)
    assert not hold((later, rule), {"day": "some day"}, hotel.query)
    with pytest.raises(ToolloomError, match="not a date"):
        hold((rule,), {"day": "some day"}, hotel.query)
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"
    with pytest.raises(ToolloomError, match="interrupted"):
        hold((Condition(endless, (), wanted=True),), {}, hotel.query)
