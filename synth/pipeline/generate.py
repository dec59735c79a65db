"""The loop of generation: grow the plan, play what is not yet played, judge, keep.

`accept=N` means the first N passes in plan order; surplus episodes stay in the run, unused. What
the infrastructure broke is no result: it is counted, not written, and played again by the next
session.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from synth.core.config import Config
from synth.core.protocols import AgentPlayer, Environment, UserPlayer, World
from synth.core.seeds import rng
from synth.core.types import Agent, Fault, Verdict
from synth.episode import play_and_judge
from synth.pipeline.compose import Composer
from synth.reference import ErrorRates, ReferenceAgent
from synth.run import Episode, Planned, Run

BARREN = 300
"""Episodes in a row without an accepted one after which `accept` is given up."""
BROKEN = 20
"""Episodes in a row without any verdict after which a run is given up: nobody answers."""

MakeAgent = Callable[[Planned, Agent], AgentPlayer]
MakeUser = Callable[[Planned], UserPlayer]


@dataclass(frozen=True, slots=True)
class Goal:
    """When a run is done: so many accepted episodes, or so many episodes at all."""

    accept: int | None = None
    episodes: int | None = None


@dataclass(slots=True)
class Progress:
    """What a running generation can tell: shown live, and the yield funnel at its end."""

    candidates: int = 0
    planned: int = 0
    played: int = 0
    accepted: int = 0
    not_needed: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    """Candidates given up while sampling or at the gate, by reason."""
    verdicts: Counter[str] = field(default_factory=Counter)
    """Judged episodes that did not pass, by the first stage that failed."""
    faults: Counter[str] = field(default_factory=Counter)
    """Episodes without a verdict, by who failed."""
    barren: int = 0
    """Episodes of this session since the last accepted one."""
    broken: int = 0
    """Episodes of this session since the last one with a verdict."""

    def count(self, verdict: Verdict, *, fresh: bool) -> None:
        """Count a judged episode; `fresh` if it was played in this session."""
        self.played += 1
        self.barren = 0 if verdict.passed else self.barren + fresh
        self.broken = self.broken + fresh if verdict.broken_by else 0
        if verdict.passed:
            self.accepted += 1
        elif verdict.broken_by:
            self.faults[str(verdict.broken_by)] += 1
        else:
            self.verdicts[verdict.reason] += 1


class Generation:
    """One run of the loop.

    Args:
        config: what to generate.
        worlds: by name.
        run: the open run folder.
        players: make the player of the agent's and of the user's role for an episode.
        concurrency: episodes in flight at once (useful with models only).
        on_progress: called after every candidate and every episode.
    """

    def __init__(
        self,
        config: Config,
        worlds: Mapping[str, World],
        run: Run,
        *,
        players: tuple[MakeAgent, MakeUser],
        concurrency: int = 1,
        on_progress: Callable[[Progress], None] = lambda progress: None,
    ) -> None:
        self.config, self.worlds, self.run = config, worlds, run
        self.composer = Composer(config, worlds)
        self.make_agent, self.make_user = players
        self.concurrency, self.on_progress = concurrency, on_progress
        self.progress = Progress()
        self.used = 0
        """Places of the plan that the goal needed."""
        self.gave_up: str | None = None
        """Why the goal was not reached; None where it was."""
        self._idle: dict[str, list[Environment]] = {}
        self._played: set[str] = set()

    async def until(self, goal: Goal) -> Progress:
        """Generate until the goal is met; everything finished is on disk whatever happens.

        Returns:
            The counts of the whole run, earlier sessions included.
        """
        for planned in self.run.plan:
            self.composer.remember(planned)
        try:
            index = 0
            while not self._met(goal, index) and self.gave_up is None:
                window = [
                    await self._place(i)
                    for i in range(index, min(index + self.concurrency, goal.episodes or 1 << 60))
                ]
                for episode in await _all(self._finish(planned) for planned in window):
                    self._count(episode, goal)
                index += len(window)
                self.gave_up = None if self._met(goal, index) else self._hopeless(goal)
            self.used = self._used(goal, index)
            self.progress.not_needed = len(self.run.plan) - self.used
        finally:
            await self._close()
        return self.progress

    def _met(self, goal: Goal, index: int) -> bool:
        if goal.accept is not None:
            return self.progress.accepted >= goal.accept
        return goal.episodes is None or index >= goal.episodes

    def _hopeless(self, goal: Goal) -> str | None:
        """Return why going on makes no sense, or None."""
        progress = self.progress
        if progress.broken >= BROKEN:
            owner = progress.faults.most_common(1)[0][0]
            return f"no verdict on {progress.broken} episodes in a row: {owner} failed"
        if goal.accept is not None and progress.barren >= BARREN:
            reasons = progress.verdicts.most_common(1) or progress.faults.most_common(1)
            return f"none of {progress.barren} episodes in a row was accepted: {reasons[0][0]}"
        return None

    def _used(self, goal: Goal, index: int) -> int:
        """Return how many places there are up to the last accepted episode that was wanted."""
        if goal.accept is None or self.gave_up is not None:
            return index
        passed = [
            planned.index
            for planned in self.run.plan[:index]
            if self.run.episodes[planned.episode].verdict.passed
        ]
        return passed[goal.accept - 1] + 1

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

    async def _finish(self, planned: Planned) -> Episode:
        """Return the finished episode of a plan row: read from the run, or played and written."""
        done = self.run.episodes.get(planned.episode)
        if done is not None:
            return done
        agent, environment = self.run.agents[planned.agent], self._borrow(planned.world)
        try:
            trajectory, verdict = await play_and_judge(
                self.composer.tools[planned.world],
                task=planned.task,
                agent=agent,
                environment=environment,
                agent_player=self.make_agent(planned, agent),
                user_player=self.make_user(planned),
                limits=self.config.generate.limits,
                episode=planned.episode,
                seed=planned.seed,
            )
        finally:
            self._idle[planned.world].append(environment)
        episode = Episode(trajectory=trajectory, verdict=verdict)
        self._played.add(planned.episode)
        if trajectory.fault is Fault.INFRASTRUCTURE:
            self.run.episodes[planned.episode] = episode
        else:
            self.run.add_episode(episode)
        return episode

    def _borrow(self, world: str) -> Environment:
        idle = self._idle.setdefault(world, [])
        return idle.pop() if idle else self.worlds[world].environment()

    def _count(self, episode: Episode, goal: Goal) -> None:
        if goal.accept is not None and self.progress.accepted >= goal.accept:
            return
        self.progress.count(episode.verdict, fresh=episode.trajectory.episode in self._played)
        self.on_progress(self.progress)

    async def _close(self) -> None:
        await self.composer.close()
        for environments in self._idle.values():
            for environment in environments:
                await environment.close()
        self._idle.clear()


def reference_player(rates: ErrorRates) -> MakeAgent:
    """Return the maker of reference agents with these rates of deliberate mistakes."""

    def make(planned: Planned, agent: Agent) -> AgentPlayer:
        return ReferenceAgent(planned.task, agent, rng(planned.seed, "agent"), rates)

    return make


async def _all(work: Iterable[Coroutine[Any, Any, Episode]]) -> list[Episode]:
    """Wait for all of it; the first failure ends the rest before their environments close."""
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
