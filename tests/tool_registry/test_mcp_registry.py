"""A registry of the official API, played by pages of our own on a loopback server."""

import asyncio
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest

from synth.core.errors import BadInput
from synth.core.store import Workspace
from tool_registry import browse
from tool_registry.crawl import crawl, targets_of
from tool_registry.sources import mcp_registry

META = "io.modelcontextprotocol.registry/official"


def listed(name, *, status="active", **server):
    return {
        "server": {"name": name, "version": "1.0.0", "description": "x"} | server,
        "_meta": {META: {"status": status, "isLatest": True, "updatedAt": "2026-11-02T00:00:00Z"}},
    }


def package(kind, identifier, version="1.2.3", **more):
    return {"registryType": kind, "identifier": identifier, "version": version,
            "transport": {"type": "stdio"}} | more  # fmt: skip


PAGES = {
    None: (
        [
            listed("io.example/files", packages=[package("npm", "@example/files",
                packageArguments=[
                    {"type": "positional", "valueHint": "allowed_directory", "isRequired": True},
                    {"type": "named", "name": "--depth", "value": "3"},
                    {"type": "named", "name": "--token", "value": "sk-abcdef"},
                    {"type": "positional", "value": "; rm -rf /"},
                ],
                environmentVariables=[
                    {"name": "FILES_TOKEN", "isRequired": True, "isSecret": True},
                    {"name": "MODE", "default": "fast"},
                    {"name": "OPTIONAL"},
                    {"name": "BAD NAME=1", "isRequired": True},
                ])]),
            listed("io.example/spam", status="deleted", packages=[package("npm", "spam")]),
            "no entry",
        ],
        "io.example/files:1.0.0",
    ),
    "io.example/files:1.0.0": (
        [
            listed("io.example/clock", packages=[
                package("oci", "docker.io/example/clock"), package("pypi", "Example_Clock")]),
            listed("io.example/far", remotes=[
                {"type": "streamable-http", "url": "http://169.254.169.254/"}]),
            listed("io.example/old", packages=[
                {"registry_name": "pypi", "name": "old-server", "version": "latest"}]),
            listed("io.example/odd", packages=[package("npm", "-rf; echo")]),
            listed("../../etc/passwd", packages=[package("npm", "x")]),
        ],
        None,
    ),
}  # fmt: skip


@pytest.fixture
def registry():
    """Serve `PAGES` or what a test puts in `answers`; notes each question."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            parts = urlsplit(self.path)
            query = {key: values[0] for key, values in parse_qs(parts.query).items()}
            asked.append((parts.path, query))
            status, headers, body = (answers or [None]).pop(0) or self.page(query)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def page(self, query):
            servers, cursor = PAGES[query.get("cursor")]
            metadata = {"count": len(servers)} | ({"nextCursor": cursor} if cursor else {})
            return 200, {}, json.dumps({"servers": servers, "metadata": metadata}).encode()

        def log_message(self, *_):
            pass

    asked, answers = [], []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    server.word = f"mcp-registry:http://127.0.0.1:{server.server_address[1]}"
    server.asked, server.answers = asked, answers
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def test_all_pages_are_asked_and_packages_become_targets_in_their_exact_versions(registry):
    found = {target.server: target for target in targets_of([registry.word])}
    assert sorted(found) == [
        "mcp-registry:io.example/far",
        "mcp-registry:io.example/odd",
        "npm:@example/files",
        "pypi:example-clock",
        "pypi:old-server",
    ]
    files = found["npm:@example/files"]
    assert files.version == "1.2.3"
    # Words stay words: nothing of them reaches a shell, and no credential a server.
    words = ("{work}", "--depth", "3", "--token", "dummy-not-a-secret", "; rm -rf /")
    assert files.arguments == words
    assert files.env == {"FILES_TOKEN": "dummy-not-a-secret", "MODE": "fast"}
    assert found["pypi:old-server"].version is None
    assert [query.get("cursor") for _, query in registry.asked] == [None, "io.example/files:1.0.0"]
    assert registry.asked[0] == ("/v0.1/servers", {"limit": "100", "version": "latest"})


def test_what_changed_since_and_how_many_can_be_asked_for(registry):
    word = f"{registry.word}?updated_since=2026-11-01T00:00:00Z&search=files&most=1"
    assert [target.server for target in targets_of([word])] == ["npm:@example/files"]
    ((_, query),) = registry.asked
    assert (query["updated_since"], query["search"]) == ("2026-11-01T00:00:00Z", "files")


def test_a_server_that_cannot_be_listed_here_is_kept_with_the_reason(registry, tmp_path):
    workspace = Workspace(tmp_path)
    wanted = [target for target in targets_of([registry.word]) if target.source == "mcp-registry"]
    report = asyncio.run(crawl(wanted, workspace=workspace))
    assert {server.outcome for server in report.servers} == {"unsupported"}
    kept = dict(browse.sql(workspace, "SELECT server, reason FROM last_crawls").rows)
    assert "remote, 'streamable-http'" in kept["mcp-registry:io.example/far"]
    assert "a package of kind 'npm'" in kept["mcp-registry:io.example/odd"]


def test_a_cursor_that_leads_in_a_circle_ends(registry):
    body = json.dumps({"servers": [], "metadata": {"nextCursor": "again"}}).encode()
    registry.answers += [(200, {}, body)] * 50
    with pytest.raises(BadInput, match="nothing to crawl"):
        targets_of([registry.word])
    assert len(registry.asked) == 2


def test_a_busy_registry_is_waited_for_as_it_asks(registry, monkeypatch):
    waited = []
    monkeypatch.setattr(mcp_registry.time, "sleep", waited.append)
    registry.answers += [(429, {"Retry-After": "7"}, b""), (503, {}, b"")]
    assert len(targets_of([registry.word])) == 5
    assert waited == [7.0, 1.0]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ((404, {}, b""), "status 404"),
        ((302, {"Location": "http://169.254.169.254/"}, b""), "status 302"),
        ((429, {"Retry-After": "4000"}, b""), "status 429"),
        ((200, {}, b"<html>"), "list of servers"),
        ((200, {}, b'{"servers": {}}'), "list of servers"),
        ((200, {}, b"[" * 100_000), "list of servers"),
    ],
)
def test_what_does_not_answer_as_a_registry_is_one_line(registry, answer, words):
    registry.answers.append(answer)
    with pytest.raises(BadInput, match=words):
        targets_of([registry.word])
    assert len(registry.asked) == 1


def test_a_page_without_end_is_cut(registry, monkeypatch):
    monkeypatch.setattr(mcp_registry, "MAX_BYTES", 1 << 20)
    registry.answers.append((200, {}, b" " * (3 << 20)))
    with pytest.raises(BadInput, match="more than 1 MiB"):
        targets_of([registry.word])


@pytest.mark.parametrize(
    "word",
    ["", "ftp://x", "http://example.com", "https://user:secret@example.com", "https://x?most=0",
     "https://x?limit=9"],
)  # fmt: skip
def test_addresses_that_are_not_safe_or_known_are_refused_unasked(word):
    with pytest.raises(BadInput) as refused:
        targets_of([f"mcp-registry:{word}"])
    assert "secret" not in str(refused.value)
