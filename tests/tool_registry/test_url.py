"""Servers behind an address: crawled with what they need, and nothing of it kept."""

import asyncio
import base64
import json
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from synth.core.errors import BadInput
from tool_registry import browse
from tool_registry.crawl import crawl, source_of, targets_of
from tool_registry.sources import mcp_registry, url

SERVERS = Path(__file__).parent.parent / "servers"


@pytest.fixture
def http():
    """Start the hostile server; gives the address of a mode."""
    command = [sys.executable, "-I", "-S", str(SERVERS / "hostile_http.py")]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    port = int(process.stdout.readline())
    yield lambda mode: f"http://127.0.0.1:{port}/{mode}/mcp"
    process.stdin.close()
    process.stdout.close()
    assert process.wait(timeout=10) == 0


def run(texts, workspace, bench, **more):
    return asyncio.run(crawl(texts, workspace=workspace, bench=bench, **more))


def rows(workspace, query):
    return [tuple(row) for row in browse.sql(workspace, query).rows]


def kept(workspace):
    return b"".join(path.read_bytes() for path in workspace.path.rglob("*") if path.is_file())


def test_a_server_behind_an_address_is_in_the_registry_with_its_tools(http, workspace, bench):
    address = http("plain")
    (only,) = run([address], workspace, bench).servers
    assert (only.server, only.outcome, only.tools) == (f"url:{address}", "ok", 3)
    assert only.argv == (address,)
    assert rows(workspace, "SELECT server, registry, title FROM servers") == [
        (f"url:{address}", "url", "hostile")
    ]
    assert rows(workspace, "SELECT protocol, network FROM crawls") == [("2025-11-25", True)]


@pytest.mark.claim("b10")
def test_a_changed_list_is_a_new_version_and_its_difference_is_shown(http, workspace, bench):
    for _ in range(2):
        run([http("changes")], workspace, bench)
    changes = "SELECT tool, version, description_changed, schema_changed, in_place, description"
    ((tool, *change),) = rows(workspace, f"{changes}, previous_description FROM changes")
    assert tool.endswith("/changes/mcp/good_0")
    assert change == [2, True, True, True, "Tool 0, edition 2.", "Tool 0."]
    versions = (
        "SELECT name, max(v.version) FROM tool_versions v JOIN tools USING (tool) GROUP BY ALL"
    )
    assert sorted(rows(workspace, versions)) == [("good_0", 2), ("good_1", 1), ("good_2", 1)]


@pytest.mark.claim("b16")
def test_what_a_server_was_sent_is_in_no_file_and_no_message(
    http, workspace, bench, tmp_path, capsys
):
    bearer, password, key, part = (
        "bearer-4711-geheim",
        "pass-word-0815",
        "k-123456",
        "a1B2c3D4e5F6g7H8i9",
    )
    basic = base64.b64encode(f"me:{password}".encode()).decode()
    servers = {
        "bearer": {
            "type": "http",
            "url": f"{http('echoes_what_it_was_sent')}/{part}?api_key={key}&mode=fast",
            "headers": {
                "Authorization": f"Bearer {bearer}",
                "X-Unfilled": "${input:token}",
                "Host": "x",
            },
        },
        "basic": {
            "url": http("echoes_what_it_was_sent"),
            "headers": {"Authorization": f"Basic {basic}"},
        },
        "broken": {"url": http("status_401"), "headers": {"X-Api-Key": key}},
    }
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    report = run([str(path)], workspace, bench)
    outcomes = [(c.outcome, c.tools) for c in report.servers]
    assert sorted(outcomes) == [("denied", 0), ("ok", 3), ("ok", 3)]
    seen = rows(
        workspace, "SELECT description FROM tool_versions WHERE description LIKE '%Accept%'"
    )
    assert len(seen) == 2
    assert all("dummy-not-a-secret" in text for (text,) in seen)
    assert not any("X-Unfilled" in text for (text,) in seen)
    data = kept(workspace) + repr(report).encode() + "".join(capsys.readouterr()).encode()
    for word in (bearer, password, basic, key, part):
        assert word.encode() not in data
    assert b"mode=fast" in data


def test_one_host_has_one_session_at_a_time_and_a_pause_between(
    http, workspace, bench, monkeypatch
):
    begun, real = [], url._list

    async def noted(*given):
        begun.append(time.monotonic())
        await real(*given)
        begun.append(time.monotonic())

    monkeypatch.setattr(url, "_list", noted)
    monkeypatch.setattr(url, "PAUSE_S", 0.3)
    run([http("plain"), http("events"), http("packed")], workspace, bench, concurrency=3)
    assert len(begun) == 6
    assert begun == sorted(begun)
    assert all(
        later - sooner > 0.25 for sooner, later in zip(begun[1::2], begun[2::2], strict=False)
    )


def test_a_failure_is_a_row_with_its_reason_and_costs_no_neighbour(http, workspace, bench):
    bench = replace(bench, limits=replace(bench.limits, start_s=1))
    modes = ["silent", "login_page", "status_401", "redirects_to_metadata", "plain"]
    run([http(mode) for mode in modes], workspace, bench, concurrency=5)
    found = rows(workspace, "SELECT server, outcome, reason FROM crawls")
    told = {server.split("/")[-2]: (outcome, reason) for server, outcome, reason in found}
    assert {mode: outcome for mode, (outcome, _) in told.items()} == {
        "silent": "timeout", "login_page": "invalid", "status_401": "denied",
        "redirects_to_metadata": "unsafe", "plain": "ok",
    }  # fmt: skip
    assert told["status_401"][1].startswith("wants credentials (HTTP 401)")


