"""Make accepted trajectories.

toolloom generate --accept 1000            exactly 1000 accepted episodes, in plan order
toolloom generate --episodes 500           500 episodes, however many pass
The same command resumes what was interrupted. Models play where [models] in the configuration
says so; otherwise the scripted players do (no key, no cost). Limits of what they may cost stand in
[budget], e.g. --set budget.money=20; a run that meets one ends with exit code 3 and can go on.

With --engine ray, workers of a Ray cluster play the episodes: of the one at RAY_ADDRESS, if that is
set, otherwise of one of our own on this machine. What comes out is the same.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from datetime import datetime
from importlib.util import find_spec
from typing import Any

from synth.app._endpoints import check_endpoints
from synth.app._options import (
    add_concurrency,
    add_config,
    add_run,
    positive,
    read_config,
    run_folder,
    share,
)
from synth.app._show import bar, say, show
from synth.core.errors import BadInput, TargetMissed
from synth.core.llm.ledger import at_least
from synth.pipeline.engine import Workers
from synth.pipeline.job import generate
from synth.pipeline.progress import Goal, Progress
from synth.report import funnel_lines

REFRESH_S = 0.2
"""Seconds between two wordings of the note."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    goal = parser.add_mutually_exclusive_group()
    goal.add_argument("--accept", type=positive, metavar="N", help="accepted episodes wanted")
    goal.add_argument("--episodes", type=positive, metavar="N", help="episodes wanted")
    add_concurrency(parser)
    parser.add_argument(
        "--max-failures",
        type=share,
        metavar="SHARE",
        help="stop where more of the last 50 episodes end without a verdict (default: 0.5)",
    )
    parser.add_argument(
        "--engine",
        choices=("local", "ray"),
        default="local",
        help="who plays: this process, or workers of a Ray cluster (default: local)",
    )
    parser.add_argument(
        "--workers",
        type=positive,
        metavar="N",
        help="workers of --engine ray (default: one for each CPU of the cluster)",
    )
    add_run(parser)
    add_config(parser)


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Generate, and return the report."""
    goal = Goal(accept=arguments.accept, episodes=arguments.episodes)
    wanted = goal.accept or goal.episodes
    if wanted is None:
        remedy = "toolloom generate --accept 100, or --episodes 100 however many of them pass"
        raise BadInput("how many?", remedy=remedy)
    if arguments.max_failures is not None:
        arguments.set.append(f"budget.failures={arguments.max_failures}")
    config = read_config(arguments)
    folder = run_folder(arguments, must_exist=False)
    workers = _workers(arguments)
    if not (folder / "report.json").exists():  # a run that is complete needs nobody
        asyncio.run(check_endpoints(config))
    with bar("generate") as shown, _quiet(workers):
        tale = _Tale(goal)

        def on_progress(progress: Progress) -> None:
            done, note = tale.told(progress)
            shown.update(done, wanted, note)

        report = asyncio.run(
            generate(
                config,
                folder,
                arguments.workspace,
                goal,
                concurrency=arguments.concurrency,
                on_progress=on_progress,
                workers=workers,
            )
        )
    if not arguments.json:
        show("\n".join(funnel_lines(report)))
    _tell_losses(report)
    if report["gave_up"]:
        raise TargetMissed(
            f"{report['accepted']} of {wanted} {'accepted' if goal.accept else 'episodes'}: "
            f"{report['gave_up']}",
            where=str(folder),
            remedy=report["remedy"],
        )
    return report


def _workers(arguments: argparse.Namespace) -> Workers | None:
    """Return who plays, where that is not this process.

    Raises:
        BadInput: workers are asked for, and not the engine that has them.
        ModuleNotFoundError: it is not installed.
    """
    if arguments.engine != "ray":
        if arguments.workers is not None:
            what = "only --engine ray has workers"
            raise BadInput(what, where="--workers", remedy="add --engine ray, or leave it out")
        return None
    if find_spec("ray") is None:  # refused before any work is done for it
        raise ModuleNotFoundError(name="ray")
    return Workers(arguments.workers)


@contextmanager
def _quiet(workers: Workers | None) -> Iterator[None]:
    """Keep what Ray prints of workers that died out of the standard output, which is ours."""
    if workers is None:
        yield
        return
    cluster = os.environ.get("RAY_ADDRESS")
    say(
        f"joining the Ray cluster at {cluster}"
        if cluster
        else "starting a Ray cluster on this machine, which takes some seconds"
    )
    with redirect_stdout(sys.stderr):
        yield


def _tell_losses(report: dict[str, Any]) -> None:
    """Say what could not be used of what an earlier session had paid for."""
    journal = report["journal"] or {}
    if journal.get("damaged"):
        say(f"{journal['damaged']} damaged rows of the journal were left out and asked for again")
    for call, why in list(journal.get("differed", {}).items())[:1]:
        say(f"{len(journal['differed'])} journalled replies were not used, e.g. {call}: {why}")


class _Tale:
    """Says how a generation goes on, in one line.

    Args:
        goal: what it is for.
    """

    def __init__(self, goal: Goal) -> None:
        self.goal = goal
        self._wanted = goal.accept or goal.episodes or 0
        self._started = time.monotonic()
        self._begun: int | None = None
        self._warned = self._said = False
        self._told, self._next = (0, ""), 0.0

    def told(self, progress: Progress) -> tuple[int, str]:
        """Return how much of the goal is reached and what else there is to say, both at once."""
        self._warn(progress)
        now, done = time.monotonic(), self._done(progress)
        if now >= self._next or done == self._wanted:  # it is asked for at every candidate
            self._told, self._next = (done, ", ".join(self._parts(progress))), now + REFRESH_S
        return self._told

    def _done(self, progress: Progress) -> int:
        return progress.accepted if self.goal.accept else progress.played

    def _warn(self, progress: Progress) -> None:
        """Say, once, what nobody asked for: users who speak English, and an end that takes time."""
        if not self._warned:
            self._warned = True
            for language, names in progress.english.items():
                say(f"{language}: users speak English in {', '.join(names)}, for want of words")
        if progress.ending and progress.spent is not None and not self._said:
            self._said = True
            say("ending once the replies under way are here; Ctrl-C again ends at once")

    def _parts(self, progress: Progress) -> Iterator[str]:
        yield f"{progress.accepted} accepted of {progress.played} played"
        if progress.fresh:
            yield from self._pace(progress)
        spent = progress.spent
        if spent is not None:
            tokens = spent["prompt_tokens"] + spent["completion_tokens"]
            told = at_least(tokens, complete=spent["complete"])
            yield f"{spent['attempts']:,} requests, {told} tokens"
            if spent["money"] is not None:
                yield f"{at_least(spent['money'], complete=spent['complete'], digits=2)} spent"
        for waiting in progress.waiting:
            until = datetime.fromtimestamp(waiting.until).astimezone()
            yield f"waiting until {until:%H:%M:%S}: {waiting.why}"

    def _pace(self, progress: Progress) -> Iterator[str]:
        """Give the rate of this session, and how long it will take at that rate."""
        done = self._done(progress)
        if self._begun is None:  # what earlier sessions did is counted first, in no time
            self._begun, self._started = done, time.monotonic()
        seconds = time.monotonic() - self._started
        made = done - self._begun
        if made > 0 and seconds > 0:
            yield _rate(made / seconds)
            yield f"{_duration((self._wanted - done) * seconds / made)} left"


def _rate(a_second: float) -> str:
    return f"{a_second:.1f}/s" if a_second >= 1 else f"{60 * a_second:.1f}/min"


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60:02} min"
