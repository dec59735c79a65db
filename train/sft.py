"""Supervised fine-tuning: the whole loop on one page (K2 report 3.1, K1.5 report 2.5.2).

Loss on what the assistant wrote (calls and stop tokens included), token mean over the step, AdamW,
linear warm-up, cosine decay to a tenth of the peak (K1.5: 2e-5 to 2e-6), gradient clipping. The
plan of all steps is drawn up before the first, so that the budget is kept and a resumed run goes on
exactly as the first would have.
"""

from __future__ import annotations

import math
import random
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import orjson

from synth.core import jsonl, seeds
from synth.core.canonical import content_key
from synth.core.errors import BadInput
from train.batches import Row, batches
from train.checkpoint import latest_checkpoint, resume, write_checkpoint
from train.data import Prepared
from train.engine import Step, TorchEngine
from train.objective import CrossEntropy

Progress = Callable[[int, int, Mapping[str, float]], None]
"""Called after each step with the step, the number of steps, and what was measured."""


def silent(step: int, total: int, metrics: Mapping[str, float]) -> None:
    """Show nothing."""


@dataclass(frozen=True, slots=True)
class SftConfig:
    """Settings of a run. Defaults suit a model of 135M weights and a small budget."""

    budget: int = 20_000
    """Places to compute in all (tokens, shared beginnings once)."""
    step_places: int = 1_500
    """Places of one optimizer step."""
    lr: float = 3e-4
    last_lr_share: float = 0.1
    warmup_share: float = 0.1
    clip: float = 1.0
    together: int = 6
    """Most rows of one agent in one step: they share its prompt."""
    epochs: int = 3
    """Most passes over the rows, whatever the budget."""
    checkpoint_every: int = 0
    """Steps between checkpoints; 0 writes only the last."""
    seed: int = 0


@dataclass(frozen=True, slots=True)
class SftResult:
    """What a run did."""

    steps: int
    tokens: int
    """Tokens of the rows learned from."""
    places: int
    loss_first: float
    """Of the first step, before anything was learned."""
    loss_last: float
    """Mean of the last tenth of the steps."""
    tokens_per_s: float
    seconds: float
    checkpoint: Path


def plan_steps(prepared: Prepared, config: SftConfig, *, places: int) -> list[list[int]]:
    """Return the rows of each step.

    Rows of one agent come in chunks of `together`; chunks are shuffled anew in every epoch.

    Args:
        prepared: the rows.
        config: budget and sizes.
        places: most places of one batch, which decides how much can be shared.
    """
    steps: list[list[int]] = [[]]
    spent = filled = 0
    for epoch in range(config.epochs):
        rng = seeds.rng("sft", config.seed, epoch)
        for chunk in _chunks(prepared, config.together, places, rng):
            cost = _cost([prepared.rows[index] for index in chunk], places)
            if spent + cost > config.budget and any(steps):
                return [step for step in steps if step]
            if filled and filled + cost > config.step_places:
                steps.append([])
                filled = 0
            steps[-1] += chunk
            filled += cost
            spent += cost
    return [step for step in steps if step]


def _chunks(prepared: Prepared, together: int, places: int, rng: random.Random) -> list[list[int]]:
    """Return rows of one agent each that fit one batch when they share their beginning."""
    by_agent: dict[str, list[int]] = defaultdict(list)
    for index, agent in enumerate(prepared.agents):
        by_agent[agent].append(index)
    chunks: list[list[int]] = []
    for of_agent in by_agent.values():
        rng.shuffle(of_agent)
        current: list[int] = []
        for index in of_agent:
            rows = [prepared.rows[i] for i in (*current, index)]
            if current and (len(current) == together or _cost(rows, places) > places):
                chunks.append(current)
                current = []
            current.append(index)
        chunks.append(current)
    rng.shuffle(chunks)
    return chunks


def _cost(rows: Sequence[Row], places: int) -> int:
    return sum(batch.places for batch in batches(rows, places=places, pad=0))


def learning_rate(step: int, steps: int, config: SftConfig) -> float:
    """Return the rate of one step (from 0): linear warm-up, then cosine."""
    warmup = math.ceil(steps * config.warmup_share)
    if step < warmup:
        return config.lr * (step + 1) / warmup
    done = (step - warmup) / max(1, steps - warmup)
    low = config.lr * config.last_lr_share
    return low + (config.lr - low) * 0.5 * (1 + math.cos(math.pi * done))


