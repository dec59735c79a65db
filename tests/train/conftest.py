"""A tiny model and its renderer, made once; one thread, because the machine is shared.

`processes` starts real processes that have torch loaded already, to be killed.
"""

import json
import os
import runpy
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from synth.core.formats import get_format
from train.engine import TorchEngine
from train.models import tiny
from train.renderer import Renderer

TEXTS = [
    'Tools: find_customer(email: string) - Find one. {"name": "find_customer", "arguments": {}}',
    "<tool_call>{}</tool_call> I would like to know when my loan of the book is due, please.",
    "The quick brown fox jumps over the lazy dog. 0123456789 user assistant system tool",
] * 4


@pytest.fixture(scope="session", autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def loaded():
    """A fresh model each time: tests change it."""
    return tiny(TEXTS, size="0.3M")


@pytest.fixture
def engine(loaded):
    return TorchEngine(loaded, places=256)


@pytest.fixture(scope="session")
def tokenizer():
    return tiny(TEXTS, size="0.3M").tokenizer


@pytest.fixture(scope="session")
def renderer(tokenizer):
    return Renderer(tokenizer, get_format("hermes"))


PARENT = """
import json, os, runpy, sys, traceback
import torch
import synth.app, synth.app._learning, train.rl, train.sft

torch.set_num_threads(1)
for line in sys.stdin:
    order = json.loads(line)
    pid = os.fork()
    if pid == 0:
        log = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(log, 1)
        os.dup2(log, 2)
        sys.argv = order["argv"]
        try:
            if sys.argv[0] == "toolloom":
                code = synth.app.main(sys.argv[1:])
            else:
                runpy.run_path(sys.argv[0], run_name="__main__")
                code = 0
        except BaseException:
            traceback.print_exc()
            code = 99
        sys.stdout.flush()
        os._exit(code)
    print(pid, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""


class Processes:
    """Starts processes, each a copy of one that has loaded torch (seconds) and done nothing yet."""

    def __init__(self):
        self._parent = subprocess.Popen(
            [sys.executable, "-c", PARENT],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )

    def run(self, log, *argv, kill_when=None):
        """Run a command to its end, or kill -9 it as soon as `kill_when()` is true.

        Returns its exit code, negative for a signal.
        """
        order = {"log": str(log), "argv": [str(word) for word in argv]}
        self._parent.stdin.write(json.dumps(order) + "\n")
        self._parent.stdin.flush()
        pid = int(self._parent.stdout.readline())
        deadline = time.monotonic() + 600
        while kill_when is not None and _alive(pid) and time.monotonic() < deadline:
            if kill_when():
                os.kill(pid, signal.SIGKILL)
                break
            time.sleep(0.001)
        return int(self._parent.stdout.readline())

    def close(self):
        """End the parent."""
        self._parent.kill()
        self._parent.wait()
        self._parent.stdin.close()
        self._parent.stdout.close()


def _alive(pid):
    try:
        return " Z " not in Path(f"/proc/{pid}/stat").read_text("utf-8")
    except OSError:
        return False


@pytest.fixture(scope="session")
def processes():
    made = Processes()
    yield made
    made.close()


@pytest.fixture(scope="session")
def bandit():
    """The namespace of `rl_child.py`, which is also a program."""
    return runpy.run_path(str(Path(__file__).with_name("rl_child.py")))
