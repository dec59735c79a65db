"""All servers that misbehave, over stdio and HTTP, in one crawl beside healthy ones."""

import asyncio
import json
import re
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

from synth.core.mcp.session import Limits
from synth.core.sandbox.confine import ProcessLimits
from synth.core.store import Workspace
from tool_registry import browse
from tool_registry.crawl import crawl
from tool_registry.source import Bench

SERVERS = Path(__file__).parent.parent / "servers"
STATES = {
    "ok", "exited", "timeout", "invalid", "oversize", "rpc_error", "denied", "missing", "busy",
    "broken", "unsafe", "unreachable",
}  # fmt: skip
LIMITS = Limits(
    line_bytes=1 << 20, noise_bytes=4 << 20, list_bytes=4 << 20, pages=20, tools=500, start_s=3,
    list_s=4, stop_s=0.1, disk_bytes=16 << 20, disk_files=2000,
    process=ProcessLimits(memory_bytes=256 << 20, cpu_s=3),
)  # fmt: skip


def modes(script):
    """Return the names of all modes of a hostile server."""
    known = "import runpy, sys; print(*runpy.run_path(sys.argv[1], run_name='x')['MODES'])"
    command = [sys.executable, "-c", known, str(SERVERS / script)]
    return subprocess.check_output(command, text=True).split()


@pytest.fixture(scope="module")
def crawled(tmp_path_factory):
    """Crawl all of them at once; gives report, registry, secret, seconds and growth of memory."""
    folder = tmp_path_factory.mktemp("hostile")
    token, secret = uuid.uuid4().hex, f"sk-{uuid.uuid4().hex}"
    command = [sys.executable, "-I", "-S", str(SERVERS / "hostile_http.py")]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    port = int(process.stdout.readline())
    servers = {}
    for mode in modes("hostile.py"):
        args = ["-I", "-S", str(SERVERS / "hostile.py"), mode, token, str(folder)]
        env = {"NOTES_API_KEY": secret}
        servers[f"stdio-{mode}"] = {"command": sys.executable, "args": args, "env": env}
    for mode in modes("hostile_http.py"):
        address = f"http://127.0.0.1:{port}/{mode}/mcp"
        servers[f"http-{mode}"] = {"url": address, "headers": {"Authorization": f"Bearer {secret}"}}
    healthy = {"command": sys.executable, "args": ["-I", "-S", str(SERVERS / "healthy.py")]}
    servers = {"first": healthy} | servers | {"last": healthy}
    path = folder / "mcp.json"
    path.write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    workspace = Workspace(folder / "ws")
    bench = Bench(cache=workspace.cache / "servers", limits=LIMITS, allow_weaker=True)
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")
    before, begun = peak_memory(), time.monotonic()
    report = asyncio.run(crawl([str(path)], workspace=workspace, bench=bench, concurrency=6))
    seconds, grown = time.monotonic() - begun, peak_memory() - before
    process.stdin.close()
    process.stdout.close()
    process.wait(timeout=10)
    return report, workspace, (token, secret), (seconds, grown)


def peak_memory():
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(re.search(r"VmHWM:\s+(\d+)", status)[1]) << 10


def name_of(server):
    if server.startswith("url:"):
        return f"http-{server.split('/')[-2]}"
    return server.rpartition("#")[2]


@pytest.mark.claim("b02")
def test_more_than_forty_servers_end_in_a_named_state_with_a_reason(crawled):
    report, workspace, *_ = crawled
    states = {name_of(one.server): one.outcome for one in report.servers}
    assert len([name for name in states if name.startswith("stdio-")]) >= 40
    assert len([name for name in states if name.startswith("http-")]) >= 40
    assert set(states.values()) <= STATES
    rows = browse.sql(workspace, "SELECT server, outcome, reason FROM crawls", limit=1000).rows
    assert {name_of(server): outcome for server, outcome, _ in rows} == states
    assert all(reason for _, outcome, reason in rows if outcome != "ok")


def test_healthy_servers_among_them_have_all_their_tools(crawled):
    report, *_ = crawled
    healthy = {name_of(c.server): (c.outcome, c.tools) for c in report.servers}
    assert healthy["first"] == healthy["last"] == ("ok", 2)
    assert healthy["http-plain"] == healthy["http-older"] == ("ok", 3)


@pytest.mark.claim("b07")
def test_each_is_bounded_in_time_and_all_of_them_in_memory(crawled):
    report, _, _, (seconds, grown) = crawled
    stdio = [one for one in report.servers if not one.server.startswith("url:")]
    # three tries of start and list and their ends; those over HTTP wait for their turn as well
    most = 3 * (LIMITS.start_s + LIMITS.list_s + 5)
    assert max(one.seconds for one in stdio) < most
    assert seconds < 240
    assert grown < 256 << 20


@pytest.mark.claim("b01")
def test_no_process_of_theirs_is_left(crawled):
    _, _, (token, _), _ = crawled

    def left():
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                found += [entry.name] if token.encode() in (entry / "cmdline").read_bytes() else []
            except OSError:
                continue
        return found

    deadline = time.monotonic() + 5
    while left() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert left() == []


@pytest.mark.claim("b16")
def test_no_credential_is_in_the_registry_the_ledger_or_the_report(crawled):
    report, workspace, (_, secret), _ = crawled
    files = [path for path in workspace.path.rglob("*") if path.is_file()]
    assert workspace.database in files
    assert not [path for path in files if secret.encode() in path.read_bytes()]
    assert secret not in repr(report)
