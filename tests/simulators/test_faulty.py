"""Faults of an environment: as often as configured, the same again, and always with a way on."""

import asyncio
import json
from collections import Counter
from pathlib import Path

import pytest
from pydantic import ValidationError

from simulators.check import check_environment
from simulators.faulty import MOST_IN_A_ROW, PERMANENT, TRANSIENT, Faulty
from simulators.sql.engine import Engine
from simulators.sql.load import load_application
from synth.core.errors import BadInput
from synth.core.outcomes import Outcomes

pytestmark = pytest.mark.claim("k2-outcomes")

LIBRARY = Engine(load_application(Path(__file__).parent / "data" / "library.yaml"))
CALLS = [
    ("list_loans", {"member_id": "M001"}),
    ("lend_book", {"book_id": "B1", "member_id": "M001"}),
    ("lend_book", {"book_id": "B2", "member_id": "M001"}),
    ("place_hold", {"book_id": "B1", "member_id": "M001"}),
]
READ = CALLS[0]


def faulty(seed=1, needed=(), **rates):
    return Faulty(LIBRARY.environment(), Outcomes(**rates), seed=seed, needed=needed)


async def played(environment, calls, state=7):
    await environment.reset(state)
    return [await environment.call(name, arguments) for name, arguments in calls]


@pytest.mark.parametrize(
    "rates",
    [{}, {"transient": 0.4, "partial": 0.3, "edge": 0.3}, {"partial": 1}, {"permanent": 0.3}],
    ids=str,
)
def test_faults_keep_the_contract_of_environments(rates):
    for seed in range(6):
        make = lambda seed=seed: faulty(seed, needed=("place_hold",), **rates)  # noqa: E731
        assert asyncio.run(check_environment(make, CALLS)) == []


def test_without_rates_nothing_differs_from_the_environment_itself():
    plain = LIBRARY.environment()

    async def both():
        return await played(faulty(), CALLS), await played(plain, CALLS)

    ours, theirs = asyncio.run(both())
    assert ours == theirs


def test_faults_come_as_often_as_configured():
    rates = {"transient": 0.2, "partial": 0.15, "edge": 0.25}
    seen = Counter()
    for seed in range(1500):
        (result,) = asyncio.run(played(faulty(seed, **rates), [READ]))
        seen[result.outcome] += 1
    expected = {name: 1500 * rate for name, rate in rates.items()}
    expected["success"] = 1500 - sum(expected.values())
    chi = sum((seen[name] - count) ** 2 / count for name, count in expected.items())
    assert set(seen) == set(expected)
    assert chi < 16.3  # three degrees of freedom, p = 0.001


def test_what_fails_for_a_moment_changes_nothing_and_works_within_three_tries():
    async def lend(seed):
        environment = faulty(seed, transient=1)
        await environment.reset(7)
        name, arguments = CALLS[1]
        for _ in range(MOST_IN_A_ROW):
            result = await environment.call(name, arguments)
            assert (result.ok, result.outcome) == (False, "transient")
            assert json.loads(result.content)["message"] == TRANSIENT[result.error.code]
            assert await environment.diff() == ()
        result = await environment.call(name, arguments)
        assert (result.ok, result.outcome) == (True, "success")
        return result, await environment.diff()

    plain = LIBRARY.environment()
    (wanted,) = asyncio.run(played(plain, CALLS[1:2]))
    for seed in range(5):
        result, diff = asyncio.run(lend(seed))
        assert result == wanted  # the identifier it makes is the first one too
        assert diff == asyncio.run(plain.diff())


def test_calls_made_together_all_work_within_three_tries():
    calls = [("list_loans", {"member_id": f"M00{number}"}) for number in (1, 2, 3)]
    results = asyncio.run(played(faulty(transient=1), calls * (MOST_IN_A_ROW + 1)))
    assert [result.ok for result in results] == [False] * 6 + [True] * 3


def test_arguments_that_are_no_json_are_refused_as_without_faults():
    odd = [("lend_book", {"book_id": "\ud800", "member_id": float("nan")}), READ]
    refused, worked = asyncio.run(played(faulty(edge=1), odd))
    assert (refused.error.code, worked.outcome) == ("invalid_arguments", "edge")


@pytest.mark.parametrize(
    "rates", [{"transient": 1.1}, {"edge": -0.1}, {"partial": float("nan")}, {"permanent": True},
              {"transient": 0.5, "partial": 0.4, "edge": 0.2}]
)  # fmt: skip
def test_rates_that_are_no_shares_are_refused(rates):
    with pytest.raises(ValidationError):
        Outcomes(**rates)


def test_shares_that_sum_to_one_are_taken_however_they_round():
    assert Outcomes(transient=0.34, partial=0.56, edge=0.1)
    assert not Outcomes()


def test_a_call_that_would_fail_anyway_fails_as_it_would():
    calls = [("lend_book", {"book_id": "B99", "member_id": "M001"}), ("nothing", {})]
    results = asyncio.run(played(faulty(transient=1), calls))
    assert [(r.error.code, r.outcome) for r in results] == [
        ("not_found", "success"),
        ("unknown_tool", "success"),
    ]


def test_a_result_that_was_cut_short_says_so_and_comes_whole_the_next_time():
    setup = [*CALLS[1:3], READ, READ]
    *_, first, second = asyncio.run(played(faulty(partial=1), setup))
    short, whole = json.loads(first.content), json.loads(second.content)
    assert first.outcome == "partial"
    assert short["partial"] is True
    assert "Ask again" in short["notice"]
    assert second.outcome == "success"
    assert len(whole["result"]) >= 2
    assert short["result"] == whole["result"][: len(whole["result"]) // 2]


def test_an_odd_result_is_right_and_says_something_besides():
    name, arguments = CALLS[1]
    (odd,) = asyncio.run(played(faulty(edge=1), [(name, arguments)]))
    (plain,) = asyncio.run(played(LIBRARY.environment(), [(name, arguments)]))
    value = json.loads(odd.content)
    assert value.pop("notice")
    assert value == json.loads(plain.content)


def test_what_the_task_needs_is_never_out_of_order():
    environment = faulty(needed=("lend_book",), permanent=1)
    results = asyncio.run(played(environment, [*CALLS, CALLS[3]]))
    assert [r.outcome for r in results] == [
        *("permanent", "success", "success"),
        *("permanent", "permanent"),
    ]
    assert results[0].error == PERMANENT


def test_the_same_seed_meets_the_same_faults_and_another_one_others():
    rates = {"transient": 0.3, "partial": 0.3, "edge": 0.3}

    async def outcomes(seed):
        return [r.outcome for r in await played(faulty(seed, **rates), CALLS * 5)]

    first = asyncio.run(outcomes(1))
    assert asyncio.run(outcomes(1)) == first
    assert len({tuple(asyncio.run(outcomes(seed))) for seed in range(10)}) > 5


def test_a_foreign_snapshot_is_refused_and_leaves_everything_as_it_was():
    async def refuse():
        environment = faulty(transient=0.5)
        await environment.reset(7)
        before = await environment.snapshot()
        with pytest.raises(BadInput, match="not a snapshot"):
            await environment.restore(b"something else")
        assert await environment.snapshot() == before

    asyncio.run(refuse())
