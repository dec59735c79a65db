"""Every place that tools come from keeps the contract of `Source` or `Catalog`."""

import json

import pytest

from synth.core.errors import BadInput, UnknownName
from tool_registry.ledger import identity, identity_of
from tool_registry.source import SOURCES, Catalog

NAMES = SOURCES.names()
CATALOGS = [name for name in NAMES if isinstance(SOURCES.get(name), Catalog)]
LISTED = [name for name in NAMES if name not in CATALOGS]
"""Their targets are installed or started before there is a list."""
TOOL = {"name": "move_file", "description": "Moves a file.", "inputSchema": {"type": "object"}}
OPERATION = {"operationId": "list_pets", "summary": "Lists pets.", "responses": {}}
RECORDED = {
    "pypi": "pypi:mcp-server-time==2025.9.25 --local-timezone UTC",
    "npm": "npm:@modelcontextprotocol/server-filesystem@2026.8.31 {work}",
    "mcp-json": json.dumps(
        {
            "mcpServers": {
                "files": {"command": "npx", "args": ["-y", "server-files", "/data"]},
                "own": {"command": "python3", "args": ["server.py"], "env": {"A_TOKEN": "geheim"}},
            }
        }
    ),
    "catalog": json.dumps({"server": "npm:files", "tools": [TOOL]}),
    "tools-json": json.dumps([TOOL]),
    "openapi": json.dumps({"openapi": "3.1.0", "paths": {"/pets": {"get": OPERATION}}}),
    "python": "python:json:dumps",
}
"""What a user of each source writes, or the file it names. Registries are asked for pages: those
are recorded in `tests/tool_registry/test_mcp_registry.py`."""
RECORDED_LISTED = [name for name in LISTED if name in RECORDED]


@pytest.fixture
def written(tmp_path):
    def write(name):
        if not RECORDED[name].startswith(("{", "[")):
            return RECORDED[name]
        path = tmp_path / "servers.json"
        path.write_text(RECORDED[name], encoding="utf-8")
        kind, prefixed, _ = SOURCES.get(name).example.partition(":")
        return f"{kind}:{path}" if prefixed else str(path)

    return write


@pytest.mark.parametrize("name", NAMES)
def test_a_source_is_called_as_its_file_and_claims_its_own_example_alone(name):
    example = SOURCES.get(name).example
    assert SOURCES.get(name).name == name
    assert [other for other in NAMES if SOURCES.get(other).claims(example)] == [name]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("text", ["", "-", "x", "../../etc/passwd", "--help", "ftp://x", "a b"])
def test_what_is_not_its_own_is_not_claimed(name, text):
    assert SOURCES.get(name).claims(text) is False


@pytest.mark.parametrize("name", RECORDED_LISTED)
def test_recorded_words_give_the_same_targets_each_time(name, written):
    source = SOURCES.get(name)
    text = written(name)
    targets = source.targets(text)
    assert targets
    assert list(targets) == list(source.targets(text))
    assert len({target.server for target in targets}) == len(targets)
    for target in targets:
        assert SOURCES.get(target.source)
        assert ":" in target.server


@pytest.mark.parametrize("name", CATALOGS)
def test_recorded_lists_give_the_same_servers_each_time(name, written):
    source = SOURCES.get(name)
    text = written(name)
    found = list(source.read(text))
    assert [len(one.listing.tools) for one in found] == [1]
    assert found == list(source.read(text))
    assert len({one.target.server for one in found}) == len(found)


@pytest.mark.parametrize("name", RECORDED_LISTED)
def test_a_target_is_written_down_without_secrets_and_found_again(name, written):
    for target in SOURCES.get(name).targets(written(name)):
        text = json.dumps(target.record())
        assert "geheim" not in text
        assert "geheim" not in repr(target)
        assert identity_of(json.loads(text)) == identity(target)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("rest", ["", "\0", "a;b", "$(x)", "-e", "a==", "@", "a b'"])
def test_nonsense_behind_its_prefix_is_bad_input(name, rest):
    source = SOURCES.get(name)
    prefix = source.example.partition(":")[0] + ":" if ":" in source.example else rest + "/x.json"
    with pytest.raises(BadInput):
        list((source.read if name in CATALOGS else source.targets)(prefix + rest))


def test_a_misspelt_source_gets_a_hint():
    with pytest.raises(UnknownName, match="did you mean 'pypi'"):
        SOURCES.get("pypy")
