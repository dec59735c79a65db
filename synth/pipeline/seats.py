"""Which worker plays which episode, and which episodes their workers do not survive."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from synth.core.errors import BudgetSpent
from synth.core.types import Fault, StopReason, Trajectory, Verdict
from synth.pipeline.books import Tab
from synth.run import Episode, Planned

FATAL = 2
"""Workers that an episode may take along; the second of them played nothing else."""


@dataclass(slots=True, eq=False)
class Seat:
    """One worker, as the process that hands episodes out knows it."""

    name: str
    actor: Any
    tab: Tab
    playing: set[str] = field(default_factory=set)
    alone: bool = False
    """It plays one episode and is given no other."""
    listening: asyncio.Task[None] | None = None
    gone: asyncio.Task[None] | None = None


class Seats:
    """The workers that are there.

    Whoever played at a worker that died may have killed it. So such an episode is played again by
    a worker that plays nothing else meanwhile: if that one dies too, the episode is to blame.
    """

    def __init__(self) -> None:
        self.problem: BaseException | None = None
        """Why no worker can work."""
        self.over = False
        """Whoever has no worker by now gets none."""
        self._seats: list[Seat] = []
        self._deaths: Counter[str] = Counter()
        self._suspects = 0
        """Episodes that wait for a worker of their own."""
        self._changed = asyncio.Event()

    def __iter__(self) -> Iterator[Seat]:
        return iter(tuple(self._seats))

    def add(self, seat: Seat) -> None:
        """Note that a worker is there."""
        self._seats.append(seat)
        self._changed.set()

    def remove(self, seat: Seat) -> None:
        """Note that a worker is there no more. Harmless when called twice."""
        if seat in self._seats:
            self._seats.remove(seat)

    def give_up(self, problem: BaseException) -> None:
        """Let nobody wait any longer; the first reason counts."""
        self.problem = self.problem or problem
        self._changed.set()

    async def ready(self) -> None:
        """Wait for the first worker.

        Raises:
            ToolloomError: no worker can work.
        """
        while not self._seats:
            await self._look()

    async def take(self, episode: str) -> Seat:
        """Return the worker with least to do, once there is one; call `leave` after it.

        Raises:
            ToolloomError: no worker can work.
            BudgetSpent: the run is over.
        """
        suspect = episode in self._deaths
        self._suspects += suspect
        try:
            while True:
                if self.over:
                    raise BudgetSpent("the run is over")
                seat = self._free(suspect)
                if seat is not None and self.problem is None:
                    seat.alone = suspect
                    seat.playing.add(episode)
                    return seat
                await self._look()
        finally:
            if suspect:
                self._suspects -= 1
                self._changed.set()

    def leave(self, seat: Seat, episode: str) -> None:
        """Note that a worker plays an episode no longer."""
        seat.playing.discard(episode)
        seat.alone = False
        self._changed.set()

    def end(self) -> None:
        """Give no worker to anybody any more."""
        self.over = True
        self._changed.set()

    def survived(self, episode: str) -> None:
        """Note that an episode did its worker no harm."""
        self._deaths.pop(episode, None)

    def killed(self, episode: str) -> bool:
        """Note that a worker died that played an episode; return whether that was too often."""
        self._deaths[episode] += 1
        return self._deaths[episode] >= FATAL

    async def _look(self) -> None:
        """Wait until something changes."""
        if self.problem is not None:
            raise self.problem
        self._changed.clear()
        await self._changed.wait()

    def _free(self, alone: bool) -> Seat | None:
        if self._suspects and not alone:
            return None  # otherwise no worker would ever have nothing to do
        free = [seat for seat in self._seats if not seat.alone and not (alone and seat.playing)]
        return min(free, key=lambda seat: len(seat.playing), default=None)


def fatal(planned: Planned, why: str) -> Episode:
    """Return an episode that no worker survives: the infrastructure broke it.

    Args:
        planned: the episode.
        why: what became of the last worker.
    """
    task, blueprint = planned.task, planned.task.blueprint
    fault = Fault.INFRASTRUCTURE
    trajectory = Trajectory(
        episode=planned.episode,
        task=task.key,
        agent=planned.agent,
        world=blueprint.world,
        kind=blueprint.kind,
        real=False,
        seed=planned.seed,
        messages=(),
        steps=(),
        diff=(),
        stop=StopReason.ERROR,
        players={},
        fault=fault,
        error=f"{FATAL} workers died that played it, the last of them nothing else: {why}",
    )
    verdict = Verdict(episode=planned.episode, passed=None, reason=f"fault:{fault}", fault=fault)
    return Episode(trajectory=trajectory, verdict=verdict)
