"""Pass rates: the model plays real episodes in the environments, a program judges them.

An episode has one of three ends: passed, failed, or no verdict because something other than the
model broke. The third is in no rate; it is counted by who broke it.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from synth.core import seeds
from synth.core.protocols import UserPlayer
from synth.core.types import StopReason, Trajectory, Verdict
from synth.episode import play_and_judge, reward_of
from synth.play import Limits
from train.agent import EnginePlayer, SharedSampler
from train.cases import Case, scripted_user
from train.engine import Engine, Sampling
from train.journal import Progress, silent
from train.renderer import Renderer

Z = 1.959964
"""Standard deviations to either side that hold 95 % of a normal distribution."""


@dataclass(frozen=True, slots=True)
class Played:
    """One episode played by the model."""

    case: Case
    trajectory: Trajectory
    verdict: Verdict
    player: EnginePlayer

    @property
    def reward(self) -> float | None:
        """1 where the program's verdict is a pass, 0 where it is not, None where there is none."""
        return reward_of(self.verdict)

    @property
    def reason(self) -> str:
        """The verdict's reason; for an unusable reply, what was wrong with it."""
        unusable = self.trajectory.stop in (StopReason.AGENT_INVALID, StopReason.CUT_OFF)
        if unusable and self.player.problems:
            return f"unusable:{self.player.problems[-1]}"
        return self.verdict.reason


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Pass rate of one model on the tasks of one application."""

    application: str
    n: int
    """Episodes with a verdict."""
    passed: int
    interval: tuple[float, float] | None
    """95 % Wilson interval of the pass rate; None where there is no rate."""
    by_reason: Mapping[str, int]
    """Of the episodes with a verdict."""
    unscored: int
    """Episodes without a verdict: in no rate."""
    faults: Mapping[str, int]
    """Who left episodes without a verdict -> how many: environment, infrastructure, judge, …"""
    by_kind: Mapping[str, tuple[int, int]]
    """Kind of task -> passed, judged."""
    calls: int
    """Tool calls made."""
    calls_ok: int
    """Tool calls that succeeded."""
    seconds: float

    @property
    def pass_rate(self) -> float | None:
        """Share of judged episodes that passed; None where none was judged."""
        return self.passed / self.n if self.n else None


def wilson(passed: int, n: int) -> tuple[float, float] | None:
    """Return the 95 % interval of a rate of `passed` in `n` independent trials (Wilson 1927).

    Unlike the normal interval it stays within 0 and 1 and says something about 0 of 12.
    """
    if not n:
        return None
    rate, spread = passed / n, Z * Z / n
    middle = (rate + spread / 2) / (1 + spread)
    half = math.sqrt(rate * (1 - rate) * spread + spread * spread / 4) / (1 + spread)
    # At 0 and n of n the bound is exact; the square root is off by a last digit.
    low, high = max(0.0, middle - half), min(1.0, middle + half)
    return (0.0 if passed == 0 else low, 1.0 if passed == n else high)


@dataclass(slots=True)
class Table:
    """Where episodes are played: everything but the model and the cases."""

    renderer: Renderer
    limits: Limits = field(default_factory=lambda: Limits(turns=12, calls=12, seconds=None))
    width: int = 16
    """Episodes played at once."""
    context: int = 4096
    """Most tokens of one conversation."""
    user: Callable[[Case, int], UserPlayer] = scripted_user
    """Makes the user of an episode from the case and a seed."""
    name: str = "engine"
    """Of the model, for the record."""


async def play_cases(
    engine: Engine,
    cases: Sequence[Case],
    table: Table,
    sampling: Sampling,
    *,
    seed: Sequence[int],
) -> list[Played]:
    """Play every case once, all at the same time; tokens are drawn in common batches.

    Args:
        engine: the model.
        cases: what to play.
        table: where.
        sampling: how tokens are drawn.
        seed: one for each case: same seed, same draws and same user.
    """
    sampler = SharedSampler(engine, sampling, players=len(cases))

    async def one(case: Case, number: int) -> Played:
        player = EnginePlayer(
            sampler,
            table.renderer,
            seed=seeds.seed("draws", number),
            context=table.context,
            name=table.name,
        )
        environment = case.environment()
        try:
            trajectory, verdict = await play_and_judge(
                {tool.name: tool for tool in case.world.tools()},
                task=case.task,
                agent=case.agent,
                environment=environment,
                agent_player=player,
                user_player=table.user(case, number),
                limits=table.limits,
                episode=f"{case.task.key}-{number}",
                seed=number,
                prefix=case.prefix,
            )
        finally:
            sampler.leave()
            await environment.close()
        return Played(case, trajectory, verdict, player)

    played = await asyncio.gather(*map(one, cases, seed))
    if sampler.error is not None:
        raise sampler.error
    return list(played)


async def evaluate(
    engine: Engine,
    cases: Sequence[Case],
    table: Table,
    *,
    sampling: Sampling,
    seconds: float | None = None,
    progress: Progress = silent,
) -> Evaluation:
    """Measure the pass rate.

    Args:
        engine: the model.
        cases: what to play, in this order; their application names the result.
        table: where.
        sampling: for figures that can be compared, temperature 0.
        seconds: no wave of `table.width` episodes is begun that would not end in this time, judged
            by the slowest so far. Waves are finished, so what is measured is not biased to short
            episodes; compare another model on the first `n` cases.
        progress: told after every wave.
    """
    started = time.perf_counter()
    played: list[Played] = []
    slowest = 0.0
    for first in range(0, len(cases), table.width):
        before = time.perf_counter()
        if seconds is not None and played and before - started + slowest > seconds:
            break
        wave = cases[first : first + table.width]
        numbers = [seeds.seed("evaluate", first + n) for n in range(len(wave))]
        played += await play_cases(engine, wave, table, sampling, seed=numbers)
        slowest = max(slowest, time.perf_counter() - before)
        so_far = summary(played, 0.0).pass_rate
        progress(len(played), len(cases), {} if so_far is None else {"pass_rate": so_far})
    return summary(played, time.perf_counter() - started)


def summary(played: Sequence[Played], seconds: float) -> Evaluation:
    """Add up what was played."""
    judged = [one for one in played if one.reward is not None]
    passes = sum(1 for one in judged if one.reward)
    faults = Counter(str(one.verdict.broken_by) for one in played if one.reward is None)
    kinds = Counter(str(one.trajectory.kind) for one in judged)
    passed = Counter(str(one.trajectory.kind) for one in judged if one.reward)
    steps = [step for one in played for step in one.trajectory.steps]
    return Evaluation(
        application=" + ".join(sorted({one.case.world.name for one in played})),
        n=len(judged),
        passed=passes,
        interval=wilson(passes, len(judged)),
        by_reason=dict(Counter(one.reason for one in judged).most_common()),
        unscored=len(played) - len(judged),
        faults=dict(faults.most_common()),
        by_kind={kind: (passed[kind], count) for kind, count in sorted(kinds.items())},
        calls=len(steps),
        calls_ok=sum(step.result.ok for step in steps),
        seconds=seconds,
    )
