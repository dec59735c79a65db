"""A worker without a cluster: what it writes, tells and refuses."""

import asyncio
from pathlib import Path
from types import SimpleNamespace

import pytest

from synth.core import jsonl
from synth.core.config import load_config
from synth.core.errors import BadInput
from synth.core.llm.mock.threads import serving
from synth.pipeline.books import HandedOut, SharedBooks, Tab, raised
from synth.pipeline.compose import made_of
from synth.pipeline.generate import Generation
from synth.pipeline.shards import Held, merge_all
from synth.pipeline.worker import Order, Worker
from synth.pipeline.worlds import open_applications
from synth.run import Episode, Run

SETTINGS = ("generate.applications=['clinic']", "generate.agents=3", "generate.states=3")


def config_of(*more):
    return load_config(None, [*SETTINGS, *more])


def order_of(run, name="w", config=None, **more):
    place = {"run": run.path, "workspace": run.path.parent, "here": Path.cwd()}
    config = config or run.config
    return Order(name=name, config=config, made_of=run.made_of, **place, **more)


@pytest.fixture
def planned(tmp_path):
    """Return a function: a run of a configuration whose plan has so many episodes."""
    open_runs = []

    def make(config, episodes=3):
        worlds = open_applications(["clinic"])
        run = Run(tmp_path / "r", config, made_of(worlds))
        open_runs.append(run)
        loop = Generation(config, worlds, run)

        async def plan():
            for index in range(episodes):
                await loop._place(index)
            await loop._end()

        asyncio.run(plan())
        return run

    yield make
    for run in open_runs:
        run.close()


async def play(worker, run, index, known=None):
    planned = run.plan[index]
    agent = run.agents[planned.agent]
    rows = planned.model_dump_json().encode(), agent.model_dump_json().encode()
    return await worker.play(*rows, True, known or {})


def test_an_episode_is_in_the_shard_before_it_is_answered_and_in_the_run_once_merged(planned):
    run = planned(config_of())

    async def work():
        worker = Worker(order_of(run))
        assert await worker.open({}) is None
        answer = await play(worker, run, 1)
        (line,) = [line for _, line in jsonl.lines(run.path / "shards" / "w" / "episodes-0.jsonl")]
        episode = Episode.model_validate_json(answer.episode)
        assert episode.trajectory.episode == run.plan[1].episode
        assert answer.episode[1:] in line
        await worker.close()
        return episode

    episode = asyncio.run(work())
    for _ in range(2):  # what was merged is not merged again
        asyncio.run(merge_all(run))
        assert list(run.episodes) == [episode]
    assert not (run.path / "shards").exists()


def test_a_shard_whose_worker_lives_is_waited_for(planned, monkeypatch):
    run = planned(config_of())
    monkeypatch.setattr("synth.pipeline.shards.GONE_S", 0.2)

    async def work():
        worker = Worker(order_of(run))
        await worker.open({})
        await play(worker, run, 0)
        with pytest.raises(Held, match=r"works on this worker's shard, and does not end .*over"):
            await merge_all(run)
        await worker.close()
        await merge_all(run)

    asyncio.run(work())
    assert len(run.episodes) == 1


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"run": Path("/no/such/run")}, "does not see the run"),
        ({"made_of": {"world 'clinic'": "other"}}, "other on the machine .* 'clinic'"),
    ],
)
def test_a_machine_that_would_play_something_else_is_refused(planned, wrong, says):
    run = planned(config_of(), 1)
    order = order_of(run)
    fields = {name: getattr(order, name) for name in order.__slots__} | wrong
    problem = asyncio.run(Worker(Order(**fields)).open({}))
    error = raised(problem)
    assert isinstance(error, BadInput)
    with pytest.raises(BadInput, match=says):
        raise error


def test_a_worker_that_hears_of_a_cool_down_asks_nobody_and_puts_its_episode_off(planned):
    from synth.pipeline.ray_engine import RayEngine, Seat  # brings ray, which takes a second

    with serving(seed=1) as mock:
        agent = (f"models.agent.base_url={mock.url}", "models.agent.model=fault:http_429_300")
        run = planned(config_of(*agent, "models.agent.timeout_s=5"))

        async def work():
            workers = [Worker(order_of(run, name)) for name in "ab"]
            for worker in workers:
                assert await worker.open({}) is None
            answer = await play(workers[0], run, 0)
            assert (answer.episode, answer.failed) == (None, None)
            asked = len(mock.ledger.entries())
            pauses = [item for item in await workers[0].news() if item[0] == "pause"]
            _, place, seconds, why = pauses[0]
            assert seconds == 300
            await workers[1].pause(place, seconds, why)
            answer = await play(workers[1], run, 1)
            assert (answer.episode, answer.failed) == (None, None)
            assert len(mock.ledger.entries()) == asked
            for worker in workers:
                await worker.close()
            return place, seconds, why

        place, seconds, why = asyncio.run(work())

    told = []

    def seat(name):
        pause = SimpleNamespace(remote=lambda *heard: told.append((name, *heard)))
        return Seat(name, SimpleNamespace(pause=pause), Tab(lambda number, refusal: None))

    journal = HandedOut(run.path)
    engine = RayEngine(order_of(run), run, SharedBooks(run.config, journal), concurrency=1)
    first, *others = seat("a"), seat("b"), seat("c")
    for one in (first, *others):
        engine._seats.add(one)
    assert not engine.held()
    engine._paused(first, place, seconds, why)
    assert told == [("b", place, seconds, why), ("c", place, seconds, why)]
    assert engine.held()
    journal.close()
