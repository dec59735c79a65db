"""Every crawler source keeps the contract of `tool_registry.source.Source`."""

import json

import pytest

from synth.core.errors import BadInput, UnknownName
from tool_registry.ledger import identity, identity_of
from tool_registry.source import SOURCES

NAMES = SOURCES.names()
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
}
"""What a user of each source writes, or the file it names."""


@pytest.fixture
def written(tmp_path):
    def write(name):
        if not RECORDED[name].startswith("{"):
            return RECORDED[name]
        path = tmp_path / "servers.json"
        path.write_text(RECORDED[name], encoding="utf-8")
        return str(path)

    return write


@pytest.mark.parametrize("name", NAMES)
def test_a_source_is_called_as_its_file_and_claims_its_own_example_alone(name):
    example = SOURCES.get(name).example
    assert SOURCES.get(name).name == name
    assert [other for other in NAMES if SOURCES.get(other).claims(example)] == [name]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("text", ["", "-", "x", "../../etc/passwd", "--help", "http://x", "a b"])
def test_what_is_not_its_own_is_not_claimed(name, text):
    assert SOURCES.get(name).claims(text) is False


@pytest.mark.parametrize("name", NAMES)
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


@pytest.mark.parametrize("name", NAMES)
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
        source.targets(prefix + rest)


def test_a_misspelt_source_gets_a_hint():
    with pytest.raises(UnknownName, match="did you mean 'pypi'"):
        SOURCES.get("pypy")
