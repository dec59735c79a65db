"""Crawling: failures stay their own, interrupted work is continued, nothing leaks."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from dataclasses import replace
from pathlib import Path

import pytest

from synth.core.errors import BadInput, StoreLocked
from synth.core.mcp.session import Limits
from synth.core.store import Workspace
from tool_registry import browse
from tool_registry.crawl import crawl, targets_of
from tool_registry.ledger import entries

ROOT = Path(__file__).parent.parent.parent
SERVERS = Path(__file__).parent.parent / "servers"


def entry(script, *arguments, **more):
    args = ["-I", "-S", str(SERVERS / script), *map(str, arguments)]
    return {"command": sys.executable, "args": args, **more}


@pytest.fixture
def mcp_json(tmp_path):
    """Write a client's configuration file; returns its path as text."""

    def write(servers):
        path = tmp_path / "servers.json"
        path.write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
        return str(path)

    return write


def run(texts, workspace, bench, **more):
    return asyncio.run(crawl(texts, workspace=workspace, bench=bench, **more))


def short(server):
    return server.rpartition("#")[2]


def rows(workspace, query):
    return [tuple(row) for row in browse.sql(workspace, query).rows]


def test_each_server_gets_its_own_outcome_and_healthy_ones_their_tools(mcp_json, workspace, bench):
    modes = ["dies", "silent", "endless_line", "rpc_error", "no_tools", "bad_among_good", "noise"]
    servers = {mode: entry("hostile.py", mode) for mode in modes}
    servers |= {"healthy": entry("healthy.py"), "absent": {"command": "no-such-program"}}
    bench = replace(bench, limits=Limits(line_bytes=1 << 20, start_s=2.5, stop_s=0.1))
    report = run([mcp_json(servers)], workspace, bench, concurrency=3)
    found = {short(c.server): (c.outcome, c.tools, c.rejected) for c in report.servers}
    assert found == {
        "dies": ("exited", 0, 0),
        "silent": ("timeout", 0, 0),
        "endless_line": ("oversize", 0, 0),
        "rpc_error": ("rpc_error", 0, 0),
        "no_tools": ("invalid", 0, 0),
        "bad_among_good": ("ok", 3, 9),
        "noise": ("ok", 3, 0),
        "healthy": ("ok", 2, 0),
        "absent": ("exited", 0, 0),
    }
    assert report.tools == 8
    assert {short(c.server) for c in report.failed} == {
        "dies", "silent", "endless_line", "rpc_error", "no_tools", "absent",
    }  # fmt: skip
    kept = rows(workspace, "SELECT server, outcome, tools, rejected FROM crawls")
    assert {short(s): (o, t, r) for s, o, t, r in kept} == found
    reasons = rows(workspace, "SELECT position, reason FROM rejects ORDER BY position")
    assert reasons == [
        (1, "not_an_object"),
        (2, "not_an_object"),
        (3, "no_name"),
        (4, "not_an_object"),
        (5, "schema_not_object"),
        (7, "invalid_schema"),
        (8, "remote_ref"),
        (9, "ref_cycle"),
        (10, "duplicate"),
    ]
    assert browse.stats(workspace)["tools_real"] == 8


def test_every_failure_says_why(mcp_json, workspace, bench):
    report = run([mcp_json({"a": entry("hostile.py", "rpc_error")})], workspace, bench)
    (only,) = report.servers
    assert only.reason.endswith("error -32603: fetch failed")
    assert only.argv == (sys.executable, "-I", "-S", str(SERVERS / "hostile.py"), "rpc_error")


def test_a_server_that_asks_for_a_key_gets_a_dummy(mcp_json, workspace, bench, tmp_path):
    script = tmp_path / "picky.py"
    text = (SERVERS / "healthy.py").read_text(encoding="utf-8")
    check = 'import os\nif "NOTES_API_KEY" not in os.environ:\n'
    check += '    sys.exit("NOTES_API_KEY is required")\n'
    script.write_text(text.replace("notes = []", check + "notes = []"), encoding="utf-8")
    server = {"command": sys.executable, "args": ["-I", "-S", str(script)]}
    (only,) = run([mcp_json({"picky": server})], workspace, bench).servers
    assert (only.outcome, only.tools, only.flags) == (
        "ok",
        2,
        ("dummy_credentials", "local_command"),
    )


