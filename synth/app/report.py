"""Say what came of a run: yield funnel, shares, who failed, who played, what it cost."""

from __future__ import annotations

import argparse
from typing import Any

from synth.app._options import add_run, run_folder
from synth.app._show import show
from synth.report import funnel_lines, read_report


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_run(parser)


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Show the report of a run."""
    report = read_report(run_folder(arguments))
    if not arguments.json:
        show("\n".join(funnel_lines(report)))
    return report
