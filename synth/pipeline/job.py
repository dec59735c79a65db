"""One whole generation: open the worlds, run the loop, write the report, fill the registry."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from synth.core.config import Config
from synth.core.errors import BadInput, BadRow
from synth.core.jsonl import write_atomic
from synth.core.protocols import World
from synth.core.store import Workspace
from synth.pipeline.cast import Cast
from synth.pipeline.compose import made_of
from synth.pipeline.generate import Generation
from synth.pipeline.ingest import ingest
from synth.pipeline.progress import Goal, Progress
from synth.pipeline.worlds import open_worlds
from synth.report import report_page, run_report
from synth.run import Run

if TYPE_CHECKING:
    from synth.core.llm.open import OpenModels  # openai takes a second to import

TICK_S = 1.0
"""Seconds between two looks at what models cost and wait for."""


async def generate(
    config: Config,
    folder: Path,
    workspace: Path,
    goal: Goal,
    *,
    concurrency: int = 1,
    on_progress: Callable[[Progress], None] = lambda progress: None,
) -> dict[str, Any]:
    """Generate until the goal is met, write `report.json`, and enter the run in the registry.

    Args:
        config: what to generate, and who plays.
        folder: the run folder; an unfinished run in it is resumed.
        workspace: where the registry and crawled servers are.
        goal: so many accepted episodes, or so many episodes.
        concurrency: episodes in flight when models play; programs gain nothing from it.
        on_progress: called often.

    Returns:
        The report. `gave_up` says why fewer were accepted than wanted; None where they were.

    Raises:
        BadInput: the run was started with other settings, or with other tools.
    """
    worlds = open_worlds(config, workspace)
    try:
        with Run(folder, config, made_of(worlds)) as run:
            _write_tools(folder, worlds)
            async with _opened(config, run, workspace) as models:
                cast = Cast(config, models)
                generation = Generation(
                    config,
                    worlds,
                    run,
                    players=(cast.agent, cast.user),
                    concurrency=1 if models is None else concurrency,
                    on_progress=on_progress,
                    cast=cast,
                )
                async with _watched(models, generation.progress, on_progress):
                    await generation.until(goal)
                report = run_report(run, generation.used, worlds)
                stop = generation.stop
                report |= {"gave_up": stop and stop.why, "remedy": stop and stop.remedy}
                report |= cast.costs()
                run.write_report(report, report_page(report))
        ingest(Workspace(workspace), run, worlds)
    finally:
        for world in worlds.values():
            await world.close()
    return report


def _write_tools(folder: Path, worlds: Mapping[str, World]) -> None:
    """Keep the tools as shown: a later version of an application must not change an old dataset.

    Raises:
        BadInput: the run was started with other tools; its episodes and new ones would not mix.
    """
    path = folder / "tools.json"
    shown = {
        name: {tool.name: tool.model_dump(mode="json") for tool in world.tools()}
        for name, world in worlds.items()
    }
    if not path.exists():
        write_atomic(path, orjson.dumps(shown))
        return
    try:
        before = dict(orjson.loads(path.read_bytes()))
    except (orjson.JSONDecodeError, TypeError, ValueError) as error:
        raise BadRow(f"not a run's tools: {error}", where=str(path)) from error
    changed = [name for name in sorted({*before, *shown}) if before.get(name) != shown.get(name)]
    if changed:
        raise BadInput(
            f"the tools of {', '.join(map(repr, changed))} are not those this run was started with",
            where=str(folder),
            remedy="give another --run name",
        )


@asynccontextmanager
async def _opened(config: Config, run: Run, workspace: Path) -> AsyncIterator[OpenModels | None]:
    """Open the models of a run and its journal; None where no model plays."""
    if not config.models.roles():
        yield None
        return
    from synth.core.llm.journal import Journal
    from synth.core.llm.open import OpenModels  # openai takes a second to import

    journal = Journal(run.path, finished=run.episodes)
    try:
        models = OpenModels(
            config.models,
            budget=config.budget,
            journal=journal,
            folders=[workspace / "cache" / "models"],
        )
        try:
            yield models
        finally:
            await models.close()
    finally:
        journal.close()


@asynccontextmanager
async def _watched(
    models: OpenModels | None, progress: Progress, on_progress: Callable[[Progress], None]
) -> AsyncIterator[None]:
    """Tell every second what models cost so far and wait for, also while nothing ends."""

    async def look() -> None:
        while models is not None:
            progress.spent, progress.waiting = models.ledger.total(), models.waiting()
            on_progress(progress)
            await asyncio.sleep(TICK_S)

    looking = asyncio.create_task(look())
    try:
        yield
    finally:
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)
