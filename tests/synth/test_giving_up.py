"""A run that nobody can finish ends with the reason, and goes on where the cause is mended."""

import asyncio
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulators.users.scripted import ScriptedUser
from synth.core.config import load_config
from synth.core.errors import BadInput, ModelFailed
from synth.core.protocols import Turn
from synth.core.seeds import rng
from synth.core.types import Message
from synth.pipeline.engine import LocalEngine
from synth.pipeline.generate import Generation, reference_player
from synth.pipeline.job import generate
from synth.pipeline.progress import BARREN, WINDOW, Failures, Goal
from synth.pipeline.worlds import open_applications
from synth.reference import ErrorRates
from synth.report import run_report
from synth.run import Run, read_episodes

CONFIG = load_config(
    None, ["generate.applications=['clinic']", "generate.agents=3", "generate.errors.rate=0"]
)


class Unreachable:
    """An agent whose endpoint is down."""

    who = "nobody"

    async def turn(self, view):
        raise ModelFailed("no usable reply", where="nobody")


class Useless:
    """An agent that never helps."""

    who = "useless"

    async def turn(self, view):
        return Turn(Message(role="assistant", content="I cannot help you."))


def play(folder, make_agent, goal):
    with Run(folder, CONFIG) as run:
        worlds = open_applications(["clinic"])
        players = (make_agent, lambda p: ScriptedUser(p.task.request, rng(p.seed, "user")))
        engine = LocalEngine(CONFIG, worlds, players=players, concurrency=4)
        generation = Generation(CONFIG, worlds, run, engine)
        progress = asyncio.run(generation.until(goal))
        return generation, progress


REFERENCE = reference_player(ErrorRates())


@pytest.mark.claim("l06")
@pytest.mark.parametrize("goal", [Goal(accept=40), Goal(episodes=40)])
def test_an_endpoint_that_is_down_ends_the_run_and_costs_no_episode(tmp_path, goal):
    generation, progress = play(tmp_path, lambda planned, agent: Unreachable(), goal)
    assert generation.stop.why == (
        "no verdict on over 50% of the last 50 episodes: infrastructure failed 26 times; "
        "the last time: nobody: no usable reply"
    )
    assert progress.faults == {"infrastructure": WINDOW // 2 + 1}
    assert list(read_episodes(tmp_path)) == []
    generation, progress = play(tmp_path, REFERENCE, goal)
    assert generation.stop is None
    assert progress.accepted >= 36
    assert not progress.faults
    assert len(list(read_episodes(tmp_path))) >= progress.played
    with Run(tmp_path, CONFIG) as run:
        report = run_report(run, generation.used, open_applications(["clinic"]))
    tries = report["by_try"]
    assert tries["retried"]["episodes"] >= WINDOW // 2 + 1
    assert tries["retried"]["episodes"] + tries["first"]["episodes"] == generation.used
    assert report["accepted"] == tries["retried"]["accepted"] + tries["first"]["accepted"]
    assert report["infrastructure"] == {}


def test_what_is_still_broken_is_counted_by_why(tmp_path):
    generation, _ = play(tmp_path, lambda planned, agent: Unreachable(), Goal(episodes=9))
    assert generation.stop.why == "9 of 9 have no result: the infrastructure failed"
    with Run(tmp_path, CONFIG) as run:
        report = run_report(run, generation.used, open_applications(["clinic"]))
    assert report["episodes"] == report["failed_by"]["infrastructure"] == 9
    assert report["infrastructure"] == {"nobody: no usable reply": 9}


@pytest.mark.claim("l03")
@given(st.data(), st.sampled_from([0.1, 0.5, 0.6, 1.0]))
def test_a_run_stops_for_its_share_of_failures_and_for_no_other_order_of_them(data, share):
    """Where it stops, the window held more than the share; before that, no window did."""
    events = data.draw(st.lists(st.booleans(), max_size=3 * WINDOW))
    failures = Failures(share)
    for number, failed in enumerate(events, 1):
        stopped = failures.add(failed=failed)
        last = events[max(0, number - WINDOW) : number]
        assert stopped == (sum(last) / WINDOW > share)


@pytest.mark.claim("l03")
@given(st.randoms(use_true_random=False))
def test_21_failures_of_512_in_any_order_stop_nothing_and_60_percent_do(dice):
    """DataDesigner #185 stopped at 4 % where 50 % were allowed."""
    few = [True] * 21 + [False] * 491
    many = [True] * 300 + [False] * 200
    in_a_row = list(few)
    dice.shuffle(few)
    dice.shuffle(many)

    def stops(events):
        failures = Failures(0.5)
        return any(failures.add(failed=failed) for failed in events)

    assert not stops(few)
    assert not stops(in_a_row)
    assert stops(many)


def test_an_agent_that_never_passes_ends_the_run(tmp_path):
    generation, progress = play(tmp_path, lambda planned, agent: Useless(), Goal(accept=5))
    assert generation.stop.why.startswith("none of 300 episodes in a row was accepted: ")
    assert (progress.accepted, progress.played, generation.used) == (0, BARREN, BARREN)


def test_the_first_failure_ends_the_other_episodes(tmp_path):
    """Nothing plays on in an environment that is being closed."""
    ended = []

    class Waits(Useless):
        async def turn(self, view):
            try:
                await asyncio.Event().wait()
            finally:
                ended.append(True)

    def make(planned, agent):
        if planned.index == 3:
            raise RuntimeError("the disk is gone")
        return Waits()

    with pytest.raises(RuntimeError, match="the disk is gone"):
        play(tmp_path, make, Goal(accept=5))
    assert ended == [True, True, True]


def test_a_run_is_not_continued_with_other_tools(tmp_path):
    folder = tmp_path / "runs" / "r"
    asyncio.run(generate(CONFIG, folder, tmp_path, Goal(episodes=2)))
    tools = json.loads((folder / "tools.json").read_bytes())
    first = next(iter(tools["clinic"].values()))
    first["description"] = "as an older version had it"
    (folder / "tools.json").write_text(json.dumps(tools), encoding="utf-8")
    with pytest.raises(BadInput, match=r"the tools of 'clinic' are not those"):
        asyncio.run(generate(CONFIG, folder, tmp_path, Goal(episodes=3)))
    assert len(list(read_episodes(folder))) == 2
