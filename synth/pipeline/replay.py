"""Every stored trajectory, made again: its calls on a fresh state must give what the file says.

Nothing of the process that recorded them is left: bytes on disk are compared with what the
applications do today, the faults of a faulty run included. Tools that a model played are played
again by its recorded replies: code makes them happen once more, and no model is asked. Episodes of
a live server that is not here are compared with their own record.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import orjson
from pydantic import ValidationError

from simulators.imagined.world import ImaginedWorld
from simulators.recorded import Recorded, tape
from synth.core.config import Config
from synth.core.errors import BadInput, BadRow
from synth.core.protocols import Environment, World
from synth.core.types import ToolSpec, Trajectory
from synth.fork import reached
from synth.judge.form import record_problem
from synth.judge.replay import replay_problem
from synth.pipeline.compose import made_of, world_key
from synth.pipeline.engine import staged
from synth.pipeline.worlds import LIVE, open_worlds
from synth.run import Episode, Planned, read_episodes, read_plan, read_settings


@dataclass(slots=True)
class Replayed:
    """What came of a replay."""

    planned: int = 0
    """Episodes that the run shall have."""
    same: int = 0
    """Trajectories whose every result and whose final state are those of the file, and whose
    dialogue, if it was accepted, says the same as the record of its calls."""
    differing: dict[str, str] = field(default_factory=dict)
    """Episode -> its first difference."""
    left_out: Counter[str] = field(default_factory=Counter)
    """Trajectories that broke off, by who broke them: nobody knows how far they came."""
    from_record: int = 0
    """Of `same`, those whose server is not here: their record agrees with itself."""
    doubled: int = 0
    """Rows of episodes that had one already."""


async def replay(
    folder: Path, workspace: Path, on_episode: Callable[[Replayed], None] = lambda replayed: None
) -> Replayed:
    """Replay the stored trajectories of a run, accepted or not; the run may be going on.

    Args:
        folder: the run folder; it is only read.
        workspace: where crawled servers are, for runs on live ones.
        on_episode: called after each.

    Raises:
        BadInput: the run was made with other applications than those of today, or has no episode.
        BadRow: a row of the run is damaged, or of an episode that the plan does not know.
    """
    plan: dict[str, Planned] = {}
    replayed, seen = Replayed(), set[str]()
    async with Stage(folder, workspace, "replay") as stage:
        for episode in read_episodes(folder):
            name = episode.trajectory.episode
            if name not in plan:  # the first one, or of a run that goes on
                plan |= {planned.episode: planned for planned in read_plan(folder)}
                replayed.planned = len(plan)
            replayed.doubled += name in seen
            seen.add(name)
            planned = _planned(plan, name, folder)
            same = replayed.same
            async with stage.set_for(episode, planned) as environment:
                await _compare(episode, planned, environment, replayed)
            if planned.world in stage.absent:
                replayed.from_record += replayed.same - same
            on_episode(replayed)
    if not seen:
        what = "the run has no finished episode"
        raise BadInput(what, where=str(folder), remedy="repeat the command that made it")
    return replayed


class Stage:
    """The worlds of a run as they are today, in which its episodes are made again.

    Args:
        folder: of the run.
        workspace: where crawled servers are, for runs on live ones.
        wish: what is to be done with the run, in one verb.

    Raises:
        BadInput: the run was made with other applications than those of today.
        BadRow: its configuration is damaged, or of another version.
    """

    def __init__(self, folder: Path, workspace: Path, wish: str) -> None:
        settings = read_settings(folder / "config.json")
        self._config = config_of(settings["config"], folder, wish)
        self._folder = folder
        self._worlds = open_worlds(self._config, workspace, absent=True)
        self.absent = {kind.name for kind in LIVE} - self._worlds.keys()
        """Live worlds that are not here: their episodes are met by their own record."""
        made = settings["made_of"].items()
        made = {k: v for k, v in made if k not in map(world_key, self.absent)}
        check_worlds(self._worlds, made, folder, wish)
        self._environments: dict[str, Environment] = {}

    async def __aenter__(self) -> Self:
        """Open the environments."""
        self._environments = {name: world.environment() for name, world in self._worlds.items()}
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close them, and the worlds."""
        for environment in self._environments.values():
            await environment.close()
        for world in self._worlds.values():
            await world.close()

    @asynccontextmanager
    async def set_for(self, episode: Episode, planned: Planned) -> AsyncIterator[Environment]:
        """Give an environment as the episode met it, faults and events included."""
        if planned.world in self.absent:
            yield _recorded(episode, planned, self._folder)
            return
        world = self._worlds[planned.world]
        played = _played(world, episode)
        environment = played or self._environments[planned.world]
        yield staged(environment, world, planned, self._config.generate.outcomes)
        if played is not None:
            await played.close()


