"""Evolve applications with thousands of tools: composed, rewritten, examined.

toolloom evolve --to 20000
toolloom evolve --to 20000 --applications 1500 --seed 7
toolloom evolve --to 500 --set models.evolver.model=NAME --set models.evolver.base_url=ADDRESS

No model is asked unless [models.evolver] names one, which then writes the applications. What is
kept works: it is linted, and each tool has a call that succeeds and one that fails. The same
command goes on after an interruption, and asks a model nothing twice.
`generate.applications = ["evolved:*"]` uses what was made.
"""

from __future__ import annotations

import argparse
import asyncio
from typing import Any

from synth.app._endpoints import connect
from synth.app._options import add_concurrency, add_config, positive, read_config
from synth.app._show import afterwards, bar, interruptible, show
from synth.core.errors import BudgetSpent
from synth.core.store import Workspace
from synth.pipeline.candidates import kept_in
from synth.pipeline.evolve import Goal, How, enter, evolve
from synth.pipeline.evolved import folder_of
from synth.pipeline.worlds import register_missing
from tool_registry.distributions import distributions


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "--to", type=positive, default=1000, metavar="N",
        help="tools, each for something that no other one is for (default: 1000)",
    )  # fmt: skip
    parser.add_argument(
        "--applications", type=positive, default=1, metavar="N", help="at least so many"
    )
    parser.add_argument(
        "--seed", type=int, metavar="N", help="decides everything (default: 0, or the file's)"
    )
    parser.add_argument(
        "--processes", type=positive, metavar="N", help="at once (default: one for each CPU)"
    )
    add_concurrency(parser, what="candidates that a model is asked for at once")
    add_config(parser)


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Evolve, enter what was kept in the registry, and return the counts."""
    workspace = Workspace(arguments.workspace)
    goal = Goal(arguments.to, arguments.applications)
    config = read_config(arguments)
    model = config.models.evolver
    if model is not None:
        asyncio.run(connect({"evolver": model}))
    how = How(arguments.processes, config.models, config.budget, arguments.concurrency)
    spent: BudgetSpent | None = None
    with bar("evolve") as shown, interruptible() as pressed:
        try:
            kept, why = evolve(
                workspace.path,
                goal,
                run_seed=config.seed if arguments.seed is None else arguments.seed,
                how=how,
                tell=lambda tools, note: shown.update(tools, arguments.to, note),
                ended=pressed,
            )
        except BudgetSpent as error:
            kept, why, spent = kept_in(folder_of(workspace.path)), str(error), error
        report = kept.report() | {"ended": why, "model": model.model if model else None}
        with afterwards():
            register_missing(workspace)
            enter(workspace, lambda done, note: shown.update(done, kept.applications, note))
            with workspace.read() as con:
                report["distributions"] = distributions(con)
    if not arguments.json:
        show("\n".join(_lines(report)))
    if spent is not None:
        raise spent
    return report


def _lines(report: dict[str, Any]) -> list[str]:
    """Return the report as people read it."""
    found = [
        f"{report['applications']} applications with {report['tools']} tools from "
        f"{report['candidates']} candidates: {report['ended']}",
        f"{report['different_tools']} tools are each for something that no other one is for",
        "eliminated, by rule and operator:",
    ]
    for rule, operators in report["eliminated"].items():
        named = ", ".join(f"{name} {count}" for name, count in operators.items())
        found.append(f"  {rule:<15} {sum(operators.values()):>5}  {named}")
    if report["repaired"]:
        named = ", ".join(f"{rule} {count}" for rule, count in report["repaired"].items())
        found.append(f"mended by the model: {named}")
    named = ", ".join(f"{name} {count}" for name, count in report["operators"].items())
    found.append(f"kept, by operator: {named}")
    table = report.get("distributions", [])
    if table:
        found.append("of tools:  " + "  ".join(f"{name:>12}" for name in table[0]))
        for row in table:
            cells = (
                "-" if v is None else f"{v:g}" if not isinstance(v, str) else v
                for v in row.values()
            )
            found.append("           " + "  ".join(f"{cell:>12}" for cell in cells))
    return found
