"""List the tasks of other projects' files that an agent can pass without doing anything.

toolloom gate tau2/data/tau2/domains/retail/tasks.json
toolloom gate tasks.json --execute        with the tools of tau2's retail domain (inspect-evals)
toolloom gate --run NAME                  accepted tasks of a run: solutions pass, idleness fails

A task is passed idly where nothing counts that takes an action: its solution changes no data,
nothing has to be said. `judged`: only assertions stand in the way that a model judges. From the
file alone, what a tool does is told by its name; --execute makes the calls of each solution.
Our own tasks meet a stricter gate before anyone plays them: see `toolloom report`. With --run they
are proved once more, by execution, without any code of that gate; one that falls is exit code 3.
"""

from __future__ import annotations

import argparse
import asyncio
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from simulators.foreign.tau2 import Executed, Retail
from synth.app._options import run_folder
from synth.app._show import bar, line, show
from synth.audit import Audit, ForeignTask, audit, read_tasks
from synth.core.errors import BadInput, TargetMissed
from synth.core.types import Effect
from synth.pipeline.rechecking import recheck
from tool_registry.effect import effect_of

MOST_SHOWN = 12
"""Tasks that are named of those with the same oddity."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="tasks in tau2's form")
    parser.add_argument("--run", metavar="NAME", help="a run of the workspace instead")
    parser.add_argument(
        "--execute", action="store_true", help="make the calls of the solutions, too (retail)"
    )


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Audit every file, and return what was found.

    Raises:
        BadInput: there is nothing to look at, or both files and a run.
        TargetMissed: a task of the run does not hold.
    """
    if bool(arguments.files) == (arguments.run is not None):
        raise BadInput("name task files, or a run", remedy="FILE..., or --run NAME")
    if arguments.run is not None:
        return _run(arguments)
    tasks = {path: read_tasks(path) for path in arguments.files}
    domain = Retail() if arguments.execute else None
    files = [_audited(path, found, domain) for path, found in tasks.items()]
    if not arguments.json:
        show("\n".join(text for file in files for text in _lines(file)))
    return {"files": files}


def _run(arguments: argparse.Namespace) -> dict[str, Any]:
    folder = run_folder(arguments)
    with bar("gate") as shown:
        report = asyncio.run(recheck(folder, arguments.workspace, shown.update))
    if not arguments.json:
        gold, idle = report["gold"], report["idle"]
        lines = [
            f"{report['tasks']} tasks of accepted episodes: the solution passes "
            f"{report['tasks'] - len(gold)}, an idle agent passes {len(idle)}",
            *(f"  {name}: the solution fails: {why}" for name, why in gold.items()),
            *(f"  {name}: an idle agent passes that {why}" for name, why in idle.items()),
            *(f"  left out: {n} on {name}" for name, n in report["left_out"].items()),
        ]
        show("\n".join(map(line, lines)))
    wrong = {**report["gold"], **report["idle"]}
    if wrong:
        episode, why = next(iter(wrong.items()))
        what = f"{len(wrong)} of {report['tasks']} tasks do not hold, the first: {why}"
        raise TargetMissed(what, where=f"{folder}: episode {episode}", remedy="do not export it")
    return report


def _effect(name: str) -> Effect:
    return effect_of(name, {})[0]


def _audited(path: Path, tasks: Sequence[ForeignTask], domain: Retail | None) -> dict[str, Any]:
    executed: list[Executed | None] = [None] * len(tasks)
    if domain is not None:
        with bar("gate") as shown:
            for number, task in enumerate(tasks):
                actions = task.evaluation_criteria.actions
                executed[number] = domain.execute((a.name, a.arguments) for a in actions)
                shown.update(number + 1, len(tasks))
    audits = [
        audit(task, _effect, done.changes if done else None)
        for task, done in zip(tasks, executed, strict=True)
    ]
    rows = [_row(*both) for both in zip(audits, executed, strict=True)]
    return {
        "file": str(path),
        "tasks": len(tasks),
        "idle": dict(Counter(one.idle for one in audits)),
        "disagree": [row["task"] for row in rows if row.get("agrees") is False],
        "found": rows,
    }


def _row(found: Audit, executed: Executed | None) -> dict[str, Any]:
    row: dict[str, Any] = {
        "task": found.task,
        "idle": found.idle,
        "why": found.why,
        "writes": list(found.writes),
        "notes": list(found.notes),
    }
    if executed is not None:
        row["changes"] = executed.changes
        row["agrees"] = executed.changes == bool(found.writes)
        row["notes"] += [f"a call of its solution fails: {one}" for one in executed.failed]
    return row


def _lines(file: dict[str, Any]) -> list[str]:
    counts = file["idle"]
    found = [
        f"{file['file']}: {file['tasks']} tasks; an idle agent passes {counts.get('passes', 0)}, "
        f"{counts.get('judged', 0)} more unless a model objects, and fails {counts.get('fails', 0)}"
    ]
    for row in file["found"]:
        if row["idle"] != "fails":
            found.append(f"  task {row['task']}: {row['idle']} ({row['why']})")
    odd: dict[str, list[str]] = defaultdict(list)
    for row in file["found"]:
        for note in row["notes"]:
            odd[note].append(row["task"])
    if odd:
        found.append("odd:")
        found += [f"  {note}: {_listed(tasks)}" for note, tasks in sorted(odd.items())]
    if any("changes" in row for row in file["found"]):
        found.append(
            f"executed: what tools did is not what their names say in {len(file['disagree'])}"
            + (f": {_listed(file['disagree'])}" if file["disagree"] else "")
        )
    return [line(text) for text in found]


def _listed(tasks: Sequence[str]) -> str:
    tasks = list(dict.fromkeys(tasks))
    more = len(tasks) - MOST_SHOWN
    named = ", ".join(tasks[:MOST_SHOWN]) + (f" and {more} more" if more > 0 else "")
    return f"task{'s' if len(tasks) > 1 else ''} {named}"
