"""Workers of a Ray cluster play a run: it is the one that a single process plays, whoever dies."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from threading import Event, Thread

import pytest

from synth.core import jsonl
from synth.core.config import load_config
from synth.core.errors import ToolloomError
from synth.core.llm.mock.child import child
from synth.pipeline.engine import Workers
from synth.pipeline.export import export
from synth.pipeline.job import generate
from synth.pipeline.progress import Goal

SETTINGS = ("generate.applications=['clinic']", "generate.agents=4", "generate.states=12")
EPISODES = 32
CONCURRENCY = 8
PATIENCE_S = 240.0
"""How long a machine may take that others are busy on, before something is believed to hang."""


@pytest.fixture(scope="module")
def cluster():
    """Return the folder of a cluster that this process and its children are told of."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("RAY_")}
    command = [sys.executable, str(Path(__file__).with_name("ray_cluster.py"))]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with pytest.MonkeyPatch.context() as patch:
        owner = subprocess.Popen(command, env=clean, **pipes)
        found = json.loads(owner.stdout.readline())
        for name, value in found["environment"].items():
            patch.setenv(name, value)
        yield Path(found["folder"])
        owner.stdin.close()
        owner.wait(timeout=PATIENCE_S)
        owner.stdout.close()


@pytest.fixture(scope="module")
def connected(cluster):
    """Connect this process once, for all runs that it drives itself."""
    import ray

    ray.init(address=os.environ["RAY_ADDRESS"], log_to_driver=False, logging_level="ERROR")
    yield cluster
    ray.shutdown()


@pytest.fixture(scope="module")
def forks(forks, cluster):
    """Return what starts commands that know the cluster."""
    started = type(forks)()
    yield started
    started.close()


@pytest.fixture(scope="module")
def mock(script, tmp_path_factory):
    """Return one endpoint for all runs that ask it right; whose calls are whose, the plans say."""
    ledger = tmp_path_factory.mktemp("mock") / "ledger.jsonl"
    with child(ledger, "--seed=1", "--latency-ms=30", f"--script={script(EPISODES)}") as started:
        yield started


class Made:
    """A run that is driven by this process.

    Args:
        folder: the workspace.
        mock: the endpoint that plays the agent; None where programs play.
        settings: more of them.
    """

    def __init__(self, folder, mock=None, settings=()):
        self.folder, self.run, self.mock = folder, folder / "runs" / "r", mock
        model = {} if mock is None else {"base_url": mock.url, "model": "mock", "timeout_s": 20}
        chosen = [f"models.agent.{name}={value}" for name, value in model.items()]
        self.settings = [*SETTINGS, *chosen, *settings]

    def play(self, *, workers=2, more=(), on_progress=lambda progress: None, goal=None):
        return asyncio.run(
            generate(
                load_config(None, [*self.settings, *more]),
                self.run,
                self.folder,
                goal or Goal(episodes=EPISODES),
                concurrency=CONCURRENCY,
                on_progress=on_progress,
                workers=Workers(workers) if workers else None,
            )
        )

    def rows(self):
        """Return the finished episodes as they are in the files, sorted."""
        files = self.run.glob("episodes-*.jsonl")
        return sorted(line for file in files for _, line in jsonl.lines(file))

    def dataset(self):
        export(self.run, self.folder / "dataset", formats=("openai",), limit=None)
        return (self.folder / "dataset" / "train.jsonl").read_bytes()


def workers_of(run):
    """Return the processes that have a shard of a run; not this one, which merges shards."""
    found = {}
    for lock in run.glob("shards/*/.lock"):
        with contextlib.suppress(ValueError, OSError):
            found[int(lock.read_text(encoding="ascii"))] = lock.parent
    found.pop(os.getpid(), None)
    return found


def alive(pid):
    with contextlib.suppress(OSError):
        os.kill(pid, 0)
        return True
    return False


def ended(pids):
    """Wait until processes are gone."""
    deadline = time.monotonic() + PATIENCE_S
    while any(map(alive, pids)):
        assert time.monotonic() < deadline, pids
        time.sleep(0.05)


@pytest.fixture(scope="module")
def whole(mock, tmp_path_factory):
    """A run against the endpoint, played in this process, and what was asked for it."""
    made = Made(tmp_path_factory.mktemp("whole"), mock)
    made.report = made.play(workers=None)
    made.asked = Counter(entry["call"] for entry in mock.entries())
    return made


def half_played(shard):
    """Return how many episodes of a shard have had replies, and are not finished."""
    finished = {row["trajectory"]["episode"] for row in jsonl.read(shard / "episodes-0.jsonl")}
    replies = (row["call"] for row in jsonl.read(shard / "calls-0.jsonl") if "call" in row)
    return len({call.partition("/")[0] for call in replies} - finished)


