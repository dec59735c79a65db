"""Reinforcement learning on verdicts: the loop on one page (K1.5 report 2.3.2, K2 report 3.2.3).

One iteration: k samples of each task from the current model; the reward of each is its verdict; the
advantage is the reward less the mean of its group; the model of now is the reference; the
optimizer is reset; a few steps on the squared objective. A sample whose reward is None (the
infrastructure failed) is left out of its group, its baseline and the loss.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

import torch

from synth.core import jsonl, seeds
from synth.core.errors import BadInput
from train.batches import Row
from train.engine import Engine, Sampling, Step
from train.evaluate import Case, Table, play_cases
from train.objective import SquaredRegression, advantages
from train.sft import Progress, silent


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

    async def __call__(
        self, engine: Engine, tasks: Sequence[int], k: int, *, temperature: float, seed: int
    ) -> list[list[Sample]]:
        """Play the episodes, `table.width` at a time; see `Rollouts`."""
        cases = [self.cases[task] for task in tasks for _ in range(k)]
        numbers = [seeds.seed("rollout", seed, task, n) for task in tasks for n in range(k)]
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
    seed: int = 0


@dataclass(frozen=True, slots=True)
class RlResult:
    """What a run did."""

    iterations: int
    reward_first: float | None
    """Mean reward of the first iteration's samples, before anything was learned."""
    reward_last: float | None
    """Mean reward of the last iteration's samples."""
    history: tuple[Mapping[str, float], ...]
    seconds: float


async def train_rl(
    engine: Engine,
    rollouts: Rollouts,
    config: RlConfig,
    folder: Path,
    *,
    seconds: float | None = None,
    progress: Progress = silent,
    stop: Callable[[], bool] = lambda: False,
) -> RlResult:
    """Improve the policy by its own episodes.

    Args:
        engine: the policy; changed in place.
        rollouts: where samples and rewards come from.
        config: settings.
        folder: gets `metrics.jsonl`, one line an iteration.
        seconds: no iteration is begun that would not end in this time, judged by the slowest.
        progress: told after every iteration.
        stop: asked after every iteration; True ends the run.

    Raises:
        BadInput: no tasks, or groups too small to compare.
    """
    if not len(rollouts) or config.k < 2:
        raise BadInput("a task and two samples of it are the least there is to compare")
    history: list[dict[str, float]] = []
    (folder / "metrics.jsonl").unlink(missing_ok=True)
    started, slowest = time.perf_counter(), 0.0
    with jsonl.Appender(folder / "metrics.jsonl") as metrics:
        for iteration in range(config.iterations):
            before = time.perf_counter()
            if seconds is not None and history and before - started + slowest > seconds:
                break
            groups = await rollouts(
                engine,
                _tasks(len(rollouts), config, iteration),
                config.k,
                temperature=config.temperature,
                seed=seeds.seed("rl", config.seed, iteration),
            )
            figures = {"iteration": iteration + 1, **measure(groups)}
            figures |= learn(engine, groups, config)
            slowest = max(slowest, time.perf_counter() - before)
            history.append({**figures, "seconds": time.perf_counter() - before})
            metrics.append(history[-1])
            progress(iteration + 1, config.iterations, history[-1])
            if stop():
                break
    rewards = [row["reward"] for row in history if not math.isnan(row["reward"])]
    return RlResult(
        iterations=len(history),
        reward_first=rewards[0] if rewards else None,
        reward_last=rewards[-1] if rewards else None,
        history=tuple(history),
        seconds=time.perf_counter() - started,
    )


def _tasks(count: int, config: RlConfig, iteration: int) -> list[int]:
    """Return the tasks of one iteration: all of them in turn, shuffled anew in every round."""
    wanted = range(iteration * config.tasks, (iteration + 1) * config.tasks)
    chosen = []
    for n in wanted:
        order = list(range(count))
        seeds.rng("rl-tasks", config.seed, n // count).shuffle(order)
        chosen.append(order[n % count])
    return chosen


def measure(groups: Sequence[Sequence[Sample]]) -> dict[str, float]:
    """Return what is logged of the samples before anything is learned from them."""
    scored = [[s.reward for s in group if s.reward is not None] for group in groups]
    rewards = [reward for group in scored for reward in group]
    samples = [sample for group in groups for sample in group]
    tokens = sum(len(sample.logprobs) for sample in samples)
    return {
        "reward": sum(rewards) / len(rewards) if rewards else math.nan,
        "samples": len(samples),
        "unscored": len(samples) - len(rewards),
        "zero_signal": sum(len(set(group)) < 2 for group in scored) / len(scored),
        "tokens": tokens / len(samples),
        "entropy": -sum(math.fsum(s.logprobs) for s in samples) / max(1, tokens),
    }


def learn(engine: Engine, groups: Sequence[Sequence[Sample]], config: RlConfig) -> dict[str, float]:
    """Take the inner steps of one iteration; return what is logged of them.

    Groups without a difference in reward carry no signal at the first step and only pull back at
    later ones; they are left out (their share is logged).
    """
    rows, level, sampled = [], [], []
    for group in groups:
        rewards = [sample.reward for sample in group]
        for sample, advantage in zip(
            group, advantages(rewards, tau=config.tau, kind=config.baseline), strict=True
        ):
            if advantage is not None and len({r for r in rewards if r is not None}) > 1:
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
