"""Runs in which users have to act: resumed, replayed, forked, and what the registry says."""

import asyncio

import pytest

from synth.core.config import change_config, load_config
from synth.core.store import Workspace
from synth.core.types import Effect
from synth.pipeline.forks import fork
from synth.pipeline.generate import Goal
from synth.pipeline.job import How, generate
from synth.pipeline.origins import Origin, Wish
from synth.pipeline.replay import replay
from synth.pipeline.worlds import open_applications
from synth.run import read_episodes

CLINIC = open_applications(["clinic"])["clinic"]
HELD = {tool.name for tool in CLINIC.environment().user_tools()}

SETTINGS = [
    "generate.applications=['clinic']",
    "generate.mix={user_act=2, single_write=1}",
    "generate.agents=6",
]


def make(folder, episodes, settings=SETTINGS):
    config = load_config(None, settings)
    goal = Goal(episodes=episodes)
    return asyncio.run(generate(config, folder / "runs" / "r", folder, goal))


@pytest.fixture(name="run", scope="module")
def _run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dual")
    make(folder, 12)
    return folder


def test_a_run_that_was_interrupted_and_resumed_gives_equal_bytes(run, tmp_path):
    for episodes in (5, 12):
        make(tmp_path, episodes)
        part = tmp_path / "runs" / "r" / "episodes-0.jsonl"
        if episodes == 5:  # killed while it wrote
            part.write_bytes(part.read_bytes()[:-40])
    for name in ("plan.jsonl", "episodes-0.jsonl", "agents.jsonl"):
        one, other = (folder / "runs" / "r" / name for folder in (run, tmp_path))
        assert one.read_bytes() == other.read_bytes(), name


def test_a_run_replays_to_the_byte(run):
    replayed = asyncio.run(replay(run / "runs" / "r", run))
    assert (replayed.same, replayed.differing) == (12, {})
    acted = [
        step
        for episode in read_episodes(run / "runs" / "r")
        for step in episode.trajectory.steps
        if step.by == "user"
    ]
    assert len(acted) >= 5


def test_the_registry_says_who_made_a_call(run):
    with Workspace(run).read() as con:
        rows = con.execute(
            "SELECT DISTINCT actor, name FROM steps WHERE actor <> 'agent' ORDER BY ALL"
        ).fetchall()
        offered = con.execute("SELECT DISTINCT name FROM run_tools").fetchall()
        known = con.execute("SELECT DISTINCT name FROM tools").fetchall()
    assert rows
    assert {name for _, name in rows} <= HELD
    assert not HELD & {name for (name,) in (*offered, *known)}


def test_what_happens_to_tools_of_agents_leaves_users_alone(tmp_path):
    make(tmp_path, 6, [*SETTINGS, "generate.outcomes.transient=0.4"])
    episodes = list(read_episodes(tmp_path / "runs" / "r"))
    steps = [step for episode in episodes for step in episode.trajectory.steps]
    assert any(step.result.outcome == "transient" for step in steps if step.by == "agent")
    assert {step.result.outcome for step in steps if step.by == "user"} == {"success"}
    assert asyncio.run(replay(tmp_path / "runs" / "r", tmp_path)).same == 6


def forks_of(run, folder, wish, *settings):
    """Fork the run; return each fork with the episode that it left."""
    origin = run / "runs" / "r"
    config = change_config(Origin(origin).config, settings)
    asyncio.run(fork(origin, folder, run, wish, config, How()))
    before = {e.trajectory.episode: e for e in read_episodes(origin)}
    return [(e, before[e.trajectory.fork.episode]) for e in read_episodes(folder)]


def of_user(trajectory):
    return [step for step in trajectory.steps if step.by == "user"]


def changes_of(trajectory):
    done = [step for step in of_user(trajectory) if step.effect is not Effect.READ]
    return [(step.call.name, step.call.value) for step in done if step.result.ok]


def test_forks_before_and_after_the_users_act_end_as_their_origins_did(run, tmp_path):
    sides = set()
    for seed in (1, 2):
        folder = tmp_path / f"forks{seed}"
        pairs = forks_of(run, folder, Wish(at="random", copies=2), f"seed={seed}")
        assert len(pairs) == 24
        for episode, before in pairs:
            one, other = episode.trajectory, before.trajectory
            kept = one.fork.messages
            assert one.messages[:kept] == other.messages[:kept]
            if episode.verdict.passed and before.verdict.passed:
                assert one.diff == other.diff
                # Who takes over may have the user look again; nothing is changed twice.
                assert changes_of(one) == changes_of(other)
                assert {s.call.name for s in of_user(one)} == {s.call.name for s in of_user(other)}
            sides |= {kept > step.message for step in of_user(other)}
        assert asyncio.run(replay(folder, run)).same == 24
    assert sides == {True, False}


def test_in_a_fork_that_changes_nothing_the_user_acts_the_same_and_once(run, tmp_path):
    pairs = forks_of(run, tmp_path / "forks", Wish(at="random"))
    acted = 0
    for episode, before in pairs:
        assert episode.trajectory.messages == before.trajectory.messages
        assert episode.trajectory.steps == before.trajectory.steps
        assert episode.verdict.passed == before.verdict.passed
        calls = [(s.call.name, s.call.arguments) for s in of_user(episode.trajectory)]
        assert len(calls) == len(set(calls))
        acted += bool(calls)
    assert acted >= 5
