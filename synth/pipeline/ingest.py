"""Enters a run's files in the registry: one transaction, idempotent, the files stay the truth."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import duckdb
import orjson

from synth.core.canonical import canonical
from synth.core.protocols import World
from synth.core.store import Workspace, insert, now
from synth.core.types import Agent, Task
from synth.pipeline.worlds import register_in
from synth.run import Episode, Planned, Run

Row = TypeVar("Row")
BATCH = 500
"""Rows that are in memory at once."""
_OF_AN_EPISODE = ("episodes", "steps", "verdicts")
_OF_A_RUN = ("runs", "run_tools", "plans", *_OF_AN_EPISODE)


def ingest(workspace: Workspace, done: Run, worlds: Mapping[str, World]) -> None:
    """Replace what the registry knows of a run by what is in its files.

    Args:
        workspace: has the registry.
        done: the run, as its files were read and written by this process; it may be closed.
        worlds: of the run; applications among them are entered where they are new or changed.

    Raises:
        StoreLocked: the registry stayed open elsewhere; the run's files are complete, and the
            same command enters them later.
    """
    folder, run = done.path, done.path.name
    with workspace.write() as con:
        register_in(con, worlds)
        for table in _OF_A_RUN:
            con.execute(f"DELETE FROM {table} WHERE run = ?", [run])
        insert(con, "runs", [_run_row(done)])
        insert(con, "run_tools", _tool_rows(run, folder))
        _agents(con, {agent.key: agent for agent in done.agents.values()})
        _plan(con, run, done.plan)
        for some in _batches(_rows(run, episode) for episode in done.episodes):
            for table in _OF_AN_EPISODE:
                insert(con, table, (row for rows in some for row in rows[table]))


def _batches(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """Yield all of them, not all at once: a run may be larger than the memory."""
    source = iter(rows)
    while some := list(islice(source, BATCH)):
        yield some


def _run_row(run: Run) -> dict[str, Any]:
    report = run.path / "report.json"
    return {
        "run": run.path.name,
        "path": str(run.path),
        "fingerprint": run.fingerprint,
        "config": run.config.model_dump_json(),
        "report": report.read_text(encoding="utf-8") if report.exists() else None,
        "ingested_at": now(),
    }


def _tool_rows(run: str, folder: Path) -> Iterable[dict[str, Any]]:
    from synth.pipeline.export import run_tools

    for world, tools in run_tools(folder).items():
        for name, spec in tools.items():
            yield {"run": run, "application": world, "name": name, "spec": spec.key}


def _plan(con: duckdb.DuckDBPyConnection, run: str, plan: Iterable[Planned]) -> None:
    """Enter the places of a plan, and those of their tasks that are new."""
    seen: set[str] = set()
    for some in _batches(plan):
        new = [planned for planned in some if planned.episode not in seen]
        seen.update(planned.episode for planned in new)
        keys = [planned.task.key for planned in new]
        pairs = list(zip(keys, new, strict=True))
        insert(con, "plans", (_plan_row(run, key, planned) for key, planned in pairs))
        unknown = _unknown(con, "tasks", "task", keys)
        _tasks(con, {key: planned.task for key, planned in pairs if key in unknown})


def _plan_row(run: str, key: str, planned: Planned) -> dict[str, Any]:
    return {
        "run": run,
        "episode": planned.episode,
        "position": planned.index,
        "task": key,
        "agent": planned.agent,
    }


def _unknown(
    con: duckdb.DuckDBPyConnection, table: str, key: str, found: Iterable[str]
) -> set[str]:
    """Return which keys a table lacks. What is named by its content is entered once."""
    keys = set(found)
    query = f"SELECT {key} FROM {table} WHERE {key} IN (SELECT unnest($1))"
    return keys - {row[0] for row in con.execute(query, [list(keys)]).fetchall()}


def _agents(con: duckdb.DuckDBPyConnection, agents: Mapping[str, Agent]) -> None:
    toolsets: dict[str, dict[str, Any]] = {}
    rows, links = [], []
    unknown = _unknown(con, "agents", "agent", agents)
    for agent in (agent for key, agent in agents.items() if key in unknown):
        names = orjson.dumps(agent.tools).decode()
        toolset = f"{agent.application}/{canonical(sorted(agent.tools))}"
        toolsets[toolset] = {
            "toolset": toolset,
            "application": agent.application,
            "tools": names,
        }
        rows.append(
            {
                "agent": agent.key,
                "application": agent.application,
                "toolset": toolset,
                "behaviour": agent.behaviour.name,
                "system": agent.system,
                "document": agent.model_dump_json(),
            }
        )
        links += [
            {"agent": agent.key, "position": position, "name": name}
            for position, name in enumerate(agent.tools)
        ]
    insert(con, "toolsets", toolsets.values(), conflict="nothing")
    insert(con, "agents", rows)
    insert(con, "agent_tools", links)


def _tasks(con: duckdb.DuckDBPyConnection, tasks: Mapping[str, Task]) -> None:
    insert(con, "tasks", (_task_row(key, task) for key, task in tasks.items()))
    criteria = {
        (key, criterion.id): {
            "task": key,
            "criterion": criterion.id,
            "level": criterion.level,
            "kind": criterion.check.kind,
            "text": criterion.text,
            "document": criterion.model_dump_json(),
        }
        for key, task in tasks.items()
        for criterion in task.rubric.criteria()
    }
    insert(con, "criteria", criteria.values())


def _task_row(key: str, task: Task) -> dict[str, Any]:
    return {
        "task": key,
        "world": task.blueprint.world,
        "kind": str(task.blueprint.kind),
        "difficulty": task.difficulty,
        "language": task.persona.language,
        "state_seed": task.blueprint.state_seed,
        "request": task.request,
        "persona": task.persona.model_dump_json(),
        "blueprint": task.blueprint.model_dump_json(),
    }


def _rows(run: str, episode: Episode) -> dict[str, list[dict[str, Any]]]:
    """Return what each table of `_OF_AN_EPISODE` has of an episode, which need not be kept then."""
    return {
        "episodes": [_episode_row(run, episode)],
        "steps": list(_step_rows(run, episode)),
        "verdicts": [_verdict_row(run, episode)],
    }


def _episode_row(run: str, episode: Episode) -> dict[str, Any]:
    trajectory = episode.trajectory
    return {
        "run": run,
        "episode": trajectory.episode,
        "task": trajectory.task,
        "agent": trajectory.agent,
        "world": trajectory.world,
        "kind": str(trajectory.kind),
        "real": trajectory.real,
        "seed": trajectory.seed,
        "stop": str(trajectory.stop),
        "fault": str(trajectory.fault) if trajectory.fault else None,
        "error": trajectory.error,
        "players": canonical(trajectory.players),
        "usage": canonical({role: u.model_dump() for role, u in trajectory.usage.items()}),
        "diff": orjson.dumps(trajectory.diff).decode(),
        "messages": orjson.dumps([m.openai() for m in trajectory.messages]).decode(),
    }


def _step_rows(run: str, episode: Episode) -> Iterable[dict[str, Any]]:
    for position, step in enumerate(episode.trajectory.steps):
        error = step.result.error
        yield {
            "run": run,
            "episode": episode.trajectory.episode,
            "position": position,
            "message": step.message,
            "name": step.call.name,
            "arguments": step.call.arguments,
            "ok": step.result.ok,
            "error": error.code if error else None,
            "outcome": step.result.outcome,
            "effect": str(step.effect),
            "state": step.state,
            "content": step.result.content,
            "actor": step.by,
        }


def _verdict_row(run: str, episode: Episode) -> dict[str, Any]:
    verdict = episode.verdict
    return {
        "run": run,
        "episode": verdict.episode,
        "passed": verdict.passed,
        "reason": verdict.reason,
        "fault": str(verdict.fault) if verdict.fault else None,
        "results": canonical(
            [{"id": r.id, "passed": r.passed, "evidence": r.evidence} for r in verdict.results]
        ),
    }