def test_a_server_that_asks_for_a_folder_gets_its_own(mcp_json, workspace, bench, tmp_path):
    script = tmp_path / "folder.py"
    text = (SERVERS / "healthy.py").read_text(encoding="utf-8")
    check = 'if len(sys.argv) < 2:\n    sys.exit("usage: folder.py DIRECTORY")\n'
    script.write_text(text.replace("notes = []", check + "notes = []"), encoding="utf-8")
    server = {"command": sys.executable, "args": ["-I", "-S", str(script)]}
    (only,) = run([mcp_json({"folder": server})], workspace, bench).servers
    assert (only.outcome, only.tools) == ("ok", 2)
    assert only.argv[-1] == "{work}"


@pytest.mark.claim("b16")
def test_no_secret_reaches_a_server_or_a_file(mcp_json, workspace, bench, tmp_path, monkeypatch):
    secret = uuid.uuid4().hex
    home = tmp_path / "home"
    home.mkdir()
    (home / "credentials").write_text(f"file-{secret}", encoding="utf-8")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("OPENAI_API_KEY", f"sk-{secret}")
    server = entry("hostile.py", "reads_secrets", home / "credentials", f"at:{home}/credentials")
    server["args"] += ["--api-key", f"option-{secret}", f"--token={secret}", f"ghp_{secret}"]
    server["args"] += [f"postgres://me:{secret}@host/db"]
    server["env"] = {"NOTES_TOKEN": f"configured-{secret}", "PLAIN": "harmless"}
    report = run([mcp_json({"nosy": server})], workspace, bench)
    (only,) = report.servers
    assert only.tools == 1
    seen = browse.show(workspace, "report")["versions"][0]["description"]
    assert "harmless" in seen
    assert "dummy-not-a-secret" in seen
    ((hiding,),) = rows(workspace, "SELECT confinement FROM crawls")
    for path in [workspace.database, Path(report.ledger)]:
        data = path.read_bytes()
        for kind in ("sk", "configured", "option"):
            assert f"{kind}-{secret}".encode() not in data
        if hiding != "rlimits":
            assert secret.encode() not in data


def test_a_server_sees_its_own_project_and_an_empty_folder_instead_of_data(
    mcp_json, workspace, bench, tmp_path, monkeypatch
):
    home = tmp_path / "home"
    source, data = home / "project" / "src", home / "documents"
    for folder in (source, data):
        folder.mkdir(parents=True)
    (home / "project" / "pyproject.toml").write_text("", encoding="utf-8")
    (home / "project" / "notes.txt").write_text("own", encoding="utf-8")
    (data / "diary").write_text("private", encoding="utf-8")
    text = (SERVERS / "healthy.py").read_text(encoding="utf-8")
    look = "import os\nTOOLS[0]['description'] = str([os.listdir(sys.argv[1]),"
    look += " os.listdir(os.path.dirname(os.path.dirname(__file__)))])\nnotes = []"
    (source / "server.py").write_text(text.replace("notes = []", look), encoding="utf-8")
    monkeypatch.setenv("HOME", str(home))
    args = ["-I", "-S", str(source / "server.py"), str(data)]
    report = run([mcp_json({"own": {"command": sys.executable, "args": args}})], workspace, bench)
    (only,) = report.servers
    assert only.outcome == "ok", only.reason
    assert only.argv[-1] == "{work}"
    seen = browse.show(workspace, "add_note")["versions"][0]["description"]
    assert seen.startswith("[[], [")
    assert "notes.txt" in seen


# --- resuming --------------------------------------------------------------------------------


def test_a_finished_crawl_starts_anew_and_an_unchanged_tool_keeps_its_version(
    mcp_json, workspace, bench
):
    path = mcp_json({"healthy": entry("healthy.py")})
    first = run([path], workspace, bench)
    second = run([path], workspace, bench)
    assert first.ledger != second.ledger
    assert [c.resumed for c in (*first.servers, *second.servers)] == [False, False]
    assert rows(workspace, "SELECT count(*), max(version) FROM tool_versions") == [(2, 1)]
    assert rows(workspace, "SELECT count(DISTINCT crawl), count(*) FROM tool_sightings") == [(2, 4)]