@pytest.mark.claim("b09")
def test_instructions_for_models_are_kept_and_flagged(http, workspace, bench):
    run([http("poisons")], workspace, bench)
    text = (
        "SELECT description, flags FROM tool_versions JOIN tools USING (tool) WHERE name = 'good_0'"
    )
    ((_, flags),) = rows(workspace, text)
    assert "hidden" in str(flags) or "inject" in str(flags) or "invisible" in str(flags), flags


# --- what a user may write -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("word", "server", "older"),
    [
        ("https://Example.com/mcp", "url:https://example.com/mcp", False),
        ("https://example.com", "url:https://example.com/", False),
        ("http://127.0.0.1:8000/mcp", "url:http://127.0.0.1:8000/mcp", False),
        ("sse:http://localhost:8000/sse", "url:http://localhost:8000/sse", True),
        (
            "https://x.example/mcp?mode=a&tools=b#c",
            "url:https://x.example/mcp?mode=a&tools=b",
            False,
        ),
    ],
)
def test_addresses_are_names_of_servers(word, server, older):
    assert source_of(word) is url.SOURCE
    (target,) = targets_of([word])
    assert (target.server, target.address.older) == (server, older)


@pytest.mark.parametrize(
    ("address", "hidden"),
    [
        ("https://x.example/api/s/a1B2c3D4e5F6g7H8i9/mcp", "a1B2c3D4e5F6g7H8i9"),
        ("https://x.example/550e8400-e29b-41d4-a716-446655440000/mcp", "550e8400"),
        ("https://x.example/mcp?apiKey=short", "short"),
        ("https://x.example/mcp?q=sk-12345678", "sk-12345678"),
    ],
)
def test_what_may_be_a_credential_in_an_address_is_named_by_a_hash(address, hidden):
    (target,) = targets_of([address])
    assert hidden not in target.server
    assert hidden not in json.dumps(target.record()) + repr(target)
    assert "{hidden-" in target.server
    assert target.address.url == address


def test_words_of_an_address_stay_as_they_are():
    address = "https://mcp.example.com/servers/my-very-long-server-name-2024/v2/mcp"
    assert targets_of([address])[0].server == f"url:{address}"


@pytest.mark.parametrize(
    "word", ["http://example.com/mcp", "https://u:secret@x/", "sse:https://", "https://x/{t}"]
)
def test_addresses_that_cannot_be_asked_are_refused(word):
    with pytest.raises(BadInput) as failure:
        targets_of([word])
    assert "secret" not in str(failure.value)


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"url": 3}, "mcpServers.a: url is no text"),
        ({"url": "http://example.com"}, "mcpServers.a: url: not over https"),
        ({"url": "https://x", "headers": []}, "headers is not an object"),
        ({"url": "https://x", "headers": {"a b": "x"}}, "cannot be sent"),
        ({"url": "https://x", "headers": {"a": "x\r\nEvil: 1"}}, "cannot be sent"),
        ({"url": "https://x", "headers": {"a": 1}}, "cannot be sent"),
    ],
)
def test_a_broken_entry_of_a_file_is_named(tmp_path, entry, words):
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({"mcpServers": {"a": entry}}), encoding="utf-8")
    with pytest.raises(BadInput, match=words) as failure:
        targets_of([str(path)])
    assert "Evil" not in str(failure.value)


def test_headers_that_belong_to_the_transport_are_not_taken_from_a_file():
    headers = {
        "Host": "x",
        "content-length": "0",
        "Accept": "y",
        "Mcp-Session-Id": "z",
        "X-Key": "k",
    }
    target = url.SOURCE.target("https://x.example/mcp", headers=headers)
    assert dict(target.address.headers) == {"X-Key": "k"}


# --- remotes of the official registry --------------------------------------------------------


def entry_with(*remotes):
    return {"server": {"name": "io.example/far", "version": "1.0.0", "remotes": list(remotes)}}


@pytest.mark.parametrize(
    ("kind", "older"), [("streamable-http", False), ("http", False), ("sse", True)]
)
def test_a_remote_of_the_registry_is_asked_for_its_tools(kind, older):
    target = mcp_registry.target_of(entry_with({"type": kind, "url": "https://far.example/mcp"}))
    assert (target.source, target.server) == ("url", "url:https://far.example/mcp")
    assert (target.address.older, target.address.headers) == (older, {})


@pytest.mark.parametrize(
    ("remote", "words"),
    [
        (
            {"type": "streamable-http", "url": "http://127.0.0.1:8000/mcp"},
            "an address of this machine",
        ),
        ({"type": "streamable-http", "url": "https://localhost/mcp"}, "an address of this machine"),
        ({"type": "streamable-http", "url": "http://far.example/mcp"}, "not over https"),
        ({"type": "streamable-http", "url": "https://{tenant}.example/mcp"}, "not an address"),
        ({"type": "websocket", "url": "https://far.example/mcp"}, "not listed here"),
        ({"type": "sse"}, "not an address"),
    ],
)
def test_a_remote_that_cannot_be_asked_is_kept_with_the_reason(remote, words):
    target = mcp_registry.target_of(entry_with(remote))
    assert (target.source, target.server) == ("mcp-registry", "mcp-registry:io.example/far")
    assert words in target.script


def test_the_first_remote_that_can_be_asked_is_taken_and_a_package_before_it():
    bad, good = {"type": "odd"}, {"type": "sse", "url": "https://far.example/sse"}
    assert mcp_registry.target_of(entry_with(bad, good)).server == "url:https://far.example/sse"
    both = entry_with(good)
    both["server"]["packages"] = [{"registryType": "npm", "identifier": "far", "version": "1.0.0"}]
    assert mcp_registry.target_of(both).server == "npm:far"
