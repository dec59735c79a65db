"""How servers of repositories are launched is told from files of strangers, and nothing is run."""

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tool_registry.launches import MAX_FILE, MAX_FILES, launches_in, wanted

README = """
# A server

```json
{"mcpServers": {"clock": {"command": "uvx", "args": ["clock-server==1.2", "--zone", "UTC"],
                          "env": {"CLOCK_TOKEN": "sk-abcdef123456"}}}}
```
Or run it yourself:

    npx -y @example/files-mcp@2.0.1 /tmp --depth 3
    $ uvx --from maps-mcp maps
    npx @modelcontextprotocol/inspector npx other
    npx -y evil-mcp; rm -rf /
    npx tsc
    claude mcp add notes -e KEY=1 -- npx -y notes-mcp@latest
- or `KEY=x uvx tides-mcp --port 3` for short; npx is a launcher of mcp servers
    npx -y @modelcontextprotocol/inspector uvx looked-at-mcp
    npx mcp-remote https://mcp.example.com/sse
    uvx ../../etc/passwd
    npx --eval=1 x
"""


def servers(**files):
    found = launches_in({name.replace("__", "."): data for name, data in files.items()})
    return {target.server: target for target in found.targets}


def why(**files):
    return launches_in({name.replace("__", "."): data for name, data in files.items()}).unusable


def test_a_readme_tells_by_json_and_by_lines():
    found = servers(README__md=README.encode())
    assert sorted(found) == [
        "npm:@example/files-mcp",
        "npm:evil-mcp",
        "npm:notes-mcp",
        "pypi:clock-server",
        "pypi:looked-at-mcp",
        "pypi:maps-mcp",
        "pypi:tides-mcp",
        "url:https://mcp.example.com/sse",
    ]
    clock = found["pypi:clock-server"]
    assert (clock.version, clock.arguments) == ("1.2", ("--zone", "UTC"))
    assert clock.env == {"CLOCK_TOKEN": "dummy-not-a-secret"}
    files = found["npm:@example/files-mcp"]
    assert (files.version, files.arguments) == ("2.0.1", ("{work}", "--depth", "3"))
    assert found["npm:evil-mcp"].arguments == ()
    assert found["npm:notes-mcp"].version is None
    assert found["pypi:maps-mcp"].script == "maps"


def test_what_a_readme_tells_and_is_not_usable_has_a_reason():
    told = why(README__md=README.encode())["README.md"]
    assert "not a package name: '../../etc/passwd'" in told
    assert "npx --eval=1 is not accepted" in told
    assert "rm -rf" not in told


@pytest.mark.claim("b-repo")
@pytest.mark.parametrize(
    "line",
    ["npx -y ../evil-mcp", "npx -y --registry=https://evil.example evil-mcp", "npx -c evil-mcp",
     "uvx --index-url https://evil.example evil-mcp", "uvx evil-mcp@https://evil.example/x.whl",
     "npx -y file:evil-mcp", "npx https://evil.example/evil-mcp.tgz", "uvx -mcp", "npx --",
     "npx $(evil-mcp)", "npx 'evil-mcp;x'", "npx -y ${EVIL}-mcp", "uvx --from ./evil-mcp mcp",
     "npx -y github:evil/evil-mcp", "uvx git+https://evil.example/mcp"],
)  # fmt: skip
def test_a_launch_line_that_would_fetch_from_elsewhere_or_give_options_names_no_server(line):
    assert not servers(README__md=f"```sh\n{line}\n```\n    {line}\n`{line}`\n".encode())


def test_a_part_of_a_configuration_is_read_and_a_broken_one_is_told():
    part = '```jsonc\n// here\n"clock": {"command": "bunx", "args": ["x"]},\n```\n'
    assert why(README__md=part.encode()) == {
        "README.md": "'bunx': a local command, which is not run"
    }
    one = '```\n{"command": "npx", "args": ["-y", "clock"]}\n```'
    assert list(servers(README__md=one.encode())) == ["npm:clock"]
    broken = '```json\n{"mcpServers": {"a": {"command": ...}}}\n```'
    assert "cannot be read" in why(README__md=broken.encode())["README.md"]


def test_packages_of_a_repository_of_many_are_found_and_its_tests_passed_over():
    package = {"bin": "x.js", "dependencies": {"@modelcontextprotocol/sdk": "1"}}
    paths = {
        "src/one/package.json": "one-mcp",
        "package.json": "root-mcp",
        "node_modules/dep/package.json": "dep-mcp",
        "tests/data/package.json": "data-mcp",
        "a/b/c/package.json": "deep-mcp",
        ".github/package.json": "hidden-mcp",
    }
    assert wanted(paths) == ["package.json", "src/one/package.json"]
    files = {path: json.dumps(package | {"name": paths[path]}).encode() for path in wanted(paths)}
    assert [t.server for t in launches_in(files).targets] == ["npm:root-mcp", "npm:one-mcp"]
    assert len(wanted(f"p{n}/package.json" for n in range(900))) == MAX_FILES


@pytest.mark.claim("b-repo")
@pytest.mark.parametrize(
    "text",
    ["```" + "\n" * MAX_FILE, "```\n" * (MAX_FILE // 4), "npx 'a\n" * (MAX_FILE // 7),
     "npx -y a-mcp\n" * (MAX_FILE // 13), "$a=" * (MAX_FILE // 3), "[" * MAX_FILE,
     '```\n{"url":"https://' + "a." * (MAX_FILE // 3) + '"}\n```', '{"command":' * 90_000],
)  # fmt: skip
def test_a_giant_readme_takes_seconds_whatever_is_in_it(text):
    begun = time.process_time()
    launches_in({"README.md": text.encode(), "mcp.json": text.encode()})
    assert time.process_time() - begun < 10


def test_files_that_are_meant_for_it_come_before_words():
    entry = {
        "name": "io.example/files",
        "version": "3.0.0",
        "packages": [{"registryType": "npm", "identifier": "@example/files-mcp", "version": "3.0.0",
                      "transport": {"type": "stdio"}}],
    }  # fmt: skip
    found = servers(server__json=json.dumps(entry).encode(), README__md=README.encode())
    assert found["npm:@example/files-mcp"].version == "3.0.0"


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


@pytest.mark.claim("b-repo")
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
    data = json.dumps({"mcpServers": {"x": entry}}).encode()
    assert not servers(mcp__json=data)
    assert list(why(mcp__json=data)) == ["mcp.json"]


def test_a_public_address_is_a_server():
    entry = {"mcpServers": {"x": {"url": "https://mcp.example.com/mcp"}}}
    entry["mcpServers"]["x"]["headers"] = {"Authorization": "Bearer of-a-stranger"}
    (target,) = launches_in({".mcp.json": json.dumps(entry).encode()}).targets
    assert target.address.headers == {}
    assert "mcp.example.com" in target.server


def _json():
    words = st.sampled_from(
        ["mcpServers", "servers", "mcp", "command", "args", "url", "npx", "uvx", "name", "bin",
         "dependencies", "packages", "x-mcp", "-", "..", "https://a.example/x", ""])  # fmt: skip
    leaves = words | st.none() | st.integers() | st.booleans()
    values = st.recursive(
        leaves, lambda inner: st.lists(inner) | st.dictionaries(words, inner), max_leaves=20
    )
    return values.map(json.dumps)


@given(
    st.dictionaries(
        st.sampled_from(["server.json", "mcp.json", "README.md", "package.json", "pyproject.toml"]),
        st.binary(max_size=200) | st.text().map(str.encode) | _json().map(str.encode),
    )
)
def test_no_file_breaks_it(files):
    launches_in(files)
