"""`toolloom crawl` with servers that hang or flood, and when it is ended in the middle."""

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SERVERS = Path(__file__).parent / "servers"


def entry(script, *arguments):
    return {"command": sys.executable, "args": ["-I", "-S", str(SERVERS / script), *arguments]}


@pytest.fixture
def token():
    return uuid.uuid4().hex


@pytest.fixture
def start(tmp_path):
    """Start the command in a terminal's way: as the leader of its own process group."""
    started = []

    def go(*arguments):
        process = subprocess.Popen(
            [sys.executable, "-m", "synth", "--workspace", str(tmp_path / "w"), *arguments],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env={**os.environ, "TMPDIR": str(tmp_path)},
        )
        started.append(process)
        return process

    yield go
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()


@pytest.fixture
def listed(tmp_path):
    """Write an mcp.json; returns its path."""

    def write(**servers):
        path = tmp_path / "mcp.json"
        path.write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
        return str(path)

    return write


def running(token):
    """Return the processes whose command line holds the token."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if token.encode() in (folder / "cmdline").read_bytes():
                found.append(folder.name)
        except OSError:
            continue
    return found


def within(seconds, condition):
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
    return condition()


def outcomes(start):
    query = "SELECT regexp_extract(server, '#(.*)', 1), outcome, tools FROM crawls ORDER BY 1"
    asked = start("registry", "sql", query, "--json")
    said, failed = asked.communicate(timeout=60)
    assert asked.returncode == 0, failed
    return [tuple(row) for row in json.loads(said)["rows"]]


def test_a_server_that_floods_costs_seconds_and_its_neighbour_nothing(start, listed, token):
    path = listed(
        good=entry("healthy.py"),
        line=entry("hostile.py", "endless_line", token),
        messages=entry("hostile.py", "asks_without_end", token),
    )
    begun = time.monotonic()
    crawl = start("crawl", path, "--allow-weaker", "--concurrency", "3", "--json")
    said, failed = crawl.communicate(timeout=100)
    assert time.monotonic() - begun < 60
    assert crawl.returncode == 0, failed
    servers = json.loads(said)["servers"]
    assert {s["server"].partition("#")[2]: s["outcome"] for s in servers} == {
        "good": "ok",
        "line": "oversize",
        "messages": "oversize",
    }
    assert not running(token)


@pytest.mark.parametrize("mode", ["silent", "hangs_in_list"])
def test_a_server_that_hangs_is_named_while_it_is_waited_for_and_ended_by_ctrl_c(
    start, listed, token, mode
):
    crawl = start("crawl", listed(hangs=entry("hostile.py", mode, token)), "--allow-weaker")
    while "waiting for mcp.json:" not in (line := crawl.stderr.readline()):
        assert line, "it ended without a word"
    assert line.startswith("crawl: 0/1 waiting for ")
    assert "#hangs (" in line
    assert running(token)
    os.kill(crawl.pid, signal.SIGINT)
    said, failed = crawl.communicate(timeout=20)
    assert crawl.returncode == 130
    assert (said, failed) == ("", "interrupted; the same command goes on from here\n")
    assert within(5, lambda: not running(token))
    assert outcomes(start) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_crawl_that_was_ended_leaves_no_process_and_goes_on_where_it_was(
    start, listed, token, number, tmp_path
):
    script = tmp_path / "server.py"
    script.write_text((SERVERS / "hostile.py").read_text(encoding="utf-8"), encoding="utf-8")
    late = {"command": sys.executable, "args": ["-I", "-S", str(script), "silent", token]}
    path = listed(a=entry("healthy.py"), b=late)
    line = ("crawl", path, "--allow-weaker", "--concurrency", "1", "--json")
    crawl = start(*line)
    ledgers = tmp_path / "w" / "cache" / "crawls"
    assert within(60, lambda: running(token) and any(f.stat().st_size for f in ledgers.glob("*")))
    os.kill(crawl.pid, number)
    crawl.communicate(timeout=20)
    assert within(5, lambda: not running(token))
    assert outcomes(start) == []
    script.write_text((SERVERS / "healthy.py").read_text(encoding="utf-8"), encoding="utf-8")
    again = start(*line)
    said, failed = again.communicate(timeout=100)
    assert again.returncode == 0, failed
    assert [s["resumed"] for s in json.loads(said)["servers"]] == [True, False]
    assert outcomes(start) == [("a", "ok", 2), ("b", "ok", 2)]


def test_the_table_tells_versions_seconds_why_some_failed_and_sums_of_each_source(start, listed):
    path = listed(
        a=entry("healthy.py"), b=entry("hostile.py", "coloured_error", "x"), c=entry("healthy.py")
    )
    crawl = start("crawl", path, "--allow-weaker")
    said, failed = crawl.communicate(timeout=60)
    assert crawl.returncode == 0, failed
    head, a, c, b, why, ran, kind, total = said.splitlines()
    assert head.split() == ["server", "version", "tools", "seconds"]
    assert [row.split()[0].rpartition("#")[2] for row in (a, c, b)] == ["a", "c", "b"]
    assert a.split()[2] == c.split()[2] == "2"
    assert b.split()[2] == "-"
    assert why.startswith("    error 7")
    assert ran.startswith("    ran: ")
    assert kind == "mcp.json: 2 of 3 servers listed, 4 tools"
    assert total == "2 of 3 servers listed, 4 tools"
    again = start("crawl", path, "--allow-weaker", "--json")
    said, failed = again.communicate(timeout=60)
    assert json.loads(said)["sources"] == [
        {"source": "mcp.json", "servers": 3, "listed": 2, "tools": 4}
    ]
