"""The tasks of a run that were accepted, proved again: of the gate, nothing is even imported."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import orjson
from pydantic import ValidationError

from synth.audit_tasks import prove_task
from synth.core.config import Config
from synth.core.errors import BadInput, BadRow
from synth.core.protocols import Environment, World
from synth.pipeline.worlds import LIVE, open_worlds
from synth.run import Planned, Written, read_settings


async def recheck(
    folder: Path, workspace: Path, tell: Callable[[int, int], None] = lambda done, of: None
) -> dict[str, Any]:
    """Prove every task of a run that has an accepted episode.

    Args:
        folder: of the run; it is only read.
        workspace: where crawled servers are.
        tell: hears how many places of the plan are done, and how many there are.

    Returns:
        `tasks`; `gold` and `idle`: episode -> what is wrong with its task; `left_out`: tasks on
        servers that are not here.

    Raises:
        BadInput: no episode of the run was accepted, or its applications are others today.
        BadRow: a file of the run is damaged.
    """
    run = Written(folder)
    try:
        config = Config.model_validate(read_settings(folder / "config.json")["config"])
    except ValidationError as error:
        raise BadRow("its configuration is of another version", where=str(folder)) from error
    worlds = open_worlds(config, workspace, absent=True)
    absent = {kind.name for kind in LIVE} - worlds.keys()
    gold: dict[str, str] = {}
    idle: dict[str, str] = {}
    left_out: Counter[str] = Counter()
    environments: dict[str, Environment] = {}
    seen: set[str] = set()
    async with AsyncExitStack() as stack:
        for world in worlds.values():
            stack.push_async_callback(world.close)
        _check(folder, worlds)
        for planned in _accepted(run, tell):
            if planned.task.key in seen:
                continue
            if planned.world in absent:
                left_out[planned.world] += 1
                continue
            seen.add(planned.task.key)
            if planned.world not in environments:
                environments[planned.world] = worlds[planned.world].environment()
                stack.push_async_callback(environments[planned.world].close)
            environment = environments[planned.world]
            found = await prove_task(planned.task, run.agents[planned.agent], environment)
            if found.gold is not None:
                gold[planned.episode] = found.gold
            if found.idle is not None:
                idle[planned.episode] = f"says {found.idle[:80]!r}"
    if not seen and not left_out:
        what = "no episode of the run was accepted"
        raise BadInput(what, where=str(folder), remedy="repeat the command that made it")
    return {"tasks": len(seen), "gold": gold, "idle": idle, "left_out": dict(left_out)}


def _accepted(run: Written, tell: Callable[[int, int], None]) -> Iterator[Planned]:
    for number, planned in enumerate(run.plan):
        tell(number + 1, len(run.plan))
        episode = run.episodes.get(planned.episode)
        if episode is not None and episode.verdict.passed:
            yield planned


def _check(folder: Path, worlds: Mapping[str, World]) -> None:
    """Raise `BadInput` where a world's tools are others than those the run was made with."""
    path = folder / "tools.json"
    try:
        made = dict(orjson.loads(path.read_bytes()))
    except (OSError, TypeError, ValueError) as error:
        raise BadRow(f"not a run's tools: {error}", where=str(path)) from error
    for name, world in worlds.items():
        today = {tool.name: tool.model_dump(mode="json") for tool in world.tools()}
        if made.get(name) not in (None, today):
            what = f"the tools of {name!r} are others today than those of the run"
            raise BadInput(what, where=str(folder), remedy="generate it again")