def test_what_was_listed_before_a_lock_is_ingested_by_the_same_command(mcp_json, workspace, bench):
    path = mcp_json({"healthy": entry("healthy.py")})
    impatient = Workspace(workspace.path, wait_s=0.1)
    with workspace.read(), pytest.raises(StoreLocked):
        run([path], impatient, bench)
    (only,) = run([path], workspace, bench).servers
    assert (only.resumed, only.tools) == (True, 2)
    assert browse.stats(workspace)["tools"] == 2


KILLED = """
import asyncio, sys
from pathlib import Path
from synth.core.mcp.session import Limits
from synth.core.store import Workspace
from tool_registry.crawl import crawl
from tool_registry.source import Bench
workspace = Workspace(sys.argv[1])
bench = Bench(cache=Path(sys.argv[1]), limits=Limits(start_s=300), allow_weaker=True)
asyncio.run(crawl([sys.argv[2]], workspace=workspace, bench=bench, concurrency=1))
"""


def test_a_crawl_killed_with_9_leaves_no_server_and_continues(mcp_json, workspace, bench):
    token = uuid.uuid4().hex
    servers = {name: entry("healthy.py") for name in ("a", "b")}
    path = mcp_json(servers | {"hangs": entry("hostile.py", "silent", token)})
    command = [sys.executable, "-c", KILLED, str(workspace.path), path]
    scratch = os.environ | {"TMPDIR": str(workspace.path.parent)}
    process = subprocess.Popen(command, cwd=ROOT, env=scratch)
    deadline = time.monotonic() + 60
    while not running(token) and time.monotonic() < deadline:
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    while running(token) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not running(token)
    (ledger,) = (workspace.cache / "crawls").iterdir()
    assert [short(e.server) for e in entries(ledger)] == ["a", "b"]
    with ledger.open("ab") as file:
        file.write(b'{"crawl": "torn')
    bench = replace(bench, limits=Limits(start_s=0.5, stop_s=0.1))
    report = run([path], workspace, bench)
    assert [(short(c.server), c.outcome, c.resumed) for c in report.servers] == [
        ("a", "ok", True),
        ("b", "ok", True),
        ("hangs", "timeout", False),
    ]


def running(token):
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if token.encode() in (folder / "cmdline").read_bytes() and (
                b"hostile.py" in (folder / "cmdline").read_bytes()
            ):
                return True
        except OSError:
            continue
    return False


def test_a_cancelled_crawl_leaves_no_server(mcp_json, workspace, bench):
    token = uuid.uuid4().hex

    async def go():
        path = mcp_json({"hangs": entry("hostile.py", "silent", token)})
        task = asyncio.create_task(crawl([path], workspace=workspace, bench=bench))
        while not running(token):
            await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(go())
    assert not running(token)


def test_progress_counts_servers_up_to_all_of_them(mcp_json, workspace, bench):
    seen = []
    path = mcp_json({name: entry("healthy.py") for name in ("a", "b")})
    run([path], workspace, bench, progress=lambda *event: seen.append(event))
    assert [event[:2] for event in seen] == [(0, 2), (1, 2), (2, 2)]
    assert seen[-1][2].endswith(": 2 tools")


# --- what a user may write -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("mcp-server-time", "not a source of tools: 'mcp-server-time'"),
        ("pypi:", "not a package name"),
        ("pypi:a/b", "not a package name"),
        ("pypi:--index-url=x", "not a package name"),
        ("npm:../x", "not a package name"),
        ("npm:-c", "not a package name"),
        ("gone.json", "no such file"),
    ],
)
def test_words_that_name_nothing_are_refused_with_a_remedy(text, words):
    with pytest.raises(BadInput, match=words):
        targets_of([text])


