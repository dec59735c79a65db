"""The report of a run: what the gate tried, and how various the agents are."""

import asyncio
import shutil

import orjson
import pytest

from synth.core.config import load_config
from synth.core.errors import BadRow
from synth.pipeline.compose import Decoys
from synth.pipeline.export import export
from synth.pipeline.generate import Goal
from synth.pipeline.job import generate
from synth.report import funnel_lines, read_report
from synth.run import read_plan


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    workspace = tmp_path_factory.mktemp("report")
    run = workspace / "runs" / "r"
    config = load_config(None, ["generate.applications=['clinic']", "generate.agents=3"])
    return run, asyncio.run(generate(config, run, workspace, Goal(episodes=30)))


def test_decoys_are_counted_over_all_candidates():
    decoys = Decoys()
    decoys.add({"noop": True, "echo": True})
    decoys.add({"noop": True, "echo": False})
    decoys.add({})
    assert decoys.counts() == {"echo": (2, 1), "noop": (2, 2)}


def test_the_report_adds_up_what_the_gate_tried_on_the_places_it_counts(made):
    run, report = made
    plan = list(read_plan(run))
    wanted = {}
    for planned in plan:
        for name, (tried, failed) in planned.decoys.items():
            row = wanted.setdefault(name, {"tried": 0, "failed": 0})
            row["tried"], row["failed"] = row["tried"] + tried, row["failed"] + failed
    assert report["decoys"] == wanted
    # Every admitted task saw an idle agent fail; candidates given up later are counted too.
    assert report["decoys"]["noop"]["failed"] >= len(plan) == 30


def test_the_report_says_how_various_the_agents_are(made):
    run, report = made
    row = report["agents_by_application"]["clinic"]
    assert row["agents"] == report["agents"] == len({p.agent for p in read_plan(run)})
    assert sum(row["behaviours"].values()) == sum(row["toolset_sizes"].values()) == row["agents"]
    assert orjson.loads((run / "report.json").read_bytes()) == report


def test_people_read_both(made):
    _, report = made
    lines = [line.split() for line in funnel_lines(report)]
    noop, clinic = report["decoys"]["noop"], report["agents_by_application"]["clinic"]
    assert ["noop", str(noop["tried"]), str(noop["failed"])] in lines
    figures = (clinic["agents"], clinic["toolsets"], clinic["near_duplicates"])
    assert ["clinic", *map(str, figures), str(len(clinic["tools_unused"]))] in lines


@pytest.mark.parametrize("text", ["", "{", "[]", "[1]", "7", "null", '{"accepted": 3}'])
def test_a_damaged_report_is_named(tmp_path, text):
    (tmp_path / "report.json").write_text(text, encoding="utf-8")
    with pytest.raises(BadRow, match=r"report\.json: .*repeat the command that made it"):
        read_report(tmp_path)


@pytest.mark.parametrize("text", ["{", "[]", "7", '{"clinic": 7}', '{"clinic": {"x": {}}}'])
def test_an_export_names_damaged_tools(made, tmp_path, text):
    run = shutil.copytree(made[0], tmp_path / "r")
    (run / "tools.json").write_text(text, encoding="utf-8")
    with pytest.raises(BadRow, match=r"r/tools\.json: not a run's tools"):
        export(run, tmp_path / "out", formats=["openai"], limit=None)
