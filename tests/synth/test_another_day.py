"""What was stored is made again on another day, and what users said is theirs to say.

120 accepted episodes of all applications in every run of the tests, 10,000 in a soak (`make soak`).
The other day is real to the process that replays: a library in front of the C library's tells it
another time, and with it SQLite, DuckDB and everything else that asks there. Not shifted are the
kernel's own stamps on files, and clocks that only measure how long something takes.
"""

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys

import pytest

from simulators.sql.load import applications
from synth.core.config import load_config
from synth.core.hearing import languages
from synth.core.invented import Known
from synth.pipeline.generate import Goal
from synth.pipeline.job import generate
from synth.run import read_episodes, read_plan

DAYS = 400
SHIM = f"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/time.h>
#include <time.h>
#define LATER ({DAYS}L * 86400L)
int clock_gettime(clockid_t which, struct timespec *at) {{
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int failed = real(which, at);
    if (!failed && (which == CLOCK_REALTIME || which == CLOCK_REALTIME_COARSE))
        at->tv_sec += LATER;
    return failed;
}}
int gettimeofday(struct timeval *at, void *zone) {{
    struct timespec now;
    int failed = clock_gettime(CLOCK_REALTIME, &now);
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
    return failed;
}}
time_t time(time_t *into) {{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (into) *into = now.tv_sec;
    return now.tv_sec;
}}
"""
CLOCKS = """
import datetime, json, os, time
import apsw, duckdb
own = apsw.Connection(":memory:").execute("SELECT unixepoch()").fetchone()[0]
ducks = duckdb.sql("SELECT epoch(now())").fetchall()[0][0]
print(json.dumps([time.time(), datetime.datetime.now().timestamp(), own, ducks]))
"""
SETTINGS = [
    "generate.agents=6",
    "generate.outcomes={transient=0.05, partial=0.05, edge=0.05, permanent=0.05}",
    f"generate.languages={{{', '.join(f'{name}=1' for name in languages())}}}",
]


@pytest.fixture(scope="module", name="another_day")
def _another_day(tmp_path_factory):
    """Return the environment of a process in which it is another day."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("there is no C compiler to shift the clock with")
    folder = tmp_path_factory.mktemp("clock")
    (folder / "later.c").write_text(SHIM)
    library = folder / "later.so"
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-O1", "-o", library, folder / "later.c", "-ldl"],
        check=True,
        capture_output=True,
    )
    return {**os.environ, "LD_PRELOAD": str(library), "TZ": "Asia/Tokyo", "PYTHONHASHSEED": "9"}


@pytest.fixture(
    scope="module",
    name="made",
    params=[120, pytest.param(10_000, marks=pytest.mark.soak)],
)
def _made(request, tmp_path_factory):
    """Return a workspace with a run of so many accepted episodes."""
    folder = tmp_path_factory.mktemp("made")
    config = load_config(None, SETTINGS)
    goal = Goal(accept=request.param)
    report = asyncio.run(generate(config, folder / "runs" / "r", folder, goal))
    assert report["accepted"] == request.param
    return folder


def test_all_clocks_of_the_process_are_shifted(another_day):
    told = [
        json.loads(subprocess.run([sys.executable, "-c", CLOCKS], env=env, capture_output=True,
                                  check=True).stdout)
        for env in (another_day, {**os.environ})
    ]  # fmt: skip
    for later, now in zip(*told, strict=True):
        assert later - now == pytest.approx(DAYS * 86_400, abs=120)


def test_every_stored_trajectory_replays_in_a_fresh_process_on_another_day(made, another_day):
    command = [sys.executable, "-m", "synth", "--workspace", made, "--json", "replay", "--run", "r"]
    done = subprocess.run(command, env=another_day, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    counts = json.loads(done.stdout)
    worlds = [planned.world for planned in read_plan(made / "runs" / "r")]
    assert set(worlds) == set(applications())
    print(f"replayed {counts['same']} of {len(worlds)}; left out {counts['left_out']}")
    assert counts["differing"] == {}
    assert counts["same"] == counts["planned"] == len(worlds)


def test_a_scripted_user_never_utters_an_identifier_that_is_not_in_its_facts(made):
    """Neither what looks like one, nor a key that the agent's tools returned in that episode.

    What the user's own tools showed them is theirs to say.
    """
    plan = {planned.episode: planned.task for planned in read_plan(made / "runs" / "r")}
    said, keys = 0, 0
    for episode in read_episodes(made / "runs" / "r"):
        task = plan[episode.trajectory.episode]
        blueprint = task.blueprint
        facts = (*blueprint.opening, *blueprint.withheld, *blueprint.background)
        texts = [str(form) for fact in facts for form in (fact.value, fact.spoken)]
        seen = [step.result.content for step in episode.trajectory.steps if step.by == "user"]
        known = [task.persona.name, *blueprint.clauses, *texts, *seen]
        theirs = Known(known)
        foreign = keys_in(episode) - set(re.findall(r"[\w-]+", "\n".join(known)))
        keys += len(foreign)
        for message in episode.trajectory.messages:
            if message.role == "user":
                said += 1
                assert list(theirs.invented(message.content)) == [], message.content
                assert foreign.isdisjoint(re.findall(r"[\w-]+", message.content)), message.content
    print(f"{len(plan)} episodes, {said} messages of users, {keys} keys that they did not know")
    assert said > 2 * len(plan)
    assert keys > len(plan)


def keys_in(episode):
    """Return the keys of rows that the tools of an episode returned."""
    found = set()
    for step in episode.trajectory.steps:
        if step.by == "agent":
            found.update(re.findall(r'"(?:\w+_)?id":"([^"]+)"', step.result.content))
    return {key for key in found if any(c.isdigit() for c in key)}
