"""Runs of forks: what is kept, who plays on, and that they are runs as any other."""

import asyncio
import json

import pytest

from synth.core.config import change_config, load_config
from synth.core.errors import BadConfig, BadInput, UnknownName
from synth.core.jsonl import write_atomic
from synth.pipeline.export import export
from synth.pipeline.forks import fork
from synth.pipeline.generate import Goal
from synth.pipeline.job import How, generate
from synth.pipeline.origins import Origin, Wish
from synth.pipeline.replay import replay
from synth.report import read_report
from synth.rowfile import sealed
from synth.run import read_agents, read_episodes, read_plan

EPISODES = 24
SETTINGS = [
    "generate.applications=['clinic']",
    "generate.agents=4",
    "generate.states=3",
    "generate.errors.rate=0.4",
    "generate.outcomes={transient=0.1, partial=0.1, edge=0.1, permanent=0.2}",
]
FILES = ("plan.jsonl", "agents.jsonl", "episodes-0.jsonl", "origins.jsonl", "report.json")


@pytest.fixture(scope="module", name="workspace")
def _workspace(tmp_path_factory):
    folder = tmp_path_factory.mktemp("forked")
    config = load_config(None, SETTINGS)
    asyncio.run(generate(config, folder / "runs" / "base", folder, Goal(episodes=EPISODES)))
    return folder


@pytest.fixture(scope="module", name="base")
def _base(workspace):
    run = workspace / "runs" / "base"
    episodes = {episode.trajectory.episode: episode for episode in read_episodes(run)}
    return [(planned, episodes[planned.episode]) for planned in read_plan(run)]


@pytest.fixture(name="make")
def _make(workspace, tmp_path):
    """Fork the run into a folder of its own; return its rows."""

    def make(wish, *settings, origin=None, name="forks", how=None):
        origin = origin or workspace / "runs" / "base"
        config = change_config(Origin(origin).config, settings)
        folder = tmp_path / name
        asyncio.run(fork(origin, folder, workspace, wish, config, how or How()))
        episodes = {episode.trajectory.episode: episode for episode in read_episodes(folder)}
        return folder, [(planned, episodes[planned.episode]) for planned in read_plan(folder)]

    return make


def bytes_of(folder):
    return {name: (folder / name).read_bytes() for name in FILES}


def settings_of(rows):
    return {planned.prefix.fork.changed for planned, _ in rows}


def test_a_fork_that_changes_nothing_ends_as_its_origin_did(make, base):
    _, forks = make(Wish(at="random"))
    assert len(forks) == EPISODES
    assert settings_of(forks) == {()}
    assert len({planned.prefix.fork.calls for planned, _ in forks}) > 3
    for (planned, episode), (_, before) in zip(forks, base, strict=True):
        assert planned.seed == before.trajectory.seed
        assert episode.trajectory.messages == before.trajectory.messages
        assert episode.trajectory.steps == before.trajectory.steps
        assert episode.trajectory.diff == before.trajectory.diff
        assert episode.verdict.passed == before.verdict.passed


def test_what_is_kept_stays_to_the_byte_whatever_is_changed(make, base, workspace):
    rates = "generate.outcomes={transient=0.3, edge=0.3}"
    folder, forks = make(Wish(at="random", copies=2, persona="other"), "seed=5", rates)
    assert len(forks) == 2 * EPISODES
    origins = {planned.episode: (planned, episode) for planned, episode in base}
    parted = 0
    for planned, episode in forks:
        where, trajectory = episode.trajectory.fork, episode.trajectory
        was, before = origins[where.episode]
        kept = where.messages
        lines = [m.model_dump_json() for m in trajectory.messages[:kept]]
        assert lines == [m.model_dump_json() for m in before.trajectory.messages[:kept]]
        assert trajectory.steps[: where.calls] == before.trajectory.steps[: where.calls]
        assert (where.run, where.number) == ("base", planned.index % 2)
        assert planned.task.persona.voice != was.task.persona.voice
        assert planned.task.persona.name == was.task.persona.name
        assert planned.task.request == was.task.request
        assert {"seed: 0 -> 5", "generate.outcomes.transient: 0.1 -> 0.3"} <= set(where.changed)
        assert any(line.startswith("persona.voice: ") for line in where.changed)
        parted += trajectory.messages[kept:] != before.trajectory.messages[kept:]
    assert parted > EPISODES
    assert len({planned.seed for planned, _ in forks}) == 2 * EPISODES
    replayed = asyncio.run(replay(folder, workspace))
    assert (replayed.same, replayed.differing) == (2 * EPISODES, {})


