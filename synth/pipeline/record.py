"""Enters exports, training runs and evaluations in the registry, so that rows lead to models.

`SELECT * FROM tool_usage` then says which rows of which dataset used a version of a tool, and which
model was trained on them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from synth.core.canonical import canonical, content_key
from synth.core.store import Workspace, insert, now
from synth.dataset import accepted
from synth.run import read_episodes, read_plan


@dataclass(frozen=True, slots=True)
class Training:
    """A training run that has ended."""

    method: str
    """sft or rl."""
    model: str
    """What it started from."""
    dataset: Path | None
    """The file that was learned from, if it was a file."""
    config: Mapping[str, Any]
    report: Mapping[str, Any]
    started_at: datetime
    step: int
    checkpoint: Path


def record_export(
    workspace: Workspace,
    run: Path,
    files: Mapping[str, int],
    episodes: Mapping[str, Sequence[str]] | None = None,
) -> None:
    """Enter the files of an export.

    Args:
        workspace: whose registry.
        run: the run folder.
        files: path -> number of rows.
        episodes: path -> the episode of each row; the first accepted ones if left out.

    Raises:
        StoreLocked: the registry stayed open elsewhere; the files are complete all the same.
    """
    if episodes is None:
        found = {episode.trajectory.episode: episode for episode in read_episodes(run)}
        rows = accepted(read_plan(run), found, max(files.values(), default=0))
        first = [planned.episode for planned, _ in rows]
        episodes = {name: first[:count] for name, count in files.items()}
    with workspace.write() as con:
        for name in files:
            path = Path(name).resolve()
            export = {
                "export": content_key([run.name, str(path), _sha256(path)], digits=16),
                "run": run.name,
                "format": path.suffix.removeprefix("."),
                "path": str(path),
                "sha256": _sha256(path),
                "created_at": now(),
            }
            insert(con, "exports", [export], conflict="replace")
            of_export = (
                {
                    "export": export["export"],
                    "row": number,
                    "run": run.name,
                    "episode": episode,
                }
                for number, episode in enumerate(episodes[name])
            )
            insert(con, "export_rows", of_export, conflict="replace")


def record_training(workspace: Workspace, training: Training) -> None:
    """Enter a training run and its checkpoint; a dataset is recognised by its content.

    Raises:
        StoreLocked: the registry stayed open elsewhere; the checkpoint is there all the same.
    """
    digest = _sha256(training.dataset) if training.dataset else None
    path = str(training.checkpoint.resolve())
    key = content_key([path, training.step, training.started_at.isoformat()], digits=16)
    with workspace.write() as con:
        found = con.execute(
            "SELECT export FROM exports WHERE sha256 = ? ORDER BY created_at DESC LIMIT 1",
            [digest],
        ).fetchall()
        run = {
            "training": key,
            "method": training.method,
            "model": training.model,
            "export": found[0][0] if found else None,
            "config": canonical(training.config),
            "report": canonical(training.report),
            "started_at": training.started_at,
        }
        checkpoint = {
            "checkpoint": f"{key}@{training.step}",
            "training": key,
            "step": training.step,
            "path": path,
            "created_at": now(),
        }
        insert(con, "training_runs", [run])
        insert(con, "checkpoints", [checkpoint])


def record_evaluation(workspace: Workspace, model: str, result: Mapping[str, Any]) -> None:
    """Enter an evaluation.

    Args:
        workspace: where.
        model: name or path, as the user gave it; a checkpoint of ours is recognised by its path.
        result: `application`, `n`, `passed`, `unscored`, and more that is kept as it is.

    Raises:
        StoreLocked: the registry stayed open elsewhere.
    """
    at = now()
    with workspace.write() as con:
        found = con.execute(
            "SELECT checkpoint FROM checkpoints WHERE path = ? ORDER BY created_at DESC LIMIT 1",
            [str(Path(model).resolve())],
        ).fetchall()
        row = {
            "evaluation": content_key([model, result, at.isoformat()], digits=16),
            "model": model,
            "checkpoint": found[0][0] if found else None,
            "application": result["application"],
            "n": result["n"],
            "passed": result["passed"],
            "not_scored": result["unscored"],
            "report": canonical(result),
            "created_at": at,
        }
        insert(con, "evaluations", [row])


def _sha256(path: Path) -> str:
    with path.open("rb") as reader:
        return hashlib.file_digest(reader, "sha256").hexdigest()
