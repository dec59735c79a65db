"""Stored trajectories are made again: what is on disk is what the applications do, on any day."""

import asyncio
import json
import os
import subprocess
import sys

import pytest

from synth.core.config import load_config
from synth.core.errors import BadInput, BadRow
from synth.core.jsonl import write_atomic
from synth.core.types import Diff
from synth.pipeline.generate import Goal
from synth.pipeline.job import generate
from synth.pipeline.replay import replay
from synth.rowfile import sealed
from synth.run import read_episodes

EPISODES = 60
SETTINGS = [
    "generate.applications=['hotel','clinic']",
    "generate.agents=4",
    "generate.states=3",
    "generate.errors.rate=0.4",
    "generate.outcomes={transient=0.1, partial=0.1, edge=0.1, permanent=0.2}",
]
ANOTHER_DAY = """
import time
for name in ("time", "time_ns"):
    real, days = getattr(time, name), 400 * 86400 * (1 if name == "time" else 10**9)
    setattr(time, name, lambda real=real, days=days: real() + days)
"""


@pytest.fixture(scope="module", name="workspace")
def _workspace(tmp_path_factory):
    folder = tmp_path_factory.mktemp("replayed")
    config = load_config(None, SETTINGS)
    asyncio.run(generate(config, folder / "runs" / "r", folder, Goal(episodes=EPISODES)))
    return folder


@pytest.fixture(name="run")
def _run(workspace, tmp_path):
    """Return a copy of the run that may be spoilt."""
    folder = tmp_path / "runs" / "r"
    folder.mkdir(parents=True)
    for path in (workspace / "runs" / "r").iterdir():
        if path.is_file():
            (folder / path.name).write_bytes(path.read_bytes())
    return folder


def again(run):
    return asyncio.run(replay(run, run))


def spoil(run, **changes):
    """Rewrite the first episode that has a write, its checksum right."""
    episodes = list(read_episodes(run))
    number = next(i for i, e in enumerate(episodes) if e.trajectory.diff)
    before = episodes[number].trajectory
    after = before.model_copy(update={name: make(before) for name, make in changes.items()})
    episodes[number] = episodes[number].model_copy(update={"trajectory": after})
    write_atomic(run / "episodes-0.jsonl", b"".join(sealed(e) + b"\n" for e in episodes))
    return before.episode


def test_every_trajectory_replays_rejected_ones_and_faults_included(run):
    episodes = list(read_episodes(run))
    verdicts = [episode.verdict.passed for episode in episodes]
    outcomes = {s.result.outcome for e in episodes for s in e.trajectory.steps}
    assert verdicts.count(False) >= 10
    assert {"transient", "partial", "edge"} <= outcomes
    replayed = again(run)
    assert (replayed.same, replayed.differing) == (EPISODES, {})
    assert replayed.left_out.total() == 0


def test_a_fresh_process_on_another_day_replays_the_same(workspace, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(ANOTHER_DAY)
    command = [sys.executable, "-m", "synth", "--workspace", str(workspace), "--json"]
    env = {**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONHASHSEED": "9", "TZ": "Asia/Tokyo"}
    year = "import datetime; print(datetime.datetime.fromtimestamp(__import__('time').time()).year)"
    shown = subprocess.run([sys.executable, "-c", year], env=env, capture_output=True, check=True)
    here = subprocess.run([sys.executable, "-c", year], capture_output=True, check=True)
    assert int(shown.stdout) > int(here.stdout)
    done = subprocess.run(
        [*command, "replay", "--run", "r"], env=env, capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == {"same": EPISODES, "differing": {}, "left_out": {}}


def test_a_result_that_was_never_given_is_found(run):
    def other(trajectory):
        first, *rest = trajectory.steps
        changed = first.result.model_copy(update={"content": first.result.content + " "})
        return (first.model_copy(update={"result": changed}), *rest)

    episode = spoil(run, steps=other)
    replayed = again(run)
    assert list(replayed.differing) == [episode]
    assert replayed.same == EPISODES - 1


def test_a_final_state_that_was_never_reached_is_found(run):
    def nothing(trajectory) -> Diff:
        return ()

    episode = spoil(run, diff=nothing)
    assert "the final state differs: unexpected" in again(run).differing[episode]


def test_the_command_says_which_trajectory_differs_and_fails(run):
    episode = spoil(run, diff=lambda trajectory: ())
    workspace = str(run.parent.parent)
    command = [sys.executable, "-m", "synth", "--workspace", workspace, "replay", "--run", "r"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert done.stdout == ""
    assert f"1 of {EPISODES} trajectories differ" in done.stderr
    assert episode in done.stderr
    assert "Traceback" not in done.stderr


def test_a_run_of_another_version_of_an_application_is_refused(run):
    settings = json.loads((run / "config.json").read_text())
    settings["made_of"]["world 'hotel'"] = "0" * 16
    (run / "config.json").write_text(json.dumps(settings))
    with pytest.raises(BadInput, match="world 'hotel' is another one"):
        again(run)


def test_applications_that_were_installed_since_do_no_harm(run):
    settings = json.loads((run / "config.json").read_text())
    settings["config"]["generate"]["applications"] = []
    (run / "config.json").write_text(json.dumps(settings))
    assert again(run).same == EPISODES


def test_an_episode_that_nobody_planned_is_refused(run):
    (run / "plan.jsonl").write_bytes(b"")
    with pytest.raises(BadRow, match="is not in the plan"):
        again(run)