def test_what_failed_is_mended_from_its_last_good_place(make, base, workspace):
    failed = [e for _, e in base if e.verdict.passed is False]
    folder, forks = make(Wish(which="failed"), "generate.errors.rate=0")
    assert len(failed) >= 5
    assert len(forks) >= 0.9 * len(failed)
    assert all(episode.verdict.passed for _, episode in forks)
    lengths = {e.trajectory.episode: len(e.trajectory.messages) for e in failed}
    reasons = {e.trajectory.episode: e.verdict.reason for e in failed}
    told_wrongly = [f for p, _ in forks if reasons[(f := p.prefix.fork).episode] == "output"]
    assert told_wrongly
    for where in told_wrongly:  # all is well up to the report, after which the user leaves
        assert where.messages == lengths[where.episode] - 2
    report = read_report(folder)
    assert report["accepted"] == len(forks)
    told = report["forks"]
    assert (told["origin"], told["without_place"]) == ("base", len(failed) - len(forks))
    written = export(folder, folder / "dataset", formats=("openai",), limit=None)
    assert written["rows"] == len(forks)


def test_a_fork_of_a_fork_meets_the_faults_of_both(make, workspace):
    first, _ = make(Wish(at="1"), "seed=5", "generate.outcomes={transient=0.5}")
    second, forks = make(Wish(at="random"), "seed=6", origin=first, name="again")
    assert any(len(planned.prefix.regimes) == 2 for planned, _ in forks)
    replayed = asyncio.run(replay(second, workspace))
    assert (replayed.same, replayed.differing) == (len(forks), {})


def test_the_same_forks_are_the_same_bytes_interrupted_or_not(make, tmp_path):
    wish, settings = Wish(at="random", copies=2, share=0.5), ("seed=3",)
    whole, rows = make(wish, *settings)
    wanted = without_name(whole)

    def stop(progress):
        if progress.played == len(rows) // 2:
            raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        make(wish, *settings, name="stopped", how=How(on_progress=stop))
    assert not (tmp_path / "stopped" / "report.json").exists()
    folder, _ = make(wish, *settings, name="stopped")
    assert without_name(folder) == wanted


def test_what_a_crash_tore_off_is_made_again(make):
    wish = Wish(at="random", copies=2, share=0.3)
    folder, _ = make(wish, "seed=3")
    wanted = bytes_of(folder)
    for name, cut in (("plan.jsonl", 1), ("origins.jsonl", 9000), ("episodes-0.jsonl", 300)):
        (folder / name).write_bytes((folder / name).read_bytes()[:-cut])
        (folder / "report.json").unlink()
        make(wish, "seed=3")
        assert bytes_of(folder) == wanted


def without_name(folder):
    made = bytes_of(folder)
    return made | {"report.json": {**json.loads(made["report.json"]), "run": ""}}


def test_forks_do_not_need_their_origin_any_more(make, workspace, tmp_path):
    """A run of forks is replayed and exported where its origin is gone."""
    folder, forks = make(Wish(at="2"), "generate.errors.rate=0")
    alone = tmp_path / "elsewhere" / "runs" / "alone"
    alone.mkdir(parents=True)
    for path in folder.iterdir():
        if path.is_file():
            (alone / path.name).write_bytes(path.read_bytes())
    replayed = asyncio.run(replay(alone, tmp_path / "elsewhere"))
    assert replayed.same == len(forks)


# --- what is refused -----------------------------------------------------------------------------


def one(base):
    return base[0][0].episode


def test_a_place_beyond_the_end_is_refused_by_name_and_left_out_among_many(make, base):
    with pytest.raises(BadInput, match=r"it has \d+ calls, not 99"):
        make(Wish(episodes=(one(base),), at="99"))
    with pytest.raises(BadInput, match="nothing follows from the first 999 of its"):
        make(Wish(episodes=(one(base),), at="message:999"), name="b")
    with pytest.raises(BadInput, match=rf"nothing to fork.*{EPISODES} episodes, none of which"):
        make(Wish(at="99"), name="c")
    calls = sorted(len(episode.trajectory.steps) for _, episode in base)
    _, forks = make(Wish(at=str(calls[-1])), name="d")
    assert len(forks) == calls.count(calls[-1])


