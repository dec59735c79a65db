"""Accepted offline trajectories per second of one core, cold and warm, and where the time goes.

Cold: a new workspace; no state is seeded and the registry is empty. Warm: another run in the same
workspace, whose states lie under `cache/`. Both open the applications, sample, gate (some ten plays
a task), play, judge, and write files and registry.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from simulators.sql import images
from synth import episode
from synth.core.config import load_config
from synth.pipeline import compose, job
from synth.pipeline.generate import Goal
from synth.run import Run

ACCEPT = 300
SEEDS = 3
STAGES: dict[str, tuple[tuple[Any, str], ...]] = {
    "open": ((job, "open_worlds"), (compose, "agents_for")),
    "seed": ((images.Images, "seeded"),),
    "sample": ((compose, "sample_task"),),
    "gate": ((compose, "admit"),),
    "play": ((episode, "play"),),
    "judge": ((episode, "judge"),),
    "write": (
        (Run, "add_plan"), (Run, "add_episode"), (Run, "close"), (job, "run_report"),
        (job, "ingest"),
    ),
}  # fmt: skip
"""Stage -> the functions in which it happens. What one does inside another counts for itself."""
REST = "rest"


class Meter:
    """CPU seconds by stage; only the innermost one that runs is charged."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._running: list[str] = []
        self._since = 0.0

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Charge a stage while the block runs."""
        self._charge()
        self._running.append(name)
        try:
            yield
        finally:
            self._charge()
            self._running.pop()

    def _charge(self) -> None:
        now = time.process_time()
        if self._running:
            self.seconds[self._running[-1]] += now - self._since
        self._since = now

    def around(self, name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        """Return `work`, charged to a stage."""
        if inspect.iscoroutinefunction(work):

            @functools.wraps(work)
            async def awaited(*given: Any, **named: Any) -> Any:
                with self.stage(name):
                    return await work(*given, **named)

            return awaited

        @functools.wraps(work)
        def called(*given: Any, **named: Any) -> Any:
            with self.stage(name):
                return work(*given, **named)

        return called


@contextmanager
def _metered() -> Iterator[Meter]:
    meter = Meter()
    before = [(o, a, getattr(o, a)) for places in STAGES.values() for o, a in places]
    try:
        for name, places in STAGES.items():
            for owner, attribute in places:
                setattr(owner, attribute, meter.around(name, getattr(owner, attribute)))
        yield meter
    finally:
        for owner, attribute, work in before:
            setattr(owner, attribute, work)


def _run(seed: int, workspace: Path, name: str) -> tuple[dict[str, float], float]:
    """Return microseconds an accepted trajectory by stage, and the mean number of calls."""
    config = load_config(None, [f"seed={seed}"])
    with _metered() as meter, meter.stage(REST):
        report = asyncio.run(
            job.generate(config, workspace / "runs" / name, workspace, Goal(accept=ACCEPT))
        )
    shares = {stage: 1e6 * spent / report["accepted"] for stage, spent in meter.seconds.items()}
    return shares, report["accepted_shape"]["calls"]["mean"]


def rows() -> Iterator[tuple[str, str, str]]:
    """Yield the rates, and the stages in microseconds of CPU an accepted trajectory."""
    spent: dict[str, list[dict[str, float]]] = {"cold": [], "warm": []}
    calls = []
    for seed in range(SEEDS):
        with tempfile.TemporaryDirectory() as folder:
            for name, found in spent.items():
                shares, mean = _run(seed, Path(folder), name)
                found.append(shares)
                calls.append(mean)
    for name, found in spent.items():
        rate = 1e6 / median(sum(shares.values()) for shares in found)
        beside = f"runs of {ACCEPT}, {median(calls)} calls each, all stages below"
        yield f"accepted trajectories a core and second, {name}", f"{rate:.0f}", beside
    for stage in (*STAGES, REST):
        cold, warm = (median(s.get(stage, 0.0) for s in found) for found in spent.values())
        yield f"{stage}, an accepted trajectory", f"{warm:.0f} µs", f"cold {cold:.0f} µs"
