"""Reinforcement learning on verdicts: the loop on one page (K1.5 report 2.3.2, K2 report 3.2.3).

One iteration: k samples of each task from the current model; the reward of each is its verdict; the
advantage is the reward less the mean of its group; the model of now is the reference; the
optimizer is reset; a few steps on the squared objective. A sample whose reward is None (the
infrastructure failed) is left out of its group, its baseline and the loss.

What is learned from was sampled in the same iteration, by the weights that are the reference: no
sample is stale. A killed run goes on from its newest checkpoint; an iteration is a function of the
weights and its number alone, so what comes out is what would have come out anyway.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, Protocol

import torch

from synth.core import seeds
from synth.core.canonical import content_key
from synth.core.errors import BadInput, ToolloomError
from train.batches import Row
from train.cases import Case
from train.checkpoint import weights_key
from train.engine import Engine, Sampling, Step, TorchEngine
from train.evaluate import Table, play_cases, wilson
from train.journal import LEAST_S, Figures, Journal, Progress, pace, silent
from train.objective import SquaredRegression, advantages


@dataclass(frozen=True, slots=True)
class Sample:
    """One rollout: its tokens, what the sampler thought of them, its reward."""

    row: Row
    logprobs: Sequence[float]
    reward: float | None
    """None is not a score: the infrastructure failed."""
    reason: str = ""


class Rollouts(Protocol):
    """Where samples come from: episodes in environments, or anything with a reward."""

    def __len__(self) -> int:
        """Return the number of tasks."""

    def key(self) -> str:
        """Return a key of the tasks and of how they are played: a resumed run must have it too."""

    async def __call__(
        self, engine: Engine, tasks: Sequence[int], k: int, *, temperature: float, seed: int
    ) -> list[list[Sample]]:
        """Return `k` samples for each of the numbered tasks."""


class EpisodeRollouts:
    """Samples are whole episodes: the model plays, the program judges.

    Args:
        cases: the tasks.
        table: where they are played.
        sampling: how tokens are drawn (the temperature is set by the loop).
    """

    def __init__(self, cases: Sequence[Case], table: Table, sampling: Sampling) -> None:
        self.cases, self.table, self.sampling = cases, table, sampling

    def __len__(self) -> int:
        return len(self.cases)

    def key(self) -> str:
        """See `Rollouts.key`."""
        cases = [one.key for one in self.cases]
        limits, sampling = self.table.limits.model_dump(mode="json"), self.sampling
        place = [limits, self.table.width, self.table.context]
        return content_key([cases, place, sampling.max_tokens, list(sampling.stop)])

    async def __call__(
        self, engine: Engine, tasks: Sequence[int], k: int, *, temperature: float, seed: int
    ) -> list[list[Sample]]:
        """Play the episodes, `table.width` at a time; see `Rollouts`."""
        cases = [self.cases[task] for task in tasks for _ in range(k)]
        # By place and not by task: a task that is drawn twice is not played alike twice.
        numbers = [seeds.seed("rollout", seed, n) for n in range(len(cases))]
        sampling = Sampling(self.sampling.stop, self.sampling.max_tokens, temperature)
        samples: list[Sample] = []
        for n in range(0, len(cases), self.table.width):
            wave = slice(n, n + self.table.width)
            for one in await play_cases(
                engine, cases[wave], self.table, sampling, seed=numbers[wave]
            ):
                player = one.player
                samples.append(Sample(player.row(), player.logprobs, one.reward, one.reason))
        return [samples[n : n + k] for n in range(0, len(samples), k)]


@dataclass(frozen=True, slots=True)
class RlConfig:
    """Settings of a run. None of them is given by the reports."""

    iterations: int = 4
    tasks: int = 4
    """Tasks of one iteration."""
    k: int = 4
    """Samples of each."""
    tau: float = 0.1
    lr: float = 1e-5
    """A tenth of the fine-tuning rate: with a reset optimizer the first step moves every weight by
    about this much."""
    inner_steps: int = 2
    temperature: float = 0.7
    """At 1, the replies of a small model are seldom readable calls."""
    clip: float = 1.0
    baseline: Literal["mean", "log_z"] = "mean"
    checkpoint_every: int = 0
    """Iterations between checkpoints; 0 goes by time."""
    checkpoint_s: float = LEAST_S
    """Least seconds between checkpoints; more where writing one takes long (`journal.Pace`)."""
    seed: int = 0

    def decisive(self) -> dict[str, object]:
        """Return what a resumed run must agree with: all but when checkpoints are written."""
        return {k: v for k, v in asdict(self).items() if not k.startswith("checkpoint_")}


@dataclass(frozen=True, slots=True)
class RlResult:
    """What a run did, the sessions before a crash included."""

    iterations: int
    resumed_from: int
    """Iterations of the checkpoint this session went on from; 0 began anew."""
    reward_first: float | None
    """Mean reward of the first iteration's samples, before anything was learned."""
    reward_last: float | None
    """Mean reward of the last iteration's samples."""
    history: tuple[Figures, ...]
    seconds: float
    """Of this session."""
    checkpoint: Path


