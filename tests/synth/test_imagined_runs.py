"""Runs whose tools a model plays: their truth is SQL's, and what the model was worth is told."""

import asyncio
import json
from functools import cache

import orjson
import pytest

from simulators.imagined.scripted import TwinPlayer
from simulators.imagined.world import ImaginedWorld
from simulators.sql.engine import Engine
from simulators.sql.load import load_application
from simulators.users.scripted import ScriptedUser
from synth.core.config import Limits, load_config
from synth.core.errors import BadConfig, UnknownName
from synth.core.llm.journal import Journal, Journalled
from synth.core.llm.mock.server import MockLLM
from synth.core.seeds import rng
from synth.core.types import Fault
from synth.episode import play_and_judge
from synth.mistakes import ErrorRates
from synth.pipeline.cast import Cast
from synth.pipeline.compose import Composer
from synth.pipeline.engine import LocalEngine
from synth.pipeline.export import export
from synth.pipeline.forks import fork
from synth.pipeline.generate import Goal, reference_player
from synth.pipeline.job import How, generate
from synth.pipeline.origins import Wish
from synth.pipeline.replay import replay
from synth.pipeline.worlds import open_worlds
from synth.report import funnel_lines
from synth.rowfile import sealed
from synth.run import read_episodes, read_plan

EPISODES = 5
SETTINGS = ['generate.applications=["hotel"]', "generate.states=2", "generate.agents=4"]
IMAGINED = [*SETTINGS, 'generate.imagined=["hotel"]']


@pytest.fixture(scope="module")
def workspace(tmp_path_factory):
    return tmp_path_factory.mktemp("imagined")


@cache
def hotel():
    return ImaginedWorld(Engine(load_application("hotel")))


def made(workspace, name, settings):
    config, folder = load_config(None, settings), workspace / "runs" / name
    return folder, asyncio.run(generate(config, folder, workspace, Goal(episodes=EPISODES)))


@pytest.fixture(scope="module")
def run(workspace):
    return made(workspace, "run", IMAGINED)


def test_without_mistakes_imagined_episodes_are_those_of_sql_to_the_byte(run, workspace):
    folder, report = run
    ours = list(read_episodes(folder))
    theirs = list(read_episodes(made(workspace, "sql", SETTINGS)[0]))
    for one, other in zip(ours, theirs, strict=True):
        for name in ("messages", "steps", "diff", "stop"):
            assert getattr(one.trajectory, name) == getattr(other.trajectory, name)
        assert one.verdict.passed == other.verdict.passed
        assert one.trajectory.players["world"] == one.imagined.who == "twin/1"
        assert other.imagined is None
        assert "world" not in other.trajectory.players
    figures = report["imagined"]
    assert figures["calls"] == figures["results_equal"]["true"] > EPISODES
    assert figures["ends_equal"] == {"true": EPISODES, "of": EPISODES}
    assert f"  same end            {EPISODES} of {EPISODES}" in funnel_lines(report)


def test_the_card_of_a_dataset_says_that_tools_were_played(run, tmp_path):
    folder, report = run
    export(folder, tmp_path, formats=("openai",), limit=None)
    card = (tmp_path / "README.md").read_text()
    calls = report["imagined"]["calls"]
    assert f"In {EPISODES} episodes the tools were *played*" in card
    assert f"{calls} of {calls} results" in card
    assert "- world: twin/1" in card


def test_a_replay_makes_recorded_replies_happen_again_and_asks_no_model(run, workspace):
    folder, _ = run
    replayed = asyncio.run(replay(folder, workspace))
    assert (replayed.same, replayed.differing, replayed.from_record) == (EPISODES, {}, 0)


def rewritten(folder, target, change):
    target.mkdir()
    for file in folder.iterdir():
        if file.is_file():
            (target / file.name).write_bytes(file.read_bytes())
    episodes = [change(episode) for episode in read_episodes(folder)]
    data = b"".join(sealed(episode) + b"\n" for episode in episodes)
    (target / "episodes-0.jsonl").write_bytes(data)
    return target


def test_a_replay_tells_which_recorded_reply_does_not_give_the_recorded_result(
    run, workspace, tmp_path
):
    folder, _ = run

    def forget(episode):
        calls = episode.imagined.calls
        writes = [n for n, call in enumerate(calls) if not call.reads and '"op"' in call.reply]
        if not writes:
            return episode
        place = writes[0]
        other = calls[place].model_copy(update={"reply": None})
        calls = (*calls[:place], other, *calls[place + 1 :])
        imagined = episode.imagined.model_copy(update={"calls": calls})
        return episode.model_copy(update={"imagined": imagined})

    replayed = asyncio.run(replay(rewritten(folder, tmp_path / "run", forget), workspace))
    assert replayed.differing
    assert all("tool_fault" in why for why in replayed.differing.values())


