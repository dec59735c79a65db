"""Make accepted trajectories.

toolloom generate --accept 1000            exactly 1000 accepted episodes, in plan order
toolloom generate --episodes 500           500 episodes, however many pass
The same command resumes what was interrupted. Models play where [models] in the configuration
says so; otherwise the scripted players do (no key, no cost).
"""

from __future__ import annotations

import argparse
import asyncio
from typing import Any

from synth.app._endpoints import check_endpoints
from synth.app._options import add_config, add_run, positive, read_config, run_folder
from synth.app._show import bar, show
from synth.core.errors import TargetMissed
from synth.pipeline.generate import Goal, Progress
from synth.pipeline.job import generate
from synth.report import funnel_lines


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    goal = parser.add_mutually_exclusive_group(required=True)
    goal.add_argument("--accept", type=positive, metavar="N", help="accepted episodes wanted")
    goal.add_argument("--episodes", type=positive, metavar="N", help="episodes wanted")
    parser.add_argument(
        "--concurrency",
        type=positive,
        default=8,
        metavar="N",
        help="episodes in flight when models play (default: 8)",
    )
    add_run(parser)
    add_config(parser)


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Generate, and return the report."""
    config = read_config(arguments)
    folder = run_folder(arguments, must_exist=False)
    goal = Goal(accept=arguments.accept, episodes=arguments.episodes)
    wanted = goal.accept or goal.episodes or 0
    if not (folder / "report.json").exists():  # a run that is complete needs nobody
        asyncio.run(check_endpoints(config))
    with bar("generate") as shown:

        def on_progress(progress: Progress) -> None:
            done = progress.accepted if goal.accept else progress.played
            note = f"{progress.accepted} accepted of {progress.played} played"
            shown.update(done, wanted, note)

        report = asyncio.run(
            generate(
                config,
                folder,
                arguments.workspace,
                goal,
                concurrency=arguments.concurrency,
                on_progress=on_progress,
            )
        )
    if not arguments.json:
        show("\n".join(funnel_lines(report)))
    if report["gave_up"]:
        raise TargetMissed(
            f"{report['accepted']} of {wanted} {'accepted' if goal.accept else 'episodes'}: "
            f"{report['gave_up']}",
            where=str(folder),
            remedy="mend the cause; the same command goes on",
        )
    return report
