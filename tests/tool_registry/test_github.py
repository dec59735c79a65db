"""GitHub's REST API, played by pages of our own on a loopback server."""

import asyncio
import contextlib
import hashlib
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from synth.core.errors import BadInput
from synth.core.store import Workspace
from tool_registry import browse
from tool_registry.crawl import crawl, targets_of
from tool_registry.launches import MAX_FILE

SERVER = {"mcpServers": {"x": {"command": "npx", "args": ["-y", "folder-mcp"]}}}
FILES = {
    "me/clock": {"README.md": "    uvx clock-mcp==1.2 --zone UTC\n", "src/x.py": "import os"},
    "me/bare": {"main.c": "int main;"},
    "me/huge": {"package.json": " " * (MAX_FILE + 10), "README.md": "npx -y huge-mcp"},
    "me/folder": {".vscode/mcp.json": json.dumps(SERVER)},
    "me/docker": {"mcp.json": json.dumps({"mcpServers": {"x": {"command": "docker"}}})},
    "me/empty": {},
}


class Pages(BaseHTTPRequestHandler):
    asked: list
    left: int
    reset: float
    refusal: dict
    topic: list

    def do_GET(self):
        parts = urlsplit(self.path)
        path = unquote(parts.path)
        sent = self.headers.get("If-None-Match")
        self.asked.append((self.path, self.headers.get("Authorization"), sent))
        if self.left <= 0 and time.time() < self.reset:
            return self._send(403, {"message": "rate limit"}, self.refusal)
        if path == "/search/repositories":
            return self._search(parse_qs(parts.query))
        owner, repository, *rest = path.removeprefix("/repos/").split("/")
        return self._repository(f"{owner}/{repository}", "/".join(rest))

    def _search(self, query):
        assert query["q"] == ["topic:mcp-server"]
        page, size = int(query["page"][0]), int(query["per_page"][0])
        found = self.topic[(page - 1) * size : page * size]
        items = [name if name == 7 else {"full_name": name} for name in found]
        items = [i | {"private": True} if i == {"full_name": "me/secret"} else i for i in items]
        self._send(200, {"total_count": len(self.topic), "items": items})

    def _repository(self, name, rest):
        if name == "me/moved":
            return self._send(301, {}, {"Location": f"{self.base}/repos/me/clock/{rest}"})
        if name == "me/away":
            return self._send(301, {}, {"Location": "http://169.254.169.254/latest"})
        if name == "me/page":
            return self._send(200, "<html>")
        if name not in FILES:
            return self._send(404, {"message": "Not Found"})
        if name == "me/empty":
            return self._send(409, {"message": "Git Repository is empty."})
        blobs = {hashlib.sha1(t.encode()).hexdigest(): (p, t) for p, t in FILES[name].items()}
        if rest.startswith("git/blobs/"):
            return self._send(200, blobs[rest.removeprefix("git/blobs/")][1])
        assert rest == "git/trees/HEAD"
        tree = [{"path": p, "mode": "100644", "type": "blob", "sha": s}
                for s, (p, _) in blobs.items()]  # fmt: skip
        tree += [{"path": "mcp.json", "mode": "120000", "type": "blob", "sha": "0" * 40}, 7, {}]
        tree += [{"path": "package.json", "mode": "100644", "sha": "../../../me/secret"}]
        return self._send(200, {"sha": "x", "tree": tree, "truncated": False})

    @property
    def base(self):
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def _send(self, status, body, headers=None):
        data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        tag = f'W/"{hashlib.sha1(data).hexdigest()}"'
        if status == 200 and self.headers.get("If-None-Match") == tag:
            status, data = 304, b""
        else:
            type(self).left -= 1
        self.send_response(status)
        for name, value in {"ETag": tag, **(headers or {})}.items():
            self.send_header(name, str(value))
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it reads to its bound
            self.wfile.write(data)

    def log_message(self, *_):
        pass


@pytest.fixture
def github(monkeypatch):
    handler = type("Played", (Pages,), {"asked": [], "left": 1000, "reset": 4e9, "topic": []})
    handler.refusal = {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "3786912000"}
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    monkeypatch.setenv("GITHUB_API_URL", f"http://127.0.0.1:{server.server_address[1]}")
    monkeypatch.delenv("GITHUB_TOKEN", raising=False)
    handler.topic = ["me/clock", "me/bare", "me/huge", "../../x", 7, "me/secret"]
    yield handler
    server.shutdown()
    server.server_close()


def reasons(text, pages=None):
    return {target.server: target.script for target in targets_of([text], pages)}


def test_a_repository_gives_the_servers_its_files_tell(github):
    (clock,) = targets_of(["github:me/clock"])
    assert (clock.server, clock.version) == ("pypi:clock-mcp", "1.2")
    assert clock.arguments == ("--zone", "UTC")
    assert list(reasons("github:me/folder")) == ["npm:folder-mcp"]
    assert not any("secret" in path or "0" * 40 in path for path, *_ in github.asked)


def test_a_giant_file_is_cut_and_its_neighbours_count(github):
    assert list(reasons("github:me/huge")) == ["npm:huge-mcp"]


def test_a_topic_gives_the_servers_of_its_public_repositories(github):
    found = reasons("github:topic:mcp-server")
    assert found["github:me/bare"] == "no file of it tells how its server is launched"
    assert found.keys() == {"npm:huge-mcp", "pypi:clock-mcp", "github:me/bare"}
    assert not any("secret" in path or path.endswith("x") for path, *_ in github.asked)


