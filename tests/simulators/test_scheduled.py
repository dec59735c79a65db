"""Things that happen by themselves: at their time, alike in every replay, and no agent's doing."""

import asyncio
import itertools
import json
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from simulators.check import check_environment
from simulators.faulty import Faulty
from simulators.scheduled import SECONDS, Scheduled
from simulators.sql.changes import own
from simulators.sql.clock import Clock
from simulators.sql.engine import Engine
from simulators.sql.load import load_application
from simulators.sql.world import SqlWorld
from simulators.sql.yaml12 import read_yaml
from synth.core.application import Application
from synth.core.errors import BadInput, UnknownName
from synth.core.happenings import Due, Schedule
from synth.core.outcomes import Outcomes
from synth.core.protocols import Shared, Timed, run_call
from synth.core.types import Happened, TaskKind

EVENTS = {
    "copies_arrive": {
        "minutes": [0, 10],
        "let": {"book": "SELECT 'B' || (20 + :chance % 5)"},
        "write": ["UPDATE books SET copies = copies + 2 WHERE id = :book"],
        "says": "Two copies of {book} arrive.",
    },
    "somebody_borrows": {
        "minutes": 5,
        "let": {"member": "SELECT 'M0' || (20 + :chance % 15)"},
        "write": [
            "INSERT INTO loans VALUES (next_id('L'), 'B30', :member, date_add(now(), 14), now())",
        ],
        "says": "{member} borrows a book.",
    },
    "nothing_fits": {
        "minutes": 1,
        "when": "SELECT count(*) > 1000 FROM books",
        "write": ["DELETE FROM holds"],
        "says": "Never.",
    },
}
TOOLS = {
    "look_at_the_clock": {
        "description": "Say what time it is.",
        "effect": "read",
        "steps": [{"return": "SELECT now() AS now, today() AS today", "shape": "object"}],
    },
    "count_for_ever": {
        "description": "Never ends.",
        "effect": "write",
        "steps": [
            {
                "write": "UPDATE books SET copies = (WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL "
                "SELECT i + 1 FROM n) SELECT max(i) FROM n)"
            }
        ],
    },
}


def library(**changes):
    path = Path(__file__).parent / "data" / "library.yaml"
    raw = read_yaml(path.read_text(encoding="utf-8"))
    raw["tools"] |= TOOLS
    return Engine(Application.model_validate({**raw, "events": EVENTS, **changes}))


LIBRARY = library()
CALLS = [
    ("list_loans", {"member_id": "M001"}),
    ("lend_book", {"book_id": "B1", "member_id": "M001"}),
    ("place_hold", {"book_id": "B2", "member_id": "M001"}),
    ("lend_book", {"book_id": "B99", "member_id": "M001"}),
    ("lend_book", {"book_id": "B2", "member_id": "M002"}),
    ("change_email", {"member_id": "M001", "email": "a@b.c"}),
]
ARRIVE, BORROW = (
    Due(event="copies_arrive", second=60, chance=1),
    Due(event="somebody_borrows", second=300, chance=2),
)
CLOCK = ("look_at_the_clock", {})


def scheduled(*due, seed=1):
    return Scheduled(LIBRARY.environment(), Schedule(seed=seed, due=due))


async def played(environment, calls, state=7):
    await environment.reset(state)
    return [await environment.call(name, arguments) for name, arguments in calls]


def run(environment, calls):
    return asyncio.run(played(environment, calls))


# --- the wrapper ---------------------------------------------------------------------------------


@pytest.mark.parametrize("due", [(), (ARRIVE,), (ARRIVE, BORROW)], ids=len)
def test_a_schedule_keeps_the_contract_of_environments(due):
    for seed in range(4):
        make = lambda seed=seed: scheduled(*due, seed=seed)  # noqa: E731
        assert asyncio.run(check_environment(make, CALLS)) == []