class Killer:
    """Kills a worker with SIGKILL in the middle of episodes, when all of them are held at a gate.

    Args:
        run: the folder.
        gate: where the requests of all episodes in flight are held.
    """

    def __init__(self, run, gate):
        self.run, self.gate, self.killed = run, gate, None

    def __call__(self, progress):
        if self.killed is not None or self.gate.held < CONCURRENCY:
            return
        workers = workers_of(self.run)
        pid = max(workers, key=lambda pid: half_played(workers[pid]))
        if half_played(workers[pid]):
            self.killed = pid
            os.kill(pid, signal.SIGKILL)
        self.gate.more(self.gate.held if self.killed is None else 1 << 30)


def check_costs(report, entries, whole):
    """See that only what was under way was asked twice, and that the books know of all."""
    asked = Counter(entry["call"] for entry in entries)
    assert set(asked) == set(whole.asked)
    assert asked.total() - whole.asked.total() <= CONCURRENCY
    assert 0 <= report["cost"]["total"]["attempts"] - asked.total() <= CONCURRENCY


def test_programs_play_the_same_run_on_two_workers_as_here(connected, tmp_path):
    here, there = Made(tmp_path / "here"), Made(tmp_path / "there")
    goal = Goal(accept=EPISODES)
    report = here.play(workers=None, goal=goal)
    seen = set()

    def both(progress):
        """Hold the loop up until both workers are there: the run would be over before."""
        deadline = time.monotonic() + PATIENCE_S
        while len(seen) < 2:
            assert time.monotonic() < deadline
            seen.update(workers_of(there.run))
            time.sleep(0.01)

    found = there.play(goal=goal, on_progress=both)
    assert found | {"not_needed": None} == report | {"not_needed": None}
    assert there.dataset() == here.dataset()
    assert set(here.rows()) <= set(there.rows())
    assert len(there.rows()) == len(set(there.rows()))
    assert len(seen) == 2
    ended(seen)
    assert not (there.run / "shards").exists()


def test_models_play_the_same_run_on_two_workers_as_here_and_the_books_agree(
    connected, mock, whole, tmp_path
):
    before = len(mock.entries())
    there = Made(tmp_path, mock)
    report = there.play()
    asked = mock.entries()[before:]
    assert there.rows() == whole.rows()
    assert there.dataset() == whole.dataset()
    assert Counter(entry["call"] for entry in asked) == whole.asked
    assert report["cost"] == whole.report["cost"]
    assert report["cost"]["total"]["attempts"] == len(asked)
    assert len(list(there.run.glob("calls-*.jsonl"))) == 3  # one of each worker
    assert there.play(workers=None) == report  # nothing is left to be played or paid
    assert len(mock.entries()) == before + len(asked)


