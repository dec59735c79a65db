"""One whole generation: open the worlds, run the loop, write the report, fill the registry."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from synth.core.config import Config
from synth.core.errors import BadInput, BadRow
from synth.core.jsonl import write_atomic
from synth.core.protocols import World
from synth.core.store import Workspace
from synth.pipeline.auditing import audited
from synth.pipeline.cast import Books, Cast, costs
from synth.pipeline.compose import made_of
from synth.pipeline.engine import Engine, LocalEngine, Workers
from synth.pipeline.generate import Generation, Planner
from synth.pipeline.ingest import ingest
from synth.pipeline.progress import Goal, Progress
from synth.pipeline.shards import merge_all
from synth.pipeline.worlds import open_worlds
from synth.report import report_page, run_report
from synth.run import Run

TICK_S = 1.0
"""Seconds between two looks at what models cost and wait for."""
Opened = tuple[Engine, Books | None]
"""Who plays, and what models cost; None where none plays."""


@dataclass(frozen=True, slots=True)
class How:
    """How a run is played: it decides nothing about what comes out."""

    concurrency: int = 1
    """Episodes in flight when models play; programs gain nothing from it."""
    on_progress: Callable[[Progress], None] = lambda progress: None
    """Called often."""
    workers: Workers | None = None
    """Who plays the episodes; this process does if left out."""


async def generate(
    config: Config,
    folder: Path,
    workspace: Path,
    goal: Goal,
    *,
    concurrency: int = 1,
    on_progress: Callable[[Progress], None] = lambda progress: None,
    workers: Workers | None = None,
) -> dict[str, Any]:
    """Generate until the goal is met, write `report.json`, and enter the run in the registry.

    Args:
        config: what to generate, and who plays.
        folder: the run folder; an unfinished run in it is resumed.
        workspace: where the registry and crawled servers are.
        goal: so many accepted episodes, or so many episodes.
        concurrency: episodes in flight when models play; programs gain nothing from it.
        on_progress: called often.
        workers: who plays the episodes; this process does if left out. The result is the same.

    Returns:
        The report. `gave_up` says why fewer were accepted than wanted; None where they were.

    Raises:
        BadInput: the run was started with other settings, or with other tools.
    """
    worlds = open_worlds(config, workspace)
    try:
        with Run(folder, config, made_of(worlds)) as run:
            write_tools(folder, worlds)
            await merge_all(run)
            how = How(concurrency, on_progress, workers)
            report = await carry_out(run, worlds, workspace, goal, how)
        ingest(Workspace(workspace), run, worlds)
    finally:
        for world in worlds.values():
            await world.close()
    return report


async def carry_out(
    run: Run,
    worlds: Mapping[str, World],
    workspace: Path,
    goal: Goal,
    how: How,
    planner: Planner | None = None,
    more: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Play the episodes of an open run until the goal is met, and write its report.

    Args:
        run: an unfinished one is resumed.
        worlds: by name.
        workspace: where the registry and crawled servers are.
        goal: so many accepted episodes, or so many episodes.
        how: where they are played.
        planner: makes the plan; by default it is sampled.
        more: what else the report says.

    Returns:
        The report.
    """
    config = run.config
    if how.workers is None:
        opened = _here(config, worlds, run, workspace, how.concurrency)
    else:
        from synth.pipeline.ray_engine import hired  # an extra, and slow to import

        of = made_of(worlds)
        opened = hired(config, run, workspace, how.workers, goal, how.concurrency, of)
    async with opened as (engine, books):
        generation = Generation(
            config, worlds, run, engine, on_progress=how.on_progress, planner=planner
        )
        async with _watched(books, generation.progress, how.on_progress):
            await generation.until(goal)
        report = run_report(run, generation.used, worlds)
        stop = generation.stop
        report |= {"gave_up": stop and stop.why, "remedy": stop and stop.remedy}
        report |= costs(books) | dict(more or {})
        report["audit"] = await audited(run, generation.used, worlds, config)
        run.write_report(report, report_page(report))
    return report


def write_tools(folder: Path, worlds: Mapping[str, World]) -> None:
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
async def _here(
    config: Config, worlds: Mapping[str, World], run: Run, workspace: Path, concurrency: int
) -> AsyncIterator[Opened]:
    """Open the models of a run and its journal, where models play, to play in this process."""
    if not config.models.roles():
        yield LocalEngine(config, worlds), None
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
            cast = Cast(config, models)
            yield LocalEngine(config, worlds, cast=cast, concurrency=concurrency), models
        finally:
            await models.close()
    finally:
        journal.close()


@asynccontextmanager
async def _watched(
    books: Books | None, progress: Progress, on_progress: Callable[[Progress], None]
) -> AsyncIterator[None]:
    """Tell every second what models cost so far and wait for, also while nothing ends."""

    async def look() -> None:
        while books is not None:
            progress.spent, progress.waiting = books.ledger.total(), books.waiting()
            on_progress(progress)
            await asyncio.sleep(TICK_S)

    looking = asyncio.create_task(look())
    try:
        yield
    finally:
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)
