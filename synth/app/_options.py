"""Options that several commands share."""

from __future__ import annotations

import argparse
from pathlib import Path

from synth.core.config import Config, load_config
from synth.core.errors import BadInput


def positive(text: str) -> int:
    """Read a count of at least 1, for argparse."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


positive.__name__ = "number"  # what argparse calls it: "invalid number value: 'x'"


def share(text: str) -> float:
    """Read a number between 0 and 1, for argparse."""
    number = float(text)
    if not 0 <= number <= 1:
        raise argparse.ArgumentTypeError("must be between 0 and 1")
    return number


def add_config(parser: argparse.ArgumentParser) -> None:
    """Add `--config` and `--set`."""
    parser.add_argument("--config", type=Path, metavar="FILE", help="TOML configuration")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="override one key, e.g. --set generate.errors.rate=0.2 (repeatable)",
    )


def read_config(arguments: argparse.Namespace) -> Config:
    """Return the resolved configuration of a command line."""
    return load_config(arguments.config, arguments.set)


def add_concurrency(
    parser: argparse.ArgumentParser, what: str = "episodes in flight when models play"
) -> None:
    """Add `--concurrency`: so many of `what`."""
    parser.add_argument(
        "--concurrency",
        type=positive,
        default=8,
        metavar="N",
        help=f"{what} (default: 8)",
    )


def add_run(parser: argparse.ArgumentParser) -> None:
    """Add `--run`."""
    parser.add_argument(
        "--run", default="default", metavar="NAME", help="name of the run (default: default)"
    )


def folder_name(name: str, option: str = "--run") -> str:
    """Return the value of an option if it names a folder directly below its parent.

    Raises:
        BadInput: it does not.
    """
    if not name or name != Path(name).name or name.startswith("."):
        raise BadInput(f"not a name for a run: {name!r}", where=option, remedy="letters and digits")
    return name


def run_folder(arguments: argparse.Namespace, *, must_exist: bool = True) -> Path:
    """Return the folder of `--run` in the workspace.

    Raises:
        BadInput: the name is no folder name, or there is no such run.
    """
    folder: Path = arguments.workspace / "runs" / folder_name(arguments.run)
    if must_exist and not _has_begun(folder):
        runs = arguments.workspace / "runs"
        found = sorted(p.name for p in runs.glob("*") if _has_begun(p)) if runs.is_dir() else []
        raise BadInput(
            f"there is no run {arguments.run!r}",
            where=str(arguments.workspace),
            remedy=f"runs here: {', '.join(found)}" if found else "make one: toolloom generate",
        )
    return folder


def _has_begun(folder: Path) -> bool:
    """Say whether a folder is that of a run with at least one episode in its plan."""
    plan = folder / "plan.jsonl"
    return plan.is_file() and plan.stat().st_size > 0
