"""The plan: episode number i, made from the configuration alone.

Each place in the plan draws candidates (world, agent, kind, state, goal) until one is admitted by
the gate; what was given up on the way is counted by reason and stored with the row. Seeds hang on
the place and the attempt, so that no episode depends on how many were made before it.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress

from synth.agents import agent_prompt_hashes, agents_for
from synth.core.canonical import content_key
from synth.core.config import Config
from synth.core.errors import (
    BadConfig,
    BadInput,
    BadRow,
    DiskFull,
    NotSuitable,
    ServerFailed,
    ToolloomError,
)
from synth.core.happenings import Schedule
from synth.core.protocols import Environment, Eventful, World
from synth.core.sandbox.confine import NoConfinement
from synth.core.seeds import rng, seed
from synth.core.types import Agent, Blueprint, Task, TaskKind, ToolSpec
from synth.gate import admit
from synth.run import Planned, episode_id
from synth.tasks import sample_task

CODING = "sandbox"
"""Name of the world of coding tasks, which `generate.coding_share` is about."""
ATTEMPTS = 400
"""Candidates for one place before the configuration is called impossible."""


class Decoys:
    """How often the gate tried each wrong solution, and how often the rubric failed it."""

    def __init__(self) -> None:
        self.tried: Counter[str] = Counter()
        self.failed: Counter[str] = Counter()

    def add(self, killed: Mapping[str, bool]) -> None:
        """Count what was tried on one candidate."""
        self.tried.update(killed.keys())  # of a mapping, the values would be added
        self.failed.update(name for name, dead in killed.items() if dead)

    def counts(self) -> dict[str, tuple[int, int]]:
        """Return decoy -> (tried, failed), sorted by name."""
        return {name: (count, self.failed[name]) for name, count in sorted(self.tried.items())}


def made_of(worlds: Mapping[str, World]) -> dict[str, str]:
    """Return the content keys of what a run is made of beside its configuration."""
    keys = {world_key(name): world.key for name, world in worlds.items()}
    return keys | {f"prompt {name!r}": key for name, key in agent_prompt_hashes().items()}


def world_key(name: str) -> str:
    """Return the name under which a world stands in what a run is made of."""
    return f"world {name!r}"


class Composer:
    """Makes planned episodes in order.

    Args:
        config: decides everything.
        worlds: by name; live ones share `config.generate.live_share` of the plan.
    """

    def __init__(self, config: Config, worlds: Mapping[str, World]) -> None:
        self.config, self.worlds = config, dict(worlds)
        self.fingerprint = config.fingerprint(made_of(worlds))
        self.tools: dict[str, dict[str, ToolSpec]] = {
            name: {tool.name: tool for tool in world.tools()} for name, world in worlds.items()
        }
        self._agents: dict[str, list[Agent]] = {}
        self._environments: dict[str, Environment] = {}
        self._goals: set[int] = set()

    def remember(self, planned: Planned) -> None:
        """Note a plan row read from disk: its goal is not sampled twice."""
        self._goals.add(_goal_key(planned.task.blueprint))

    async def planned(self, index: int, on_try: Callable[[], None] | None = None) -> Planned:
        """Return episode `index` of the plan.

        Raises:
            ToolloomError: no candidate was admitted in `ATTEMPTS` tries; names the reasons.
        """
        rejected: Counter[str] = Counter()
        decoys = Decoys()
        for attempt in range(ATTEMPTS):
            draw = rng(self.config.seed, "plan", index, attempt)
            world, agent, kind = self._draw(draw)
            if on_try:
                on_try()
            try:
                task, reason = await self._candidate(world, agent, kind, draw, decoys)
            except (BadInput, DiskFull, NoConfinement):
                raise
            except ToolloomError as error:  # a server that dies costs one candidate, not the run
                await self._drop(world.name)
                outcome = error.outcome if isinstance(error, ServerFailed) else "error"
                task, reason = None, f"environment:{outcome}"
            if task is None:
                rejected[reason] += 1
                continue
            self._goals.add(_goal_key(task.blueprint))
            play_seed = seed(self.config.seed, "play", index)
            return Planned(
                episode=episode_id(task, play_seed, self.fingerprint),
                index=index,
                world=world.name,
                agent=agent.key,
                task=task,
                seed=play_seed,
                rejected=dict(sorted(rejected.items())),
                decoys=decoys.counts(),
                schedule=self._schedule(world, task.blueprint, play_seed),
            )
        reasons = ", ".join(f"{reason} {count}" for reason, count in rejected.most_common())
        raise ToolloomError(
            f"no task was admitted in {ATTEMPTS} tries: {reasons}",
            where=f"plan row {index}",
            remedy="more applications, more states, or another mix",
        )

    def agent(self, world: str, key: str) -> Agent:
        """Return the agent of `world` with that key.

        Raises:
            BadRow: there is none: a plan was edited.
        """
        agents = self.agents(world) if world in self.worlds else []
        agent = next((agent for agent in agents if agent.key == key), None)
        if agent is None:
            raise BadRow(
                f"no agent {key!r} of {world!r} can be made from this run's settings",
                where="plan.jsonl",
                remedy="restore the file, or start another run",
            )
        return agent

    def agents(self, world: str) -> list[Agent]:
        """Return the agents of a world (made once)."""
        if world not in self._agents:
            settings = self.config.generate
            self._agents[world] = agents_for(
                self.worlds[world], settings.agents, self.config.seed, size=settings.tools
            )
        return self._agents[world]

    async def close(self) -> None:
        """Give the gate's environments back."""
        for name in tuple(self._environments):
            await self._drop(name)

    async def _drop(self, world: str) -> None:
        """Give the gate's environment of a world back; the next candidate gets a new one."""
        environment = self._environments.pop(world, None)
        if environment is not None:
            with suppress(ToolloomError):  # the reason was already counted
                await environment.close()

    def _schedule(self, world: World, blueprint: Blueprint, play_seed: int) -> Schedule | None:
        share = self.config.generate.events
        if not share or not isinstance(world, Eventful):
            return None
        return world.schedule(blueprint, share, play_seed)

    def _draw(self, draw: random.Random) -> tuple[World, Agent, TaskKind]:
        world = self._draw_world(draw)
        kinds = world.kinds()
        shares = self.config.generate.mix
        mix = {kind: shares[kind] for kind in kinds if shares.get(kind, 0) > 0}
        if not mix:
            raise BadConfig(
                f"the mix has no kind that {world.name!r} can do",
                where="generate.mix",
                remedy=f"name others in generate.applications; it can do: {', '.join(kinds)}",
            )
        kind = draw.choices(list(mix), weights=list(mix.values()))[0]
        return world, draw.choice(self.agents(world.name)), kind

    def _draw_world(self, draw: random.Random) -> World:
        settings = self.config.generate
        coding = settings.coding_share
        if coding and draw.random() < coding:
            return self.worlds[CODING]
        live = [w for w in self.worlds.values() if w.real and w.name != CODING]
        simulated = [w for w in self.worlds.values() if not w.real]
        if not live and not simulated:
            return self.worlds[CODING]
        use_live = bool(live) and (not simulated or draw.random() < settings.live_share)
        return draw.choice(live if use_live else simulated)

    def _language(self, draw: random.Random) -> str:
        # In an order that is theirs and not the file's: the fingerprint knows of none.
        shares = {name: w for name, w in sorted(self.config.generate.languages.items()) if w > 0}
        if len(shares) == 1:  # nothing to draw
            return next(iter(shares))
        return draw.choices(list(shares), weights=list(shares.values()))[0]

    async def _candidate(
        self, world: World, agent: Agent, kind: TaskKind, draw: random.Random, decoys: Decoys
    ) -> tuple[Task | None, str]:
        """Return an admitted task, or None and the reason why not; note what the gate tried."""
        state = draw.randrange(self.config.generate.states)
        try:
            language, changes = self._language(draw), self.config.generate.users.changes
            task = await sample_task(world, agent, kind, state, draw, language, changes)
        except NotSuitable as reason:
            return None, f"sampling:{reason.what}"
        if _goal_key(task.blueprint) in self._goals:
            return None, "duplicate"
        environment = self._environments.get(world.name)
        if environment is None:
            environment = self._environments[world.name] = world.environment()
        admission = await admit(task, agent, environment, self.tools[world.name])
        decoys.add(admission.killed)
        return (task, "") if admission.accepted else (None, f"gate:{admission.reason}")


def _goal_key(blueprint: Blueprint) -> int:
    """Return what tells goals apart: one number for each place of the plan stays in memory."""
    key = content_key(
        [
            blueprint.world,
            blueprint.state_seed,
            blueprint.kind,
            blueprint.clauses,
            [fact.value for fact in blueprint.opening],
        ],
        digits=16,
    )
    return int(key, 16)
