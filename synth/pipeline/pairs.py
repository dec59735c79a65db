"""Export of a run of forks as preference pairs, with a card."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import orjson

from synth.core.errors import TargetMissed
from synth.core.jsonl import write_atomic
from synth.core.prompts import prompts
from synth.dataset import EXPORTERS
from synth.pairs import Width, pair_rows
from synth.pipeline.export import IDS, run_tools, staged


def width_of(name: str) -> Width | None:
    """Return how much of two continuations an exporter's rows hold; None if it writes episodes.

    Raises:
        UnknownName: no such exporter.
    """
    width: Width | None = getattr(EXPORTERS.get(name), "pairs", None)
    return width


def export_pairs(
    run: Path, folder: Path, *, formats: Sequence[str], limit: int | None, ids: str = "own"
) -> dict[str, Any]:
    """Write the preference pairs of a run of forks; of one that goes on, those that it has.

    Args:
        run: the run folder.
        folder: where to write; made if absent.
        formats: names of exporters of pairs.
        limit: at most so many rows; None is all.
        ids: style of the identifiers of calls, one of `IDS`.

    Returns:
        `rows`, `files`: path -> rows, `card`, `unfinished`: whether the run will have more, and
        `episodes`: path -> the chosen ones, row by row.

    Raises:
        BadInput: it is no run of forks, or one of its files is damaged.
        TargetMissed: it has no pair; nothing is written.
        BadPlace: `folder` cannot be written.
        DiskFull: what was in `folder` is untouched.
    """
    tools = run_tools(run)
    wanted: dict[str, list[dict[str, Any]]] = {}
    for name in formats:
        found = pair_rows(run, tools, width_of(name) or "whole")
        wanted[name] = [_renamed(row, ids) for row in islice(found, limit)]
    rows = next(iter(wanted.values()))
    if not rows:
        raise TargetMissed(
            "no two continuations of one beginning of which the agent failed one",
            where=str(run),
            remedy="fork failed episodes with another agent, or with more --copies",
        )
    files: dict[str, int] = {}
    episodes: dict[str, list[str]] = {}
    with staged(folder) as scratch:
        for name, lines in wanted.items():
            exporter = EXPORTERS.get(name)
            file = f"train{exporter.suffix}"
            files[str(folder / file)] = exporter.write(lines, scratch / file)
            episodes[str(folder / file)] = [row["chosen_episode"] for row in lines]
        write_atomic(scratch / "README.md", _card(rows, run, tuple(files)).encode())
    card = str(folder / "README.md")
    unfinished = not (run / "report.json").exists()
    written = {"rows": len(rows), "files": files, "card": card, "unfinished": unfinished}
    return written | {"episodes": episodes}


def _renamed(row: dict[str, Any], ids: str) -> dict[str, Any]:
    """Give the calls of a row other identifiers: of each continuation as one conversation."""
    shared = len(row["prompt"])
    for name in ("chosen", "rejected"):
        messages = IDS[ids]([*row["prompt"], *row[name]])
        row[name] = messages[shared:]
    row["prompt"] = IDS[ids](row["prompt"])
    return row


def _card(rows: list[dict[str, Any]], run: Path, files: Sequence[str]) -> str:
    players = Counter(
        f"{side}: {who}"
        for row in rows
        for side in ("chosen", "rejected")
        for who in [orjson.loads(row[f"{side}_players"])["agent"]]
    )
    return prompts("synth.templates").render(
        "preference_card",
        run=run.name,
        file=Path(files[0]).name,
        rows=len(rows),
        tasks=len({row["task"] for row in rows}),
        players=dict(sorted(players.items())),
        reasons=dict(Counter(orjson.loads(r["rejected_verdict"])["reason"] for r in rows)
                     .most_common()),
        applications=dict(sorted(Counter(row["application"] for row in rows).items())),
    )  # fmt: skip
