"""Cloned repositories are read without following links, and nothing in them is run."""

import json
import os

import pytest

from synth.core.errors import BadInput
from tool_registry.crawl import targets_of
from tool_registry.launches import MAX_FILE


@pytest.mark.claim("b-repo")
def test_a_folder_of_repositories_is_read_and_its_links_are_not_followed(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("npx -y secret-mcp\n", encoding="utf-8")
    root = tmp_path / "repositories"
    for name in ("one", "two", "two/src"):
        (root / name).mkdir(parents=True)
    (root / "one" / "README.md").write_text("npx -y one-mcp\n", encoding="utf-8")
    (root / "two" / "README.md").symlink_to(secret)
    (root / "two" / "src" / "link").symlink_to(root / "one")
    (root / "three").symlink_to(root / "one")
    (root / "four").symlink_to("/")
    assert [target.server for target in targets_of([f"tree:{root}"])] == ["npm:one-mcp"]


def test_a_pipe_is_not_waited_for_and_a_giant_file_is_cut(tmp_path):
    os.mkfifo(tmp_path / "README.md")
    big = "npx -y early-mcp\n" + " " * MAX_FILE + "\nnpx -y late-mcp\n"
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "README").write_text(big, encoding="utf-8")
    assert [target.server for target in targets_of([f"tree:{tmp_path}"])] == ["npm:early-mcp"]


def test_what_is_not_usable_is_kept_with_file_and_reason(tmp_path):
    servers = {"a": {"command": "docker", "args": ["run"]}, "b": {"command": "./run.sh"}}
    (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    (target,) = targets_of([f"tree:{tmp_path}"])
    assert target.server == f"tree:{tmp_path}#.mcp.json"
    assert target.script == (
        "'docker': a local command, which is not run; 'run.sh': a local command, which is not run"
    )


def test_a_folder_that_tells_nothing_is_refused_with_what_was_looked_at(tmp_path):
    with pytest.raises(BadInput, match="tells how a server is launched"):
        targets_of([f"tree:{tmp_path}"])
    with pytest.raises(BadInput, match="no such folder"):
        targets_of([f"tree:{tmp_path}/nowhere"])
