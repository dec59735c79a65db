"""What memory a generation takes an episode, and what is left open at its end.

    python bench/bench_memory.py scripted                 10,000 episodes of all applications
    python bench/bench_memory.py model                    the agent is asked of `mock-llm`
    python bench/bench_memory.py scripted --episodes=2500 --set=generate.states=2

Prints one JSON object. Resident memory is read from /proc, so this runs on Linux only. What an
episode takes is told by the last four fifths of them: before that, states are seeded and caches
fill. `bench/bench.py memory` and `tests/faults/test_memory.py` run it as a process of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from itertools import combinations
from pathlib import Path
from statistics import median
from typing import Any

from synth.core.config import load_config
from synth.core.llm.mock.child import Child, child
from synth.pipeline.job import generate
from synth.pipeline.progress import Goal, Progress

WARM_UP = 0.2
"""Share of the episodes that tell nothing, by default."""
SAMPLES = 100
"""Times that memory is looked at."""
CONCURRENCY = 32
"""Episodes in flight where a model plays."""
WHO = ("scripted", "model")
EPISODES = 10_000
SMALL = ("applications=['clinic']", "states=2", "agents=4")
"""What is warm after a few hundred episodes."""
SELF = Path("/proc/self")


def resident() -> int:
    """Return the bytes of this process that are in memory."""
    pages = int((SELF / "statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def opened() -> dict[str, int]:
    """Return how many file descriptors, threads and children this process has."""
    processes = Path("/proc").glob("[0-9]*")
    return {
        "descriptors": len(list((SELF / "fd").iterdir())),
        "threads": len(list((SELF / "task").iterdir())),
        "children": sum(_parent(process) == os.getpid() for process in processes),
    }


def _parent(process: Path) -> int:
    try:
        stat = (process / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:  # it has ended
        return 0
    return int(stat.rpartition(")")[2].split()[1])


def slope(samples: list[tuple[int, int]]) -> float:
    """Return bytes an episode: the median slope between two samples (Theil and Sen)."""
    return median((b - a) / (n - m) for (m, a), (n, b) in combinations(samples, 2))


class Watch:
    """Looks at memory while a generation goes on.

    Args:
        episodes: how many there will be.
        warm_up: share of them that tells nothing.
    """

    def __init__(self, episodes: int, warm_up: float) -> None:
        self.episodes, self._warm_up = episodes, warm_up
        self.samples: list[tuple[int, int]] = []
        self.warm: dict[str, int] = {}
        """What was open when the warm-up ended."""
        self.late: dict[str, int] = {}
        """What was open at the last episode."""

    def __call__(self, progress: Progress) -> None:
        """Look, if it is time."""
        played = progress.played
        seen = self.samples[-1][0] if self.samples else 0
        if played == seen or played * SAMPLES < (len(self.samples) + 1) * self.episodes:
            return
        self.samples.append((played, resident()))
        if not self.warm and played >= self._warm_up * self.episodes:
            self.warm = opened()
        if played == self.episodes:
            self.late = opened()

    def told(self) -> list[tuple[int, int]]:
        """Return the samples after the warm-up: episodes, and bytes in memory."""
        return [sample for sample in self.samples if sample[0] >= self._warm_up * self.episodes]


def measure(who: str, watch: Watch, settings: list[str]) -> dict[str, Any]:
    """Generate, and return what it took.

    Args:
        who: plays the agent: `scripted`, or a `model` of the mock endpoint.
        watch: looks at it; knows how many episodes there shall be.
        settings: of the configuration.
    """
    before = opened()
    with tempfile.TemporaryDirectory() as name, _endpoint(who, Path(name)) as mock:
        if mock is not None:
            model = (f"base_url={mock.url}", "model=mock", "key_env=NO_KEY")
            settings = [*settings, *(f"models.agent.{setting}" for setting in model)]
        config, workspace = load_config(None, settings), Path(name)
        folder, goal = workspace / "runs" / "r", Goal(episodes=watch.episodes)
        made = generate(config, folder, workspace, goal, concurrency=CONCURRENCY, on_progress=watch)
        report = asyncio.run(made)
    told = watch.told()
    return {
        "who": who,
        "episodes": report["episodes"],
        "bytes_an_episode": round(slope(told)),
        "resident_mb": [round(size / 2**20, 1) for _, size in (told[0], told[-1])],
        "open_before": before,
        "open_warm": watch.warm,
        "open_late": watch.late,
        "open_after": opened(),
    }


def _endpoint(who: str, folder: Path) -> AbstractContextManager[Child | None]:
    return child(folder / "ledger.jsonl") if who == "model" else nullcontext()


def rows() -> Iterator[tuple[str, str, str]]:
    """Yield kilobytes an episode for scripted players and for a model, on one application."""
    small = [f"--set=generate.{setting}" for setting in SMALL]
    for who in WHO:
        line = [sys.executable, __file__, who, "--episodes=2500", "--warm-up=0.5", *small]
        found = json.loads(subprocess.run(line, check=True, stdout=subprocess.PIPE).stdout)
        first, last = found["resident_mb"]
        yield (
            f"{who}: memory an episode",
            f"{found['bytes_an_episode'] / 1024:.2f} kB",
            f"second half of {found['episodes']:,}: from {first:.0f} to {last:.0f} MB",
        )
        warm, late = found["open_warm"], found["open_late"]
        yield (
            f"{who}: descriptors, threads",
            f"{late['descriptors']}, {late['threads']}",
            f"half way {warm['descriptors']}, {warm['threads']}; "
            f"children left {found['open_after']['children']}",
        )


def main() -> None:
    """Measure, and print it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("who", choices=WHO)
    parser.add_argument("--episodes", type=int, default=EPISODES)
    parser.add_argument("--warm-up", type=float, default=WARM_UP, help="default: %(default)s")
    parser.add_argument("--set", action="append", default=[], help="generate.states=2, and others")
    given = parser.parse_args()
    watch = Watch(given.episodes, given.warm_up)
    print(json.dumps(measure(given.who, watch, given.set)))


if __name__ == "__main__":
    main()
