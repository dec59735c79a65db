"""Where episodes are played: the seam between the loop of a generation and who plays for it.

The loop (`synth.pipeline.generate`) decides what is played, counts it and writes it; an engine
plays one episode that it is given. A run is the same wherever it is played: engines decide nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from simulators.faulty import Faulty
from simulators.imagined.environment import ImaginedEnvironment
from simulators.imagined.world import ImaginedWorld
from simulators.scheduled import Scheduled
from synth.core.config import Config
from synth.core.imagined import Imagined
from synth.core.outcomes import Outcomes
from synth.core.protocols import AgentPlayer, Environment, Timed, UserPlayer, World
from synth.core.types import Agent, Fault, ToolSpec, Trajectory
from synth.episode import play_and_judge
from synth.judge.tools import excused
from synth.pipeline.cast import Cast
from synth.run import Episode, Planned

MakeAgent = Callable[[Planned, Agent], AgentPlayer]
MakeUser = Callable[[Planned], UserPlayer]


@dataclass(frozen=True, slots=True)
class Workers:
    """The workers of a Ray cluster: the one that `RAY_ADDRESS` names, or one of our own."""

    count: int | None = None
    """How many; None is one for each CPU of the cluster."""


class Engine(Protocol):
    """Plays episodes."""

    concurrency: int
    """Episodes that are worth having in flight at once."""

    async def play(self, planned: Planned, agent: Agent, *, patient: bool) -> Episode | None:
        """Play one episode and judge it.

        Args:
            planned: the episode.
            agent: whose part is played.
            patient: whether an endpoint may put the episode off.

        Returns:
            The episode; None if an endpoint wants to be left alone for now: it goes on from where
            it was when it is played again.

        Raises:
            BudgetSpent: a model may not be asked any more; there is no episode.
            DiskFull: a reply could not be journalled; there is no episode.
        """

    def held(self) -> bool:
        """Say whether an endpoint wants no request for a good while; look often."""

    def end(self) -> None:
        """Let no model be asked any more; replies under way still arrive."""

    async def close(self) -> None:
        """Give everything back; what is still played ends. Harmless when called twice."""


class LocalEngine:
    """Plays episodes in this process.

    Args:
        config: limits of an episode.
        worlds: by name.
        cast: who plays which role.
        players: make the player of the agent's and of the user's role for an episode; the cast's
            if left out.
        concurrency: episodes in flight at once (useful with models only).
    """

    def __init__(
        self,
        config: Config,
        worlds: Mapping[str, World],
        *,
        cast: Cast | None = None,
        players: tuple[MakeAgent, MakeUser] | None = None,
        concurrency: int = 1,
    ) -> None:
        self.concurrency = concurrency
        self._limits, self._worlds = config.generate.limits, worlds
        self._outcomes = config.generate.outcomes
        self._cast = cast or Cast(config)
        self._make_agent, self._make_user = players or (self._cast.agent, self._cast.user)
        self._tools: dict[str, dict[str, ToolSpec]] = {
            name: {tool.name: tool for tool in world.tools()} for name, world in worlds.items()
        }
        self._idle: dict[str, list[Environment]] = {}
        self._lost: set[str] = set()
        """Episodes that were put off, whose replies are in the journal only."""

    async def play(self, planned: Planned, agent: Agent, *, patient: bool) -> Episode | None:
        """Play one episode and judge it; see `Engine`."""
        if planned.episode in self._lost:
            self._cast.recall(self._lost)
            self._lost.clear()
        world, environment = self._worlds[planned.world], self._borrow(planned)
        try:
            trajectory, verdict = await play_and_judge(
                self._tools[planned.world],
                task=planned.task,
                agent=agent,
                environment=staged(environment, world, planned, self._outcomes),
                agent_player=self._make_agent(planned, agent),
                user_player=self._make_user(planned),
                limits=self._limits,
                episode=planned.episode,
                seed=planned.seed,
                prefix=planned.prefix,
            )
            imagined = _record(environment)
        finally:
            await self._give_back(planned.world, environment)
        if trajectory.fault is Fault.INFRASTRUCTURE:
            put_off = self._cast.is_put_off(planned.episode)
            if put_off and patient:
                self._lost.add(planned.episode)
                return None
        self._cast.forget(planned.episode)
        if imagined is not None:
            trajectory, verdict = _with_world(trajectory, imagined), excused(verdict, imagined)
        return Episode(trajectory=trajectory, verdict=verdict, imagined=imagined)

    def _borrow(self, planned: Planned) -> Environment:
        world = self._worlds[planned.world]
        if isinstance(world, ImaginedWorld):
            environment = self._cast.world(planned, world)
            environment.recall(planned.prefix.imagined if planned.prefix else ())
            return environment
        idle = self._idle.setdefault(planned.world, [])
        return idle.pop() if idle else world.environment()

    async def _give_back(self, world: str, environment: Environment) -> None:
        if isinstance(environment, ImaginedEnvironment):  # it knows one episode, and its model
            await environment.close()
        else:
            self._idle[world].append(environment)

    def held(self) -> bool:
        """Say whether an endpoint wants no request for a good while; look often."""
        return self._cast.held()

    def end(self) -> None:
        """Let no model be asked any more; replies under way still arrive."""
        self._cast.end()

    async def close(self) -> None:
        """Give the environments back."""
        for environments in self._idle.values():
            for environment in environments:
                await environment.close()
        self._idle.clear()


def _record(environment: Environment) -> Imagined | None:
    return environment.record() if isinstance(environment, ImaginedEnvironment) else None


def _with_world(trajectory: Trajectory, imagined: Imagined) -> Trajectory:
    """Return a trajectory that names who played its tools, and what that took."""
    players = {**trajectory.players, "world": imagined.who}
    usage = trajectory.usage | ({"world": imagined.usage} if imagined.usage else {})
    return trajectory.model_copy(update={"players": players, "usage": usage})


def staged(
    environment: Environment, world: World, planned: Planned, outcomes: Outcomes
) -> Environment:
    """Return an environment as an episode meets it: with faults and events, if any are configured.

    A fork meets the faults of its origin in the calls that it keeps, and all of its events.
    """
    if planned.schedule is not None and isinstance(environment, Timed):
        environment = Scheduled(environment, planned.schedule)
    before = planned.prefix.regimes if planned.prefix else ()
    if not outcomes and not before:
        return environment
    needed = {call.tool for call in planned.task.blueprint.solution}
    needed |= set() if world.handoff is None else {world.handoff}
    return Faulty(environment, outcomes, seed=planned.seed, needed=needed, before=before)
