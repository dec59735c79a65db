"""Forks of a run: its episodes go on from a place of theirs, as a run of their own.

The plan is made first, from the origin and the configuration alone, and is the truth about what is
played: each row holds what its fork keeps. Then the loop of every generation plays it. So a run of
forks is a run: it resumes, is replayed, reported and exported as any other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from simulators.users.scripted import ScriptedUser
from synth.core.canonical import content_key
from synth.core.config import Config
from synth.core.errors import BadInput, ToolloomError
from synth.core.protocols import Environment, World
from synth.core.seeds import rng, seed
from synth.core.store import Workspace
from synth.core.types import Agent, Fork, Task, ToolSpec
from synth.episode import play_and_judge
from synth.fork import after_calls, calls_in, check_place, cut, places, regimes_of
from synth.pairs import ORIGINS
from synth.pipeline.compose import made_of
from synth.pipeline.engine import staged
from synth.pipeline.ingest import ingest
from synth.pipeline.job import How, carry_out, write_tools
from synth.pipeline.origins import (
    LAST_GOOD,
    RANDOM,
    Origin,
    Wish,
    changed_settings,
    with_persona,
)
from synth.pipeline.progress import Goal
from synth.pipeline.replay import check_worlds
from synth.pipeline.shards import merge_all
from synth.pipeline.worlds import open_worlds
from synth.reference import ReferenceAgent
from synth.rowfile import RowFile
from synth.run import Episode, Planned, Run, read_settings

_ASKED = "forks"
"""What a run of forks is made of besides: what was asked for."""


async def fork(
    origin: Path,
    folder: Path,
    workspace: Path,
    wish: Wish,
    config: Config,
    how: How,
    on_plan: Callable[[int, int], None] = lambda looked_at, forks: None,
) -> dict[str, Any]:
    """Fork episodes of a run, play the forks, and enter them in the registry as a run.

    Args:
        origin: the run folder of the episodes.
        folder: the run folder of the forks; an unfinished run in it is resumed.
        workspace: where the registry and crawled servers are.
        wish: what is forked, and where.
        config: who plays on, with which faults; see `Origin.config`.
        how: where they are played.
        on_plan: called with the number of episodes that were looked at, and of forks planned.

    Returns:
        The report, with `forks`: the origin, and how many episodes have no such place.

    Raises:
        BadInput: the origin was made with other applications than those of today, has no such
            episode or place, or the forks were begun in another way.
    """
    source = Origin(origin)
    changed = changed_settings(source.config, config)
    worlds = open_worlds(config, workspace)
    try:
        check_worlds(worlds, source.made_of, origin, "fork")
        asked = f"{wish} of {source.name} {source.fingerprint}"
        _check_asked(folder, asked)
        with Run(folder, config, made_of(worlds) | {_ASKED: asked}) as run:
            write_tools(folder, worlds)
            await merge_all(run)
            plan = Forks(source, wish, run, worlds, changed)
            try:
                await plan.grow(on_plan)
                goal = Goal(episodes=len(run.plan))
                told = {"origin": source.name, "asked": str(wish), "without_place": plan.skipped}
                more = {"forks": told}
                report = await carry_out(run, worlds, workspace, goal, how, plan, more)
            finally:
                await plan.close()
        ingest(Workspace(workspace), run, worlds)
    finally:
        for world in worlds.values():
            await world.close()
    return report


def _check_asked(folder: Path, asked: str) -> None:
    """Refuse to go on with forks that were asked for in other words; `Run` checks the rest."""
    file = folder / "config.json"
    before = read_settings(file)["made_of"].get(_ASKED) if file.exists() else asked
    if before != asked:
        began = f"begun as: {before}" if before else "a run, and not of forks"
        raise BadInput(
            f"the run there is {began}; not: {asked}",
            where=str(folder),
            remedy="ask for the same, or give another --out name",
        )


class Forks:
    """The plan of a run of forks.

    Args:
        origin: whose episodes are forked.
        wish: which of them, where.
        run: the open run of the forks.
        worlds: by name.
        changed: what its configuration changes.
    """

    def __init__(
        self,
        origin: Origin,
        wish: Wish,
        run: Run,
        worlds: Mapping[str, World],
        changed: tuple[str, ...],
    ) -> None:
        self._origin, self._wish, self._run = origin, wish, run
        self._config, self._worlds, self._changed = run.config, worlds, changed
        self.skipped = 0
        """Episodes that have no such place."""
        self._environments: dict[str, Environment] = {}

    async def grow(self, on_plan: Callable[[int, int], None]) -> None:
        """Add what the plan lacks.

        Raises:
            BadInput: there is nothing to fork.
        """
        rows: dict[str, int] = {}
        last = ""
        for planned in self._run.plan:
            assert planned.prefix is not None
            last = planned.prefix.fork.episode
            rows[last] = rows.get(last, 0) + 1
        kept: set[str] = set()
        origins = RowFile(
            self._run.path / ORIGINS, Episode, seen=lambda row, _: kept.add(row.trajectory.episode)
        )
        looked_at, behind = 0, bool(last)
        try:
            for planned, episode in self._origin.chosen(self._wish, self._config.seed):
                looked_at += 1
                on_plan(looked_at, len(self._run.plan))
                had = rows.get(planned.episode, 0)
                ended = behind and planned.episode != last
                behind = ended
                lacks = not ended and had < self._wish.copies
                place = await self._place(planned, episode) if lacks else None
                self.skipped += not had and place is None
                if (had or place is not None) and planned.episode not in kept:
                    origins.append(episode)
                if place is None:
                    continue
                for number in range(had, self._wish.copies):
                    row = self._row(planned, episode, place, number)
                    self._run.add_plan(row, self.agent(row.world, row.agent))
        finally:
            origins.close()
        on_plan(looked_at, len(self._run.plan))
        if not len(self._run.plan):
            has = f"{looked_at} episodes, none of which has that place" if looked_at else "none"
            raise BadInput(
                f"nothing to fork: of {self._wish} there is {has}",
                where=str(self._origin.folder),
                remedy="name other episodes, or another place",
            )

    # --- one row -----------------------------------------------------------------------------

    def _row(self, planned: Planned, episode: Episode, messages: int, number: int) -> Planned:
        """Return the row of one fork."""
        trajectory, config = episode.trajectory, self._config
        path = (config.seed, "fork", planned.episode, number)
        same = number == 0 and config.seed == self._origin.config.seed
        play_seed = planned.seed if same else seed(*path)
        task, other = with_persona(planned.task, self._wish.persona, *path)
        calls = calls_in(trajectory, messages)
        regimes = regimes_of(
            trajectory.steps[:calls],
            planned.prefix.regimes if planned.prefix else (),
            (self._origin.config.generate.outcomes, planned.seed),
            (config.generate.outcomes, play_seed),
        )
        where = Fork(
            run=self._origin.name,
            episode=planned.episode,
            messages=messages,
            calls=calls,
            number=number,
            changed=(*self._changed, *other),
        )
        prefix = cut(trajectory, where, regimes)
        if episode.imagined is not None:
            prefix = prefix.model_copy(update={"imagined": episode.imagined.calls})
        return Planned(
            episode=_identity(task, play_seed, where, self._run.fingerprint),
            index=len(self._run.plan),
            world=planned.world,
            agent=planned.agent,
            task=task,
            seed=play_seed,
            prefix=prefix,
            schedule=planned.schedule,
        )

    async def _place(self, planned: Planned, episode: Episode) -> int | None:
        """Return how many messages of an episode are kept; None where it has no such place.

        Raises:
            BadInput: it has not, and was asked for by name.
        """
        trajectory, named = episode.trajectory, bool(self._wish.episodes)
        wanted = self._wish.place()
        if wanted is not None:
            kind, number = wanted
            try:
                kept = after_calls(trajectory, number) if kind == "calls" else number
                check_place(trajectory, kept)
            except BadInput:
                if named:
                    raise
                return None
            return kept
        if self._wish.at == RANDOM:
            found = places(trajectory)
            draw = rng(self._config.seed, "fork", "place", planned.episode)
            place = draw.choice(found) if found else None
        else:
            place = await self._last_good(planned, episode)
        if place is None and named:
            why = "the agent has no turn"
            if self._wish.at == LAST_GOOD:
                why = "the reference agent brings it to a pass from no place"
            raise BadInput(why, where=f"episode {planned.episode}", remedy="name another --at")
        return place

    async def _last_good(self, planned: Planned, episode: Episode) -> int | None:
        """Return the last place from which the reference agent brings the episode to a pass.

        It is looked for by playing: nothing else knows what can still be mended.
        """
        for place in reversed(places(episode.trajectory)):
            row = self._row(planned, episode, place, 0)
            if await self._passes(row):
                return place
        return None

    async def _passes(self, row: Planned) -> bool:
        world, agent = self._worlds[row.world], self.agent(row.world, row.agent)
        environment = self._environments.get(row.world)
        if environment is None:
            environment = self._environments[row.world] = world.environment()
        tools: dict[str, ToolSpec] = {tool.name: tool for tool in world.tools()}
        _, verdict = await play_and_judge(
            tools,
            task=row.task,
            agent=agent,
            environment=staged(environment, world, row, self._config.generate.outcomes),
            agent_player=ReferenceAgent(row.task, agent, rng(row.seed, "agent")),
            user_player=ScriptedUser(row.task.request, rng(row.seed, "user")),
            limits=self._config.generate.limits,
            episode=row.episode,
            seed=row.seed,
            prefix=row.prefix,
        )
        return verdict.passed is True

    # --- what the loop asks of who makes its plan ---------------------------------------------

    def remember(self, planned: Planned) -> None:
        """Note a row that is in the plan: there is nothing to note."""

    async def planned(self, index: int, on_try: Callable[[], None] | None = None) -> Planned:
        """Refuse to make a row: all of them are there before the first is played."""
        raise ToolloomError("the plan of forks has no more rows", where=f"plan row {index}")

    def agent(self, world: str, key: str) -> Agent:
        """Return the agent of an episode of the origin.

        Raises:
            BadRow: its row is lost.
        """
        return self._origin.agent(key)

    async def close(self) -> None:
        """Give the environments back."""
        for name in tuple(self._environments):
            await self._environments.pop(name).close()


def _identity(task: Task, play_seed: int, where: Fork, fingerprint: str) -> str:
    """Return the identity of a fork: the place counts, what led there is its origin's."""
    place = [where.episode, where.messages, where.number]
    return content_key([task.key, play_seed, fingerprint, *place], digits=16)