def test_faults_and_a_schedule_together_keep_the_contract_and_tell_what_happened():
    at_once = Due(event="copies_arrive", second=0, chance=3)
    rates = Outcomes(transient=0.3, partial=0.3, edge=0.4)
    for seed in range(6):

        def make(seed=seed):
            return Faulty(scheduled(at_once, BORROW, seed=seed), rates, seed=seed)

        assert asyncio.run(check_environment(make, CALLS)) == []
        results = run(make(), CALLS * 3)
        told = [[one.event for one in result.happened] for result in results if result.ok]
        assert told[0] == ["copies_arrive"]
        assert sum(map(len, told)) == 2


def test_what_is_due_happens_once_before_the_call_that_comes_after_it_and_is_told():
    results = run(scheduled(ARRIVE, BORROW), [CLOCK] * 12)
    told = [one for result in results for one in result.happened]
    assert told == [
        Happened(event="copies_arrive", second=60, text="Two copies of B21 arrive."),
        Happened(event="somebody_borrows", second=300, text="M022 borrows a book."),
    ]
    seconds = [_seconds(result) for result in results]
    for event in told:
        (place,) = (n for n, result in enumerate(results) if event in result.happened)
        assert seconds[place - 1] < event.second <= seconds[place]


def _seconds(result):
    hours, minutes, seconds = map(int, json.loads(result.content)["now"][11:].split(":"))
    return (hours - 9) * 3600 + minutes * 60 + seconds


def test_time_passes_with_every_call_that_succeeds_as_the_seed_says():
    seconds = [_seconds(result) for result in run(scheduled(seed=3), [CLOCK] * 30)]
    steps = [later - earlier for earlier, later in itertools.pairwise(seconds)]
    assert seconds[0] == 0
    assert SECONDS[0] <= min(steps) < max(steps) <= SECONDS[1]
    assert seconds == [_seconds(result) for result in run(scheduled(seed=3), [CLOCK] * 30)]
    assert seconds != [_seconds(result) for result in run(scheduled(seed=4), [CLOCK] * 30)]


def test_something_happens_at_its_own_time_although_it_is_noticed_later():
    environment = LIBRARY.environment()
    run(Scheduled(environment, Schedule(seed=1, due=(BORROW,))), [CLOCK] * 12)
    (loan,) = environment.query(
        "SELECT note FROM loans WHERE book_id = 'B30' AND note LIKE '2026%'"
    )
    assert loan == {"note": "2026-03-02T09:05:00"}


def test_a_call_that_fails_takes_no_time_and_what_was_due_is_due_again():
    wrong = ("lend_book", {"book_id": "B99", "member_id": "M001"})
    calls = [CLOCK, wrong, wrong, CLOCK]
    first, failed, again, last = run(
        scheduled(Due(event="copies_arrive", second=1, chance=0)), calls
    )
    assert failed == again
    assert (failed.ok, failed.happened) == (False, ())
    assert [one.event for one in last.happened] == ["copies_arrive"]
    assert _seconds(last) == _seconds(run(scheduled(), [CLOCK, CLOCK])[1])
    assert first.happened == ()


def test_what_does_not_fit_does_not_happen_and_nothing_waits_for_it():
    never = Due(event="nothing_fits", second=0, chance=0)
    results = run(scheduled(never, ARRIVE), [CLOCK] * 8)
    assert [one.event for result in results for one in result.happened] == ["copies_arrive"]


def test_agents_see_what_happened_only_if_they_look():
    at_once = Due(event="copies_arrive", second=0, chance=0)
    search = ("search_books", {"title": "B20 "})
    (seen,), (plain,) = run(scheduled(at_once), [search]), run(scheduled(), [search])
    copies = [json.loads(one.content)["result"][0]["copies"] for one in (seen, plain)]
    assert copies[0] == copies[1] + 2
    assert run(scheduled(at_once), [CLOCK])[0].content == run(scheduled(), [CLOCK])[0].content


