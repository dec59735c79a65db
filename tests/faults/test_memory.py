"""A generation can go on for hours: it keeps nothing of what is finished, and leaves nothing."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench" / "bench_memory.py"
SMALL = (
    "--set=generate.applications=['clinic']",
    "--set=generate.states=2",
    "--set=generate.agents=4",
)
MOST_BYTES = 1024
"""An episode may add to resident memory (hazard R5)."""
MOST_OPENED = 5

pytestmark = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads /proc")


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(("scripted", "--episodes=2500", "--warm-up=0.5", *SMALL), id="scripted"),
        pytest.param(("scripted", "--episodes=10000"), id="scripted-long", marks=pytest.mark.soak),
        pytest.param(("model", "--episodes=10000"), id="model-long", marks=pytest.mark.soak),
    ],
)
def found(request, tmp_path_factory):
    """Return what a process found that generated: everything else there is not its memory."""
    settings = dict(os.environ, TMPDIR=str(tmp_path_factory.mktemp("memory")))
    line = [sys.executable, str(BENCH), *request.param]
    return json.loads(subprocess.run(line, check=True, capture_output=True, env=settings).stdout)


@pytest.mark.claim("r5")
def test_an_episode_adds_less_than_a_kilobyte_to_the_memory_of_a_run(found):
    assert found["episodes"] >= 2500
    assert found["bytes_an_episode"] < MOST_BYTES, found


@pytest.mark.claim("r5")
def test_a_run_opens_no_more_files_and_threads_the_longer_it_is(found):
    for what in ("descriptors", "threads"):
        for later, sooner in (("open_late", "open_warm"), ("open_after", "open_before")):
            assert abs(found[later][what] - found[sooner][what]) <= MOST_OPENED, found


@pytest.mark.claim("r5")
def test_a_run_leaves_no_process_behind(found):
    assert found["open_after"]["children"] == 0, found
