"""A run against the mock endpoint that can be started, killed and compared, all as processes."""

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Condition, Thread
from urllib.parse import urlsplit

import pytest

from synth.core import jsonl
from synth.core.config import load_config
from synth.core.llm.mock.child import child
from synth.pipeline.export import export
from synth.pipeline.job import generate
from synth.pipeline.progress import Goal

SETTINGS = ("generate.applications=['clinic']", "generate.agents=4", "generate.states=12")
WAIT_S = 120.0


class Forks:
    """Commands of toolloom as processes, started in no time."""

    def __init__(self):
        server = Path(__file__).with_name("fork_server.py")
        self.process = subprocess.Popen(
            [sys.executable, str(server)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, question):
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


@dataclass
class Session:
    """One process that generates."""

    forks: Forks
    pid: int
    said: Path
    code: int | None = None

    def ended(self):
        if self.code is None:
            self.code = self.forks.ask({"poll": self.pid})
        return self.code is not None

    def signal(self, number):
        if not self.ended():
            os.kill(self.pid, number)

    def wait(self):
        """Return the exit code; what it said is in the failure's text."""
        deadline = time.monotonic() + WAIT_S
        while not self.ended():
            assert time.monotonic() < deadline, f"it hangs: {self.text()}"
            time.sleep(0.01)
        return self.code

    def text(self):
        return self.said.read_text(encoding="utf-8")


class Place:
    """A workspace with one run, and the endpoint that plays its agent.

    Args:
        forks: start its processes.
        folder: the workspace.
        mock: the endpoint.
    """

    def __init__(self, forks, folder, mock):
        self.forks, self.folder, self.mock = forks, folder, mock
        self.run = folder / "runs" / "r"
        self.said = folder / "said.txt"

    def start(self, *options, limit=None):
        model = (f"base_url={self.mock.url}", "model=mock", "key_env=NO_KEY", "timeout_s=20")
        settings = (*SETTINGS, *(f"models.agent.{setting}" for setting in model))
        chosen = [f"--set={setting}" for setting in settings]
        return self.command("generate", "--run", "r", *chosen, *options, limit=limit)

    def command(self, *words, limit=None):
        self.folder.mkdir(exist_ok=True)
        self.said.write_bytes(b"")
        argv = ["--workspace", str(self.folder), *words]
        start = {"argv": argv, "said": str(self.said), "limit": limit}
        return Session(self.forks, self.forks.ask({"start": start}), self.said)

    def finish(self, *options):
        session = self.start(*options)
        assert session.wait() == 0, session.text()
        return session

    def report(self):
        return json.loads((self.run / "report.json").read_bytes())

    def told(self):
        """Return what the report says of the episodes; costs differ where replies were lost."""
        return {k: v for k, v in self.report().items() if k not in ("cost", "journal")}

    def dataset(self):
        export(self.run, self.folder / "dataset", formats=("openai",), limit=None)
        return (self.folder / "dataset" / "train.jsonl").read_bytes()

    def episodes(self):
        """Return the rows of finished episodes as they are in the file, sorted."""
        return sorted(line for _, line in jsonl.lines(self.run / "episodes-0.jsonl"))

    def calls(self):
        """Return how often the endpoint was asked for each call of this run."""
        planned = {row["episode"] for row in jsonl.read(self.run / "plan.jsonl")}
        calls = [entry["call"] for entry in self.mock.entries()]
        return Counter(call for call in calls if call.partition("/")[0] in planned)


class Gate:
    """What stands before an endpoint: lets so many requests pass, and holds all others.

    Whoever has episodes in flight comes to a stand at it, however fast it is.
    """

    def __init__(self, mock, passes):
        self.mock, self.url, self.held = mock, "", 0
        self._passes, self._changed = passes, Condition()

    def more(self, passes):
        """Let more requests pass."""
        with self._changed:
            self._passes += passes
            self._changed.notify_all()

    def enter(self):
        with self._changed:
            self.held += 1
            self._changed.wait_for(lambda: self._passes > 0)
            self.held -= 1
            self._passes -= 1

    def entries(self):
        return self.mock.entries()


@contextlib.contextmanager
def _answering(handler):
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextlib.contextmanager
def _gate(mock, passes):
    made, address = Gate(mock, passes), urlsplit(mock.url).netloc

    class Door(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            made.enter()
            inside = HTTPConnection(address, timeout=WAIT_S)
            inside.request("POST", self.path, body, dict(self.headers))
            answer = inside.getresponse()
            data = answer.read()
            inside.close()
            with contextlib.suppress(OSError):  # who asked may be dead
                self.send_response(answer.status)
                self.send_header("Content-Type", answer.headers["Content-Type"])
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

        def log_message(self, *arguments):
            pass

    with _answering(Door) as made.url:
        try:
            yield made
        finally:
            made.more(1 << 30)


@pytest.fixture(scope="session")
def answering():
    """Return a context manager: a server of HTTP with a handler; gives the address of the API."""
    return _answering


@pytest.fixture(scope="session")
def gate():
    """Return a context manager: a gate before an endpoint, which is open at the end."""
    return _gate


@pytest.fixture(scope="session")
def forks():
    started = Forks()
    yield started
    started.close()


@pytest.fixture(scope="session")
def script(tmp_path_factory):
    """Return a function: the dataset of a scripted run of so many episodes, for mocks to repeat."""
    made = {}

    def make(episodes):
        if episodes not in made:
            workspace = tmp_path_factory.mktemp("script")
            config = load_config(None, [*SETTINGS, "generate.errors.rate=0"])
            run = workspace / "runs" / "r"
            asyncio.run(generate(config, run, workspace, Goal(episodes=episodes)))
            export(run, workspace, formats=("openai",), limit=None)
            made[episodes] = workspace / "train.jsonl"
        return made[episodes]

    return make


@pytest.fixture
def place(forks, tmp_path):
    """Return a function: a new place whose endpoint is a child process with these options."""
    running = []

    def make(name, *options, mock=None):
        if mock is None:
            context = child(tmp_path / f"{name}-ledger.jsonl", "--seed=1", *options)
            mock = context.__enter__()
            running.append(context)
        return Place(forks, tmp_path / name, mock)

    yield make
    for context in running:
        context.__exit__(None, None, None)