def test_episodes_of_a_server_that_is_not_here_are_compared_with_their_record(run, tmp_path):
    folder, _ = run

    def abroad(episode):
        trajectory = episode.trajectory.model_copy(update={"world": "files", "real": True})
        return episode.model_copy(update={"trajectory": trajectory, "imagined": None})

    target = rewritten(folder, tmp_path / "run", abroad)
    plan = [planned.model_copy(update={"world": "files"}) for planned in read_plan(folder)]
    (target / "plan.jsonl").write_bytes(b"".join(sealed(row) + b"\n" for row in plan))
    tools = orjson.loads((folder / "tools.json").read_bytes())
    (target / "tools.json").write_bytes(orjson.dumps({"files": tools["hotel"]}))
    settings = json.loads((folder / "config.json").read_text())
    settings["config"]["generate"] |= {"live_share": 1.0, "imagined": []}
    settings["made_of"] = {"world 'files'": "another machine's"}
    (target / "config.json").write_text(json.dumps(settings))
    replayed = asyncio.run(replay(target, tmp_path / "nothing crawled"))
    assert (replayed.same, replayed.from_record, replayed.differing) == (EPISODES, EPISODES, {})


def test_faults_of_a_run_come_on_top_and_replay_with_it(workspace):
    rates = "generate.outcomes={transient=0.3, partial=0.2, edge=0.2}"
    folder, _ = made(workspace, "faulty", [*IMAGINED, rates])
    episodes = list(read_episodes(folder))
    outcomes = {step.result.outcome for e in episodes for step in e.trajectory.steps}
    assert {"transient", "partial", "edge"} & outcomes
    assert all(e.imagined.end_equal for e in episodes)
    replayed = asyncio.run(replay(folder, workspace))
    assert (replayed.same, replayed.differing) == (EPISODES, {})


# --- a player that errs --------------------------------------------------------------------------


class Erring(Cast):
    """A cast whose tools are played with mistakes."""

    wrong: dict[str, float] = {}

    def world(self, planned, world):
        return world.imagined(TwinPlayer(world.engine, self.wrong, planned.seed))


def played(wrong, count=4, cast=None):
    config = load_config(None, [*IMAGINED, "generate.errors.rate=0.0"])
    worlds = {"hotel": hotel()}
    if cast is None:
        cast = Erring(config)
        cast.wrong = wrong

    async def go():
        composer, engine = Composer(config, worlds), LocalEngine(config, worlds, cast=cast)
        try:
            found = []
            for index in range(count):
                planned = await composer.planned(index)
                agent = composer.agent(planned.world, planned.agent)
                found.append(await engine.play(planned, agent, patient=False))
            return found
        finally:
            await engine.close()
            await composer.close()

    return asyncio.run(go())


@pytest.mark.parametrize("wrong", ["gives_up", "prose"])
def test_an_agent_that_fails_for_what_its_tools_did_has_not_failed(wrong):
    episodes = played({wrong: 1.0}, 2)
    assert not [e for e in episodes if e.verdict.fault is Fault.AGENT]
    failed = [e for e in episodes if not e.verdict.passed]
    assert failed
    for episode in failed:
        assert (episode.verdict.passed, episode.verdict.fault) == (None, Fault.TOOL)
        assert episode.verdict.reason == "fault:tool"


def test_a_tool_that_fails_now_and_then_is_tried_again():
    episodes = played({"prose": 0.45})
    refused = [code for e in episodes for call in e.imagined.calls for code in call.refused]
    assert set(refused) == {"json"}
    assert [e.verdict.passed for e in episodes].count(True) >= 3


# --- nothing is asked twice ----------------------------------------------------------------------


