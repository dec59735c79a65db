"""A run on faulty environments: agents recover, what is kept is right, a resume changes nothing."""

import asyncio
import json
from collections import Counter

import pytest

from synth.core.config import load_config
from synth.pipeline.generate import Goal
from synth.pipeline.job import generate
from synth.run import read_episodes

RATES = {"transient": 0.15, "partial": 0.2, "edge": 0.2, "permanent": 0.3}
SETTINGS = [
    "generate.applications=['clinic']",
    "generate.agents=4",
    "generate.states=3",
    "generate.errors.rate=0",
    "generate.outcomes={" + ", ".join(f"{name}={rate}" for name, rate in RATES.items()) + "}",
]
WANTED = 80


def make(folder, goal):
    config = load_config(None, SETTINGS)
    return asyncio.run(generate(config, folder / "runs" / "r", folder, goal))


@pytest.fixture(scope="module", name="run")
def _run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("faulty")
    return folder, make(folder, Goal(accept=WANTED))


def trajectories(folder):
    return [episode.trajectory for episode in read_episodes(folder / "runs" / "r")]


def test_an_agent_that_tries_again_reaches_its_goal_in_spite_of_faults(run):
    _, report = run
    assert report["accepted"] == WANTED
    assert report["episodes"] <= WANTED * 1.05
    assert report["faults_by_owner"] == {}


def test_each_call_says_what_became_of_it(run):
    folder, _ = run
    steps = [step for played in trajectories(folder) for step in played.steps]
    seen = Counter(step.result.outcome for step in steps)
    assert min(seen[name] for name in ("success", "transient", "partial", "edge")) > 10
    for step in steps:
        failed = step.result.outcome in ("transient", "permanent")
        assert failed is not step.result.ok  # nothing else goes wrong in a run without mistakes
        if step.result.outcome == "partial":
            assert json.loads(step.result.content)["partial"] is True


def test_even_where_every_call_fails_at_first_all_goals_are_reached(tmp_path):
    settings = [*SETTINGS[:-1], "generate.outcomes={transient=1}"]
    config = load_config(None, settings)
    goal = Goal(episodes=60)
    report = asyncio.run(generate(config, tmp_path / "runs" / "r", tmp_path, goal))
    assert (report["episodes"], report["accepted"]) == (60, 60)


def test_half_a_run_taken_up_again_meets_the_same_faults(run, tmp_path):
    folder, _ = run
    make(tmp_path, Goal(episodes=20))
    make(tmp_path, Goal(accept=WANTED))
    name = "runs/r/episodes-0.jsonl"
    assert (tmp_path / name).read_bytes() == (folder / name).read_bytes()


def test_without_rates_no_call_goes_wrong(tmp_path):
    config = load_config(None, SETTINGS[:-1])
    asyncio.run(generate(config, tmp_path / "runs" / "r", tmp_path, Goal(episodes=30)))
    outcomes = {step.result.outcome for t in trajectories(tmp_path) for step in t.steps}
    assert outcomes == {"success"}
