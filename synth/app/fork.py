"""Let episodes of a run go on in another way from a place of theirs, as a run of their own.

toolloom fork EPISODE --at 2 --set seed=7                the rest once more, by other chance
toolloom fork --all --only failed --set generate.errors.rate=0
                            from the last place from which each could still be brought to a pass,
                            played on by an agent that errs no more: the source of preference pairs
toolloom fork --share 0.1 --at random --copies 4 --set models.agent.model=NAME
                            what a model makes of the middle of others' episodes

What is kept stays to the byte; calls are made again. --set changes who plays, seed, errors, faults
and limits; models of the origin play on unless told otherwise. The same command resumes.
"""

from __future__ import annotations

import argparse
import asyncio
from typing import Any

from synth.app._endpoints import check_endpoints
from synth.app._options import add_concurrency, add_run, folder_name, positive, run_folder, share
from synth.app._show import bar, show
from synth.core.config import change_config
from synth.core.errors import BadInput, TargetMissed
from synth.pipeline.forks import fork
from synth.pipeline.job import How
from synth.pipeline.origins import LAST_GOOD, WHICH, Origin, Wish
from synth.pipeline.progress import Progress
from synth.report import funnel_lines

SCRIPTED = ("agent", "user")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "episodes", nargs="*", metavar="EPISODE", help="identity of an episode, or its beginning"
    )
    add_run(parser)
    parser.add_argument("--all", action="store_true", help="every episode of the run")
    parser.add_argument("--share", type=share, metavar="SHARE", help="a share of them, drawn")
    parser.add_argument(
        "--only", choices=WHICH, default="any", help="of all or a share: by verdict (default: any)"
    )
    parser.add_argument(
        "--at",
        default=LAST_GOOD,
        metavar="PLACE",
        help="where to go on from: N calls, message:N, random, or last-good, the last place from "
        "which the reference agent brings it to a pass (default: last-good)",
    )
    parser.add_argument(
        "--copies", type=positive, default=1, metavar="K", help="forks of each (default: 1)"
    )
    parser.add_argument(
        "--persona", metavar="VOICE", help="go on with a user of this voice; other draws a person"
    )
    parser.add_argument(
        "--scripted",
        action="append",
        choices=SCRIPTED,
        default=[],
        help="a program plays this role on, where a model did (repeatable)",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="change a setting of the origin, e.g. --set generate.errors.rate=0 (repeatable)",
    )
    add_concurrency(parser)
    parser.add_argument("--out", metavar="NAME", help="name of the new run (default: RUN-forks)")


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Fork, and return the report.

    Raises:
        BadInput: it is not said which episodes.
        TargetMissed: a budget is spent, or too many forks have no result.
    """
    origin = run_folder(arguments)
    name = folder_name(arguments.out or f"{origin.name}-forks", "--out")
    folder, wish = origin.parent / name, _wish(arguments)
    if folder == origin:
        what = "a run is not forked into itself"
        raise BadInput(what, where="--out", remedy="give another name")
    config = Origin(origin).config
    models = config.models.model_copy(update=dict.fromkeys(arguments.scripted))
    config = change_config(config.model_copy(update={"models": models}), arguments.set)
    if not (folder / "report.json").exists():
        asyncio.run(check_endpoints(config))
    with bar("fork") as shown:
        wanted = 0

        def on_plan(looked_at: int, forks: int) -> None:
            nonlocal wanted
            wanted = forks
            shown.update(0, None, f"{forks} forks of {looked_at} episodes looked at")

        def on_progress(progress: Progress) -> None:
            note = f"{progress.accepted} accepted of {progress.played} played"
            shown.update(progress.played, wanted, note)

        how = How(arguments.concurrency, on_progress)
        report = asyncio.run(fork(origin, folder, arguments.workspace, wish, config, how, on_plan))
    if not arguments.json:
        forks = report["forks"]
        show("\n".join(funnel_lines(report)))
        show(f"\n{forks['asked']} of {forks['origin']}; {forks['without_place']} without the place")
    if report["gave_up"]:
        raise TargetMissed(report["gave_up"], where=str(folder), remedy=report["remedy"] or "")
    return report


def _wish(arguments: argparse.Namespace) -> Wish:
    every = arguments.all or arguments.share is not None
    if bool(arguments.episodes) == every or (arguments.all and arguments.share is not None):
        raise BadInput(
            "which episodes?", where="toolloom fork", remedy="name some, or --all, or --share SHARE"
        )
    return Wish(
        episodes=tuple(arguments.episodes),
        which=arguments.only,
        share=1.0 if arguments.share is None else arguments.share,
        at=arguments.at,
        copies=arguments.copies,
        persona=arguments.persona,
    )
