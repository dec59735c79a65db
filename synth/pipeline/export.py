"""Export of a run: rows in every wanted format, and a card that says how they came to be."""

from __future__ import annotations

import contextlib
import errno
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson

from synth.conversation import first_difference, told
from synth.core.config import Config
from synth.core.errors import BadRow, DiskFull, TargetMissed, ToolloomError, storage_error
from synth.core.formats import Unwritable, in_nine_characters
from synth.core.jsonl import write_atomic
from synth.core.llm.local.label import weak_note
from synth.core.prompts import prompts
from synth.core.types import ToolSpec
from synth.dataset import EXPORTERS, Exporter, dataset_rows
from synth.report import UNFINISHED, funnel_lines, read_report
from synth.variety import licences, variety


def run_tools(run: Path) -> dict[str, dict[str, ToolSpec]]:
    """Return the tools that a run's agents were shown, by world and name (from `tools.json`).

    Raises:
        BadRow: the file is damaged.
    """
    file = run / "tools.json"
    try:
        return {
            world: {name: ToolSpec.model_validate(tool) for name, tool in tools.items()}
            for world, tools in orjson.loads(file.read_bytes()).items()
        }
    except (OSError, ValueError, AttributeError) as error:
        first = str(error).splitlines()[0]
        raise BadRow(f"not a run's tools: {first}", where=str(file)) from error


IDS: dict[str, Callable[[Iterable[dict[str, Any]]], list[dict[str, Any]]]] = {
    "own": list,
    "mistral9": in_nine_characters,
}
"""How calls are identified: as when they were made, or as Mistral's chat templates demand.

Kimi's `functions.NAME:COUNTER` is no style of rows: who renders a row for it counts anew."""


def export(
    run: Path,
    folder: Path,
    *,
    formats: Sequence[str],
    limit: int | None,
    ids: str = "own",
) -> dict[str, Any]:
    """Write the dataset of a run; of one that is not finished, what is accepted so far.

    Args:
        run: the run folder.
        folder: where to write; made if absent.
        formats: names of exporters.
        limit: at most so many rows; None is all that were asked for.
        ids: style of the identifiers of calls, one of `IDS`.

    Returns:
        `rows`; `files`: path -> rows in it; `episodes`: path -> the episode of each row;
        `left_out`: path -> reason -> rows that this format cannot say; `card`; and `unfinished`:
        whether the run will have more.

    Raises:
        Unfaithful: a file says something else than the run when it is read back.
        UnknownName: no such exporter.
        BadInput: one of the run's files is damaged.
        TargetMissed: it has no accepted episode; nothing is written.
        BadPlace: `folder` cannot be written.
        DiskFull: what was in `folder` is untouched.
    """
    exporters: list[Exporter] = [EXPORTERS.get(name) for name in formats]
    report = read_report(run)
    wanted = report["accepted"] if limit is None else min(limit, report["accepted"])
    rows = list(dataset_rows(run, run_tools(run), wanted))
    if not rows:
        raise TargetMissed(
            "no episode of the run is accepted: nothing to write",
            where=str(run),
            remedy=f"toolloom report --run {run.name} says what became of them",
        )
    for row in rows:
        row["messages"] = IDS[ids](row["messages"])
    files, episodes, left_out = {}, {}, {}
    with staged(folder) as scratch:
        for exporter in exporters:
            name = f"train{exporter.suffix}"
            kept, reasons = _write(exporter, rows, scratch / name)
            files[str(folder / name)] = len(kept)
            episodes[str(folder / name)] = kept
            left_out[str(folder / name)] = reasons
        card = _card(report, rows, run, dict(zip(formats, left_out.items(), strict=True)))
        write_atomic(scratch / "README.md", card.encode())
    return {
        "rows": len(rows),
        "files": files,
        "episodes": episodes,
        "left_out": left_out,
        "card": str(folder / "README.md"),
        "unfinished": report.get("gave_up") == UNFINISHED,
    }


class Unfaithful(ToolloomError):
    """A file does not say what was written to it."""


def _write(
    exporter: Exporter, rows: Sequence[dict[str, Any]], path: Path
) -> tuple[list[str], dict[str, int]]:
    """Write what a format can say, and read it again.

    Returns:
        The episodes in the file, and how many are not in it, by reason.
    """
    encoded, kept, reasons = [], [], Counter[str]()
    for row in rows:
        try:
            encoded.append(exporter.encode(row))
        except Unwritable as reason:
            reasons[str(reason)] += 1
        else:
            kept.append(row)
    exporter.write(encoded, path)
    for row, back in zip(kept, exporter.read(path), strict=True):
        at = first_difference(told(row), told(back))
        if at is not None:
            what = f"episode {row['id']} reads back differently, at message {at - 1}"
            remedy = "the file is not kept; another --format may be"
            raise Unfaithful(what, where=path.name, remedy=remedy)
    return [row["id"] for row in kept], dict(reasons.most_common())


@contextmanager
def staged(folder: Path) -> Iterator[Path]:
    """Give a folder whose files replace those of `folder` at the end of the block.

    Where the block fails all is as it was: a data set is never half the old and half the new one.
    """
    made = [part for part in (folder, *folder.parents) if not part.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".writing-") as scratch:
            yield Path(scratch)
            _move(Path(scratch), folder)
    except (OSError, DiskFull) as error:
        for part in made:
            with contextlib.suppress(OSError):
                part.rmdir()
        if isinstance(error, OSError):
            raise storage_error(error, folder) from error
        raise DiskFull(error.what, where=str(folder), remedy=error.remedy) from error


def _move(scratch: Path, folder: Path) -> None:
    files = sorted(scratch.iterdir())
    for file in files:
        if (folder / file.name).is_dir():
            raise storage_error(IsADirectoryError(errno.EISDIR, ""), folder / file.name)
    for file in files:
        file.replace(folder / file.name)


def _card(
    report: dict[str, Any],
    rows: list[dict[str, Any]],
    run: Path,
    left_out: Mapping[str, tuple[str, Mapping[str, int]]],
) -> str:
    config = Config.model_validate(orjson.loads((run / "config.json").read_bytes())["config"])
    return prompts("synth.templates").render(
        "dataset_card",
        report=report,
        rows=len(rows),
        real=sum(row["real"] for row in rows),
        tools=len({name for row in rows for name in _tool_names(row)}),
        languages=[n for n, row in report.get("by_language", {}).items() if row["accepted"]],
        variety=variety(rows),
        licences=licences(rows, run_tools(run)),
        kinds=_count(rows, "kind"),
        difficulties=_count(rows, "difficulty"),
        applications=_count(rows, "application"),
        seed=config.seed,
        error_rate=config.generate.errors.rate,
        funnel="\n".join(funnel_lines(report)),
        weak=weak_note(orjson.loads(row["players"]) for row in rows),
        files=[
            {"name": Path(path).name, "format": name, "left_out": reasons}
            for name, (path, reasons) in left_out.items()
        ],
        main=Path((left_out.get("parquet") or next(iter(left_out.values())))[0]).name,
    )


def _tool_names(row: dict[str, Any]) -> list[str]:
    return [tool["function"]["name"] for tool in orjson.loads(row["tools"])]


def _count(rows: list[dict[str, Any]], column: str) -> dict[str, int]:
    counts: dict[str, int] = {}
    for row in rows:
        counts[row[column]] = counts.get(row[column], 0) + 1
    return dict(sorted(counts.items()))
