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
    counts = {"planned": EPISODES, "same": EPISODES, "doubled": 0, "from_record": 0}
    assert json.loads(done.stdout) == {**counts, "differing": {}, "left_out": {}}


def test_a_result_that_was_never_given_is_found(run):
    def other(trajectory):
        first, *rest = trajectory.steps
        changed = first.result.model_copy(update={"content": first.result.content + " "})
        return (first.model_copy(update={"result": changed}), *rest)

    episode = spoil(run, steps=other)
    replayed = again(run)
    assert list(replayed.differing) == [episode]
    assert replayed.same == EPISODES - 1


def test_a_dialogue_that_says_something_else_than_the_record_is_found(run):
    def forged(trajectory):
        place = next(i for i, m in enumerate(trajectory.messages) if m.role == "tool")
        messages = list(trajectory.messages)
        messages[place] = messages[place].model_copy(update={"content": '{"result": []}'})
        return tuple(messages)

    episode = spoil(run, messages=forged)
    assert "differs from the dialogue" in again(run).differing[episode]


def test_a_record_without_its_calls_is_found(run):
    episode = spoil(run, steps=lambda trajectory: (), diff=lambda trajectory: ())
    assert "differs from the dialogue" in again(run).differing[episode]


def test_what_is_missing_and_what_is_there_twice_is_counted(run):
    rows = (run / "episodes-0.jsonl").read_bytes().splitlines(keepends=True)
    (run / "episodes-0.jsonl").write_bytes(b"".join([*rows[1:], rows[3]]))
    replayed = again(run)
    assert (replayed.planned, replayed.same, replayed.doubled) == (EPISODES, EPISODES, 1)
    (run / "episodes-0.jsonl").write_bytes(b"".join(rows[1:]))
    assert (again(run).same, again(run).doubled) == (EPISODES - 1, 0)


@pytest.mark.parametrize("spoilt", ["empty", "gone"])
def test_a_run_without_episodes_has_not_been_replayed(run, spoilt):
    (run / "episodes-0.jsonl").write_bytes(b"")
    if spoilt == "gone":
        (run / "episodes-0.jsonl").unlink()
    with pytest.raises(BadInput, match="no finished episode"):
        again(run)


@pytest.mark.parametrize("value", ['{"new_key": 1}', '{"generate": {"outcomes": {"edge": -1}}}'])
def test_a_configuration_of_another_version_is_named_with_its_place(run, value):
    settings = json.loads((run / "config.json").read_text())
    settings["config"] = json.loads(value)
    (run / "config.json").write_text(json.dumps(settings))
    with pytest.raises(BadRow, match=r"not a configuration of this version: (new_key|generate\.)"):
        again(run)
    (run / "config.json").unlink()
    with pytest.raises(BadInput, match="no configuration"):
        again(run)


def test_a_run_that_goes_on_is_replayed_as_far_as_it_is(tmp_path):
    settings = [f"--set={setting}" for setting in SETTINGS]
    command = [sys.executable, "-m", "synth", "--workspace", str(tmp_path), "generate"]
    going = subprocess.Popen([*command, "--episodes", "4000", "--run", "r", *settings])
    run = tmp_path / "runs" / "r"
    counts = []
    try:
        while len(counts) < 3 and going.poll() is None:
            if (run / "episodes-0.jsonl").exists() and (run / "episodes-0.jsonl").stat().st_size:
                replayed = again(run)
                assert replayed.differing == {}
                counts.append(replayed.same)
    finally:
        going.kill()
        going.wait()
    assert len(counts) == 3
    assert 0 < counts[0] <= counts[1] <= counts[2] < 4000


def test_a_final_state_that_was_never_reached_is_found(run):
    def nothing(trajectory) -> Diff:
        return ()

    episode = spoil(run, diff=nothing)
    assert "the final diff is not the state" in again(run).differing[episode]


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
