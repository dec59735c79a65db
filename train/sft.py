"""Supervised fine-tuning: the whole loop on one page (K2 report 3.1, K1.5 report 2.5.2).

Loss on what the assistant wrote (calls and stop tokens included), token mean over the step, AdamW,
linear warm-up, cosine decay to a tenth of the peak (K1.5: 2e-5 to 2e-6), gradient clipping. The
plan of all steps is drawn up before the first, so that the budget is kept and a resumed run goes on
exactly as the first would have.

Losses of single steps are of different rows, and rows differ more in their loss than a short
training changes it: two of them say little about what was learned. `SftResult.loss_after` is
therefore of the same rows as `loss_first`.
"""

from __future__ import annotations

import math
import random
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from synth.core import seeds
from synth.core.canonical import content_key
from synth.core.errors import BadInput
from train.batches import Row, batches
from train.checkpoint import Checkpoint, weights_key
from train.data import Prepared
from train.engine import Step, TorchEngine
from train.journal import LEAST_S, Journal, Progress, pace, silent
from train.objective import CrossEntropy


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
    """Steps between checkpoints; 0 goes by time."""
    checkpoint_s: float = LEAST_S
    """Least seconds between checkpoints; more where writing one takes long (`journal.Pace`)."""
    seed: int = 0

    def decisive(self) -> dict[str, object]:
        """Return what a resumed run must agree with: all but when checkpoints are written."""
        return {k: v for k, v in asdict(self).items() if not k.startswith("checkpoint_")}


@dataclass(frozen=True, slots=True)
class SftResult:
    """What a run did, the sessions before a crash included. Losses in nats per trained token."""

    steps: int
    resumed_from: int
    """Step of the checkpoint this session went on from; 0 began anew."""
    tokens: int
    """Tokens of the rows learned from."""
    places: int
    loss_first: float
    """Of the rows of the first step, before anything was learned."""
    loss_last: float
    """Mean over the last tenth of the steps, of their rows: not to be compared with `loss_first`
    where rows differ."""
    loss_after: float | None
    """Of the rows of `loss_first`, by the weights at the end: the two can be compared, and say what
    was learned of rows that were seen, not how well others are done. None where the run was ended
    early."""
    tokens_per_s: float
    seconds: float
    """Of this session."""
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
        progress: told after every step, and first where a resumed run goes on.
        stop: asked after every step; True writes a checkpoint and ends the run early.

    Raises:
        BadInput: no rows, or the folder belongs to a run with another model, settings or data.
        ToolloomError: the gradient is not finite, or another process works on this run.
    """
    if not prepared.rows:
        raise BadInput("no rows to learn from", remedy="generate a dataset first")
    steps = plan_steps(prepared, config, places=engine.places)
    data = [[list(row.ids), list(row.weights)] for row in prepared.rows]
    fingerprint = content_key([config.decisive(), weights_key(engine), data])
    tempo = pace(engine, least_s=config.checkpoint_s, every=config.checkpoint_every)
    started = time.perf_counter()
    with Journal(engine, folder, fingerprint, tempo) as journal:
        if journal.begun:
            progress(journal.begun, len(steps), journal.history[-1])
        for step in range(journal.begun, len(steps)):
            rows = [prepared.rows[index] for index in steps[step]]
            lr = learning_rate(step, len(steps), config)
            figures = {"step": step + 1, **_learn(engine, rows, lr=lr, clip=config.clip)}
            journal.add(figures)
            progress(step + 1, len(steps), figures)
            if stop():
                break
            if step + 1 < len(steps):
                journal.keep_if_due()
        over = len(journal.history) == len(steps)
        checkpoint = journal.settle(over=over)
        after = _loss(engine, [prepared.rows[index] for index in steps[0]]) if over else None
        return _result(journal, after, time.perf_counter() - started, checkpoint)


def _weight(rows: Sequence[Row]) -> float:
    return math.fsum(weight for row in rows for weight in row.weights[1:])


def _loss(engine: TorchEngine, rows: Sequence[Row]) -> float:
    """Return the loss of `rows` as `_learn` computes it, without learning."""
    passed = engine.forward(rows)
    parts = (
        row.weights[position] * logprob
        for row, logprobs in zip(rows, passed.logprobs, strict=True)
        for position, logprob in zip(row.trained(), logprobs, strict=True)
    )
    return -math.fsum(parts) / _weight(rows)


def _learn(engine: TorchEngine, rows: Sequence[Row], *, lr: float, clip: float) -> dict[str, float]:
    """Take one optimizer step on `rows`; return what is logged of it."""
    before = time.perf_counter()
    passed = engine.forward_backward(rows, CrossEntropy(total=_weight(rows)))
    norm = engine.optim_step(Step(lr=lr, clip=clip))
    return {
        "loss": passed.loss,
        "lr": lr,
        "norm": norm,
        "tokens": passed.tokens,
        "places": passed.places,
        "tokens_per_s": passed.tokens / (time.perf_counter() - before),
    }


def _result(
    journal: Journal, after: float | None, seconds: float, checkpoint: Checkpoint
) -> SftResult:
    history = [{k: v for k, v in row.items() if v is not None} for row in journal.history]
    last = history[-max(1, len(history) // 10) :]
    tokens = sum(row["tokens"] for row in history)
    spent = sum(row["tokens"] / row["tokens_per_s"] for row in history)
    return SftResult(
        steps=len(history),
        resumed_from=journal.begun,
        tokens=int(tokens),
        places=int(sum(row["places"] for row in history)),
        loss_first=history[0]["loss"],
        loss_last=sum(row["loss"] for row in last) / len(last),
        loss_after=after,
        tokens_per_s=tokens / spent,
        seconds=seconds,
        checkpoint=checkpoint.folder,
    )
