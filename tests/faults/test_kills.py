"""Killed at any moment, a run ends as one that never was; the endpoint's ledger is the witness."""

import random
import signal
import time
from collections import Counter

import pytest

from synth.core import jsonl

EPISODES = 300
CONCURRENCY = 8
OPTIONS = ("--episodes", str(EPISODES), "--concurrency", str(CONCURRENCY))
LATENCY = "--latency-ms=20"
"""Replies come slower than a busy machine looks at the ledger, or a run ends before its signal."""
STARTING_S = 0.4
"""What a session needs before its first request, at least."""


def lines(path):
    return path.read_bytes().count(b"\n")


def interrupt(place, number, dice, calls):
    """Start a session and send it a signal, at random: while it starts, or after some requests."""
    before = lines(place.mock.ledger)
    session = place.start(*OPTIONS)
    if dice.random() < 0.2:
        time.sleep(dice.uniform(0, STARTING_S))
    else:
        wanted = before + dice.randrange(2 * calls)
        deadline = time.monotonic() + 60
        while lines(place.mock.ledger) < wanted and not session.ended():
            assert time.monotonic() < deadline, session.text()
            time.sleep(dice.uniform(0, 0.01))
    session.signal(number)
    return session.wait()


def survive(place, signals, dice):
    """Interrupt a run with all of the signals, finish it, and return how sessions ended."""
    calls = 4 * EPISODES // len(signals)
    codes = Counter(interrupt(place, number, dice, calls) for number in signals)
    place.finish(*OPTIONS)
    return codes


def check(place, whole, codes):
    planned = [row["episode"] for row in jsonl.read(place.run / "plan.jsonl")]
    rows = [row["trajectory"]["episode"] for row in jsonl.read(place.run / "episodes-0.jsonl")]
    assert len(planned) == EPISODES
    assert Counter(rows) == Counter(planned)
    assert place.episodes() == whole.episodes()
    assert place.dataset() == whole.dataset()
    assert place.told() == whole.told()
    # A killed session loses one reply an episode in flight; an interrupted one waits for it.
    asked, needed = place.calls(), whole.calls()
    assert set(asked) == set(needed)
    assert set(needed.values()) == {1}
    in_flight = codes[-signal.SIGKILL] * CONCURRENCY
    assert asked.total() - needed.total() <= in_flight
    # What was under way at a kill is in the books: as unknown, sent or about to be.
    books, sent = place.report()["cost"]["total"], len(place.mock.entries())
    assert sent <= books["attempts"] <= sent + in_flight
    assert 0 < books["unknown"] <= in_flight
    told = [entry["prompt_tokens"] + entry["completion_tokens"] for entry in place.mock.entries()]
    ours = books["prompt_tokens"] + books["completion_tokens"]
    assert sum(sorted(told)[: books["attempts"] - books["unknown"]]) <= ours <= sum(told)


@pytest.fixture
def whole(place, script):
    made = place("whole", f"--script={script(EPISODES)}")
    made.finish(*OPTIONS)
    assert made.report()["accepted"] > EPISODES // 2
    return made


@pytest.mark.claim("k05")
@pytest.mark.claim("r1")
@pytest.mark.claim("r2")
@pytest.mark.claim("r12")
def test_25_kills_and_10_interrupts_leave_what_an_uninterrupted_run_leaves(place, script, whole):
    killed = place("killed", f"--script={script(EPISODES)}", LATENCY)
    signals = [signal.SIGKILL] * 25 + [signal.SIGINT] * 10
    dice = random.Random(1)
    dice.shuffle(signals)
    codes = survive(killed, signals, dice)
    check(killed, whole, codes)
    assert codes[-signal.SIGKILL] >= 20, codes
    assert codes[130] >= 7, codes
    assert set(codes) <= {-signal.SIGKILL, 130, 0}, codes


@pytest.mark.soak
def test_300_kills_too(place, script, whole):
    killed = place("killed", f"--script={script(EPISODES)}", LATENCY)
    codes = survive(killed, [signal.SIGKILL] * 300, random.Random(2))
    check(killed, whole, codes)
    assert codes[-signal.SIGKILL] >= 200, codes
