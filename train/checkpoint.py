"""Checkpoints: a Hugging Face folder plus what it takes to go on exactly where it was written.

A checkpoint is written beside its place, brought to the disk and renamed, so one that is there is
whole, and only then are older ones removed: neither kill -9 nor a power cut leaves a run without
its newest. The folder can be given to anything that loads a model; `training_state.pt` and
`cursor.json` are ours.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from synth.core.errors import BadInput
from synth.core.jsonl import storage_error
from train.engine import TorchEngine
from train.models import write_model

CURSOR = "cursor.json"
_NAME = re.compile(r"step-(\d+)")
_SCRATCH = ".writing-"


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
        step: steps (of RL: iterations) taken.
        cursor: where the data stands, and what a resumed run must agree with.
        state: also write the optimizer (two to three times the weights); not needed when the run is
            over.

    Raises:
        DiskFull: the older checkpoint is still there.
    """
    target = folder / f"step-{step:06d}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=_SCRATCH) as scratch:
            fresh = write_model(engine.loaded, Path(scratch) / "checkpoint")
            if state:
                engine.save_state(fresh)
            text = json.dumps({"step": step, "resumable": state, **cursor}, allow_nan=False)
            (fresh / CURSOR).write_text(text, encoding="utf-8")
            _sync(fresh)
            if target.exists():
                target.rename(Path(scratch) / "old")
            fresh.rename(target)
            _sync_entry(folder)
    except OSError as error:
        raise storage_error(error, target) from error
    for older in _all(folder)[:-1]:
        shutil.rmtree(older)
    return Checkpoint(target, step, cursor)


def _sync(folder: Path) -> None:
    """Wait until every file of a flat folder, and the folder itself, are on the disk."""
    for entry in folder.iterdir():
        _sync_entry(entry)
    _sync_entry(folder)


def _sync_entry(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def sweep(folder: Path) -> None:
    """Remove what a killed process left: half-written checkpoints, and half-removed ones.

    To be called by the one process that works on the run.
    """
    newest = _all(folder)[-1:]
    for path in folder.glob(f"{_SCRATCH}*"):
        shutil.rmtree(path)
    for path in folder.iterdir():
        if _NAME.fullmatch(path.name) and path not in newest:
            shutil.rmtree(path)


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
        BadInput: the run that wrote it had another model, other settings or data, or it cannot be
            resumed.
    """
    if checkpoint.cursor["fingerprint"] != fingerprint:
        raise BadInput(
            "the checkpoint belongs to a run with other settings or data, or of another model",
            where=str(checkpoint.folder),
            remedy="use the same settings, or another --run name",
        )
    engine.load_weights(checkpoint.folder)
    if checkpoint.cursor["resumable"]:
        engine.load_state(checkpoint.folder)


def weights_key(engine: TorchEngine) -> str:
    """Return a hash of the weights: what a run starts from, whatever its folder is called.

    A name would not do: `checkpoints/a/step-000012` and `checkpoints/b/step-000012` share theirs.
    """
    digest = hashlib.sha256()
    for name, weight in engine.model.named_parameters():
        digest.update(f"{name} {weight.dtype} {tuple(weight.shape)}\n".encode())
        digest.update(memoryview(weight.detach().cpu().contiguous().view(torch.uint8).numpy()))
    return digest.hexdigest()


def _all(folder: Path) -> list[Path]:
    numbered = [(_NAME.fullmatch(path.name), path) for path in folder.glob("step-*")]
    whole = [(int(m[1]), path) for m, path in numbered if m and (path / CURSOR).exists()]
    return [path for _, path in sorted(whole)]
