"""Runs that are not finished, never began, or accepted nothing: what is told and written."""

import argparse
import asyncio
import shutil

import orjson
import pytest

from synth.app import export as export_command
from synth.app._options import run_folder
from synth.core.config import load_config
from synth.core.errors import BadInput, TargetMissed
from synth.pipeline.export import export
from synth.pipeline.generate import Goal
from synth.pipeline.job import generate
from synth.report import funnel_lines, read_report
from synth.run import Run, read_episodes, read_plan

DONE = 7


def make(workspace, rate, episodes):
    run = workspace / "runs" / "r"
    settings = ["generate.applications=clinic", "generate.agents=3", f"generate.errors.rate={rate}"]
    asyncio.run(generate(load_config(None, settings), run, workspace, Goal(episodes=episodes)))
    return run


@pytest.fixture(scope="module")
def half(tmp_path_factory):
    """A run of twelve episodes that was ended while the eighth was being written."""
    run = make(tmp_path_factory.mktemp("half"), 0.3, 12)
    for name in ("report.json", "report.md"):
        (run / name).unlink()
    file = run / "episodes-0.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(lines[:DONE]) + lines[DONE][:50])
    return run


def test_what_came_so_far_of_a_run_is_reported_and_nothing_of_it_is_touched(half):
    before = {path.name: path.read_bytes() for path in half.iterdir()}
    report = read_report(half)
    passed = [episode for episode in read_episodes(half) if episode.verdict.passed]
    assert (report["episodes"], report["accepted"]) == (DONE, len(passed))
    assert 0 < len(passed) < DONE
    assert report["tasks"] == len(list(read_plan(half))) == 12
    text = "\n".join(funnel_lines(report))
    assert "not finished: it is going on, or was interrupted" in text
    assert "near-alike" not in text
    assert {path.name: path.read_bytes() for path in half.iterdir()} == before


def test_what_a_run_has_accepted_by_now_can_be_exported_and_the_card_says_so(half, capsys):
    arguments = argparse.Namespace(
        workspace=half.parent.parent, run="r", to=None, format=["openai"], limit=None, ids="own",
        json=False,
    )  # fmt: skip
    written = export_command.run(arguments)
    passed = {e.trajectory.episode for e in read_episodes(half) if e.verdict.passed}
    rows = (half / "dataset" / "train.jsonl").read_bytes().splitlines()
    assert {orjson.loads(row)["id"] for row in rows} == passed
    assert written["unfinished"]
    card = (half / "dataset" / "README.md").read_text(encoding="utf-8")
    assert "not finished" in card
    assert "language: [en]" in card
    said = capsys.readouterr().err.splitlines()
    assert said[0] == f"the run is not finished: these are the {len(rows)} rows that it has by now"


def test_a_run_that_accepted_nothing_writes_no_dataset(tmp_path):
    run = make(tmp_path, 1, 5)
    with pytest.raises(TargetMissed, match=r"no episode .* accepted.*toolloom report --run r"):
        export(run, run / "dataset", formats=["openai", "parquet"], limit=None)
    assert not (run / "dataset").exists()


def test_a_run_that_never_began_is_none_and_binds_nobody_to_its_settings(half, tmp_path):
    workspace = tmp_path
    shutil.copytree(half, workspace / "runs" / "good")
    bad = workspace / "runs" / "bad"
    Run(bad, load_config(overrides=["seed=1"])).close()
    (bad / "tools.json").write_text("{}", encoding="utf-8")
    with pytest.raises(BadInput, match=r"there is no run 'bad' \(runs here: good\)"):
        run_folder(argparse.Namespace(workspace=workspace, run="bad"))
    with Run(bad, load_config(overrides=["seed=2"])) as run:
        assert orjson.loads((bad / "config.json").read_bytes())["fingerprint"] == run.fingerprint
        assert not (bad / "tools.json").exists()


def test_a_run_that_began_keeps_its_settings(half, tmp_path):
    run = shutil.copytree(half, tmp_path / "r")
    with pytest.raises(BadInput, match="started with other settings"):
        Run(run, load_config(overrides=["seed=2"]))
