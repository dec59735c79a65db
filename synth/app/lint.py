"""Prove an application sound.

Every statement prepares, every write can succeed and be refused, every goal can be reached from
what a user knows.

toolloom lint hotel          an installed application
toolloom lint my_app.yaml    a file
"""

from __future__ import annotations

import argparse
from typing import Any

from simulators.sql.engine import Engine
from simulators.sql.lint import lint
from simulators.sql.load import load_application
from synth.app._show import line, show
from synth.core.errors import BadApplication


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("application", help="name of an installed application, or a YAML file")


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Lint, and return the findings.

    Raises:
        BadApplication: it is not sound; the findings were shown.
    """
    application = load_application(arguments.application)
    report = lint(Engine(application))
    if not arguments.json:
        show("\n".join(line(text) for text in report.lines()))
    if report.errors:
        raise BadApplication(
            f"{len(report.errors)} errors, the first: {report.errors[0]}",
            where=str(arguments.application),
        )
    return {
        "application": report.application,
        "errors": [],
        "warnings": [str(finding) for finding in report.warnings],
        # Not `asdict`: Python 3.11 rebuilds a Counter from pairs, which it then counts.
        "tools": {
            name: {"calls": dict(figures.calls), "goals": dict(figures.goals)}
            for name, figures in report.figures.items()
        },
    }