async def train_rl(
    engine: TorchEngine,
    rollouts: Rollouts,
    config: RlConfig,
    folder: Path,
    *,
    seconds: float | None = None,
    progress: Progress = silent,
    stop: Callable[[], bool] = lambda: False,
) -> RlResult:
    """Improve the policy by its own episodes; go on from the newest checkpoint in `folder`, if any.

    Args:
        engine: the policy; changed in place.
        rollouts: where samples and rewards come from.
        config: settings.
        folder: gets `metrics.jsonl`, one line an iteration, and the checkpoint.
        seconds: no iteration is begun that would not end in this time, judged by the slowest; one
            is begun in any case.
        progress: told after every iteration, and first where a resumed run goes on.
        stop: asked after every iteration; True writes a checkpoint and ends the run early.

    Raises:
        BadInput: no tasks, groups too small to compare, or the folder belongs to a run with another
            model, settings or tasks.
        ToolloomError: the policy is no longer finite, or another process works on this run.
    """
    if not len(rollouts) or config.k < 2:
        raise BadInput("a task and two samples of it are the least there is to compare")
    fingerprint = content_key([config.decisive(), weights_key(engine), rollouts.key()])
    tempo = pace(engine, least_s=config.checkpoint_s, every=config.checkpoint_every)
    started, slowest = time.perf_counter(), 0.0
    with Journal(engine, folder, fingerprint, tempo, unit="iteration") as journal:
        if journal.begun:
            progress(journal.begun, config.iterations, journal.history[-1])
        for iteration in range(journal.begun, config.iterations):
            before = time.perf_counter()
            if seconds is not None and slowest and before - started + slowest > seconds:
                break
            figures = await _iterate(engine, rollouts, config, iteration)
            slowest = max(slowest, time.perf_counter() - before)
            journal.add({**figures, "seconds": time.perf_counter() - before})
            progress(iteration + 1, config.iterations, journal.history[-1])
            if stop():
                break
            if iteration + 1 < config.iterations:
                journal.keep_if_due()
        checkpoint = journal.settle(over=len(journal.history) == config.iterations)
    rewards = [row["reward"] for row in journal.history if row["reward"] is not None]
    return RlResult(
        iterations=len(journal.history),
        resumed_from=journal.begun,
        reward_first=rewards[0] if rewards else None,
        reward_last=rewards[-1] if rewards else None,
        history=tuple(journal.history),
        seconds=time.perf_counter() - started,
        checkpoint=checkpoint.folder,
    )


async def _iterate(
    engine: TorchEngine, rollouts: Rollouts, config: RlConfig, iteration: int
) -> dict[str, float | None]:
    """Sample, measure, learn; return what is logged."""
    # What an earlier iteration left was computed in other batches: the same numbers but for their
    # last digits, which would make an iteration depend on whether the process was restarted.
    engine.forget_samples()
    groups = await rollouts(
        engine,
        _tasks(len(rollouts), config, iteration),
        config.k,
        temperature=config.temperature,
        seed=seeds.seed("rl", config.seed, iteration),
    )
    return {"iteration": iteration + 1, **measure(groups), **learn(engine, groups, config)}


