"""Every stored trajectory, made again: its calls on a fresh state must give what the file says.

Nothing of the process that recorded them is left: bytes on disk are compared with what the
applications do today, the faults of a faulty run included.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from synth.core.config import Config
from synth.core.errors import BadInput, BadRow
from synth.core.protocols import World
from synth.core.types import Trajectory
from synth.judge.replay import replay_problem
from synth.pipeline.compose import made_of
from synth.pipeline.engine import staged
from synth.pipeline.worlds import open_worlds
from synth.run import Planned, read_episodes, read_plan, read_settings


@dataclass(slots=True)
class Replayed:
    """What came of a replay."""

    same: int = 0
    """Trajectories whose every result and whose final state are those of the file."""
    differing: dict[str, str] = field(default_factory=dict)
    """Episode -> its first difference."""
    left_out: Counter[str] = field(default_factory=Counter)
    """Trajectories that broke off, by who broke them: nobody knows how far they came."""


async def replay(
    folder: Path, workspace: Path, on_episode: Callable[[Replayed], None] = lambda replayed: None
) -> Replayed:
    """Replay the stored trajectories of a run, accepted or not.

    Args:
        folder: the run folder; it is only read.
        workspace: where crawled servers are, for runs on live ones.
        on_episode: called after each.

    Raises:
        BadInput: the run was made with other applications than those of today.
        BadRow: a row of the run is damaged, or of an episode that the plan does not know.
    """
    settings = read_settings(folder / "config.json")
    config = Config.model_validate(settings["config"])
    plan = {planned.episode: planned for planned in read_plan(folder)}
    worlds = _worlds(config, settings["made_of"], workspace, folder)
    environments = {name: world.environment() for name, world in worlds.items()}
    replayed = Replayed()
    try:
        for episode in read_episodes(folder):
            trajectory = episode.trajectory
            planned = _planned(plan, trajectory, folder)
            if trajectory.fault is not None:
                replayed.left_out[trajectory.fault] += 1
            else:
                world, environment = worlds[planned.world], environments[planned.world]
                environment = staged(environment, world, planned, config.generate.outcomes)
                seed = planned.task.blueprint.state_seed
                problem = await replay_problem(_executed(trajectory), environment, seed)
                if problem is None:
                    replayed.same += 1
                else:
                    replayed.differing[trajectory.episode] = problem
            on_episode(replayed)
    finally:
        for environment in environments.values():
            await environment.close()
        for world in worlds.values():
            await world.close()
    return replayed


def _worlds(
    config: Config, made_of_then: Mapping[str, str], workspace: Path, folder: Path
) -> dict[str, World]:
    """Open the worlds of a run; what was installed since is none of its business."""
    worlds = open_worlds(config, workspace)
    now = made_of(worlds)
    wanted = {what: key for what, key in made_of_then.items() if what.startswith("world ")}
    changed = [what for what, key in sorted(wanted.items()) if now.get(what) != key]
    if changed:
        raise BadInput(
            f"{changed[0]} is another one than this run was made with",
            where=str(folder),
            remedy="replay it with the version that made it",
        )
    return worlds


def _planned(plan: Mapping[str, Planned], trajectory: Trajectory, folder: Path) -> Planned:
    planned = plan.get(trajectory.episode)
    if planned is None:
        what = f"episode {trajectory.episode} is not in the plan"
        raise BadRow(what, where=str(folder), remedy="repeat the generate command")
    return planned


def _executed(trajectory: Trajectory) -> Trajectory:
    """Leave out the calls that were refused before they reached the environment."""
    steps = [
        step
        for step in trajectory.steps
        if step.call.value is not None
        and (step.result.error is None or step.result.error.code != "unknown_tool")
    ]
    return trajectory.model_copy(update={"steps": tuple(steps)})
