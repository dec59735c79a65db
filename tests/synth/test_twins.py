"""From a crawled catalogue to twins, their agents and episodes on them."""

import asyncio
import gzip
import json
from pathlib import Path

import pytest

from synth.app import main
from synth.core.config import Config
from synth.core.errors import BadInput, UnknownName
from synth.core.store import Workspace
from synth.pipeline.agents import survey
from synth.pipeline.job import generate
from synth.pipeline.progress import Goal
from synth.pipeline.twins import folder_of, make_twins
from synth.pipeline.worlds import open_worlds
from synth.run import read_plan

CATALOGUE = Path(__file__).parents[3] / "shared" / "data" / "catalogs" / "mcp_tools.jsonl.gz"


def tool(name, properties, required):
    schema = {"type": "object", "properties": properties, "required": required}
    return {"server": "desk", "tool": name, "description": f"About {name}", "inputSchema": schema}


TEXT = {"type": "string"}
DESK = [
    tool("list_notes", {"folder": TEXT}, []),
    tool("get_note", {"note_id": TEXT}, ["note_id"]),
    tool("create_note", {"title": TEXT, "folder": TEXT}, ["title", "folder"]),
    tool("delete_note", {"note_id": TEXT}, ["note_id"]),
    tool("print_note", {"note_id": TEXT}, ["note_id"]),
]


@pytest.fixture(scope="module")
def workspace(tmp_path_factory):
    folder = tmp_path_factory.mktemp("twins")
    catalogue = folder / "desk.jsonl"
    catalogue.write_text("\n".join(map(json.dumps, DESK)), encoding="utf-8")
    assert main(["--workspace", str(folder / "w"), "crawl", str(catalogue)]) == 0
    return folder / "w"


@pytest.fixture(scope="module")
def made(workspace):
    return make_twins(Workspace(workspace))


CONFIG = Config.model_validate({"generate": {"applications": ["twin:*"], "agents": 6}})


def test_a_crawled_server_gets_a_twin_and_the_others_a_reason(made):
    assert made == {
        "servers": 1, "twins": 1, "tools": 5, "twin_tools": 4, "distractors": 1,
        "distractors_by_reason": {"verb": 1}, "without_twin": {},
    }  # fmt: skip


def test_what_is_made_is_not_made_again(workspace, made):
    file = folder_of(workspace) / "servers.jsonl"
    before = file.read_bytes()
    assert make_twins(Workspace(workspace)) == made
    assert file.read_bytes() == before


def test_toolsets_hold_crawled_tools_and_each_way_is_counted(workspace, made):
    report = survey(CONFIG, open_worlds(CONFIG, workspace), lambda done, note: None)
    assert report["distinct"] == report["agents"] == 6
    assert report["crawled_tools"] == 5
    assert report["tools_by_way"] == {
        "live": 0, "twin": 4, "distractor": 1, "imagined": 0, "application": 0,
    }  # fmt: skip


def test_episodes_on_a_twin_are_accepted_and_call_crawled_names(workspace, made, tmp_path):
    goal = Goal(accept=8)
    report = asyncio.run(generate(CONFIG, tmp_path / "run", workspace, goal))
    assert report["accepted"] == 8
    called = {c.tool for p in read_plan(tmp_path / "run") for c in p.task.blueprint.solution}
    assert called <= {row["tool"] for row in DESK} - {"print_note"}
    assert called


def test_without_a_crawl_there_is_no_twin(tmp_path):
    with pytest.raises(BadInput, match="no server was crawled"):
        make_twins(Workspace(tmp_path))


def test_a_pattern_that_names_no_twin_says_how_to_make_them(tmp_path):
    with pytest.raises(UnknownName, match="toolloom twins"):
        open_worlds(CONFIG, tmp_path)


@pytest.mark.skipif(not CATALOGUE.exists(), reason="the shared catalogue is not here")
@pytest.mark.soak
def test_a_thousand_crawled_tools_work(tmp_path):
    some = tmp_path / "some.jsonl"
    with gzip.open(CATALOGUE, "rt", encoding="utf-8") as file:
        some.write_text(
            "".join(line for _, line in zip(range(3_500), file, strict=False)), encoding="utf-8"
        )
    assert main(["--workspace", str(tmp_path), "crawl", str(some)]) == 0
    assert make_twins(Workspace(tmp_path))["twin_tools"] >= 1_000
