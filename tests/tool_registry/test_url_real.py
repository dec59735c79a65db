"""The official server package of PyPI and our own, over HTTP: listed as they are over stdio."""

import asyncio
import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from synth.core.mcp.session import Limits
from tool_registry.crawl import list_target, targets_of
from tool_registry.source import Bench

ROOT = Path(__file__).parents[2]
SDK = """
import sys
from mcp.server import MCPServer

server = MCPServer("demo", version="0.1", instructions="Adds.")

@server.tool()
def add(a: int, b: int) -> int:
    "Add two numbers."
    return a + b

how = {"json_response": True} if sys.argv[1] == "json" else {}
server.run("sse" if sys.argv[1] == "sse" else "streamable-http", host="127.0.0.1", port=0, **how)
"""
ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+")


@pytest.fixture
def started():
    """Start a program; gives where it says that it listens, and what it says until its end."""
    running = []

    def start(*arguments):
        process = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=ROOT,
            env=os.environ | {"PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        said = []
        reader = threading.Thread(target=lambda: said.extend(process.stdout))
        reader.start()
        running.append((process, reader))
        deadline = time.monotonic() + 60
        while not (found := ADDRESS.search("".join(said))) and time.monotonic() < deadline:
            assert process.poll() is None, said
            time.sleep(0.02)
        return found.group(), said

    yield start
    for process, reader in running:
        process.terminate()
        process.wait(timeout=20)
        reader.join()
        process.stdout.close()


def listed(word, tmp_path):
    bench = Bench(cache=tmp_path, limits=Limits(start_s=20))
    (target,) = targets_of([word])
    return asyncio.run(list_target(target, bench))


@pytest.mark.parametrize(
    ("how", "word"),
    [("events", "{}/mcp"), ("json", "{}/mcp"), ("sse", "{}/sse"), ("sse", "sse:{}/sse")],
)
def test_a_server_of_the_official_package_is_listed(started, tmp_path, how, word):
    address, said = started("-c", SDK, how)
    entry = listed(word.format(address), tmp_path)
    assert (entry.outcome, entry.reason, len(entry.tools)) == ("ok", None, 1)
    assert '"name":"add"' in entry.tools[0]
    assert entry.facts["server_info"] == {"name": "demo", "version": "0.1"}
    assert (entry.facts["protocol"], entry.facts["instructions"]) == ("2025-11-25", "Adds.")
    assert entry.flags == []
    if how != "sse":
        assert any('"DELETE /mcp HTTP/1.1" 200' in line for line in said)


def test_an_application_of_ours_is_listed_as_it_is_served(started, tmp_path):
    address, _ = started("-m", "synth", "serve", "hotel", "--http")
    entry = listed(f"{address}/mcp", tmp_path)
    assert (entry.outcome, entry.reason) == ("ok", None)
    assert entry.facts["server_info"]["name"] == "toolloom-hotel"
    assert len(entry.tools) > 10
