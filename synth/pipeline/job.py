"""One whole generation: open the worlds, run the loop, write the report, fill the registry."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import orjson

from simulators.users.model import ModelUser
from simulators.users.scripted import ScriptedUser
from synth.core.config import Config, ModelConfig
from synth.core.errors import BadInput, BadRow
from synth.core.jsonl import write_atomic
from synth.core.protocols import LLM, AgentPlayer, Sampler, UserPlayer, World
from synth.core.seeds import rng
from synth.core.store import Workspace
from synth.core.types import Agent
from synth.pipeline.compose import made_of
from synth.pipeline.generate import (
    Generation,
    Goal,
    MakeAgent,
    MakeUser,
    Progress,
    reference_player,
)
from synth.pipeline.ingest import ingest
from synth.pipeline.worlds import open_worlds
from synth.players import ModelAgent
from synth.reference import ErrorRates
from synth.report import run_report
from synth.run import Planned, Run


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
    models: list[Any] = []
    try:
        players = (_agent_player(config, models), _user_player(config, models))
        with Run(folder, config, made_of(worlds)) as run:
            _write_tools(folder, worlds)
            generation = Generation(
                config,
                worlds,
                run,
                players=players,
                concurrency=concurrency if models else 1,
                on_progress=on_progress,
            )
            await generation.until(goal)
            report = run_report(run, generation.used, worlds)
            report["gave_up"] = generation.gave_up
            run.write_report(report)
        ingest(Workspace(workspace), run, worlds)
    finally:
        for model in models:
            await model.close()
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


def _agent_player(config: Config, models: list[Any]) -> MakeAgent:
    settings = config.models.agent
    if settings is None:
        return reference_player(ErrorRates.uniform(config.generate.errors.rate))
    model, sampler = _open(settings, models)

    def make(planned: Planned, agent: Agent) -> AgentPlayer:
        return ModelAgent(model, sampler)

    return make


def _user_player(config: Config, models: list[Any]) -> MakeUser:
    settings = config.models.user
    if settings is None:
        return lambda planned: ScriptedUser(planned.task.request, rng(planned.seed, "user"))
    model, sampler = _open(settings, models)

    def make(planned: Planned) -> UserPlayer:
        return ModelUser(model, sampler)

    return make


def _open(settings: ModelConfig, models: list[Any]) -> tuple[LLM, Sampler]:
    from synth.core.llm.client import OpenAIModel  # openai takes a second to import

    model = OpenAIModel(settings)
    models.append(model)
    sampler = Sampler(settings.temperature, settings.top_p, settings.max_tokens)
    return model, sampler