def _tasks(count: int, config: RlConfig, iteration: int) -> list[int]:
    """Return the tasks of one iteration: all of them in turn, shuffled anew in every round."""
    wanted = range(iteration * config.tasks, (iteration + 1) * config.tasks)
    chosen = []
    for n in wanted:
        order = list(range(count))
        seeds.rng("rl-tasks", config.seed, n // count).shuffle(order)
        chosen.append(order[n % count])
    return chosen


def measure(groups: Sequence[Sequence[Sample]]) -> dict[str, float | None]:
    """Return what is logged of the samples before anything is learned from them.

    `reward_low` and `reward_high` are the 95 % Wilson interval where rewards are 0 or 1; samples of
    one task are alike, so the true one is wider. `zero_signal` is the share of groups without a
    difference among those with at least two rewards. None: nothing to measure.
    """
    scored = [[s.reward for s in group if s.reward is not None] for group in groups]
    rewards = [reward for group in scored for reward in group]
    compared = [group for group in scored if len(group) > 1]
    samples = [sample for group in groups for sample in group]
    tokens = sum(len(sample.logprobs) for sample in samples)
    binary = all(reward in (0.0, 1.0) for reward in rewards)
    low, high = (wilson(int(sum(rewards)), len(rewards)) if binary else None) or (None, None)
    return {
        "reward": _mean(rewards),
        "reward_low": low,
        "reward_high": high,
        "samples": len(samples),
        "unscored": len(samples) - len(rewards),
        "zero_signal": _mean([float(len(set(group)) == 1) for group in compared]),
        "tokens": tokens / len(samples),
        "entropy": -math.fsum(x for s in samples for x in s.logprobs) / tokens if tokens else None,
    }


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


def learn(engine: Engine, groups: Sequence[Sequence[Sample]], config: RlConfig) -> dict[str, float]:
    """Take the inner steps of one iteration; return what is logged of them.

    Groups without a difference in reward carry no signal at the first step and only pull back at
    later ones; they are left out (their share is logged).

    Raises:
        ToolloomError: a step made the policy worthless: its probabilities are not finite.
    """
    rows, level, sampled = [], [], []
    for group in groups:
        rewards = [sample.reward for sample in group]
        for sample, advantage in zip(
            group, advantages(rewards, tau=config.tau, kind=config.baseline), strict=True
        ):
            differ = len({reward for reward in rewards if reward is not None}) > 1
            if advantage is not None and differ:
                rows.append(sample.row)
                level.append(advantage)
                sampled.append(math.fsum(sample.logprobs))
    if not rows:
        return {"learned_rows": 0}
    # The reference is the training forward of the same weights, not the sampler's numbers.
    old = _sums(engine.forward(rows, temperature=config.temperature).logprobs)
    engine.reset_optimizer()
    loss = SquaredRegression(
        torch.tensor(level, dtype=torch.float32), torch.tensor(old, dtype=torch.float32), config.tau
    )
    for _ in range(config.inner_steps):
        engine.forward_backward(rows, loss, temperature=config.temperature)
        norm = engine.optim_step(Step(lr=config.lr, clip=config.clip))
    new = _sums(engine.forward(rows, temperature=config.temperature).logprobs)
    if not all(map(math.isfinite, new)):
        raise ToolloomError("the policy is not finite", remedy="lower the learning rate")
    ratios = sorted(b - a for a, b in zip(old, new, strict=True))
    return {
        "learned_rows": len(rows),
        "norm": norm,
        "kl": -sum(ratios) / len(ratios),
        "ratio_p10": ratios[len(ratios) // 10],
        "ratio_p50": ratios[len(ratios) // 2],
        "ratio_p90": ratios[len(ratios) * 9 // 10],
        "pull": config.tau * max(abs(ratio) for ratio in ratios),
        "mismatch": max(abs(a - b) for a, b in zip(old, sampled, strict=True)),
    }


def _sums(logprobs: Sequence[Sequence[float]]) -> list[float]:
    return [math.fsum(one) for one in logprobs]
