"""Look for what public benchmarks ask in a dataset: prompts, tools, values, calls.

toolloom contamination --against tau2/data/tau2/domains/retail/tasks.json --against bfcl
toolloom contamination mine.jsonl --against benchmark.jsonl --json

Rows are in the OpenAI shape, by default those of the run's export. Each hit says which row, which
item, how much of it, and in which words. `bfcl` reads the package (pip install --no-deps
bfcl-eval); files and folders of JSON are read as they are.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from pathlib import Path
from typing import Any

from synth.app._options import add_run, run_folder
from synth.app._show import line, say, show
from synth.benchmarks import read_benchmark
from synth.contamination import Hit, find
from synth.core.errors import BadInput, BadRow
from synth.core.inputs import json_lines

MOST_SHOWN = 20


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="rows (default: --run)")
    parser.add_argument(
        "--against", action="append", default=[], metavar="BENCHMARK",
        help="a file or folder of JSON, or bfcl (repeatable)",
    )  # fmt: skip
    add_run(parser)


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Compare, show the hits, and return them."""
    if not arguments.against:
        remedy = "--against bfcl, or --against PATH of a benchmark's files"
        raise BadInput("against what?", where="--against", remedy=remedy)
    files = arguments.files or [_exported(run_folder(arguments))]
    started = time.monotonic()
    items = [item for where in arguments.against for item in read_benchmark(where)]
    rows = [row for path in files for _, row in json_lines(path, kind=BadRow)]
    say(f"{len(items)} items, {len(rows)} rows")
    try:
        hits = find(rows, items)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        what = f"not rows in the OpenAI shape: {type(error).__name__}: {error}"
        raise BadRow(what[:200], where=str(files[0])) from error
    report = {
        "rows": len(rows),
        "items": len(items),
        "contaminated": len({hit.row for hit in hits}),
        "by_kind": dict(Counter(hit.kind for hit in hits)),
        "seconds": round(time.monotonic() - started, 2),
        "hits": [_told(hit) for hit in hits],
    }
    if not arguments.json:
        show("\n".join(_lines(report, hits)))
    return report


def _exported(folder: Path) -> Path:
    path = folder / "dataset" / "train.jsonl"
    if not path.is_file():
        remedy = f"toolloom export --run {folder.name}"
        raise BadInput("the run has no exported rows", where=str(folder), remedy=remedy)
    return path


def _told(hit: Hit) -> dict[str, Any]:
    names = ("row", "item", "kind", "score", "span")
    return {name: getattr(hit, name) for name in names}


def _lines(report: dict[str, Any], hits: list[Hit]) -> list[str]:
    kinds = ", ".join(f"{count} by {kind}" for kind, count in report["by_kind"].items())
    found = [
        f"{report['contaminated']} of {report['rows']} rows share something with "
        f"{report['items']} items{': ' + kinds if kinds else ''}"
    ]
    for hit in hits[:MOST_SHOWN]:
        span = hit.span if len(hit.span) < 120 else f"{hit.span[:119]}…"
        found.append(f"  {hit.row}: {hit.kind} of {hit.item}, {hit.score:.0%}: {span}")
    if len(hits) > MOST_SHOWN:
        found.append(f"  … and {len(hits) - MOST_SHOWN} more; --json has all")
    return [line(text) for text in found]