def test_a_users_own_call_takes_time_too():
    world = SqlWorld(Engine(load_application("smart_home")))
    tools = [tool.name for tool in world.tools()]
    goal = asyncio.run(world.blueprint(TaskKind.USER_ACT, tools, 0, random.Random(3)))
    inner = world.environment()
    environment = Scheduled(inner, Schedule(seed=1))
    assert isinstance(environment, Shared)
    assert environment.user_tools() == inner.user_tools() != ()

    async def minutes():
        await environment.reset(goal.state_seed)
        for call in goal.solution:
            before = await environment.snapshot()
            result = await run_call(environment, call.by, goal.user, call.tool, call.arguments)
            assert result.ok
            if call.by == "user":
                yield before, await environment.snapshot()

    async def go():
        return [pair async for pair in minutes()]

    for before, after in asyncio.run(go()):
        _, calls, seconds, _ = json.loads(after.partition(b"\n")[0])
        assert calls == json.loads(before.partition(b"\n")[0])[1] + 1
        assert seconds >= SECONDS[0]
    assert scheduled().user_tools() == ()


def test_a_snapshot_of_another_kind_is_told():
    environment = scheduled()
    asyncio.run(environment.reset(7))
    plain = LIBRARY.environment()
    plain.reset_now(7)
    with pytest.raises(BadInput, match="schedule"):
        asyncio.run(environment.restore(plain.snapshot_now()))


@pytest.mark.parametrize(
    "numbers", [[0, 0, 3], [0, -1, 0], [-1, 0, 0], [0, 1.5, 0], [True, 0, 0], [0, 0], ["0", 0, 0]]
)
def test_a_snapshot_that_no_episode_of_this_schedule_can_come_to_is_refused(numbers):
    environment = scheduled(ARRIVE, BORROW)
    asyncio.run(environment.reset(7))
    mine = asyncio.run(environment.snapshot())
    head, _, inner = mine.partition(b"\n")
    hostile = json.dumps([json.loads(head)[0], *numbers]).encode() + b"\n" + inner
    with pytest.raises(BadInput, match="schedule"):
        asyncio.run(environment.restore(hostile))
    assert asyncio.run(environment.snapshot()) == mine


@pytest.mark.parametrize("other", [scheduled(ARRIVE), scheduled(ARRIVE, BORROW, seed=2)])
def test_a_snapshot_with_another_schedule_is_refused(other):
    environment = scheduled(ARRIVE, BORROW)
    run(environment, [CLOCK] * 3)
    state = asyncio.run(environment.snapshot())
    asyncio.run(other.reset(7))
    with pytest.raises(BadInput, match="another schedule"):
        asyncio.run(other.restore(state))


@pytest.mark.parametrize(
    "row",
    [
        {"seed": 1, "due": [BORROW.model_dump(), ARRIVE.model_dump()]},
        {"seed": 1, "due": [ARRIVE.model_dump() | {"second": -1}]},
        {"seed": 1, "due": [ARRIVE.model_dump() | {"second": 10**12}]},
    ],
)
def test_a_schedule_that_nobody_drew_is_refused(row):
    with pytest.raises(ValidationError):
        Schedule.model_validate(row)


def test_an_event_that_an_application_does_not_have_is_told():
    environment = LIBRARY.environment()
    assert isinstance(environment, Timed)
    environment.reset_now(7)
    with pytest.raises(UnknownName, match="did you mean 'copies_arrive'"):
        environment.happen_now(Due(event="copy_arrives", second=0, chance=0))


def test_the_clock_never_leaves_the_day():
    clock = Clock("2026-03-02T23:30:00")
    clock.wind(90)
    assert clock.now == "2026-03-02T23:31:30"
    clock.wind(7200)
    assert clock.now == "2026-03-02T23:59:59"
    clock.wind(10**15)
    assert clock.now == "2026-03-02T23:59:59"
    clock.wind(0)
    assert clock.now == "2026-03-02T23:30:00"


# --- whose change it was -------------------------------------------------------------------------