@pytest.mark.claim("b14")
@pytest.mark.parametrize(
    ("document", "words"),
    [
        ("{", "not JSON"),
        ("[]", "no object called mcpServers"),
        ('{"mcpServers": []}', "no object called mcpServers"),
        ('{"mcpServers": {}}', "nothing to crawl"),
        ('{"mcpServers": {"a": 1}}', "mcpServers.a: not an object"),
        ('{"mcpServers": {"a": {"type": "http"}}}', "mcpServers.a: neither command nor url"),
        ('{"mcpServers": {"a": {"command": "x", "args": "y"}}}', "args is not a list"),
        ('{"mcpServers": {"a": {"command": "x", "env": {"A": 1}}}}', "env is not an object"),
        ('{"mcpServers": {"a": {"command": "npx", "args": ["-c", "rm x"]}}}', "npx -c is not"),
        ('{"mcpServers": {"a": {"command": "npx", "args": ["-y"]}}}', "no package is named"),
        ('{"mcpServers": {"a": {"command": "uvx", "args": ["--refresh", "x"]}}}', "uvx --refresh"),
    ],
)
def test_a_broken_file_is_named_with_the_place_in_it(tmp_path, document, words):
    path = tmp_path / "mcp.json"
    path.write_text(document, encoding="utf-8")
    with pytest.raises(BadInput, match=words) as failure:
        targets_of([str(path)])
    assert str(path) in str(failure.value) or "nothing to crawl" in str(failure.value)


@pytest.mark.claim("b14")
@pytest.mark.parametrize(
    ("command", "server", "version", "arguments", "script"),
    [
        (["npx", "-y", "@s/server@1.2.3", "/data"], "npm:@s/server", "1.2.3", ("/data",), None),
        (["npx", "server@latest"], "npm:server", None, (), None),
        (["npx", "-p", "pkg", "cmd", "x"], "npm:pkg", None, ("x",), "cmd"),
        (["/usr/bin/npx", "--yes", "server"], "npm:server", None, (), None),
        (["uvx", "mcp_server.time", "-z", "x"], "pypi:mcp-server-time", None, ("-z", "x"), None),
        (["uvx", "server@1.0"], "pypi:server", "1.0", (), None),
        (["uvx", "--from", "pkg==2", "cmd"], "pypi:pkg", "2", (), "cmd"),
        (["uv", "tool", "run", "server"], "pypi:server", None, (), None),
        (["pipx", "run", "server"], "pypi:server", None, (), None),
    ],
)  # fmt: skip
def test_npx_and_uvx_become_pinned_packages(mcp_json, command, server, version, arguments, script):
    path = mcp_json({"a": {"command": command[0], "args": command[1:]}})
    (target,) = targets_of([path])
    assert (target.server, target.version) == (server, version)
    assert (target.arguments, target.script) == (arguments, script)


def test_disabled_servers_are_left_out_and_doubles_asked_once(mcp_json):
    path = mcp_json({"a": entry("healthy.py"), "b": entry("healthy.py", disabled=True)})
    assert [short(t.server) for t in targets_of([path, path])] == ["a"]


def test_containers_are_not_started(mcp_json, workspace, bench):
    path = mcp_json({"a": {"command": "docker", "args": ["run", "x"]}})
    (only,) = run([path], workspace, bench).servers
    assert only.outcome == "unsupported"


def test_the_ledger_is_one_json_object_a_line(mcp_json, workspace, bench):
    report = run([mcp_json({"a": entry("healthy.py")})], workspace, bench)
    lines = Path(report.ledger).read_text(encoding="utf-8").splitlines()
    first, last = map(json.loads, lines)
    assert json.loads(first["tools"][0])["name"] == "add_note"
    assert list(last) == ["finished"]
    assert os.path.dirname(report.ledger) == str(workspace.cache / "crawls")


def test_a_password_in_an_address_is_not_kept_with_the_reason(mcp_json, workspace, bench):
    said = "import sys; sys.exit('error: https://me:hunter2@example.invalid/simple refused')"
    servers = {"quotes": {"command": sys.executable, "args": ["-I", "-S", "-c", said]}}
    report = run([mcp_json(servers)], workspace, bench)
    assert "https://example.invalid/simple refused" in report.servers[0].reason
    assert "hunter2" not in report.servers[0].reason
    ((kept,),) = rows(workspace, "SELECT stderr_tail FROM crawls")
    assert "example.invalid" in kept
    assert "hunter2" not in kept