def test_an_episode_is_known_by_the_beginning_of_its_name(make, base):
    _, forks = make(Wish(episodes=(one(base)[:9],), at="0"))
    assert [planned.prefix.fork.episode for planned, _ in forks] == [one(base)]
    with pytest.raises(UnknownName, match="unknown episode 'zz'"):
        make(Wish(episodes=("zz",)), name="b")
    many = {p.episode[0] for p, _ in base}
    shared = next(c for c in many if sum(p.episode[0] == c for p, _ in base) > 1)
    with pytest.raises(BadInput, match=f"episodes begin with '{shared}'"):
        make(Wish(episodes=(shared,)), name="c")


@pytest.mark.parametrize("at", ["", "-1", "last", "1.5", "message:", "message:x", "1e3", "٣"])
def test_what_is_no_place_is_refused(at):
    with pytest.raises(BadInput, match="not a place in an episode"):
        Wish(at=at)


@pytest.mark.parametrize(
    "setting",
    ["generate.mix={lookup=1}", "generate.agents=9", "generate.applications=['hotel']"],
)
def test_tasks_of_forks_are_made_and_no_setting_changes_them(make, setting):
    with pytest.raises(BadConfig, match="is the origin's"):
        make(Wish(), setting)


def test_a_voice_that_nobody_has_is_refused(make):
    with pytest.raises(UnknownName, match="voice 'squeaky'"):
        make(Wish(at="0", persona="squeaky"))


def test_a_folder_holds_what_was_asked_for_first(make, workspace):
    folder, _ = make(Wish(at="1", share=0.2))
    with pytest.raises(BadInput, match=r"begun as: 0.2 of any, at 1, 1 of each of base"):
        make(Wish(at="2", share=0.2))
    with pytest.raises(BadInput, match="seed: 0 -> 1"):
        make(Wish(at="1", share=0.2), "seed=1")
    config = load_config(None, SETTINGS)
    with pytest.raises(BadInput, match="forks is gone"):
        asyncio.run(generate(config, folder, workspace, Goal(episodes=1)))


def test_a_run_made_with_another_application_is_not_forked(make, workspace, tmp_path):
    origin = tmp_path / "old"
    origin.mkdir()
    for path in (workspace / "runs" / "base").iterdir():
        (origin / path.name).write_bytes(path.read_bytes())
    settings = json.loads((origin / "config.json").read_bytes())
    settings["made_of"]["world 'clinic'"] = "0" * 20
    write_atomic(origin / "config.json", json.dumps(settings).encode())
    with pytest.raises(BadInput, match=r"world 'clinic' is another one.*fork it with the version"):
        make(Wish(), origin=origin)


def test_a_prefix_that_was_tampered_with_breaks_its_fork_and_no_other(make, workspace, tmp_path):
    origin = tmp_path / "forged"
    origin.mkdir()
    for path in (workspace / "runs" / "base").iterdir():
        (origin / path.name).write_bytes(path.read_bytes())
    rows = list(read_episodes(origin))
    number = next(i for i, row in enumerate(rows) if row.trajectory.steps)
    trajectory = rows[number].trajectory
    first = trajectory.steps[0]
    wrong = first.model_copy(
        update={"result": first.result.model_copy(update={"content": '{"id":"X"}'})}
    )
    forged = trajectory.model_copy(update={"steps": (wrong, *trajectory.steps[1:])})
    rows[number] = rows[number].model_copy(update={"trajectory": forged})
    write_atomic(origin / "episodes-0.jsonl", b"".join(sealed(row) + b"\n" for row in rows))
    _, forks = make(Wish(at="1"), origin=origin)
    broken = [e for _, e in forks if e.trajectory.fault is not None]
    assert [e.trajectory.fork.episode for e in broken] == [trajectory.episode]
    assert "does not give again what it gave" in broken[0].trajectory.error


def test_agents_of_forks_are_those_of_the_origin(make, workspace):
    folder, forks = make(Wish(share=0.3, at="0"))
    known = {agent.key: agent for agent in read_agents(workspace / "runs" / "base")}
    for agent in read_agents(folder):
        assert agent == known[agent.key]
    assert {planned.agent for planned, _ in forks} == {a.key for a in read_agents(folder)}