def test_a_worker_that_is_killed_loses_nothing_and_pays_nothing_twice(
    connected, mock, gate, whole, tmp_path
):
    before = len(mock.entries())
    with gate(mock, whole.asked.total() // 3) as held:
        there = Made(tmp_path, held)
        killer = Killer(there.run, held)
        report = there.play(on_progress=killer)
    assert killer.killed
    assert there.rows() == whole.rows()
    assert there.dataset() == whole.dataset()
    check_costs(report, mock.entries()[before:], whole)
    assert report["journal"]["replayed"] > 0


def test_a_budget_holds_for_all_workers_together_whoever_dies(
    connected, mock, gate, whole, tmp_path
):
    before = len(mock.entries())
    limit = whole.asked.total() // 2
    limited = [f"budget.requests={limit}"]
    with gate(mock, limit // 2) as held:
        there = Made(tmp_path, held)
        killer = Killer(there.run, held)
        report = there.play(more=limited, on_progress=killer)
    assert killer.killed
    assert f"the budget of {limit} requests is spent" in report["gave_up"]
    assert report["faults_by_owner"] == {}
    asked = len(mock.entries()) - before
    assert limit - CONCURRENCY <= asked <= limit
    assert report["cost"]["total"]["attempts"] == limit  # what was under way may have arrived
    there = Made(tmp_path, mock)
    assert there.play(workers=None, more=limited)["gave_up"]
    assert len(mock.entries()) - before == asked
    there.play(workers=None)
    assert there.rows() == whole.rows()


def test_a_run_whose_driver_was_killed_goes_on_on_workers_and_then_in_one_process(
    connected, place, mock, gate, whole
):
    before = len(mock.entries())
    ray = ("--engine", "ray", "--workers", "1", "--concurrency", str(CONCURRENCY))
    with gate(mock, whole.asked.total() // 3) as held:
        killed = place("killed", mock=held)
        session = killed.start("--episodes", str(EPISODES), *ray)
        deadline = time.monotonic() + PATIENCE_S
        while held.held < CONCURRENCY:
            assert time.monotonic() < deadline, session.text()
            assert not session.ended(), session.text()
            time.sleep(0.02)
        session.signal(signal.SIGKILL)
        session.wait()
        ended(workers_of(killed.run))
    assert list(killed.run.glob("shards/*"))
    made = Made(killed.folder, mock)
    made.play(workers=1, goal=Goal(episodes=EPISODES * 2 // 3))
    assert len(made.rows()) < EPISODES
    report = made.play(workers=None)
    assert made.rows() == whole.rows()
    assert made.dataset() == whole.dataset()
    check_costs(report, mock.entries()[before:], whole)
    assert not (made.run / "shards").exists()


def test_workers_that_die_again_and_again_end_the_run_with_the_reason(
    connected, mock, gate, tmp_path, monkeypatch
):
    from synth.pipeline import ray_engine

    monkeypatch.setattr(ray_engine, "DEATHS", 1)
    over = Event()

    def kill():
        killed = set()
        while not over.wait(0.001):
            for pid in workers_of(there.run).keys() - killed:
                os.kill(pid, signal.SIGKILL)
                killed.add(pid)

    killing = Thread(target=kill)
    with gate(mock, 0) as held:  # no episode is finished
        there = Made(tmp_path, held)
        killing.start()
        try:
            with pytest.raises(ToolloomError, match="2 workers died, and no episode was finished"):
                there.play(workers=1)
        finally:
            over.set()
            killing.join()
    assert not (there.run / "shards").exists()


def test_ctrl_c_ends_a_cluster_of_our_own_and_leaves_a_run_that_goes_on(tmp_path):
    clean = {k: v for k, v in os.environ.items() if not k.startswith("RAY_")}
    with tempfile.TemporaryDirectory(dir="/tmp") as short:
        command = [sys.executable, "-m", "synth", "--workspace", str(tmp_path), "--json"]
        command += ["generate", "--accept", "100000", "--run", "r", "--engine", "ray"]
        session = subprocess.Popen(
            [*command, "--workers", "1", *(f"--set={setting}" for setting in SETTINGS)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**clean, "TMPDIR": short},
            start_new_session=True,
        )
        there = Made(tmp_path)
        deadline = time.monotonic() + PATIENCE_S
        while not any(jsonl.lines(there.run / "episodes-0.jsonl")):
            assert time.monotonic() < deadline
            assert session.poll() is None, session.communicate()
            time.sleep(0.05)
        pids = [*workers_of(there.run)]
        os.killpg(session.pid, signal.SIGINT)  # as a terminal does
        said = session.communicate(timeout=PATIENCE_S)
        assert session.returncode == 130
        assert said[0] == ""
        assert "interrupted; the same command goes on from here" in said[1]
        assert "Traceback" not in said[1]
        assert len(pids) == 1
        ended(pids)
        assert list(Path(short).iterdir()) == []
    assert not (there.run / "shards").exists()
    assert len(there.rows()) == len(set(there.rows()))


@contextlib.contextmanager
def door(answering):
    """Run an endpoint that refuses everybody; give its address and the keys that it was shown."""
    keys = []

    class Door(BaseHTTPRequestHandler):
        def do_POST(self):
            keys.append(self.headers["Authorization"])
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(400)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *arguments):
            pass

    with answering(Door) as url:
        yield url, keys


def test_a_key_of_this_process_reaches_workers_and_no_file_or_command_line(
    connected, answering, tmp_path, monkeypatch
):
    secret = "sk-7f3b9d1c5e8a2406"
    monkeypatch.setenv("SECRET_OF_THE_TEST", secret)
    with door(answering) as (url, keys):
        model = (f"models.agent.base_url={url}", "models.agent.model=m")
        there = Made(tmp_path, settings=[*model, "models.agent.key_env=SECRET_OF_THE_TEST"])
        lines = []

        def look(progress):
            for pid in workers_of(there.run):
                with contextlib.suppress(OSError):
                    lines.append(Path(f"/proc/{pid}/cmdline").read_bytes())

        report = there.play(workers=1, goal=Goal(episodes=3), on_progress=look)
    assert report["faults_by_owner"] == {"infrastructure": 3}
    assert set(keys) == {f"Bearer {secret}"}
    assert lines
    assert not [line for line in lines if secret.encode() in line]
    files = [path for top in (tmp_path, connected) for path in top.rglob("*") if path.is_file()]
    assert len(files) > 20
    assert not [path for path in files if secret.encode() in path.read_bytes()]