def test_an_episode_that_is_played_again_meets_the_journalled_replies(tmp_path):
    world, asked = hotel(), []

    class Counting(TwinPlayer):
        async def complete(self, request):
            asked.append(request.call)
            return await super().complete(request)

    async def once(composer, planned, journal):
        llm = Journalled(Counting(world.engine), journal, planned.episode, "world")
        environment = world.imagined(llm)
        agent = composer.agent(planned.world, planned.agent)
        trajectory, verdict = await play_and_judge(
            composer.tools[planned.world],
            task=planned.task,
            agent=agent,
            environment=environment,
            agent_player=reference_player(ErrorRates.uniform(0.0))(planned, agent),
            user_player=ScriptedUser(planned.task.request, rng(planned.seed, "user")),
            limits=Limits(),
            episode=planned.episode,
            seed=planned.seed,
        )
        await environment.close()
        return trajectory, verdict, environment.record()

    async def go():
        composer = Composer(load_config(None, IMAGINED), {"hotel": world})
        planned = await composer.planned(0)
        found = []
        for _ in range(2):
            journal = Journal(tmp_path)
            found.append(await once(composer, planned, journal))
            journal.close()
        await composer.close()
        return planned, found

    planned, (first, second) = asyncio.run(go())
    assert first == second
    assert first[1].passed
    assert asked == [f"{planned.episode}/world/{n}" for n in range(len(asked))]
    assert len(asked) == len(first[2].calls)


class Noting(Cast):
    """A cast whose tools answer as the twin does, and which keeps what was said."""

    def __init__(self, config):
        super().__init__(config)
        self.talks = []

    def world(self, planned, world):
        player, talks = TwinPlayer(world.engine), self.talks

        class Kept:
            name = player.name

            async def complete(self, request):
                reply = await player.complete(request)
                said = {"role": "assistant", "content": reply.message.content}
                talks.append({"messages": [*request.messages, said]})
                return reply

        return world.imagined(Kept())


def test_a_model_behind_an_endpoint_plays_the_tools_and_is_asked_for_nothing_twice(
    workspace, tmp_path
):
    cast = Noting(load_config(None, IMAGINED))
    played({}, EPISODES, cast)
    script, ledger = tmp_path / "script.jsonl", tmp_path / "ledger.jsonl"
    script.write_bytes(b"".join(orjson.dumps(talk) + b"\n" for talk in cast.talks))

    async def go():
        async with MockLLM(script=script, ledger=ledger) as mock:
            model = f"models.world={{model='m', base_url='{mock.url}'}}"
            config = load_config(None, [*IMAGINED, model, "generate.errors.rate=0.0"])
            folder, reports = workspace / "runs" / "asked", []
            for _ in range(2):
                goal = Goal(episodes=EPISODES)
                reports.append(await generate(config, folder, workspace, goal))
                (folder / "episodes-0.jsonl").rename(tmp_path / f"{len(reports)}.jsonl")
            return reports

    first, second = asyncio.run(go())
    asked = [row["call"] for row in map(orjson.loads, ledger.read_bytes().splitlines())]
    assert (tmp_path / "1.jsonl").read_bytes() == (tmp_path / "2.jsonl").read_bytes()
    assert first["imagined"] == second["imagined"]
    assert first["imagined"]["results_equal"] == {"true": len(asked), "of": len(asked)}
    assert len(asked) == len(set(asked)) == first["imagined"]["calls"]
    assert {call.split("/")[1] for call in asked} == {"world"}
    assert [row["role"] for row in first["cost"]["by_role"]] == ["world"]
    assert second["journal"]["replayed"] == len(asked)
    assert first["accepted"] == EPISODES


# --- configuration -------------------------------------------------------------------------------


def test_an_application_that_the_run_has_not_cannot_be_imagined(tmp_path):
    config = load_config(None, [*SETTINGS, 'generate.imagined=["hotels"]'])
    with pytest.raises(UnknownName, match="hotel"):
        open_worlds(config, tmp_path)


def test_nothing_happens_by_itself_where_tools_are_imagined(tmp_path):
    config = load_config(None, [*IMAGINED, "generate.events=true"])
    with pytest.raises(BadConfig, match="nothing happens by itself"):
        open_worlds(config, tmp_path)


# --- forks ---------------------------------------------------------------------------------------


def test_a_fork_of_an_episode_meets_what_the_model_said_before_it(run, workspace):
    folder, target, config = run[0], workspace / "runs" / "forks", load_config(None, IMAGINED)
    asyncio.run(fork(folder, target, workspace, Wish(at="random"), config, How()))
    origins = {e.trajectory.episode: e for e in read_episodes(folder)}
    forks = list(read_episodes(target))
    assert len(forks) == EPISODES
    for episode in forks:
        before = origins[episode.trajectory.fork.episode]
        assert episode.trajectory.steps == before.trajectory.steps
        assert episode.imagined.calls == before.imagined.calls
    replayed = asyncio.run(replay(target, workspace))
    assert (replayed.same, replayed.differing) == (EPISODES, {})