_MINE = st.sampled_from(
    [
        ("lend_book", {"book_id": "B1", "member_id": "M001"}),
        ("lend_book", {"book_id": "B3", "member_id": "M003"}),
        ("place_hold", {"book_id": "B2", "member_id": "M001"}),
        ("place_hold", {"book_id": "B2", "member_id": "M004"}),
        ("change_email", {"member_id": "M001", "email": "a@b.c"}),
        ("change_email", {"member_id": "M001", "email": "d@e.f"}),
        ("waive_fees", {"member_id": "M005"}),
        ("lend_book", {"book_id": "B99", "member_id": "M001"}),
        ("count_for_ever", {}),
        "snapshot",
        "fork",
    ]
)
_THEIRS = st.builds(
    Due,
    event=st.sampled_from(sorted(EVENTS)),
    second=st.integers(0, 3000),
    chance=st.integers(0, 99),
)
"""Touch other rows than `_MINE`."""


@given(
    st.lists(_MINE | _THEIRS, max_size=12).filter(
        lambda steps: steps.count(("count_for_ever", {})) < 2
    )
)
@settings(max_examples=60)
def test_the_diff_is_what_calls_did_whatever_else_happened(steps):
    alone, together = LIBRARY.environment(), LIBRARY.environment()
    alone.reset_now(7)
    together.reset_now(7)
    for step in steps:
        if isinstance(step, Due):
            together.happen_now(step)
        elif step == "snapshot":
            state = together.snapshot_now()
            together.reset_now(8)
            together.restore_now(state)
            assert together.snapshot_now() == state
        elif step == "fork":
            together = together.fork_now()
        else:
            assert alone.call_now(*step).ok == together.call_now(*step).ok
        assert together.diff_now() == alone.diff_now()


def test_a_call_that_ends_the_transaction_undoes_nothing_that_happened():
    environment = LIBRARY.environment()
    environment.reset_now(7)
    environment.call_now(*CALLS[1])
    environment.happen_now(BORROW)
    environment.wind(400)
    environment.call_now(*CALLS[5])
    before, diff = environment.snapshot_now(), environment.diff_now()
    assert environment.call_now("count_for_ever", {}).error.code == "tool_fault"
    assert environment.snapshot_now() == before
    assert environment.diff_now() == diff
    (loan,) = environment.query("SELECT note FROM loans WHERE note LIKE '2026%'")
    assert loan["note"].endswith("09:05:00")


def test_who_changes_what_happened_is_seen():
    at_once = Due(event="copies_arrive", second=0, chance=0)
    environment = LIBRARY.environment()
    environment.reset_now(7)
    environment.happen_now(at_once)
    (book,) = environment.query("SELECT copies FROM books WHERE id = 'B20'")
    environment.call_now("lend_book", {"book_id": "B20", "member_id": "M001"})
    environment.happen_now(at_once)
    changed = json.loads(next(line for line in environment.diff_now() if '"books"' in line))
    assert changed[2:] == [
        {"copies": book["copies"], "id": "B20"},
        {"copies": book["copies"] - 1, "id": "B20"},
    ]


ROW = ("k", "a", "b")


@pytest.mark.parametrize(
    ("parts", "found"),
    [
        # what calls did before and after, something else having written in between
        ([[(ROW, ("k", "A", "b"))], [(("k", "A", "B"), ("k", "C", "B"))]],
         [(ROW, ("k", "C", "b"))]),
        ([[(ROW, ("k", "A", "b"))], [(("k", "A", "B"), ("k", "a", "B"))]], []),
        ([[(ROW, ("k", "A", "b"))], [(("k", "X", "b"), None)]], [(ROW, None)]),
        ([[(None, ROW)], [(("k", "a", "B"), None)]], []),
        ([[(None, ROW)], [(("k", "X", "b"), ("k", "X", "c"))]], [(None, ("k", "a", "c"))]),
        ([[], [(("k", "X", "b"), None)]], [(("k", "X", "b"), None)]),
        ([[(ROW, None)], [(("k", "X", "Y"), ("k", "X", "Z"))]], [(ROW, ("k", "X", "Z"))]),
    ],
)  # fmt: skip
def test_of_a_row_that_both_wrote_calls_did_the_columns_that_they_changed(parts, found):
    tables = {"t": type("Table", (), {"key": 0})}
    events = [[("t", old, new) for old, new in part] for part in parts]
    assert own(events, tables) == [("t", old, new) for old, new in found]
