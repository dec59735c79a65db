"""An endpoint that wants to be left alone for longer than a call may take holds the run up."""

import signal
import time

import pytest

from synth.core import jsonl
from synth.pipeline.generate import DRAIN_S

ON_ITS_WAY_S = 0.5
"""Longest time until a refusal is read, on a busy machine."""


def test_a_long_retry_after_is_waited_for_and_costs_no_episode(place, script):
    whole = place("whole", f"--script={script(12)}")
    whole.finish("--episodes", "12")
    made = place("held", f"--script={script(12)}", "--fault-rate=0", "--latency-ms=2")
    throttled = ("--set=models.agent.model=fault:throttle_5s", "--set=models.agent.timeout_s=3")
    session = made.finish("--episodes", "12", "--concurrency", "4", *throttled)
    entries = made.mock.entries()
    refused = [entry["at"] for entry in entries if entry["status"] == 429]
    assert 1 <= len(refused) <= 4
    rest = [entry["at"] for entry in entries if entry["status"] == 200]
    assert min(rest) >= refused[0] + 5
    assert not list(jsonl.read(made.run / "failures-0.jsonl"))
    assert made.report()["episodes"] == 12
    assert made.told()["accepted"] == whole.told()["accepted"]
    assert "waiting until" in session.text()


def test_ctrl_c_waits_for_no_moment_that_an_endpoint_named(place):
    made = place("held", "--latency-ms=2")
    waits = ("--set=models.agent.model=fault:http_429_300", "--set=models.agent.timeout_s=400")
    session = made.start("--episodes", "12", "--concurrency", "4", *waits)
    deadline = time.monotonic() + 60
    while "waiting until" not in session.text():
        assert time.monotonic() < deadline, session.text()
        time.sleep(0.02)
    session.signal(signal.SIGINT)
    since = time.monotonic()
    assert session.wait() == 130, session.text()
    assert time.monotonic() - since < DRAIN_S
    assert "interrupted; the same command goes on from here" in session.text()
    assert not list(jsonl.read(made.run / "failures-0.jsonl"))
    assert {entry["status"] for entry in made.mock.entries()} == {429}


@pytest.mark.claim("a20")
@pytest.mark.claim("r3")
def test_nobody_asks_before_the_endpoint_allows_it(place, script):
    """What was on its way when the endpoint refused is not held against anybody."""
    faults = ("--fault-rate=0.08", "--faults=http_429_seconds,http_429_date", "--latency-ms=2")
    made = place("busy", f"--script={script(40)}", *faults)
    made.finish("--episodes", "40", "--concurrency", "8")
    entries = made.mock.entries()
    refused = [entry["at"] for entry in entries if entry["status"] == 429]
    assert len(refused) >= 4
    for at in refused:
        early = [entry["at"] - at for entry in entries if at + ON_ITS_WAY_S < entry["at"] < at + 1]
        assert early == []
    assert made.report()["episodes"] == 40
    assert made.report()["cost"]["total"]["attempts"] == len(entries)
