"""The engine that hands episodes out, whose workers are in this process: whatever becomes of them.

What takes Ray's place here starts and ends actors, and does nothing else.
"""

import asyncio
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from synth.core import jsonl
from synth.core.config import load_config
from synth.core.errors import BadConfig, BadRow, BudgetSpent, ToolloomError
from synth.core.types import Fault
from synth.pipeline import books
from synth.pipeline.compose import made_of
from synth.pipeline.engine import Workers
from synth.pipeline.forks import fork
from synth.pipeline.generate import Generation
from synth.pipeline.job import How, generate
from synth.pipeline.origins import Wish
from synth.pipeline.progress import Goal
from synth.pipeline.seats import FATAL
from synth.pipeline.shards import Held, merge_all
from synth.pipeline.worlds import open_applications
from synth.run import Planned, Run

ray_engine = pytest.importorskip("synth.pipeline.ray_engine")
SETTINGS = ("generate.applications=['clinic']", "generate.agents=3", "generate.states=3")
MODEL = ("models.agent.model=m", "models.agent.base_url=http://127.0.0.1:9/v1")
PLACE = ("http://127.0.0.1:9/v1", "")
EPISODES = 8


class Actor:
    """A worker that ends when it is killed, and with it all that it was asked.

    Args:
        worker: does the work.
        machine: it is on.
    """

    def __init__(self, worker, machine):
        self.worker, self.machine = worker, machine
        self.heard, self.played, self.playing, self.dead = [], [], set(), asyncio.Event()

    def __getattr__(self, name):
        return SimpleNamespace(remote=lambda *given: asyncio.ensure_future(self.ask(name, *given)))

    async def ask(self, name, *given):
        self.heard.append((name, *given))
        if name == "open":
            await self.machine.opens(self.machine.actors.index(self))
        if name == "play":
            index = Planned.model_validate_json(given[0]).index
            await self.begin(index)
        if not self.dead.is_set():
            work = asyncio.ensure_future(getattr(self.worker, name)(*given))
            death = asyncio.ensure_future(self.dead.wait())
            await asyncio.wait({work, death}, return_when=asyncio.FIRST_COMPLETED)
            death.cancel()
            if name == "close":
                self.dead.set()
                return work.result()
            if not self.dead.is_set():
                if name == "play":
                    self.playing.remove(index)
                return work.result()
            work.cancel()
        raise ray_engine.ray.exceptions.ActorDiedError

    async def begin(self, index):
        """Begin an episode: one that is deadly dies in company first, and takes that along."""
        machine = self.machine
        self.played.append(index)
        self.playing.add(index)
        if index in machine.deadly:
            while index not in machine.died_of and len(self.playing) < machine.crowd:
                await asyncio.sleep(0)
            machine.died_of |= self.playing
            self.die()
        elif self.playing & machine.deadly:
            await self.dead.wait()

    def die(self):
        if not self.dead.is_set():
            self.dead.set()
            if hasattr(self.worker, "_lock"):
                self.machine.died(self)

    def free(self):
        """Close what the kernel does when a process ends."""
        self.worker._episodes.close()
        if self.worker._journal is not None:
            self.worker._journal.close()
        os.close(self.worker._lock)


class Machine:
    """Stands for Ray and its cluster.

    Args:
        cpus: of the cluster.
        deadly: places of the plan whose episodes end whoever plays them.
        crowd: episodes that a worker plays when it dies of one of these for the first time.
    """

    def __init__(self, cpus=2, deadly=(), crowd=2):
        self.cpus, self.deadly, self.crowd = cpus, set(deadly), crowd
        self.actors, self.died_of, self.left = [], set(), 0
        self.exceptions = ray_engine.ray.exceptions
        self.died = Actor.free

    async def opens(self, number):
        """Wait until the worker with that number may start."""

    def __call__(self, cpus):
        return self

    def remote(self, kind):
        def start(order):
            self.actors.append(Actor(kind(order), self))
            return self.actors[-1]

        return SimpleNamespace(options=lambda **_: SimpleNamespace(remote=start))

    def kill(self, actor):
        actor.die()

    def leave(self):
        self.left += 1


