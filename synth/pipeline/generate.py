"""The loop of generation: grow the plan, play what is not yet played, judge, keep.

`accept=N` means the first N passes in plan order; surplus episodes stay in the run, unused. What
the infrastructure broke is no result: it is noted, and played again by the next session.

Episodes are played in a window that slides over the plan: each one that ends makes room for the
next, while a slow one holds up nothing but the counting, which goes in plan order. So no result
depends on how many play at once.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Protocol

from synth.core.config import Config
from synth.core.errors import BudgetSpent
from synth.core.protocols import AgentPlayer, World
from synth.core.seeds import rng
from synth.core.types import Agent, Fault
from synth.pipeline.compose import Composer
from synth.pipeline.engine import Engine, LocalEngine, MakeAgent
from synth.pipeline.progress import BARREN, WINDOW, Ended, Failures, Goal, Progress, Stop, ended
from synth.pipeline.worlds import without_words
from synth.reference import ErrorRates, ReferenceAgent
from synth.run import Episode, Failure, Planned, Run

__all__ = ["Generation", "Goal", "Progress", "reference_player"]

AHEAD = 16
"""Places begun beyond the first unfinished one, for each episode in flight: bounds memory."""
DRAIN_S = 10.0
"""Seconds for replies that are under way when a run ends; they were asked for, and cost money."""
LOOK_S = 0.5
"""Seconds between two looks whether an endpoint wants to be left alone."""
PUT_OFF = 5
"""Times that an endpoint may put the same episode off; then it is broken."""


class Planner(Protocol):
    """Makes the plan of a run, in order; see `Composer`."""

    def remember(self, planned: Planned) -> None:
        """Note a row that is in the run's plan already."""

    async def planned(self, index: int, on_try: Callable[[], None] | None = None) -> Planned:
        """Return row `index` of the plan."""

    def agent(self, world: str, key: str) -> Agent:
        """Return the agent of a row."""

    async def close(self) -> None:
        """Give everything back."""


