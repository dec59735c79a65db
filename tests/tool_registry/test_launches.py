"""How servers of repositories are launched is told from files of strangers, and nothing is run."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from synth.core.errors import BadInput
from tool_registry.crawl import targets_of
from tool_registry.launches import MAX_FILE, WANTED, launches_in

README = """
# A server

```json
{"mcpServers": {"clock": {"command": "uvx", "args": ["clock-server==1.2", "--zone", "UTC"],
                          "env": {"CLOCK_TOKEN": "sk-abcdef123456"}}}}
```
Or run it yourself:

    npx -y @example/files@2.0.1 /tmp
    $ uvx --from maps-mcp maps
    npx @modelcontextprotocol/inspector npx other
    npx -y evil; rm -rf /
    uvx ../../etc/passwd
    npx --eval=1 x
"""


def servers(**files):
    found = launches_in({name.replace("__", "."): data for name, data in files.items()})
    return {target.server: target for target in found}


def test_a_readme_tells_by_json_and_by_lines():
    found = servers(README__md=README.encode())
    assert sorted(found) == ["npm:@example/files", "npm:evil", "pypi:clock-server", "pypi:maps-mcp"]
    clock = found["pypi:clock-server"]
    assert (clock.version, clock.arguments) == ("1.2", ("--zone", "UTC"))
    assert clock.env == {"CLOCK_TOKEN": "dummy-not-a-secret"}
    assert found["npm:@example/files"].version == "2.0.1"
    assert found["npm:evil"].arguments == ()


def test_files_that_are_meant_for_it_come_before_words():
    entry = {
        "name": "io.example/files",
        "version": "3.0.0",
        "packages": [{"registryType": "npm", "identifier": "@example/files", "version": "3.0.0",
                      "transport": {"type": "stdio"}}],
    }  # fmt: skip
    found = servers(server__json=json.dumps(entry).encode(), README__md=README.encode())
    assert found["npm:@example/files"].version == "3.0.0"


def test_names_of_packages_count_only_where_they_depend_on_an_mcp_library():
    package = {"name": "@me/notes-mcp", "bin": {"notes": "x.js"}, "dependencies": {"left-pad": "1"}}
    assert not servers(package__json=json.dumps(package).encode())
    package["dependencies"]["@modelcontextprotocol/sdk"] = "^1"
    assert list(servers(package__json=json.dumps(package).encode())) == ["npm:@me/notes-mcp"]
    assert not servers(package__json=json.dumps(package | {"private": True}).encode())
    project = (
        '[project]\nname = "Tides_Server"\ndependencies = ["fastmcp>=2"]\nscripts = {t = "a:b"}'
    )
    assert list(servers(pyproject__toml=project.encode())) == ["pypi:tides-server"]
    assert not servers(pyproject__toml=project.replace("fastmcp>=2", "requests").encode())


@pytest.mark.parametrize(
    "entry",
    [
        {"url": "http://127.0.0.1:8000/mcp"},
        {"url": "https://localhost/mcp"},
        {"url": "http://169.254.169.254/"},
        {"url": "https://10.0.0.1/mcp"},
        {"url": "https://[::1]/mcp"},
        {"url": 3},
        {"command": "/bin/sh", "args": ["-c", "true"]},
        {"command": "docker", "args": ["run", "x"]},
        {"command": "npx", "args": ["../x"]},
        {"command": "npx", "args": "x"},
        {"command": "uvx", "args": ["git+https://example.com/x"]},
        "npx x",
        None,
    ],
)  # fmt: skip
def test_a_strangers_file_neither_runs_local_commands_nor_reaches_private_networks(entry):
    assert not servers(mcp__json=json.dumps({"mcpServers": {"x": entry}}).encode())


def test_a_public_address_is_a_server():
    entry = {"mcpServers": {"x": {"url": "https://mcp.example.com/mcp"}}}
    (target,) = launches_in({".mcp.json": json.dumps(entry).encode()})
    assert "mcp.example.com" in target.server


@given(
    st.dictionaries(st.sampled_from(WANTED), st.binary(max_size=200) | st.text().map(str.encode))
)
def test_no_file_breaks_it(files):
    launches_in(files)


# --- folders ---------------------------------------------------------------------------------


def test_a_folder_of_repositories_is_read_and_its_links_are_not_followed(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text(README, encoding="utf-8")
    root = tmp_path / "repositories"
    for name in ("one", "two"):
        (root / name).mkdir(parents=True)
    (root / "one" / "README.md").write_text("npx -y one-mcp\n", encoding="utf-8")
    (root / "two" / "README.md").symlink_to(secret)
    (root / "three").symlink_to(tmp_path)
    found = targets_of([f"tree:{root}"])
    assert [target.server for target in found] == ["npm:one-mcp"]


def test_a_folder_that_tells_nothing_is_refused_with_what_was_looked_at(tmp_path):
    with pytest.raises(BadInput, match="tells how a server is launched"):
        targets_of([f"tree:{tmp_path}"])
    with pytest.raises(BadInput, match="no such folder"):
        targets_of([f"tree:{tmp_path}/nowhere"])


# --- GitHub, played by pages of our own ------------------------------------------------------

FILES = {
    "me/clock": {"README.md": README, "src": None},
    "me/bare": {"main.c": "int main;"},
    "me/huge": {"package.json": " " * (MAX_FILE + 10), "README.md": "npx -y huge-mcp"},
    "me/folder": {".vscode": None, ".vscode/mcp.json": json.dumps(
        {"servers": {"x": {"command": "npx", "args": ["-y", "folder-mcp"]}}})},
}  # fmt: skip


class Pages(BaseHTTPRequestHandler):
    asked: list = []
    left = 1000

    def do_GET(self):
        parts = urlsplit(self.path)
        path, query = unquote(parts.path), parse_qs(parts.query)
        type(self).asked.append((self.path, self.headers.get("Authorization")))
        type(self).left -= 1
        if self.left < 0:
            spent = {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1767225600"}
            return self._send(403, {"message": "rate limit"}, spent)
        if path == "/search/repositories":
            page = int(query["page"][0])
            names = {1: ["me/clock", "me/bare"], 2: ["me/huge", "../../x", 7]}.get(page, [])
            return self._send(200, {"items": [{"full_name": name} for name in names]})
        owner, repository, _, *rest = path.removeprefix("/repos/").split("/", 3)
        name, rest = f"{owner}/{repository}", "/".join(rest)
        if name == "me/moved":
            return self._send(301, {}, {"Location": f"{self.base}/repos/me/clock/contents/{rest}"})
        if name == "me/away":
            return self._send(301, {}, {"Location": "http://169.254.169.254/latest"})
        files = FILES.get(name)
        if files is None or (rest and rest not in files):
            return self._send(404, {"message": "Not Found"})
        if rest:
            return self._send(200, files[rest])
        listed = [
            {"path": path, "type": "dir" if text is None else "file"}
            for path, text in files.items()
            if "/" not in path
        ]
        return self._send(200, listed)

    @property
    def base(self):
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def _send(self, status, body, headers=None):
        data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


@pytest.fixture
def github(monkeypatch):
    Pages.asked, Pages.left = [], 1000
    server = ThreadingHTTPServer(("127.0.0.1", 0), Pages)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("GITHUB_API_URL", f"http://127.0.0.1:{server.server_address[1]}")
    monkeypatch.delenv("GITHUB_TOKEN", raising=False)
    yield Pages
    server.shutdown()
    server.server_close()


def reasons(text):
    return {target.server: target.script for target in targets_of([text])}


def test_a_repository_gives_the_servers_its_files_tell(github):
    found = [target.server for target in targets_of(["github:me/clock"])]
    assert "pypi:clock-server" in found
    assert [target.server for target in targets_of(["github:me/folder"])] == ["npm:folder-mcp"]
    assert [target.server for target in targets_of(["github:me/huge"])] == ["npm:huge-mcp"]


def test_a_topic_gives_the_servers_of_its_repositories_page_by_page(github):
    found = reasons("github:topic:mcp-server?most=3")
    assert found["github:me/bare"] == "no file of it tells how its server is launched"
    assert {"npm:huge-mcp", "pypi:clock-server"} <= found.keys()
    assert not any(path.rpartition("/")[2] == "x" for path, _ in github.asked)


def test_a_token_is_sent_to_the_api_alone(github, monkeypatch):
    monkeypatch.setenv("GITHUB_TOKEN", "ghp_secret")
    (target,) = targets_of(["github:me/away"])
    assert target.script == "GitHub answers with status 301"
    assert {sent for _, sent in github.asked} == {"Bearer ghp_secret"}
    assert "ghp_secret" not in json.dumps(target.record())


def test_a_repository_that_moved_within_github_is_followed(github):
    assert "pypi:clock-server" in reasons("github:me/moved")


def test_what_is_private_gone_or_beyond_the_rate_limit_is_kept_with_the_reason(github):
    assert "it is private" in reasons("github:me/nothing")["github:me/nothing"]
    github.left = 2
    found = reasons("github:topic:mcp-server?most=3")
    late = [why for name, why in found.items() if name.startswith("github:")]
    assert any("no more before 00:00 UTC; set GITHUB_TOKEN" in why for why in late)


@pytest.mark.parametrize(
    "text",
    ["github:", "github:me", "github:me/x/y", "github:-me/x", "github:topic:", "github:topic:A b",
     "github:topic:x?most=0", "github:topic:x?sort=y", "github:me/..%2f"],
)  # fmt: skip
def test_what_names_no_repository_is_refused_before_anything_is_asked(github, text):
    with pytest.raises(BadInput, match="no name of a"):
        targets_of([text])
    assert github.asked == []


def test_another_github_must_be_asked_over_https(monkeypatch):
    monkeypatch.setenv("GITHUB_API_URL", "http://github.example.com/api/v3")
    with pytest.raises(BadInput, match="not https"):
        targets_of(["github:me/clock"])
