"""Judge again what was played, or conversations from elsewhere; nothing is played.

toolloom judge                             a run's episodes by today's rubric: what would change?
toolloom judge --mutants                   spoilt copies of accepted ones, too: are they caught?
toolloom judge --set models.judge.model=NAME --set models.judge.base_url=ADDRESS
toolloom judge train.jsonl                 conversations in the OpenAI or ShareGPT form

With [models.judge] a model is asked beside the program, and its answers are compared with what
code knows: agreement, kappa, false passes and false rejects with intervals. Of conversations from
elsewhere only form, calls and identifiers are known; the rest is a model's word, or open.
"""

from __future__ import annotations

import argparse
import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

from synth.app._endpoints import connect
from synth.app._options import (
    add_concurrency,
    add_config,
    add_run,
    positive,
    read_config,
    run_folder,
)
from synth.app._show import bar, interruptible, line, show
from synth.brought import programs, read_brought
from synth.core.config import Config
from synth.pipeline.rejudge import Wanted, rejudge

MOST_SHOWN = 20


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "files", nargs="*", type=Path, metavar="FILE", help="conversations instead of a run"
    )
    parser.add_argument("--limit", type=positive, metavar="N", help="so many episodes at most")
    parser.add_argument("--mutants", action="store_true", help="judge spoilt copies, too")
    parser.add_argument(
        "--pairs", action="store_true",
        help="let the model choose between originals and spoilt copies, in both orders (with "
        "--mutants)",
    )  # fmt: skip
    parser.add_argument(
        "--criteria", action="store_true", help="ask the model for each criterion, too"
    )
    parser.add_argument(
        "--votes", type=positive, default=1, metavar="N", help="answers to a question (default: 1)"
    )
    add_concurrency(parser, what="questions under way when a model judges")
    add_run(parser)
    add_config(parser)


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Judge, show what came of it, and return it."""
    config = read_config(arguments)
    if arguments.files:
        report = {"files": [_file(path) for path in arguments.files]}
        if not arguments.json:
            show("\n".join(text for file in report["files"] for text in _file_lines(file)))
        return report
    return _run(arguments, config)


def _run(arguments: argparse.Namespace, config: Config) -> dict[str, Any]:
    folder = run_folder(arguments)
    if config.models.judge is not None:
        asyncio.run(connect({"judge": config.models.judge}))
    wanted = Wanted(
        limit=arguments.limit,
        mutants=arguments.mutants,
        criteria=arguments.criteria,
        votes=arguments.votes,
        pairs=arguments.pairs,
        concurrency=arguments.concurrency,
    )
    with bar("judge") as shown, interruptible() as pressed:
        report = asyncio.run(
            rejudge(
                folder, config, wanted, arguments.workspace,
                tell=lambda done, note: shown.update(done, None, note), ended=pressed,
            )
        )  # fmt: skip
    if not arguments.json:
        show("\n".join(_lines(report)))
    return report


# --- a run -----------------------------------------------------------------------------------


def _lines(report: dict[str, Any]) -> list[str]:
    changed = report["changed"]
    found = [
        f"{report['episodes']} episodes: {report['passed']} pass; {len(changed)} are judged "
        "otherwise than in the run"
    ]
    found += [
        f"  {one['episode']}: {_word(one['was'])}, now {_word(one['is'])} ({one['why']})"
        for one in changed[:MOST_SHOWN]
    ]
    if report["mutants"]:
        found.append("spoilt copies that the program lets through:")
        found += [f"  {fault:<18} {_share(share)}" for fault, share in report["mutants"].items()]
    for name, one in report["judges"].items():
        found.append(f"{report['model']} on {name}, against the program:")
        for figure in ("agreement", "false_pass", "false_reject", "unanswered"):
            found.append(f"  {figure:<13} {_share(one[figure])}")
        found.append(f"  {'kappa':<13} {'-' if one['kappa'] is None else one['kappa']}")
        if one["longer"]:
            low, high = one["longer"]["interval"]
            found.append(
                f"  {'longer':<13} pass {one['longer']['difference']:+.0%} more often "
                f"({low:+.0%} to {high:+.0%})"
            )
    found += _between(report)
    return [line(text) for text in found]


def _between(report: dict[str, Any]) -> list[str]:
    """Say how the model chose between two, and how it differs from earlier judges."""
    found, pairs = [], report["pairs"]
    if pairs:
        found.append(f"{report['model']} between an original and its spoilt copy:")
        for figure, said in (("original", "chosen"), ("unsteady", "by place"), ("first", "first")):
            found.append(f"  {said:<13} {_share(pairs[figure])}")
    for other, one in report["drift"].items():
        found.append(
            f"{report['model']} agrees with {other} on {_share(one['agreement'])}; only it passes "
            f"{one['only_second']}, only {other} passes {one['only_first']}"
        )
    return found


def _word(passed: bool | None) -> str:
    return {True: "passed", False: "rejected", None: "not judged"}[passed]


def _share(share: dict[str, Any]) -> str:
    if share["share"] is None:
        return "-"
    low, high = share["interval"]
    return f"{share['count']} of {share['of']} = {share['share']:.1%} ({low:.1%} to {high:.1%})"


# --- conversations from elsewhere ------------------------------------------------------------


def _file(path: Path) -> dict[str, Any]:
    rows = []
    for brought in read_brought(path):
        found = programs(brought)
        rows.append(
            {
                "place": brought.place,
                "passed": found.passed,
                "reason": found.reason,
                "evidence": found.evidence,
            }
        )
    return {
        "file": str(path),
        "conversations": len(rows),
        "reasons": dict(Counter(row["reason"] for row in rows).most_common()),
        "found": rows,
    }


def _file_lines(file: dict[str, Any]) -> list[str]:
    wrong = [row for row in file["found"] if row["passed"] is False]
    found = [
        f"{file['file']}: {file['conversations']} conversations, {len(wrong)} of them wrong in "
        "themselves; whether the others did what was wanted cannot be told from words alone"
    ]
    found += [f"  {row['place']}: {row['reason']}: {row['evidence']}" for row in wrong[:MOST_SHOWN]]
    if len(wrong) > MOST_SHOWN:
        found.append(f"  … and {len(wrong) - MOST_SHOWN} more; --json has all")
    return [line(text) for text in found]
