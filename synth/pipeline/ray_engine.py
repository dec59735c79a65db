"""Plays episodes on a Ray cluster: this process plans, counts and writes; actors play.

Nothing but episodes is handed out, so that a run is the same as one that was played here. Each
worker writes what it finished into its own shard before it answers (`synth.pipeline.shards`). One
that dies is replaced: its shard is merged, and its other episodes are played again from the replies
that they have had.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path

from synth.core.config import DEFAULT_KEY, Config
from synth.core.errors import ToolloomError
from synth.core.types import Agent
from synth.pipeline.books import Failed, HandedOut, Place, SharedBooks, Tab, raised, share, shared
from synth.pipeline.cast import Holds
from synth.pipeline.cluster import Cluster, RayError, RayTaskError, ray, said
from synth.pipeline.engine import Workers
from synth.pipeline.progress import Goal
from synth.pipeline.seats import Seat, Seats, fatal
from synth.pipeline.shards import SHARDS, Held, merge
from synth.pipeline.worker import Answer, Order, Worker
from synth.run import Episode, Planned, Run

DEATHS = 4
"""Times that each worker may die, on the average, while no episode is finished."""
START_S = 300.0
"""Seconds until the first worker is there."""
CLOSE_S = 20.0
"""Seconds that a worker has to write everything down."""
_CALLS = 100_000
"""Calls of one actor at once: it is this process that bounds them."""


class RayEngine:
    """Plays episodes on the workers of a cluster.

    Args:
        order: what the workers are to be; each gets a name of its own.
        run: the open run folder.
        books: of the models; None where no model plays.
        concurrency: episodes in flight at once, if models play; at least one for each worker.
    """

    def __init__(
        self, order: Order, run: Run, books: SharedBooks | None, *, concurrency: int
    ) -> None:
        self.concurrency = concurrency
        self._order, self._run, self._books = order, run, books
        self._holds = None if books is None else Holds(books.waiting)
        self._session = secrets.token_hex(4)
        self._wanted = self._hired = self._deaths = 0
        self._seats = Seats()
        self._hiring: set[asyncio.Task[None]] = set()
        self._leaving: set[asyncio.Task[None]] = set()
        self._unmerged: set[Seat] = set()
        """Workers that are gone, whose shards are not part of the run yet."""
        self._closed = False
        self._cluster: Cluster | None = None

    async def start(self, workers: int | None, most: int) -> None:
        """Connect to the cluster, and wait for the first worker.

        Args:
            workers: how many; None is one for each CPU of the cluster. No endpoint is asked more
                at once than by one process, so that there are no more than that.
            most: more of them have nothing to do.

        Raises:
            ToolloomError: there is no cluster, or no worker can work; says why.
        """
        self._cluster = Cluster(workers)
        asked = shared(self._order.config).values()
        bounds = (model.concurrency for model in asked)
        self._wanted = min(workers or self._cluster.cpus, most, *bounds)
        if self._books is None:
            self.concurrency = 2 * self._wanted  # while one is played, the next is on its way
        else:
            self.concurrency = max(self.concurrency, self._wanted)
        self._order = replace(self._order, config=share(self._order.config, self._wanted))
        for _ in range(self._wanted):
            self._hire()
        try:
            async with asyncio.timeout(START_S):
                await self._seats.ready()
        except TimeoutError as error:
            raise ToolloomError(
                f"no worker has started within {START_S:.0f} s",
                where=f"a Ray cluster with {self._cluster.cpus} CPUs",
                remedy="see with `ray status` whether a CPU is free",
            ) from error

    # --- workers -----------------------------------------------------------------------------

    def _hire(self) -> None:
        self._mind(self._hiring, asyncio.create_task(self._open_seat()))

    def _mind(self, tasks: set[asyncio.Task[None]], task: asyncio.Task[None]) -> None:
        """Keep a task while it lasts; if it fails, no worker can work."""

        def ended(task: asyncio.Task[None]) -> None:
            tasks.discard(task)
            error = None if task.cancelled() else task.exception()
            if error is not None:
                self._seats.give_up(error)

        tasks.add(task)
        task.add_done_callback(ended)

    async def _open_seat(self) -> None:
        """Start a worker, and give it a seat when it is ready.

        Raises:
            ToolloomError: it cannot work, or its shard cannot become part of the run.
        """
        self._hired += 1
        name = f"{self._session}-{self._hired}"
        options = {"num_cpus": 1, "max_restarts": 0, "max_task_retries": 0}
        actor = (
            ray.remote(Worker)
            .options(**options, max_concurrency=_CALLS)
            .remote(replace(self._order, name=name))
        )

        def answer(number: int, refusal: Failed | None) -> None:
            actor.leave.remote(number, refusal)

        seat = Seat(name, actor, Tab(answer))
        try:
            # Keys go with a call and not with the actor, whose arguments the cluster keeps.
            problem = await actor.open.remote(_keys(self._order.config))
        except RayTaskError:
            raise  # a defect
        except RayError as error:
            await self._mourn(seat, error)
            return
        except asyncio.CancelledError:
            await self._settle(seat)
            raise
        if problem is not None:
            raise raised(problem)
        self._welcome(seat)

    def _welcome(self, seat: Seat) -> None:
        """Tell a worker what the others have been told, and give it a seat."""
        if self._books is not None:
            for pause in self._books.pauses():
                seat.actor.pause.remote(*pause)
            seat.listening = asyncio.create_task(self._listen(seat, self._books))
        if self._seats.over:
            seat.actor.end.remote()
        self._seats.add(seat)

    def _mourn(self, seat: Seat, error: RayError) -> asyncio.Future[None]:
        """Let a worker go that died; the future is done once its shard is part of the run."""
        if seat.gone is None:
            self._seats.remove(seat)
            seat.gone = asyncio.create_task(self._replace(seat, error))
            self._mind(self._leaving, seat.gone)
        return asyncio.shield(seat.gone)

    async def _replace(self, seat: Seat, error: RayError) -> None:
        with suppress(Held):  # `close` tries again: what was reserved stays reserved meanwhile
            await self._settle(seat)
        if self._books is not None:
            lost = {episode for episode in seat.playing if episode not in self._run.episodes}
            self._books.journal.recall(lost)
        self._deaths += 1
        if self._deaths > DEATHS * self._wanted:
            raise ToolloomError(
                f"{self._deaths} workers died, and no episode was finished meanwhile: "
                + said(error),
                where="the Ray cluster",
                remedy="mend the cause; the same command goes on",
            )
        if not (self._seats.over or self._closed):
            self._hire()

    async def _settle(self, seat: Seat) -> None:
        """End a worker, and make its shard part of the run. May be done again if it fails.

        Raises:
            Held: the worker does not end.
            ToolloomError: a row of the shard is damaged, or the disk is full.
        """
        self._unmerged.add(seat)
        ray.kill(seat.actor)
        if seat.listening is not None:
            seat.listening.cancel()
            await asyncio.gather(seat.listening, return_exceptions=True)
        if self._books is not None:
            self._books.refuse(seat.tab)
        spent = await merge(self._run, self._run.path / SHARDS / seat.name)
        if self._books is not None:
            self._books.settle(seat.tab, spent)
        self._unmerged.discard(seat)

    async def _listen(self, seat: Seat, books: SharedBooks) -> None:
        """Hear all that a worker has to tell."""
        try:
            while True:
                for item in await seat.actor.news.remote():
                    match item:
                        case ("ask", *asked):
                            books.ask(seat.tab, *asked)
                        case ("spent", number, entry):
                            books.spent(seat.tab, number, entry)
                        case ("pause", place, seconds, why):
                            self._paused(seat, place, seconds, why)
                        case ("end",):
                            return
        except RayError as error:
            if not self._closed:
                with suppress(ToolloomError):  # whoever plays is told
                    await self._mourn(seat, error)

    def _paused(self, seat: Seat, place: Place, seconds: float, why: str) -> None:
        """Let an endpoint that wants to be left alone be left alone by all."""
        assert self._books is not None
        self._books.paused(place, seconds, why)
        for other in self._seats:
            if other is not seat:
                other.actor.pause.remote(place, seconds, why)

    # --- episodes ----------------------------------------------------------------------------

    async def play(self, planned: Planned, agent: Agent, *, patient: bool) -> Episode | None:
        """Play one episode and judge it; see `Engine`.

        Raises:
            ToolloomError: workers die, or cannot work.
        """
        name = planned.episode
        rows = planned.model_dump_json().encode(), agent.model_dump_json().encode()
        while True:
            seat = await self._seats.take(name)
            try:
                known = {} if self._books is None else self._books.journal.take(name)
                answer = await seat.actor.play.remote(*rows, patient, known)
            except RayTaskError:
                raise  # a defect: as it would be here
            except RayError as error:
                await self._mourn(seat, error)
                done = self._run.episodes.get(name)
                if done is not None:
                    return done
                if self._seats.killed(name) and self._seats.problem is None:
                    self._forget(name)
                    return fatal(planned, said(error))
            else:
                self._deaths = 0
                self._seats.survived(name)
                return self._read(name, answer)
            finally:
                self._seats.leave(seat, name)

    def _forget(self, name: str) -> None:
        if self._books is not None:
            self._books.journal.forget(name)

    def _read(self, name: str, answer: Answer) -> Episode | None:
        """Return what became of an episode.

        Raises:
            ToolloomError: what ended it at the worker.
        """
        if self._books is not None:
            journal = self._books.journal
            journal.replayed += answer.replayed
            journal.differed |= answer.differed
            journal.give(name, answer.known)
        if answer.failed is not None:
            raise raised(answer.failed)
        row = answer.episode
        return None if row is None else Episode.model_validate_json(row)

    def held(self) -> bool:
        """Say whether an endpoint wants no request for a good while; look often."""
        return self._holds is not None and self._holds.held()

    def end(self) -> None:
        """Let no model be asked any more; replies under way still arrive."""
        self._seats.end()
        for seat in self._seats:
            seat.actor.end.remote()

    async def close(self) -> None:
        """End all workers, and make their shards part of the run. Harmless when called twice.

        Raises:
            Held: a worker does not end; the next session makes its shard part of the run.
            ToolloomError: a shard cannot become part of the run. Those of the others did.
        """
        if self._closed:
            return
        self._closed = True
        try:
            for task in self._hiring:
                task.cancel()
            await asyncio.gather(*self._hiring, return_exceptions=True)
            await asyncio.gather(*self._leaving, return_exceptions=True)
            last = [self._settle(seat) for seat in self._unmerged]
            last += [self._leave(seat) for seat in self._seats]
            ends = await asyncio.gather(*last, return_exceptions=True)
        finally:
            if self._cluster is not None:
                self._cluster.leave()
        for end in ends:
            if end is not None:
                raise end

    async def _leave(self, seat: Seat) -> None:
        """Let a worker write everything down and tell the rest; then end it."""
        with suppress(RayError, TimeoutError):
            async with asyncio.timeout(CLOSE_S):
                await seat.actor.close.remote()
                if seat.listening is not None:
                    await seat.listening
        await self._settle(seat)


@asynccontextmanager
async def hired(
    config: Config,
    run: Run,
    workspace: Path,
    workers: Workers,
    goal: Goal,
    concurrency: int,
    made_of: Mapping[str, str],
) -> AsyncIterator[tuple[RayEngine, SharedBooks | None]]:
    """Have workers of a cluster for a run, and its books where models play.

    Args:
        config: what is generated, and who plays.
        run: the open run folder.
        workspace: where the registry and crawled servers are.
        workers: how many.
        goal: of the run: there is no use for more workers than episodes.
        concurrency: episodes in flight at once, if models play.
        made_of: content keys of the applications and prompts here: a worker must have the same.

    Raises:
        ToolloomError: there is no cluster, or no worker can work.
        BadConfig: a price is missing.
    """
    budget = config.budget
    order = Order(
        name="",
        config=config,
        run=run.path.resolve(),
        workspace=workspace.resolve(),
        here=Path.cwd(),
        made_of=made_of,
        limited=any(limit is not None for limit in (budget.requests, budget.tokens, budget.money)),
    )
    journal = HandedOut(run.path, finished=run.episodes) if config.models.roles() else None
    try:
        books = None if journal is None else SharedBooks(config, journal)
        engine = RayEngine(order, run, books, concurrency=concurrency)
        try:
            await engine.start(workers.count, goal.accept or goal.episodes or 1)
            yield engine, books
        finally:
            await engine.close()
    finally:
        if journal is not None:
            journal.close()


def _keys(config: Config) -> Mapping[str, str]:
    """Return the keys of models that this process has, by variable."""
    names = {model.key_env or DEFAULT_KEY for model in config.models.roles().values()}
    return {name: os.environ[name] for name in sorted(names) if name in os.environ}