def test_a_topic_is_read_page_by_page_up_to_as_many_as_wanted(github):
    github.topic = ["me/bare"] * 99 + ["me/huge"] + ["me/clock"] * 150
    assert reasons("github:topic:mcp-server?most=100").keys() == {"github:me/bare", "npm:huge-mcp"}
    searched = [path for path, *_ in github.asked if path.startswith("/search")]
    assert len(searched) == 1
    assert "pypi:clock-mcp" in reasons("github:topic:mcp-server?most=101")
    searched = [path for path, *_ in github.asked if path.startswith("/search")]
    assert [path[-6:] for path in searched] == ["page=1", "page=1", "page=2"]


def test_what_is_found_and_not_usable_is_kept_with_the_reason(github):
    assert reasons("github:me/docker") == {
        "github:me/docker#mcp.json": "'docker': a local command, which is not run"
    }
    assert reasons("github:me/nothing") == {
        "github:me/nothing": "there is no such repository, or it is private"
    }
    assert reasons("github:me/empty") == {"github:me/empty": "the repository is empty"}
    assert reasons("github:me/page") == {"github:me/page": "GitHub answers with no JSON"}


def test_such_a_repository_is_in_the_registry_with_its_reason(github, tmp_path):
    workspace = Workspace(tmp_path / "w")
    report = asyncio.run(crawl(["github:me/docker", "github:me/bare"], workspace=workspace))
    assert [server.outcome for server in report.servers] == ["unsupported", "unsupported"]
    rows = browse.sql(workspace, "SELECT server FROM last_crawls ORDER BY 1").rows
    assert [row[0] for row in rows] == ["github:me/bare", "github:me/docker#mcp.json"]


@pytest.mark.claim("b-repo")
def test_a_token_is_sent_to_the_api_alone_and_kept_nowhere(github, monkeypatch, tmp_path):
    monkeypatch.setenv("GITHUB_TOKEN", "ghp_secret")
    (target,) = targets_of(["github:me/away"], tmp_path)
    assert target.script == "GitHub answers with status 301"
    targets_of(["github:me/clock"], tmp_path)
    assert {sent for _, sent, _ in github.asked} == {"Bearer ghp_secret"}
    assert "ghp_secret" not in json.dumps(target.record())
    assert not any(b"ghp_" in f.read_bytes() for f in tmp_path.rglob("*") if f.is_file())
    monkeypatch.setenv("GITHUB_TOKEN", "ghp_\r\nHost: evil")
    with pytest.raises(BadInput, match="no token") as refused:
        targets_of(["github:me/clock"])
    assert "ghp_" not in str(refused.value)


def test_a_repository_that_moved_within_github_is_followed(github):
    assert list(reasons("github:me/moved")) == ["pypi:clock-mcp"]


def test_what_was_read_is_not_paid_for_again(github, tmp_path):
    first = reasons("github:topic:mcp-server", tmp_path)
    paid, github.asked[:] = 1000 - github.left, []
    assert paid == 7  # a page, three trees, three files
    assert reasons("github:topic:mcp-server", tmp_path) == first
    assert 1000 - github.left == paid
    assert len(github.asked) == 4
    assert all(tag for *_, tag in github.asked)
    assert not any("blobs" in path for path, *_ in github.asked)
    for kept in (tmp_path / "github").iterdir():
        kept.write_bytes(kept.read_bytes()[:-1])  # torn: never kept
    assert reasons("github:topic:mcp-server", tmp_path) == first
    assert 1000 - github.left == 2 * paid


def test_at_the_rate_limit_nothing_more_is_asked_and_the_time_is_told(github, tmp_path):
    github.left = 3
    found = reasons("github:topic:mcp-server", tmp_path)
    late = "GitHub answers no more before 2090-01-01 00:00:00 UTC; set GITHUB_TOKEN for more"
    assert found == {"pypi:clock-mcp": None, "github:me/bare": late, "github:me/huge": late}
    assert len(github.asked) == 4
    github.left = 1000
    assert "npm:huge-mcp" in reasons("github:topic:mcp-server", tmp_path)
    github.left = 0
    with pytest.raises(BadInput, match="no more before 2090"):
        targets_of(["github:topic:mcp-server"])


@pytest.mark.parametrize("how", ["reset", "after"])
def test_a_short_wait_is_kept_and_told(github, tmp_path, how):
    github.left, github.reset = 1, time.time() + 1
    github.refusal = {"Retry-After": "1"}
    if how == "reset":
        github.reset = int(time.time()) + 2
        github.refusal = {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": int(github.reset)}
    told = []
    (found,) = targets_of(
        ["github:me/clock"], tmp_path, lambda done, total, note: told.append(note)
    )
    assert found.server == "pypi:clock-mcp"
    assert len(github.asked) == 3
    assert any(note.startswith("GitHub: waiting until ") for note in told)


@pytest.mark.parametrize(
    "text",
    ["github:", "github:me", "github:me/x/y", "github:-me/x", "github:topic:", "github:topic:A b",
     "github:topic:x?most=0", "github:topic:x?sort=y", "github:me/..%2f", "github:me/..",
     "github:topic:x?most=²", "github:topic:x?most=99999999999"],
)  # fmt: skip
def test_what_names_no_repository_is_refused_before_anything_is_asked(github, text):
    with pytest.raises(BadInput, match="no name of a"):
        targets_of([text])
    assert github.asked == []


def test_another_github_must_be_asked_over_https(monkeypatch):
    monkeypatch.setenv("GITHUB_API_URL", "http://github.example.com/api/v3")
    with pytest.raises(BadInput, match="not https"):
        targets_of(["github:me/clock"])


def test_a_service_that_is_out_of_reach_is_told(monkeypatch):
    monkeypatch.setenv("GITHUB_API_URL", "http://127.0.0.1:9")
    with pytest.raises(BadInput, match="does not answer"):
        targets_of(["github:topic:mcp-server"])
    (target,) = targets_of(["github:me/clock"])
    assert target.script == "GitHub does not answer: ConnectError"
