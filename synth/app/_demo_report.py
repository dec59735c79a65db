"""report.md of the demo: funnel, two plots, three trajectories, and what every figure means."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

from synth.core import jsonl
from synth.core.prompts import prompts
from synth.report import funnel_lines
from synth.run import read_agents, read_episodes, read_plan
from synth.transcript import markdown
from tool_registry.crawl import CrawlReport

_SAMPLE_KINDS = ("chained_writes", "forbidden", "missing_fact")


def write_report(
    workspace: Path,
    run: Path,
    figures: dict[str, Any],
    report: dict[str, Any],
    crawled: CrawlReport | None,
) -> Path:
    """Write report.md and its plots into the workspace; return the page's path."""
    plots = {
        "yield.png": _plot_yield(report, workspace / "yield.png"),
        "training.png": _plot_training(figures, workspace / "training.png"),
    }
    page = workspace / "report.md"
    text = prompts("synth.templates").render(
        "demo_report",
        figures=figures,
        funnel="\n".join(funnel_lines(report)),
        servers=[] if crawled is None else crawled.servers,
        plots=[name for name, made in plots.items() if made],
        samples=_samples(run),
    )
    jsonl.write_atomic(page, (text + "\n").encode())
    data = orjson.dumps(figures, option=orjson.OPT_INDENT_2)
    jsonl.write_atomic(workspace / "report.json", data)
    return page


def _samples(run: Path) -> list[str]:
    """Return one accepted episode of each sample kind, as sections of the page."""
    plan = {planned.episode: planned for planned in read_plan(run)}
    agents = {agent.key: agent for agent in read_agents(run)}
    found: dict[str, str] = {}
    for episode in read_episodes(run):
        kind = str(episode.trajectory.kind)
        if episode.verdict.passed and kind in _SAMPLE_KINDS and kind not in found:
            planned = plan[episode.trajectory.episode]
            found[kind] = markdown(episode, planned.task, agents[planned.agent])
    return [found[kind] for kind in _SAMPLE_KINDS if kind in found]


def _plot_yield(report: dict[str, Any], path: Path) -> bool:
    """Draw accepted and rejected episodes by kind of task."""
    pyplot = _pyplot()
    if pyplot is None:
        return False
    kinds = report["by_kind"]
    names = [name.replace("_", " ") for name in kinds]
    accepted = [row["accepted"] for row in kinds.values()]
    rejected = [row["episodes"] - row["accepted"] for row in kinds.values()]
    figure, axes = pyplot.subplots(figsize=(7, 3.2), layout="constrained")
    axes.barh(names, accepted, color="#2f6f4f", label="accepted")
    axes.barh(names, rejected, left=accepted, color="#c9553d", label="rejected by the judge")
    axes.set_xlabel("episodes")
    axes.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=130)
    pyplot.close(figure)
    return True


def _plot_training(figures: dict[str, Any], path: Path) -> bool:
    """Draw the loss of fine-tuning, and the pass rates before and after."""
    pyplot = _pyplot()
    if pyplot is None or figures["sft"] is None:
        return False
    rows = list(jsonl.read(Path(figures["sft"]["checkpoint"]).parent / "metrics.jsonl"))
    figure, (left, right) = pyplot.subplots(
        1, 2, figsize=(8, 3.2), layout="constrained", width_ratios=(2, 1)
    )
    left.plot([row["step"] for row in rows], [row["loss"] for row in rows], color="#2b4c7e")
    left.set_xlabel("optimizer step")
    left.set_ylabel("loss per trained token (nats)")
    result = figures["eval"]
    shares = {name: result[name] for name in ("before", "after") if result[name] is not None}
    bars = right.bar(list(shares), list(shares.values()), color="#2b4c7e")
    right.bar_label(bars, fmt="{:.0%}")
    right.set_ylim(0, 1)
    right.set_title(f"passed on {result['application']}, n = {result['n']}", fontsize=9)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=130)
    pyplot.close(figure)
    return True


def _pyplot() -> Any:
    """Return pyplot drawing to files, or None where matplotlib is not installed."""
    try:
        import matplotlib
    except ImportError:
        return None
    matplotlib.use("agg")
    from matplotlib import pyplot

    return pyplot
