"""What it costs to have workers of a Ray cluster play: CPU an episode, in every process.

python bench/bench_ray.py --episodes 300

Programs and the mock endpoint (20 ms a reply, whose own CPU is left out) play the same run in this
process, on one worker and on two. The first quarter of each run is not counted.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
from collections import Counter
from pathlib import Path

from synth.core.config import load_config
from synth.core.llm.mock.child import child
from synth.pipeline.cluster import Cluster
from synth.pipeline.engine import Workers
from synth.pipeline.job import generate
from synth.pipeline.progress import Goal, Progress

SETTINGS = ("generate.applications=['clinic']", "generate.agents=4", "generate.states=12")
TICKS = os.sysconf("SC_CLK_TCK")


def spent() -> Counter[str]:
    """Return the seconds of CPU of this process and those below it, by what they are."""
    parents: dict[int, int] = {}
    seconds: dict[int, float] = {}
    lines: dict[int, str] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            stat = (folder / "stat").read_text().rpartition(") ")[2].split()
            lines[int(folder.name)] = (folder / "cmdline").read_text().replace("\0", " ")
        except OSError:
            continue
        parents[int(folder.name)] = int(stat[1])
        seconds[int(folder.name)] = (int(stat[11]) + int(stat[12])) / TICKS
    found: Counter[str] = Counter()
    for pid, line in lines.items():
        above = pid
        while above not in (os.getpid(), 0, 1):
            above = parents.get(above, 0)
        if above == os.getpid() and " mock-llm " not in line:
            who = "driver" if pid == above else "ray"
            found["workers" if line.startswith("ray::Worker") else who] += seconds.get(pid, 0)
    return found


def measure(folder: Path, episodes: int, workers: int, settings: tuple[str, ...]) -> str:
    """Return the CPU of a run, in ms an episode."""
    first = episodes // 4
    snaps: dict[int, Counter[str]] = {}

    def look(progress: Progress) -> None:
        if progress.played in (first, episodes) and progress.played not in snaps:
            snaps[progress.played] = spent()

    asyncio.run(
        generate(
            load_config(None, [*SETTINGS, *settings]),
            folder / "runs" / f"{len(settings)}-{workers}",
            folder,
            Goal(episodes=episodes),
            concurrency=8,
            on_progress=look,
            workers=Workers(workers) if workers else None,
        )
    )
    used = snaps[episodes] - snaps[first]
    each = {who: 1e3 * used[who] / (episodes - first) for who in ("driver", "workers", "ray")}
    return "".join(f"{ms:10.1f}" for ms in (*each.values(), sum(each.values())))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--episodes", type=int, default=300)
    episodes = parser.parse_args().episodes
    cluster = Cluster(2)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        print(f"{'ms of CPU an episode':32}    driver   workers       ray       all")
        with child(folder / "ledger.jsonl", "--seed=1", "--latency-ms=20") as mock:
            model = (f"models.agent.base_url={mock.url}", "models.agent.model=mock")
            measure(folder, episodes, 0, ("seed=1",))  # states are seeded
            for who, settings in (
                ("programs", ()),
                ("mock", model),
                ("mock, limited", (*model, "budget.requests=1000000000")),
            ):
                for workers in (0, 1, 2):
                    where = f"{workers} workers" if workers else "this process"
                    print(f"{who + ', ' + where:32}{measure(folder, episodes, workers, settings)}")
    cluster.leave()


if __name__ == "__main__":
    main()
