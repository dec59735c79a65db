"""Say what came of a run: yield funnel, shares, who played."""

from __future__ import annotations

import argparse
from typing import Any

import orjson

from synth.app._options import add_run, run_folder
from synth.app._show import show
from synth.core.errors import BadInput, BadRow
from synth.report import funnel_lines


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_run(parser)


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Show the report of a run."""
    file = run_folder(arguments) / "report.json"
    if not file.exists():
        raise BadInput(
            "the run is not finished", where=str(file.parent), remedy="repeat its generate command"
        )
    try:
        report: dict[str, Any] = orjson.loads(file.read_bytes())
    except orjson.JSONDecodeError as error:
        raise BadRow(f"not JSON: {error}", where=str(file)) from error
    if not arguments.json:
        show("\n".join(funnel_lines(report)))
    return report
