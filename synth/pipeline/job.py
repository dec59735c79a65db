"""One whole generation: open the worlds, run the loop, write the report, fill the registry."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from simulators.users.model import ModelUser
from simulators.users.scripted import ScriptedUser
from synth.core.config import Config
from synth.core.errors import BadInput, BadRow, BudgetSpent
from synth.core.jsonl import write_atomic
from synth.core.protocols import LLM, AgentPlayer, ChatRequest, Reply, UserPlayer, World
from synth.core.seeds import rng
from synth.core.store import Workspace
from synth.core.types import Agent
from synth.pipeline.compose import made_of
from synth.pipeline.generate import Generation, reference_player
from synth.pipeline.ingest import ingest
from synth.pipeline.progress import Goal, Progress
from synth.pipeline.worlds import open_worlds
from synth.players import ModelAgent
from synth.reference import ErrorRates
from synth.report import report_page, run_report
from synth.run import Planned, Run

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
                over = asyncio.Event()
                players = _Players(config, models, over)
                generation = Generation(
                    config,
                    worlds,
                    run,
                    players=(players.agent, players.user),
                    concurrency=1 if models is None else concurrency,
                    on_progress=on_progress,
                    over=over,
                )
                async with _watched(models, generation.progress, on_progress):
                    await generation.until(goal)
                report = run_report(run, generation.used, worlds)
                stop = generation.stop
                report |= {"gave_up": stop and stop.why, "remedy": stop and stop.remedy}
                report |= _costs(models)
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


def _costs(models: OpenModels | None) -> dict[str, Any]:
    """Return what models cost, all sessions together, and what this one found in the journal."""
    if models is None or models.journal is None:
        return {"cost": None, "journal": None}
    journal, ledger = models.journal, models.ledger
    found = {"replayed": journal.replayed, "damaged": journal.damaged, "differed": journal.differed}
    return {"cost": {"by_role": ledger.rows(), "total": ledger.total()}, "journal": found}


class _Players:
    """Who plays which role: a model where one is configured, a program otherwise.

    Args:
        config: names the models, and how often the reference agent errs.
        models: those that are open.
        over: set when no model shall be asked any more.
    """

    def __init__(self, config: Config, models: OpenModels | None, over: asyncio.Event) -> None:
        self.models, self.over = models, over
        self._reference = reference_player(ErrorRates.uniform(config.generate.errors.rate))

    def agent(self, planned: Planned, agent: Agent) -> AgentPlayer:
        """Return the agent of an episode."""
        if self.models is None or "agent" not in self.models:
            return self._reference(planned, agent)
        return ModelAgent(self._bound("agent", planned), self.models.sampler("agent"))

    def user(self, planned: Planned) -> UserPlayer:
        """Return the user of an episode."""
        if self.models is None or "user" not in self.models:
            return ScriptedUser(planned.task.request, rng(planned.seed, "user"))
        return ModelUser(self._bound("user", planned), self.models.sampler("user"))

    def _bound(self, role: str, planned: Planned) -> LLM:
        assert self.models is not None
        return _UntilOver(self.models.bound(role, planned.episode), self.over)


class _UntilOver:
    """A model that is asked for nothing more once the run ends: what is under way still arrives."""

    __slots__ = ("_llm", "_over", "name")

    def __init__(self, llm: LLM, over: asyncio.Event) -> None:
        self.name = llm.name
        self._llm, self._over = llm, over

    async def complete(self, request: ChatRequest) -> Reply:
        """Ask the model.

        Raises:
            BudgetSpent: the run is over; the episode is no one's failure.
        """
        if self._over.is_set():
            raise BudgetSpent("the run is over")
        return await self._llm.complete(request)