def _played(world: World, episode: Episode) -> Environment | None:
    """Return the tools of an episode that a model played, to be played by its recorded replies."""
    if not isinstance(world, ImaginedWorld) or episode.imagined is None:
        return None
    environment = world.imagined(None)
    environment.recall(episode.imagined.calls)
    return environment


def _recorded(episode: Episode, planned: Planned, folder: Path) -> Environment:
    """Return the record of an episode as an environment.

    Raises:
        BadRow: the run's tools, or the record, are damaged.
    """
    file = folder / "tools.json"
    try:
        shown = orjson.loads(file.read_bytes())[planned.world]
        specs = [ToolSpec.model_validate(spec) for spec in shown.values()]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadRow(f"not a run's tools: {error}", where=str(file)) from error
    trajectory = episode.trajectory
    taped = tape(trajectory, planned.task.blueprint.state_seed)
    return Recorded([taped], specs, real=trajectory.real)


async def _compare(
    episode: Episode, planned: Planned, environment: Environment, replayed: Replayed
) -> None:
    trajectory = episode.trajectory
    if trajectory.fault is not None:
        replayed.left_out[trajectory.fault] += 1
        return
    problem = record_problem(trajectory) if episode.verdict.passed else None
    if problem is None:
        blueprint = planned.task.blueprint
        problem = await replay_problem(
            _executed(trajectory), environment, blueprint.state_seed, blueprint.user
        )
    if problem is None:
        replayed.same += 1
    else:
        replayed.differing[trajectory.episode] = problem


def config_of(raw: dict[str, Any], folder: Path, wish: str) -> Config:
    """Return the configuration of a run.

    Args:
        raw: as its file has it.
        folder: of the run.
        wish: what is to be done with it, in one verb.

    Raises:
        BadRow: it is of another version.
    """
    try:
        return Config.model_validate(raw)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise BadRow(
            f"not a configuration of this version: {place}: {first['msg']}",
            where=str(folder / "config.json"),
            remedy=f"{wish} it with the version that made it",
        ) from error


def check_worlds(
    worlds: Mapping[str, World], made_of_then: Mapping[str, str], folder: Path, wish: str
) -> None:
    """Refuse worlds that are others by now; what was installed since is none of its business.

    Args:
        worlds: of today, by name.
        made_of_then: what the run was made of.
        folder: of the run.
        wish: what is to be done with it, in one verb.

    Raises:
        BadInput: a world has changed.
    """
    now = made_of(worlds)
    wanted = {what: key for what, key in made_of_then.items() if what.startswith("world ")}
    changed = [what for what, key in sorted(wanted.items()) if now.get(what) != key]
    if changed:
        raise BadInput(
            f"{changed[0]} is another one than this run was made with",
            where=str(folder),
            remedy=f"{wish} it with the version that made it",
        )


def _planned(plan: Mapping[str, Planned], name: str, folder: Path) -> Planned:
    planned = plan.get(name)
    if planned is None:
        what = f"episode {name} is not in the plan"
        raise BadRow(what, where=str(folder), remedy="repeat the command that made it")
    return planned


def _executed(trajectory: Trajectory) -> Trajectory:
    """Leave out the calls that were refused before they reached the environment."""
    return trajectory.model_copy(update={"steps": tuple(filter(reached, trajectory.steps))})
