"""Write the dataset of a run: OpenAI messages and tools as JSONL and Parquet, and its card."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from synth.app._options import add_run, positive, run_folder
from synth.app._show import afterwards, say, show
from synth.core.store import Workspace
from synth.dataset import EXPORTERS
from synth.pipeline.export import IDS, export
from synth.pipeline.record import record_export


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_run(parser)
    parser.add_argument(
        "--to", type=Path, metavar="DIR", help="folder to write (default: RUN/dataset)"
    )
    parser.add_argument(
        "--format",
        action="append",
        metavar="NAME",
        help=f"one of {', '.join(EXPORTERS.names())} (repeatable; default: all)",
    )
    parser.add_argument(
        "--ids",
        choices=tuple(IDS),
        default="own",
        help="identifiers of calls: as they were made, or mistral9, the nine letters and digits "
        "that Mistral's chat templates demand (default: own)",
    )
    parser.add_argument("--limit", type=positive, metavar="N", help="at most so many rows")


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Export, and return what was written."""
    folder = run_folder(arguments)
    written = export(
        folder,
        arguments.to or folder / "dataset",
        formats=arguments.format or EXPORTERS.names(),
        limit=arguments.limit,
        ids=arguments.ids,
    )
    if written["unfinished"]:
        say(f"the run is not finished: these are the {written['rows']} rows that it has by now")
    with afterwards():
        record_export(Workspace(arguments.workspace), folder, written["files"])
    if not arguments.json:
        show("\n".join(f"{path}  {rows} rows" for path, rows in written["files"].items()))
    return written