class Generation:
    """One run of the loop.

    Args:
        config: what to generate.
        worlds: by name.
        run: the open run folder.
        engine: plays the episodes, and is closed when the loop ends; by default, programs do, here.
        on_progress: called after every candidate and every episode.
        planner: makes the plan; by default it is sampled as the configuration says.
    """

    def __init__(
        self,
        config: Config,
        worlds: Mapping[str, World],
        run: Run,
        engine: Engine | None = None,
        *,
        on_progress: Callable[[Progress], None] = lambda progress: None,
        planner: Planner | None = None,
    ) -> None:
        self.config, self.run = config, run
        self.composer = planner or Composer(config, worlds)
        self.engine = engine or LocalEngine(config, worlds)
        self.on_progress = on_progress
        self.progress = Progress(english=without_words(config, worlds))
        self.used = 0
        """Places of the plan that the goal needed."""
        self.stop: Stop | None = None
        """Why the goal was not reached; None where it was."""
        self._spent = False
        self._failures = Failures(config.budget.failures)
        self._head = self._start = 0
        """First place that is not counted; first place that is not begun."""
        self._flying: dict[asyncio.Task[Episode | None], int] = {}
        self._again: list[int] = []
        """Places whose episodes an endpoint put off."""
        self._put_off: Counter[int] = Counter()
        """How often it did."""
        self._ended: dict[int, Ended] = {}
        """What came of finished places from `_head` on."""
        self._passed = 0
        """How many of them passed."""
        self._broken = 0
        """How many of them have no verdict."""

    async def until(self, goal: Goal) -> Progress:
        """Generate until the goal is met; everything finished is on disk whatever happens.

        Returns:
            The counts of the whole run, earlier sessions included.

        Raises:
            asyncio.CancelledError: it was interrupted; replies under way were waited for.
        """
        for planned in self.run.plan:
            self.composer.remember(planned)
        try:
            await self._play(goal)
            await self._drain()
        except asyncio.CancelledError:
            self.progress.ending = True
            self.on_progress(self.progress)
            await self._drain()
            raise
        finally:
            await self._end()
        self._sum_up(goal)
        return self.progress

    async def _play(self, goal: Goal) -> None:
        """Slide the window until the goal is met, or nothing more can be done for it."""
        while not self._over(goal):
            held = self.engine.held()
            if not held and self._may_begin(goal):
                await self._begin()
            elif self._flying:
                await self._land()
            elif held:
                await asyncio.sleep(LOOK_S)
            else:
                return  # a budget is spent, and nothing goes on without it
            while self._head in self._ended and not self._over(goal):
                self._count(goal)

    def _over(self, goal: Goal) -> bool:
        """Say whether the goal is met, or hopeless. A spent budget ends no episode under way."""
        return self._met(goal) or (self.stop is not None and not self._spent)

    def _met(self, goal: Goal) -> bool:
        if goal.accept is not None:
            return self.progress.accepted >= goal.accept
        return goal.episodes is None or self._head >= goal.episodes

    def _may_begin(self, goal: Goal) -> bool:
        """Say whether another episode is wanted now.

        Where accepted ones are counted, no more are in flight than are expected to be needed.
        """
        flying = len(self._flying)
        if self._spent or flying >= self.engine.concurrency:
            return False
        if self._again:
            return True
        if self._start - self._head >= AHEAD * self.engine.concurrency:
            return False
        # Failing is quick: many would have failed before a slow one in front lets them be counted.
        if self._failures.too_many(self._broken) and flying:
            return False
        if goal.accept is None:
            return goal.episodes is None or self._start < goal.episodes
        passed = self.progress.accepted + self._passed
        share = (passed + 1) / (self.progress.played + len(self._ended) + 1)
        return passed + flying * share < goal.accept

    async def _begin(self) -> None:
        """Begin the next place of the plan; one that is finished has only to be counted."""
        if self._again:
            index = self._again.pop(0)
            planned = self.run.plan[index]
        else:
            index = self._start
            planned = await self._place(index)
            self._start += 1
        done = self.run.episodes.get(planned.episode)
        if done is None:
            self._flying[asyncio.create_task(self._finish(planned))] = index
            await asyncio.sleep(0)  # making many places in a row would keep the others waiting
        else:
            self._keep(index, ended(done, fresh=False))

    async def _land(self) -> None:
        """Wait until an episode ends, but not for long."""
        done, _ = await asyncio.wait(
            self._flying, timeout=LOOK_S, return_when=asyncio.FIRST_COMPLETED
        )
        for task in done:
            index = self._flying.pop(task)
            try:
                episode = task.result()
                if episode is None:
                    self._again.append(index)
                else:
                    self._keep(index, ended(episode, fresh=True))
            except BudgetSpent as error:
                self._spent = True
                self.stop = self.stop or Stop(error.what, f"{error.where}: {error.remedy}")

    def _keep(self, index: int, done: Ended) -> None:
        self._ended[index] = done
        self._passed += done.passed
        self._broken += done.broken_by is not None

    def _count(self, goal: Goal) -> None:
        """Count the next place of the plan, and see whether there is hope."""
        done, progress = self._ended.pop(self._head), self.progress
        self._head += 1
        self._passed -= done.passed
        self._broken -= done.broken_by is not None
        progress.count(done)
        self.on_progress(progress)
        failing = done.fresh and self._failures.add(failed=done.broken_by is not None)
        if self._met(goal) or self.stop is not None:
            return
        if failing:
            (owner, count), said = progress.faults.most_common(1)[0], done.error
            last = f"; the last time: {said}" if said else ""
            share = f"over {self.config.budget.failures:.0%} of the last {WINDOW} episodes"
            self.stop = Stop(f"no verdict on {share}: {owner} failed {count} times{last}")
        elif goal.accept is not None and progress.barren >= BARREN:
            reasons = progress.verdicts.most_common(1) or progress.faults.most_common(1)
            why = f"none of {progress.barren} episodes in a row was accepted: {reasons[0][0]}"
            self.stop = Stop(why)

    def _sum_up(self, goal: Goal) -> None:
        """Say why the goal was not reached, if so, and how many places it took."""
        progress = self.progress
        broken = progress.faults[str(Fault.INFRASTRUCTURE)]
        if self._met(goal):
            self.stop = None
            if goal.accept is None and broken:
                why = f"{broken} of {progress.played} have no result: the infrastructure failed"
                self.stop = Stop(why, "the same command plays them again")
        self.used = self._used(goal)
        progress.not_needed = len(self.run.plan) - self.used

    def _used(self, goal: Goal) -> int:
        """Return how many places there are up to the last one that was wanted."""
        if self._spent and not self._met(goal):
            return len(self.run.plan)  # also what is finished behind a place that is not
        return self._head

    async def _place(self, index: int) -> Planned:
        """Return place `index` of the plan: read from the run, or made now and written."""
        if index < len(self.run.plan):
            planned = self.run.plan[index]
            if planned.agent not in self.run.agents:  # its line was lost
                self.run.add_agent(self.composer.agent(planned.world, planned.agent))
        else:
            planned = await self.composer.planned(index, self._on_try)
            self.run.add_plan(planned, self.composer.agent(planned.world, planned.agent))
        self.progress.planned += 1
        self.progress.rejected.update(planned.rejected)
        self.progress.candidates += 1 + sum(planned.rejected.values())
        return planned

    def _on_try(self) -> None:
        self.on_progress(self.progress)

    async def _finish(self, planned: Planned) -> Episode | None:
        """Play an episode, and write what became of it; None if an endpoint put it off."""
        agent = self.run.agents[planned.agent]
        patient = self._put_off[planned.index] < PUT_OFF
        episode = await self.engine.play(planned, agent, patient=patient)
        if episode is None:
            self._put_off[planned.index] += 1
            return None
        trajectory = episode.trajectory
        if trajectory.fault is Fault.INFRASTRUCTURE:
            self.run.add_failure(Failure(episode=planned.episode, error=trajectory.error or ""))
        elif planned.episode not in self.run.episodes:  # a lost worker's are there already
            self.run.add_episode(episode)
        return episode

    async def _drain(self) -> None:
        """Let replies that are under way arrive, and nothing more be asked for."""
        self.engine.end()
        if not self._flying:
            return
        done, _ = await asyncio.wait(self._flying, timeout=DRAIN_S)
        for task in done:
            self._flying.pop(task)
            if not task.cancelled() and not isinstance(task.exception(), BudgetSpent):
                task.result()  # it is on disk; an error is one of all

    async def _end(self) -> None:
        """End what is still played, and give everything back."""
        tasks = list(self._flying)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._flying.clear()
        await self.composer.close()
        await self.engine.close()


def reference_player(rates: ErrorRates) -> MakeAgent:
    """Return the maker of reference agents with these rates of deliberate mistakes."""

    def make(planned: Planned, agent: Agent) -> AgentPlayer:
        return ReferenceAgent(planned.task, agent, rng(planned.seed, "agent"), rates)

    return make
