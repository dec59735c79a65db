"""What things cost here: medians of repeated runs, next to the physical limit in the same run.

    make bench                    the whole table (some minutes on 2 cores)
    python bench/bench.py engine environments generation models memory command training

This is no timed test: nothing fails when a machine is slow.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from statistics import median

import apsw

from simulators.sql.engine import Engine
from simulators.sql.environment import SqlEnvironment
from simulators.sql.load import applications, load_application
from simulators.sql.world import SqlWorld
from synth.core.canonical import content_key
from synth.core.errors import NotSuitable
from synth.core.seeds import rng
from synth.core.types import Blueprint, Effect, TaskKind

Row = tuple[str, str, str]
"""What, its figure, what it is to be compared with."""


def median_us(work: Callable[[], object], *, repeat: int = 400) -> float:
    """Return the median wall time of `work` in microseconds, after a warm-up."""
    for _ in range(20):
        work()
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return 1e6 * median(times)


def engine_rows() -> Iterator[Row]:
    """Yield the costs of the application engine while it runs solutions of real tasks."""
    for name in applications():
        world = SqlWorld(Engine(load_application(name)))
        environment = world.engine.environment()
        image = world.engine.image(0)
        bare = apsw.Connection(":memory:")
        limit = median_us(lambda con=bare, data=image: con.deserialize("main", data))
        times = _replayed(world, environment, asyncio.run(_blueprints(world, 60)))
        yield (
            f"{name}: reset after an episode ({len(image) // 1024} kB)",
            f"{median(times['reset']):.0f} µs",
            f"deserialise alone {limit:.0f} µs",
        )
        for what in ("read call", "write call", "diff and hash"):
            yield f"{name}: {what}", f"{median(times[what]):.0f} µs", f"of {len(times[what])}"


async def _blueprints(world: SqlWorld, wanted: int) -> list[Blueprint]:
    names = [tool.name for tool in world.tools()]
    found: list[Blueprint] = []
    for attempt in range(20 * wanted):
        if len(found) == wanted:
            break
        kind = (TaskKind.SINGLE_WRITE, TaskKind.CHAINED_WRITES)[attempt % 2]
        with suppress(NotSuitable):
            found.append(await world.blueprint(kind, names, 0, rng("bench", attempt)))
    return found


def _replayed(
    world: SqlWorld, environment: SqlEnvironment, blueprints: list[Blueprint]
) -> dict[str, list[float]]:
    """Run every solution five times; return wall times in microseconds."""
    times: dict[str, list[float]] = defaultdict(list)

    def timed(what: str, work: Callable[[], object]) -> None:
        start = time.perf_counter()
        work()
        times[what].append(1e6 * (time.perf_counter() - start))

    for blueprint in blueprints * 5:
        timed("reset", lambda: environment.reset_now(0))
        for call in blueprint.solution:
            what = "read call" if call.effect is Effect.READ else "write call"
            timed(what, lambda call=call: environment.call_now(call.tool, call.arguments))
        timed("diff and hash", lambda: content_key(environment.diff_now()))
    return times


def generation_rows() -> Iterator[Row]:
    """Yield accepted offline trajectories per second of one core, and what they cost by stage."""
    from bench_generation import rows

    yield from rows()


def memory_rows() -> Iterator[Row]:
    """Yield what an episode adds to the memory of a generation."""
    from bench_memory import rows

    yield from rows()


def command_rows() -> Iterator[Row]:
    """Yield start-up times."""
    for label, line in (
        ("toolloom --help", [sys.executable, "-m", "synth", "--help"]),
        ("python -c pass (the limit)", [sys.executable, "-c", "pass"]),
    ):
        times = []
        for _ in range(7):
            start = time.perf_counter()
            subprocess.run(line, check=True, stdout=subprocess.DEVNULL)
            times.append(time.perf_counter() - start)
        yield label, f"{median(times):.2f} s", ""


def training_rows() -> Iterator[Row]:
    """Yield tokens per second of fine-tuning."""
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # as the package sets it, before torch
    from bench_training import rows

    yield from rows()


def model_rows() -> Iterator[Row]:
    """Yield what a call of a model costs this process, beside the bare client."""
    from bench_models import rows

    yield from rows()


def environment_rows() -> Iterator[Row]:
    """Yield what each kind of environment costs, beside other projects' simulated tools."""
    import bench_environments
    import bench_sandbox

    yield from bench_environments.rows()
    yield from bench_sandbox.rows()


TABLES = {
    "engine": engine_rows,
    "environments": environment_rows,
    "generation": generation_rows,
    "models": model_rows,
    "memory": memory_rows,
    "command": command_rows,
    "training": training_rows,
}


def main() -> None:
    """Print the wanted tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tables", nargs="*", default=list(TABLES), choices=[*TABLES, []])
    for table in parser.parse_args().tables:
        print(f"\n{table}", flush=True)
        for what, figure, beside in TABLES[table]():
            print(f"  {what:<58}{figure:>10}   {beside}")


if __name__ == "__main__":
    main()
