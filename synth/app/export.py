"""Write the dataset of a run: OpenAI messages and tools as JSONL and Parquet, and its card.

toolloom export --run NAME                        its accepted episodes
toolloom export --run NAME --format sharegpt      for LLaMA-Factory; others: see --format
toolloom export --run FORKS --format preference   pairs of a run of forks, for TRL's DPOTrainer
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from synth.app._options import add_run, positive, run_folder
from synth.app._show import afterwards, say, show
from synth.core.errors import BadInput
from synth.core.store import Workspace
from synth.dataset import EXPORTERS, USUAL
from synth.pipeline.export import IDS, export
from synth.pipeline.pairs import export_pairs, width_of
from synth.pipeline.record import record_export


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_run(parser)
    parser.add_argument(
        "--to",
        type=Path,
        metavar="DIR",
        help="folder to write (default: RUN/dataset, of pairs RUN/preference)",
    )
    parser.add_argument(
        "--format",
        action="append",
        metavar="NAME",
        help=f"one of {', '.join(EXPORTERS.names())} (repeatable; default: {' and '.join(USUAL)}; "
        "preference pairs are a data set of their own, of the forks of toolloom fork)",
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
    """Export, and return what was written.

    Raises:
        BadInput: episodes and pairs are asked for at once.
    """
    folder = run_folder(arguments)
    of_pairs = [name for name in arguments.format or () if width_of(name)]
    if of_pairs and len(of_pairs) < len(arguments.format):
        what = "preference pairs are a data set of their own"
        raise BadInput(what, where="--format", remedy="export the episodes in another command")
    write = export_pairs if of_pairs else export
    written = write(
        folder,
        arguments.to or folder / ("preference" if of_pairs else "dataset"),
        formats=arguments.format or USUAL,
        limit=arguments.limit,
        ids=arguments.ids,
    )
    episodes = written.pop("episodes", None)
    if written["unfinished"]:
        say(f"the run is not finished: these are the {written['rows']} rows that it has by now")
    with afterwards():
        record_export(Workspace(arguments.workspace), folder, written["files"], episodes)
    if not arguments.json:
        show("\n".join(f"{path}  {rows} rows" for path, rows in written["files"].items()))
    for path, reasons in written.get("left_out", {}).items():
        for reason, count in reasons.items():
            say(f"{Path(path).name} is without {count} of {written['rows']} rows: {reason}")
    return written
