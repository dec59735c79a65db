"""Limits of a run are hard, end it with exit code 3 and one line, and the same command goes on."""

import re

import pytest

from synth.core import jsonl

OPTIONS = ("--episodes", "40", "--concurrency", "8")


@pytest.fixture
def whole(place, script):
    made = place("whole", f"--script={script(40)}")
    made.finish(*OPTIONS)
    return made


PRICES = ("--set=models.agent.price_in=2.0", "--set=models.agent.price_out=6.0")
BUDGETS = {
    "requests": (50, lambda entries: len(entries)),
    "tokens": (
        60_000,
        lambda entries: sum(e["prompt_tokens"] + e["completion_tokens"] for e in entries),
    ),
    "money": (
        0.125,
        lambda entries: (
            sum(2 * e["prompt_tokens"] + 6 * e["completion_tokens"] for e in entries) / 1e6
        ),
    ),
}


@pytest.mark.parametrize("name", BUDGETS)
def test_a_budget_is_a_hard_stop_and_the_run_goes_on_where_it_is_raised(place, script, whole, name):
    limit, spent = BUDGETS[name]
    made = place("limited", f"--script={script(40)}", "--latency-ms=2")
    session = made.start(*OPTIONS, *PRICES, f"--set=budget.{name}={limit}")
    assert session.wait() == 3
    entries = made.mock.entries()
    assert 0.3 * limit < spent(entries) <= limit
    assert re.search(rf"40 episodes: the budget of [\d,.]+ {name} is spent", session.text())
    last = session.text().splitlines()[-1]
    assert last.endswith(f"(budget.{name}: raise it, and the same command goes on from here)")
    report = made.report()
    assert report["faults_by_owner"] == {}
    assert not list(jsonl.read(made.run / "failures-0.jsonl"))
    assert 0 < report["episodes"] == len(made.episodes()) < 40
    assert report["cost"]["total"]["attempts"] == len(entries)
    again = made.start(*OPTIONS, *PRICES, f"--set=budget.{name}={limit}")
    assert again.wait() == 3
    assert spent(made.mock.entries()) <= limit
    made.finish(*OPTIONS, *PRICES)
    assert made.episodes() == whole.episodes()
    assert made.dataset() == whole.dataset()
    assert set(made.calls().values()) == {1}, "a reply was paid for twice"
    assert made.report()["cost"]["total"]["money"] == pytest.approx(
        BUDGETS["money"][1](made.mock.entries())
    )


def test_an_endpoint_that_is_down_stops_the_run_and_is_named(place, script):
    made = place("down", f"--script={script(40)}")
    made.mock.process.kill()
    made.mock.process.wait()
    session = made.start(*OPTIONS)
    assert session.wait() == 1
    assert "nobody answers at" in session.text()
    assert "Traceback" not in session.text()


def test_too_many_failures_stop_the_run_and_the_limit_can_be_given(place, script):
    made = place("failing", f"--script={script(40)}", "--fault-rate=0.5", "--faults=http_400")
    session = made.start(*OPTIONS, "--max-failures", "0.1")
    assert session.wait() == 3
    assert "no verdict on over 10% of the last 50 episodes: infrastructure failed" in session.text()
    assert "400" in session.text().splitlines()[-1]
    failures = [row["episode"] for row in jsonl.read(made.run / "failures-0.jsonl")]
    assert 6 <= len(failures) <= 6 + 8
    report = made.report()
    assert report["faults_by_owner"] == {"infrastructure": 6}
    assert list(report["infrastructure"]) == [
        "openai:mock: the endpoint answered #: the request is not valid"
    ]
