"""The folder of one training run: what was measured, where it stands, and who works on it.

    .lock           the process at work; a second one is refused
    metrics.jsonl   one line a step, null where there is no measurement
    step-NNNNNN/    the newest checkpoint

Whoever is killed starts again with the same command: lines after the checkpoint are dropped, their
steps are taken again, and what comes out is what would have come out anyway.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

import orjson

from synth.core import jsonl
from synth.core.errors import BadInput
from synth.core.locks import lock_folder
from train.checkpoint import (
    Checkpoint,
    latest_checkpoint,
    resume,
    sweep,
    write_checkpoint,
)
from train.engine import TorchEngine

Figures = Mapping[str, float | None]
"""What one step measured; None where there was nothing to measure, never NaN."""

Progress = Callable[[int, int, Figures], None]
"""Called after each step with the step, the number of steps, and what was measured; a resumed run
calls it first with the step it goes on from."""

LEAST_S = 120.0
"""Seconds of work that a crash may cost, where writing is cheap."""
SHARE = 0.05
"""Most of the time that writing checkpoints may take."""
DISK = 500e6
"""Bytes a second that a disk is thought to write, before the first checkpoint says what it does."""


def silent(step: int, total: int, metrics: Figures) -> None:
    """Show nothing."""


@dataclass(slots=True)
class Pace:
    """When a checkpoint is due: after `least_s`, later where writing one takes long.

    A checkpoint that took `cost_s` is followed by `cost_s / share` of work, so that a slow disk
    makes checkpoints rarer and not the training slower.
    """

    cost_s: float
    """What a checkpoint costs: an estimate at first, then what the last one took."""
    least_s: float = LEAST_S
    every: int = 0
    """Steps between checkpoints, whatever they cost; 0 goes by time."""
    share: float = SHARE
    clock: Callable[[], float] = time.perf_counter
    _since: float = field(init=False)

    def __post_init__(self) -> None:
        self._since = self.clock()

    def due(self, step: int) -> bool:
        """Return whether to write one after `step`."""
        if self.every:
            return step % self.every == 0
        return self.clock() - self._since >= max(self.least_s, self.cost_s / self.share)

    def written(self, cost_s: float) -> None:
        """Note that one was written, in `cost_s` seconds."""
        self.cost_s, self._since = cost_s, self.clock()


def pace(engine: TorchEngine, *, least_s: float, every: int = 0) -> Pace:
    """Return the pace for an engine of this size.

    Args:
        engine: its weights and float32 moments are what a checkpoint holds.
        least_s: see `Pace`.
        every: see `Pace`.
    """
    size = sum(w.numel() * (w.element_size() + 8) for w in engine.model.parameters())
    return Pace(size / DISK, least_s, every)


class Journal:
    """An open training run. One process at a time; a second one is refused.

    Entering it puts the engine where the newest checkpoint was written.

    Args:
        engine: what is trained.
        folder: of the run; made if absent.
        fingerprint: of all that decides the run; the checkpoint must have the same.
        pace: when checkpoints are written.
        unit: what the steps are called in `metrics.jsonl`.

    Raises:
        BadInput: the folder belongs to another run, or does not fit together.
        ToolloomError: another process works on it.
    """

    def __init__(
        self, engine: TorchEngine, folder: Path, fingerprint: str, pace: Pace, *, unit: str = "step"
    ) -> None:
        self.engine, self.folder, self.fingerprint, self.pace = engine, folder, fingerprint, pace
        self.history: list[Figures] = []
        """What was measured, step by step, earlier sessions included."""
        self._unit = unit
        self._lock = lock_folder(folder, "training run")
        try:
            sweep(folder)
            self.begun = self._go_on()
            """Steps that were taken before this session."""
            self._metrics = jsonl.Appender(folder / "metrics.jsonl")
        except BaseException:
            os.close(self._lock)
            raise
        self._kept = self.begun

    def _go_on(self) -> int:
        checkpoint = latest_checkpoint(self.folder)
        file = self.folder / "metrics.jsonl"
        if checkpoint is None:
            file.unlink(missing_ok=True)
            return 0
        resume(self.engine, checkpoint, fingerprint=self.fingerprint)
        self.history = [row for row in jsonl.read(file) if row[self._unit] <= checkpoint.step]
        if len(self.history) != checkpoint.step:
            raise BadInput(
                f"metrics of {len(self.history)} {self._unit}s, "
                f"the checkpoint is of {self._unit} {checkpoint.step}",
                where=str(file),
                remedy=f"restore it, or remove {self.folder}",
            )
        # Steps after the checkpoint will be taken again.
        jsonl.write_atomic(file, b"".join(orjson.dumps(row) + b"\n" for row in self.history))
        return checkpoint.step

    def add(self, figures: Figures) -> None:
        """Note what the next step measured."""
        self.history.append(figures)
        self._metrics.append(figures)

    def keep_if_due(self) -> None:
        """Write a checkpoint of where the run stands, if it is time."""
        if self.pace.due(len(self.history)):
            self._keep(over=False)

    def settle(self, *, over: bool) -> Checkpoint:
        """End the session with a checkpoint of its last step.

        Args:
            over: the run has reached its end: what only going on needs is left out.
        """
        if self._kept < len(self.history):
            self._keep(over=over)
        checkpoint = latest_checkpoint(self.folder)
        assert checkpoint is not None
        return checkpoint

    def _keep(self, *, over: bool) -> None:
        before = time.perf_counter()
        self._metrics.sync()  # a checkpoint without its metrics could not be resumed
        step, cursor = len(self.history), {"fingerprint": self.fingerprint}
        write_checkpoint(self.engine, self.folder, step=step, cursor=cursor, state=not over)
        self._kept = step
        self.pace.written(time.perf_counter() - before)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._metrics.close()
        os.close(self._lock)