def train_sft(
    engine: TorchEngine,
    prepared: Prepared,
    config: SftConfig,
    folder: Path,
    *,
    progress: Progress = silent,
    stop: Callable[[], bool] = lambda: False,
) -> SftResult:
    """Fine-tune; go on from the newest checkpoint in `folder` if there is one.

    Args:
        engine: holds the model; changed in place.
        prepared: rows of a dataset.
        config: settings.
        folder: gets `metrics.jsonl` and the checkpoint.
        progress: told after every step.
        stop: asked after every step; True writes a checkpoint and ends the run early.

    Raises:
        BadInput: no rows, or the folder belongs to a run with other settings or data.
        ToolloomError: the gradient is not finite.
    """
    if not prepared.rows:
        raise BadInput("no rows to learn from", remedy="generate a dataset first")
    steps = plan_steps(prepared, config, places=engine.places)
    data = [[list(row.ids), list(row.weights)] for row in prepared.rows]
    fingerprint = content_key([asdict(config), engine.loaded.name, data])
    history, begun = _start(engine, folder, fingerprint)
    metrics = jsonl.Appender(folder / "metrics.jsonl")
    started = time.perf_counter()
    for step in range(begun, len(steps)):
        rows = [prepared.rows[index] for index in steps[step]]
        lr = learning_rate(step, len(steps), config)
        history.append({"step": step + 1, **_learn(engine, rows, lr=lr, clip=config.clip)})
        metrics.append(history[-1])
        progress(step + 1, len(steps), history[-1])
        over = step + 1 == len(steps)
        due = config.checkpoint_every and (step + 1) % config.checkpoint_every == 0
        halt = stop()
        if over or due or halt:
            cursor = {"fingerprint": fingerprint}
            write_checkpoint(engine, folder, step=step + 1, cursor=cursor, state=not over)
        if halt:
            break
    metrics.close()
    return _result(history, time.perf_counter() - started, folder)


def _learn(engine: TorchEngine, rows: Sequence[Row], *, lr: float, clip: float) -> dict[str, float]:
    """Take one optimizer step on `rows`; return what is logged of it."""
    before = time.perf_counter()
    loss = CrossEntropy(total=math.fsum(w for row in rows for w in row.weights[1:]))
    passed = engine.forward_backward(rows, loss)
    norm = engine.optim_step(Step(lr=lr, clip=clip))
    return {
        "loss": passed.loss,
        "lr": lr,
        "norm": norm,
        "tokens": passed.tokens,
        "places": passed.places,
        "tokens_per_s": passed.tokens / (time.perf_counter() - before),
    }


def _start(
    engine: TorchEngine, folder: Path, fingerprint: str
) -> tuple[list[dict[str, float]], int]:
    """Load the newest checkpoint; return the metrics up to it and the step to go on with."""
    checkpoint = latest_checkpoint(folder)
    file = folder / "metrics.jsonl"
    if checkpoint is None:
        file.unlink(missing_ok=True)
        return [], 0
    resume(engine, checkpoint, fingerprint=fingerprint)
    history = [row for row in jsonl.read(file) if row["step"] <= checkpoint.step]
    if len(history) != checkpoint.step:
        raise BadInput(
            f"metrics of {len(history)} steps, the checkpoint is of step {checkpoint.step}",
            where=str(file),
            remedy=f"restore it, or remove {folder}",
        )
    # Steps after the checkpoint will be taken again.
    jsonl.write_atomic(file, b"".join(orjson.dumps(row) + b"\n" for row in history))
    return history, checkpoint.step


def _result(history: Sequence[Mapping[str, float]], seconds: float, folder: Path) -> SftResult:
    last = history[-max(1, len(history) // 10) :]
    checkpoint = latest_checkpoint(folder)
    assert checkpoint is not None
    tokens = sum(row["tokens"] for row in history)
    spent = sum(row["tokens"] / row["tokens_per_s"] for row in history)
    return SftResult(
        steps=len(history),
        tokens=int(tokens),
        places=int(sum(row["places"] for row in history)),
        loss_first=history[0]["loss"],
        loss_last=sum(row["loss"] for row in last) / len(last),
        tokens_per_s=tokens / spent,
        seconds=seconds,
        checkpoint=checkpoint.folder,
    )
