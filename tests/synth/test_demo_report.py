"""The demo's page says what was measured, and in words what was not."""

import asyncio
from pathlib import Path

import orjson
import pytest

from synth.app._demo_report import write_report
from synth.app.demo import run_of
from synth.core.config import load_config
from synth.pipeline.generate import Goal
from synth.pipeline.job import generate

SETTINGS = ["generate.applications=['clinic']", "generate.agents=3"]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    workspace = tmp_path_factory.mktemp("demo")
    run = workspace / "runs" / "demo"
    report = asyncio.run(generate(load_config(None, SETTINGS), run, workspace, Goal(episodes=60)))
    return workspace, run, report


def figures(workspace, report, **training):
    counts = {name: report[name] for name in ("agents", "tasks", "episodes", "accepted")}
    return {
        "tools_real": 0,
        "tools_synthetic": 18,
        "servers_crawled": None,
        **counts,
        "dataset_rows": report["accepted"],
        "model": "tiny",
        "sft": None,
        "eval": None,
        "rl": None,
        "seconds_by_stage": {"crawl": None, "generate": 1.5},
        **training,
    }


def test_the_page_shows_funnel_plots_and_three_trajectories(made, tmp_path):
    workspace, run, report = made
    metrics = tmp_path / "metrics.jsonl"
    metrics.write_text('{"step": 1, "loss": 3.5}\n{"step": 2, "loss": 2.25}\n', encoding="utf-8")
    trained = {
        "sft": {
            "loss_first": 3.5, "loss_last": 2.25, "loss_after": 1.75, "tokens_per_s": 100.0,
            "steps": 2, "tokens": 900, "lessons": "demo-lessons",
            "checkpoint": str(tmp_path / "step-000002"),
        },
        "eval": {
            "application": "hotel", "kinds": ["lookup"], "n": 24, "before": 0.125, "after": 0.25,
            "detail_before": {"passed": 3, "n": 24, "interval": [0.04, 0.31]},
            "detail_after": {"passed": 6, "n": 24, "interval": [0.12, 0.45]},
        },
        "rl": {
            "reward_first": 0.25, "reward_last": 0.5, "iterations": 2,
            "history": [{"learned_rows": 8}, {"learned_rows": 4}],
        },
    }  # fmt: skip
    given = figures(workspace, report, **trained)
    page = write_report(workspace, run, given, report, None).read_text(encoding="utf-8")
    measured = "3 of 24 (95 %: 4 % to 31 %) before, 6 of 24 (95 %: 12 % to 45 %) after"
    assert f"not trained on (lookup) | {measured} |" in page
    assert "loss of the first rows 3.500 before, 1.750 after 2 steps on 900 tokens" in page
    assert "mean reward 0.250 → 0.500; iterations: 2, rows learned from: 12 " in page
    assert f"accepted        {report['accepted']:>7}" in page
    assert page.count("\n### ") == 3
    assert "- crawl: skipped" in page
    for name in ("yield.png", "training.png"):
        assert f"({name})" in page
        assert (workspace / name).read_bytes().startswith(b"\x89PNG")
    assert orjson.loads((workspace / "report.json").read_bytes()) == given


def test_what_was_not_measured_is_no_figure(made):
    workspace, run, report = made
    nothing = {
        "eval": {
            "kinds": ["lookup"],
            "application": "hotel",
            "n": 0,
            "before": None,
            "after": None,
            "detail_before": {"passed": 0, "n": 0, "interval": None},
            "detail_after": {"passed": 0, "n": 0, "interval": None},
        },
        "rl": {"reward_first": None, "reward_last": None, "iterations": 0, "history": []},
    }
    page = write_report(workspace, run, figures(workspace, report, **nothing), report, None)
    text = page.read_text(encoding="utf-8")
    assert "| 0 of 0 before, 0 of 0 after |" in text
    assert "mean reward not measured → not measured" in text
    assert "training.png" not in text


def test_other_settings_get_another_run_and_the_same_ones_go_on(made):
    workspace, run, _ = made
    assert run_of(load_config(None, SETTINGS), workspace) == run
    other = run_of(load_config(None, [*SETTINGS, "seed=1"]), workspace)
    assert other != run
    assert other.parent == run.parent
    assert run_of(load_config(), Path("nowhere")) == Path("nowhere/runs/demo")
