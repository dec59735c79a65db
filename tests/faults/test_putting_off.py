"""An endpoint that wants to be left alone for longer than a call may take holds the run up."""

from synth.core import jsonl


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
