"""Checkpoints: a Hugging Face folder plus what it takes to go on exactly where it was written.

A checkpoint is written beside its place and renamed, so one that is there is whole. The folder can
be given to anything that loads a model; `training_state.pt` and `cursor.json` are ours.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from synth.core.errors import BadInput
from synth.core.jsonl import storage_error
from train.engine import TorchEngine
from train.models import write_model

CURSOR = "cursor.json"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint on disk."""

    folder: Path
    step: int
    cursor: Mapping[str, Any]


def write_checkpoint(
    engine: TorchEngine, folder: Path, *, step: int, cursor: Mapping[str, Any], state: bool = True
) -> Checkpoint:
    """Write the checkpoint of `step` and drop older ones.

    Args:
        engine: what is saved.
        folder: of all checkpoints of a run.
        step: optimizer steps taken.
        cursor: where the data stands, and what a resumed run must agree with.
        state: also write the optimizer (four times the weights); not needed when the run is over.

    Raises:
        DiskFull: the older checkpoint is still there.
    """
    target = folder / f"step-{step:06d}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".writing-") as scratch:
            fresh = write_model(engine.loaded, Path(scratch) / "checkpoint")
            if state:
                engine.save_state(fresh)
            text = json.dumps({"step": step, "resumable": state, **cursor})
            (fresh / CURSOR).write_text(text, encoding="utf-8")
            if target.exists():
                shutil.rmtree(target)
            fresh.rename(target)
    except OSError as error:
        raise storage_error(error, target) from error
    for older in _all(folder)[:-1]:
        shutil.rmtree(older)
    return Checkpoint(target, step, cursor)


def latest_checkpoint(folder: Path) -> Checkpoint | None:
    """Return the newest checkpoint of a run, if there is one.

    Raises:
        BadInput: its cursor is damaged.
    """
    found = _all(folder)
    if not found:
        return None
    file = found[-1] / CURSOR
    try:
        cursor = json.loads(file.read_text(encoding="utf-8"))
        step, _ = int(cursor["step"]), (cursor["fingerprint"], cursor["resumable"])
    except (ValueError, KeyError, TypeError) as error:
        raise BadInput(
            f"not a checkpoint's cursor: {error!r}",
            where=str(file),
            remedy=f"remove {found[-1]}, or give another --run name",
        ) from error
    return Checkpoint(found[-1], step, cursor)


def resume(engine: TorchEngine, checkpoint: Checkpoint, *, fingerprint: str) -> None:
    """Put the engine where the checkpoint was written.

    Raises:
        BadInput: the run that wrote it had other settings or data, or it cannot be resumed.
    """
    if checkpoint.cursor["fingerprint"] != fingerprint:
        raise BadInput(
            "the checkpoint belongs to a run with other settings or data",
            where=str(checkpoint.folder),
            remedy="use the same settings, or another --run name",
        )
    engine.load_weights(checkpoint.folder)
    if checkpoint.cursor["resumable"]:
        engine.load_state(checkpoint.folder)


def _all(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("step-*") if (path / CURSOR).exists())
