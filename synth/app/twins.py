"""Make applications that stand in for crawled servers, behind their tools' exact schemas.

toolloom crawl CATALOG; toolloom twins
`generate.applications = ["twin:*"]` uses what was made; `toolloom agents` counts its tools.

A twin shows a server's tools as they were crawled. Those that show, list, create, update or delete
something work, over tables derived from their parameters; the server's other tools are distractors,
and every call of one is refused. A twin is linted, and no tool is kept that the lint objects to.
"""

from __future__ import annotations

import argparse
from typing import Any

from synth.app._show import bar, show
from synth.core.store import Workspace
from synth.pipeline.twins import make_twins


def configure(parser: argparse.ArgumentParser) -> None:
    """Add no options: all that was crawled is looked at."""


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Make the twins, and return the counts."""
    with bar("twins") as shown:
        report = make_twins(
            Workspace(arguments.workspace), lambda done, note: shown.update(done, None, note)
        )
    if not arguments.json:
        show("\n".join(_lines(report)))
    return report


def _lines(report: dict[str, Any]) -> list[str]:
    def named(counts: dict[str, int]) -> str:
        return ", ".join(f"{name} {count}" for name, count in counts.items()) or "none"

    return [
        f"{report['twins']} of {report['servers']} servers have a twin: {report['twin_tools']} of "
        f"{report['tools']} tools work, {report['distractors']} are distractors beside them",
        f"distractors, by reason: {named(report['distractors_by_reason'])}",
        f"servers without a twin, by reason: {named(report['without_twin'])}",
    ]