@pytest.fixture
def machine(monkeypatch):
    """Return a function: have the engine's workers in this process."""

    def make(**options):
        made = Machine(**options)
        monkeypatch.setattr(ray_engine, "ray", made)
        monkeypatch.setattr(ray_engine, "Cluster", made)
        return made

    return make


def config_of(*more):
    return load_config(None, [*SETTINGS, *more])


def in_run(folder, work, config=None, *, workers=2, concurrency=4):
    """Run `work(engine, run)` with an engine; return what it returns."""
    config = config or config_of()
    worlds = open_applications(["clinic"])

    async def go():
        with Run(folder, config, made_of(worlds)) as run:
            await merge_all(run)
            told = (config, run, folder.parent, Workers(workers), Goal(episodes=EPISODES))
            hired = ray_engine.hired(*told, concurrency, run.made_of)
            async with asyncio.timeout(60), hired as (engine, _):
                return await work(engine, run)

    return asyncio.run(go())


async def generated(engine, run):
    loop = Generation(run.config, open_applications(["clinic"]), run, engine)
    return await loop.until(Goal(episodes=EPISODES))


def rows(folder):
    return sorted(line for _, line in jsonl.lines(folder / "episodes-0.jsonl"))


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Return the finished episodes of the run that one process makes."""
    folder = tmp_path_factory.mktemp("whole") / "r"
    worlds = open_applications(["clinic"])
    with Run(folder, config_of(), made_of(worlds)) as run:
        asyncio.run(Generation(run.config, worlds, run).until(Goal(episodes=EPISODES)))
    return rows(folder)


def opened():
    return len(list(Path("/proc/self/fd").iterdir()))


# --- how many ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("concurrency", "found", "each"),
    [((3, 64), 3, (1, 21)), ((64, 2), 2, (32, 1)), ((9,), 4, (2,))],
)
def test_there_are_no_more_workers_than_any_endpoint_may_be_asked_at_once(
    machine, tmp_path, concurrency, found, each
):
    made = machine(cpus=20)
    roles = [
        f"models.{role}={{model='m', base_url='http://127.0.0.1:9/v1', concurrency={most}}}"
        for role, most in zip(("agent", "user"), concurrency, strict=False)
    ]
    roles += [
        "models.judge={model='m', base_url='http://127.0.0.1:9/v1', concurrency=1}"
    ]  # unasked

    async def work(engine, run):
        while len(made.actors) < found:
            await asyncio.sleep(0)
        return engine.concurrency

    together = in_run(tmp_path / "r", work, config_of(*roles), workers=4, concurrency=1)
    assert len(made.actors) == together == found
    shares = [
        tuple(model.concurrency for model in actor.worker.order.config.models.asked().values())
        for actor in made.actors
    ]
    assert {tuple(sorted(share)) for share in shares} == {tuple(sorted(each))}


def test_a_share_is_the_same_run():
    config = config_of("models.agent.model=m", "models.agent.concurrency=10")
    shares = [books.share(config, workers) for workers in (1, 3, 10)]
    assert [share.models.agent.concurrency for share in shares] == [10, 3, 1]
    assert {share.fingerprint() for share in shares} == {config.fingerprint()}


def test_a_model_that_plays_tools_is_shared_too():
    world = ("models.world.model=m", "models.world.concurrency=6", "generate.imagined=clinic")
    config = config_of(*MODEL, *world)
    assert books.share(config, 2).models.world.concurrency == 3


def test_a_model_in_the_worker_is_each_workers_own():
    config = config_of("models.agent.model=local:m", "models.agent.concurrency=2")
    assert books.shared(config) == {}
    assert books.share(config, 8).models.agent.concurrency == 2


# --- what is told ------------------------------------------------------------------------------


def test_a_worker_that_is_there_late_hears_that_the_run_is_over_and_is_given_nothing(
    machine, tmp_path
):
    made, may = machine(), asyncio.Event()

    async def opens(number):
        if number == 1:
            await may.wait()

    made.opens = opens

    async def work(engine, run):
        engine.end()
        may.set()
        while ("end",) not in made.actors[1].heard:
            await asyncio.sleep(0)
        planned = SimpleNamespace(episode="e", model_dump_json=str)
        with pytest.raises(BudgetSpent, match="the run is over"):
            await engine.play(planned, planned, patient=True)

    in_run(tmp_path / "r", work)
    assert len(made.actors) == 2
    assert all(("end",) in actor.heard for actor in made.actors)


def test_a_worker_that_comes_in_a_pause_hears_of_the_longest(machine, tmp_path):
    made = machine(cpus=1)

    async def work(engine, run):
        (first,) = engine._seats
        engine._paused(first, PLACE, 300.0, "429")
        engine._paused(first, PLACE, 7.0, "503")
        assert engine.held()
        made.actors[0].die()
        while len(made.actors) < 2 or not any(h[0] == "pause" for h in made.actors[1].heard):
            await asyncio.sleep(0)
        (told,) = [heard for heard in made.actors[1].heard if heard[0] == "pause"]
        assert told[1::2] == (PLACE, "429")
        assert 290 < told[2] <= 300

    in_run(tmp_path / "r", work, config_of(*MODEL), workers=1)


# --- who dies ----------------------------------------------------------------------------------


def test_an_episode_that_no_worker_survives_is_broken_and_all_others_are_as_they_would_be(
    machine, tmp_path, whole
):
    made = machine(deadly={3})
    progress = in_run(tmp_path / "r", generated)
    assert progress.faults == {"infrastructure": 1}
    assert progress.played == EPISODES
    assert set(rows(tmp_path / "r")) < set(whole)
    assert len(rows(tmp_path / "r")) == EPISODES - 1
    (failure,) = jsonl.read(tmp_path / "r" / "failures-0.jsonl")
    assert failure["error"].startswith("2 workers died that played it, the last of them nothing")
    played = [actor.played for actor in made.actors if 3 in actor.played]
    assert len(played) == FATAL == 2
    assert len(played[0]) > 1
    assert played[1][-1] == 3
    made = machine()
    assert in_run(tmp_path / "r", generated).faults == {}
    assert rows(tmp_path / "r") == whole
    assert [actor.played for actor in made.actors if actor.played] == [[3]]


def test_episodes_that_were_near_a_deadly_one_are_played_to_their_end(machine, tmp_path, whole):
    """Both workers are taken along, each with two of the first four episodes."""
    made = machine(deadly={0, 1})
    progress = in_run(tmp_path / "r", generated)
    assert progress.faults == {"infrastructure": 2}
    assert set(rows(tmp_path / "r")) < set(whole)
    assert len(rows(tmp_path / "r")) == EPISODES - 2
    died = [actor.played for actor in made.actors if {0, 1} & set(actor.played)]
    assert sorted(map(sorted, died[:2])) == [[0, 2], [1, 3]]
    assert sorted(plays[-1] for plays in died[2:]) == [0, 1]


def test_workers_that_all_die_end_the_run_with_the_reason(machine, tmp_path):
    made = machine(cpus=1, deadly=range(EPISODES))
    with pytest.raises(ToolloomError, match="5 workers died, and no episode was finished"):
        in_run(tmp_path / "r", generated, workers=1)
    assert len(made.actors) == 5
    assert made.left == 1


# --- what fails at the end ---------------------------------------------------------------------


def damage(actor):
    """Spoil the shard of a worker that dies."""
    actor.free()
    path = actor.worker.order.run / "shards" / actor.worker.order.name / "episodes-0.jsonl"
    path.write_bytes(path.read_bytes() + b'{"crc":"00000000","no":"episode"}\n')


def test_a_shard_that_cannot_be_merged_ends_the_run_and_loses_nothing_of_the_others(
    machine, tmp_path, whole
):
    made, before = machine(deadly={5}), opened()
    dead = []

    def died(actor):
        dead.append(actor)
        if len(dead) == 1:
            damage(actor)
        else:
            actor.free()

    made.died = died
    with pytest.raises(BadRow, match=r"shards/.*episodes-0.jsonl:.*damaged"):
        in_run(tmp_path / "r", generated)
    assert made.left == 1
    assert opened() <= before + 1  # the pool of threads, at most
    (shard,) = (tmp_path / "r" / "shards").iterdir()
    assert shard.name == dead[0].worker.order.name
    path = shard / "episodes-0.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    machine()
    assert in_run(tmp_path / "r", generated).faults == {}
    assert rows(tmp_path / "r") == whole


def test_a_death_that_only_the_listener_meets_is_not_lost(machine, tmp_path):
    made, told = machine(cpus=1), []
    made.died = damage

    async def work(engine, run):
        made.actors[0].die()
        while engine._seats.problem is None:
            await asyncio.sleep(0)
        planned = SimpleNamespace(episode="e", model_dump_json=str)
        with pytest.raises(BadRow) as error:
            await engine.play(planned, planned, patient=True)
        told.append(error)

    with pytest.raises(BadRow, match="damaged"):  # and it is said once more when all is closed
        in_run(tmp_path / "r", work, config_of(*MODEL), workers=1)
    assert told
    assert made.left == 1


def test_a_worker_that_does_not_end_is_left_to_the_next_session(
    machine, tmp_path, whole, monkeypatch
):
    monkeypatch.setattr("synth.pipeline.shards.GONE_S", 0.1)
    made, stuck = machine(deadly={2}), []

    def died(actor):
        if stuck:
            actor.free()
        else:
            stuck.append(actor)  # the lock is still there

    made.died = died
    with pytest.raises(Held, match="works on this worker's shard, and does not end"):
        in_run(tmp_path / "r", generated)
    assert made.left == 1
    assert len(rows(tmp_path / "r")) >= EPISODES - 1  # the run went on
    assert rows(tmp_path / "r") == sorted(set(rows(tmp_path / "r")))
    stuck[0].free()
    machine()
    in_run(tmp_path / "r", generated)
    assert rows(tmp_path / "r") == whole
    assert not (tmp_path / "r" / "shards").exists()


def test_the_journal_is_closed_whatever_fails(machine, tmp_path):
    machine()
    before = opened()
    with pytest.raises(BadConfig, match="the price of this model is unknown"):
        in_run(tmp_path / "r", generated, config_of(*MODEL, "budget.money=1"))
    assert opened() == before


def test_an_episode_that_is_broken_says_so_and_holds_nothing_else(machine, tmp_path):
    machine(cpus=1, deadly={0}, crowd=1)

    async def work(engine, run):
        loop = Generation(run.config, open_applications(["clinic"]), run, engine)
        planned = await loop._place(0)
        episode = await engine.play(planned, run.agents[planned.agent], patient=True)
        await loop._end()
        return planned, episode

    planned, episode = in_run(tmp_path / "r", work, workers=1)
    assert episode.trajectory.fault is episode.verdict.fault is Fault.INFRASTRUCTURE
    assert episode.trajectory.episode == episode.verdict.episode == planned.episode
    assert (episode.trajectory.messages, episode.verdict.passed) == ((), None)


def test_workers_play_forks_as_one_process_does(machine, tmp_path):
    base, config = tmp_path / "runs" / "base", config_of()
    asyncio.run(generate(config, base, tmp_path, Goal(episodes=4)))
    machine()
    played = []
    for name, how in (("here", How()), ("there", How(4, workers=Workers(2)))):
        folder = base.parent / name
        asyncio.run(fork(base, folder, tmp_path, Wish(at="1"), config, how))
        played.append(rows(folder))
    assert len(played[0]) == 4
    assert played[0] == played[1]
