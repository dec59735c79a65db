"""From real tools to a trained model, in minutes, in one workspace.

Crawls real servers (when they can be reached), registers the applications, generates at least a
thousand judged episodes, writes the dataset, fine-tunes a small model, measures it before and after
on an application it was not trained on, and takes a few steps of reinforcement learning.
`--offline` never tries the network. A stage that was skipped is null in the figures, never 0.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson

from synth.app._options import positive
from synth.app._show import afterwards, bar, say, show
from synth.core.config import Config, load_config
from synth.core.store import Workspace
from synth.pipeline.compose import made_of
from synth.pipeline.export import export
from synth.pipeline.generate import Goal, Progress
from synth.pipeline.job import generate
from synth.pipeline.record import record_export
from synth.pipeline.worlds import LIVE, open_applications, open_live, open_worlds, register
from tool_registry import browse
from tool_registry.crawl import CrawlReport, crawl

SERVERS = (
    *(world.package for world in LIVE),
    "npm:@modelcontextprotocol/server-everything",
    "npm:@modelcontextprotocol/server-sequential-thinking",
    "pypi:mcp-server-time",
    "pypi:mcp-server-git",
    "pypi:mcp-server-sqlite",
)
"""Real servers that need no key; the first ones also play episodes."""
HELD_OUT = "hotel"
"""The application whose rows are kept out of training."""
LIVE_SHARE = 0.03
STATES, AGENTS = 8, 12
"""Of each application: seeding states is most of what many applications cost."""
LR = 5e-4
"""Of fine-tuning: more than the default, because there are a dozen steps in all."""
RUN = "demo"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("--offline", action="store_true", help="never try the network")
    parser.add_argument(
        "--episodes",
        type=positive,
        default=1200,
        metavar="N",
        help="episodes to play (default: 1200)",
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of everything drawn")


class Clock:
    """Seconds by stage; a skipped stage is None."""

    def __init__(self) -> None:
        self.seconds: dict[str, float | None] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time one stage and say that it began."""
        say(f"{name} …")
        start = time.monotonic()
        yield
        self.seconds[name] = round(time.monotonic() - start, 1)

    def skip(self, name: str, why: str) -> None:
        """Note that a stage was left out."""
        say(f"{name} skipped: {why}")
        self.seconds[name] = None


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Run every stage; write report.md; return the figures."""
    from synth.app._demo_report import write_report
    from synth.app._demo_training import train_and_measure

    workspace: Path = arguments.workspace
    clock = Clock()
    crawled = _crawl(workspace, clock, offline=arguments.offline)
    config = _config(arguments, workspace)
    with clock.stage("registry"):
        registry = _register(workspace)
    broad = _broad(config)
    folder = run_of(broad, workspace)
    with clock.stage("generate"):
        report = _generate(broad, workspace, folder, Goal(episodes=arguments.episodes))
    with clock.stage("export"):
        written = export(folder, folder / "dataset", formats=("openai", "parquet"), limit=None)
        with afterwards():
            record_export(Workspace(workspace), folder, written["files"])
    training = train_and_measure(
        config,
        workspace,
        folder,
        clock,
        held_out=HELD_OUT,
        offline=arguments.offline,
    )
    figures: dict[str, Any] = {
        "tools_real": registry["tools_real"],
        "tools_synthetic": registry["tools_synthetic"],
        "servers_crawled": _listed(crawled),
        "agents": report["agents"],
        "tasks": report["tasks"],
        "episodes": report["episodes"],
        "accepted": report["accepted"],
        "rejected_by_reason": report["rejected_by_reason"],
        "dataset_rows": written["rows"],
        **training,
        "seconds_by_stage": clock.seconds,
    }
    page = write_report(workspace, folder, figures, report, crawled)
    if not arguments.json:
        show(page.read_text(encoding="utf-8").split("\n## Three trajectories")[0])
        show(f"\nAll of it: {page}")
    return figures


def _config(arguments: argparse.Namespace, workspace: Path) -> Config:
    live = bool(open_live(workspace)) and not arguments.offline
    share = LIVE_SHARE if live else 0.0
    settings = [f"seed={arguments.seed}", f"generate.live_share={share}", f"train.sft.lr={LR}"]
    return load_config(None, settings)


def _broad(config: Config) -> Config:
    """Return the settings of the large dataset: a little of every application."""
    update = {"states": STATES, "agents": AGENTS}
    return config.model_copy(update={"generate": config.generate.model_copy(update=update)})


def _listed(crawled: CrawlReport | None) -> int | None:
    if crawled is None:
        return None
    return len(crawled.servers) - len(crawled.failed)


def _crawl(workspace: Path, clock: Clock, *, offline: bool) -> CrawlReport | None:
    """List the real servers, or say why not."""
    if offline:
        clock.skip("crawl", "--offline")
        return None
    servers = list(SERVERS)
    if not shutil.which("npm"):
        servers = [name for name in servers if not name.startswith("npm:")]
        say("  npm is not installed: its servers are skipped")
    with clock.stage("crawl"), bar("crawl") as shown:
        report = asyncio.run(
            crawl(
                servers,
                workspace=Workspace(workspace),
                progress=lambda done, total, note: shown.update(done, total, note),
                concurrency=3,
            )
        )
    for server in report.failed:
        say(f"  skipped {server.server}: {server.reason or server.outcome}")
    return report


def _register(workspace: Path) -> dict[str, Any]:
    """Enter the applications in the registry; return its figures."""
    store = Workspace(workspace)
    register(store, open_applications())
    return browse.stats(store)


def run_of(config: Config, workspace: Path) -> Path:
    """Return the run folder of these settings.

    It is `demo`, unless that run was made with other ones: with another seed or application, or
    before real servers could be reached.
    """
    folder = workspace / "runs" / RUN
    try:
        made_with = orjson.loads((folder / "config.json").read_bytes())["fingerprint"]
    except (OSError, orjson.JSONDecodeError, KeyError, TypeError):
        return folder  # new, or damaged: the run itself says what is wrong with it
    fingerprint = config.fingerprint(made_of(open_worlds(config, workspace)))
    return folder if made_with == fingerprint else folder.with_name(f"{RUN}-{fingerprint[:6]}")


def _generate(config: Config, workspace: Path, folder: Path, goal: Goal) -> dict[str, Any]:
    with bar("generate") as shown:

        def on_progress(progress: Progress) -> None:
            shown.update(progress.played, goal.episodes, f"{progress.accepted} accepted")

        return asyncio.run(generate(config, folder, workspace, goal, on_progress=on_progress))
