"""Episodes in which things happen by themselves: accepted as without, and the same again."""

import asyncio
from collections import Counter

import pytest
from pydantic import ValidationError

from synth.core.config import Config, load_config
from synth.judge.replay import replay_problem
from synth.pipeline.engine import staged
from synth.pipeline.forks import fork
from synth.pipeline.generate import Goal
from synth.pipeline.job import How, generate
from synth.pipeline.origins import Origin, Wish
from synth.pipeline.replay import replay
from synth.pipeline.worlds import open_applications
from synth.run import read_episodes, read_plan
from synth.transcript import transcript

FEW = ("food_delivery", "tracker")
ALL = (*FEW, "brokerage", "hotel", "warehouse")
EPISODES = 12
FILES = ("plan.jsonl", "agents.jsonl", "episodes-0.jsonl")


def made(folder, events="true", episodes=EPISODES, applications=FEW):
    names = [f"generate.applications={list(applications)}", "generate.agents=3"]
    config = load_config(None, [*names, f"generate.events={events}"])
    asyncio.run(generate(config, folder / "runs" / "r", folder, Goal(episodes=episodes)))
    return folder / "runs" / "r"


@pytest.fixture(scope="module", name="eventful")
def _eventful(tmp_path_factory):
    return made(tmp_path_factory.mktemp("eventful"))


def happened(episode):
    return [one for step in episode.trajectory.steps for one in step.result.happened]


def same_but_for_events(without, eventful):
    before, after = list(read_episodes(without)), list(read_episodes(eventful))
    reasons = [Counter(one.verdict.reason for one in episodes) for episodes in (before, after)]
    assert reasons[0] == reasons[1]
    diffs = [[one.trajectory.diff for one in episodes] for episodes in (before, after)]
    assert diffs[0] == diffs[1]
    assert [one for episode in before for one in happened(episode)] == []
    assert len([one for episode in after for one in happened(episode)]) > len(after) // 3
    folder = eventful.parent.parent
    replayed = asyncio.run(replay(eventful, folder))
    assert (replayed.same, replayed.differing) == (len(after), {})


def test_events_change_no_verdict_and_are_met_again_in_a_replay(eventful, tmp_path):
    same_but_for_events(made(tmp_path, "false"), eventful)


@pytest.mark.soak
def test_200_episodes_are_accepted_as_without_events(tmp_path):
    runs = [made(tmp_path / events, events, 200, ALL) for events in ("false", "true")]
    same_but_for_events(*runs)


def test_a_run_that_goes_on_is_that_of_one_go(eventful, tmp_path):
    made(tmp_path, episodes=5)
    parts = made(tmp_path)
    assert [(parts / name).read_bytes() for name in FILES] == [
        (eventful / name).read_bytes() for name in FILES
    ]


def test_a_record_of_other_events_differs_in_a_replay(eventful):
    worlds = open_applications(FEW)
    plan, told = {row.episode: row for row in read_plan(eventful)}, 0
    for episode in read_episodes(eventful):
        row = plan[episode.trajectory.episode]
        world = worlds[row.world]
        without = row.model_copy(update={"schedule": None})
        environment = staged(world.environment(), world, without, Config().generate.outcomes)
        seed, user = row.task.blueprint.state_seed, row.task.blueprint.user
        problem = asyncio.run(replay_problem(episode.trajectory, environment, seed, user))
        assert (problem is not None) == bool(happened(episode))
        told += problem is not None
    assert told


def test_a_fork_meets_the_events_of_its_origin(eventful, tmp_path):
    config = Origin(eventful).config
    workspace = eventful.parent.parent
    other = config.model_copy(update={"seed": config.seed + 1})
    asyncio.run(fork(eventful, tmp_path / "f", workspace, Wish(at="random"), other, How()))
    origins = {episode.trajectory.episode: episode for episode in read_episodes(eventful)}
    kept = 0
    for episode in read_episodes(tmp_path / "f"):
        where, steps = episode.trajectory.fork, episode.trajectory.steps
        before = origins[where.episode].trajectory.steps
        assert episode.trajectory.error is None
        assert steps[: where.calls] == before[: where.calls]
        kept += sum(len(step.result.happened) for step in steps[: where.calls])
    assert kept


def test_people_read_what_happened_between_a_call_and_its_result(eventful):
    plan = {row.episode: row for row in read_plan(eventful)}
    for episode in read_episodes(eventful):
        lines = transcript(episode, plan[episode.trajectory.episode].task)
        told = [place for place, line in enumerate(lines) if line.speaker == "event"]
        texts = [one.text for one in happened(episode)]
        assert [lines[place].text.partition(" min: ")[2] for place in told] == texts
        assert all(lines[place - 1].speaker in ("call", "event") for place in told)


@pytest.mark.parametrize(("given", "share"), [("true", 1.0), ("false", 0.0), ("0.25", 0.25)])
def test_events_are_configured_as_a_share_or_as_all_of_them(given, share):
    assert load_config(None, [f"generate.events={given}"]).generate.events == share
    assert Config().generate.events == 0.0


@pytest.mark.parametrize("given", [1.5, -0.1, "often"])
def test_what_is_no_share_is_refused(given):
    with pytest.raises(ValidationError):
        Config.model_validate({"generate": {"events": given}})
