"""A long run holds no more memory, files and threads at its end than near its beginning."""

import json
import statistics
import subprocess
import sys

import pytest

EPISODES = 10_000
RUN = """
import asyncio, json, os, pathlib, sys, threading
from synth.core.config import load_config
from synth.pipeline.job import generate
from synth.pipeline.progress import Goal

wanted, folder, samples = int(sys.argv[1]), pathlib.Path(sys.argv[2]), []

def look(progress):
    if progress.played >= 100 * (len(samples) + 1):
        pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
        files = len(os.listdir("/proc/self/fd"))
        rss = pages * os.sysconf("SC_PAGE_SIZE")
        samples.append((progress.played, rss, files, threading.active_count()))

config = load_config(None, ["generate.applications=['clinic']"])
report = asyncio.run(
    generate(config, folder / "r", folder, Goal(episodes=wanted), on_progress=look)
)
children = pathlib.Path("/proc/self/task/%d/children" % os.getpid()).read_text().split()
print(json.dumps({"episodes": report["episodes"], "samples": samples, "children": children}))
"""


@pytest.mark.soak
@pytest.mark.claim("r5")
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc tells the memory")
def test_memory_files_and_threads_stay_flat_over_ten_thousand_episodes(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(EPISODES), str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["episodes"] == EPISODES
    assert told["children"] == []
    late = told["samples"][len(told["samples"]) // 5 :]
    played, memory, files, threads = zip(*late, strict=True)
    assert max(files) - min(files) <= 5
    assert max(threads) - min(threads) <= 5
    slope = statistics.linear_regression(played, memory).slope
    assert slope < 1024, f"{slope:.0f} bytes an episode"
