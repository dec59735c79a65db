"""State diffs: SQLite's session changeset as canonical lines, generated ids renamed by content.

Two runs that do the same in another order give out identifiers in another order. So a generated id
is replaced by a name made from its row and from the rows that refer to it: colours are refined as
by Weisfeiler and Lehman until no round tells more rows apart. Rows still alike are told apart one
at a time, choosing the one that gives the least colours, so every row keeps its own name. Not told
apart are graphs that even this does not (strongly regular ones of 16 rows and more).
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import apsw
import orjson

from simulators.sql.tables import Table
from synth.core.canonical import canonical
from synth.core.types import Diff

_Row = dict[str, Any]
_SORTED = orjson.OPT_SORT_KEYS


@dataclass(slots=True)
class Change:
    """One changed row: all columns of an insert or delete, `id` and the changed ones else."""

    table: str
    operation: str
    before: _Row | None
    after: _Row | None
    floats: bool


def read_changes(
    changeset: bytes, tables: Mapping[str, Table], ignored: Mapping[str, Collection[str]]
) -> list[Change]:
    """Return the changes of a changeset, without columns that do not count.

    Args:
        changeset: what `Session.changeset` gave.
        tables: the tables by name.
        ignored: for each table, the columns that do not count.
    """
    out = []
    for item in apsw.Changeset.iter(changeset):
        columns = tables[item.name].columns
        skip = ignored.get(item.name, ())
        before = _row(columns, item.old, skip)
        after = _row(columns, item.new, skip)
        operation = item.op.lower()
        if operation == "update":
            if not after:
                continue
            after = {"id": before["id"], **after}
        floats = any(isinstance(v, float) for row in (before, after) for v in row.values())
        out.append(Change(item.name, operation, before or None, after or None, floats))
    return out


def _row(columns: Collection[str], values: Any, skip: Collection[str]) -> _Row:
    return {
        name: value
        for name, value in zip(columns, values or (), strict=False)
        if value is not apsw.no_change and name not in skip
    }


def apply_changes(
    connection: apsw.Connection, changeset: bytes, tables: Mapping[str, Table]
) -> None:
    """Make the changes of a changeset on the state it was recorded from.

    Changed rows are taken out before any is put in, with foreign keys unchecked meanwhile: SQLite's
    own way of applying goes row by row and fails where two rows swapped a UNIQUE value.
    """
    gone: list[tuple[str, Any]] = []
    new: list[tuple[str, tuple[Any, ...]]] = []
    for item in apsw.Changeset.iter(changeset):
        before, after = item.old or (), item.new or ()
        if item.op == "INSERT":
            new.append((item.name, after))
            continue
        key = before[list(tables[item.name].columns).index("id")]
        gone.append((item.name, key))
        if item.op == "UPDATE":
            (row,) = connection.execute(f'SELECT * FROM "{item.name}" WHERE id = ?', (key,))
            values = zip(row, after, strict=True)
            new.append((item.name, tuple(a if b is apsw.no_change else b for a, b in values)))
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_FKEY, 0)
    try:
        for table, key in gone:
            connection.execute(f'DELETE FROM "{table}" WHERE id = ?', (key,))
        for table, row in new:
            marks = ", ".join("?" * len(row))
            connection.execute(f'INSERT INTO "{table}" VALUES ({marks})', row)
    finally:
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_FKEY, 1)


def lines(changes: list[Change], generated: Collection[str]) -> Diff:
    """Return the canonical lines, sorted.

    Args:
        changes: what changed.
        generated: identifiers that `next_id` gave out.
    """
    names = _names(changes, generated) if generated else {}
    return tuple(sorted(_line(change, names) for change in changes))


def _line(change: Change, names: Mapping[str, str]) -> str:
    before, after = _rename(change.before, names), _rename(change.after, names)
    line = [change.table, change.operation, before, after]
    # Without floats `canonical` gives just this, after a walk that costs more than the writing.
    return canonical(line) if change.floats else orjson.dumps(line, option=_SORTED).decode()


def _rename(row: _Row | None, names: Mapping[str, str]) -> _Row | None:
    if row is None:
        return None
    return {k: names.get(v, v) if isinstance(v, str) else v for k, v in row.items()}


def _names(changes: list[Change], generated: Collection[str]) -> dict[str, str]:
    """Name each generated id that occurs in the changes."""
    places: dict[str, list[int]] = {}
    for number, change in enumerate(changes):
        for row in (change.before, change.after):
            for value in (row or {}).values():
                if isinstance(value, str) and value in generated:
                    places.setdefault(value, []).append(number)
    colours = _refine(changes, places, dict.fromkeys(places, "~"))
    if _tied(colours):
        colours = _refine(changes, places, _twins(changes, places))
    while tied := _tied(colours):
        mark = _hash(colours[tied[0]], "first")
        tries = [_refine(changes, places, {**colours, name: mark}) for name in tied]
        colours = min(tries, key=lambda found: sorted(found.values()))
    return colours


def _tied(colours: Mapping[str, str]) -> list[str]:
    """Return the ids of the least colour that several share."""
    shared = [colour for colour, count in Counter(colours.values()).items() if count > 1]
    least = min(shared, default=None)
    return [name for name, colour in colours.items() if colour == least]


def _twins(changes: list[Change], places: Mapping[str, list[int]]) -> dict[str, str]:
    """Number the ids that could be exchanged without anybody noticing: equal rows, mostly."""
    counts: Counter[tuple[str, ...]] = Counter()
    colours = {}
    for name, numbers in places.items():
        around = tuple(sorted(_line(changes[n], {name: "~me"}) for n in dict.fromkeys(numbers)))
        colours[name] = f"~{counts[around]}"
        counts[around] += 1
    return colours


def _refine(
    changes: list[Change], places: Mapping[str, list[int]], colours: dict[str, str]
) -> dict[str, str]:
    """Recolour every id by the changes it occurs in, until no more colours appear."""
    count = len(set(colours.values()))
    while True:
        fresh = {}
        for name, numbers in places.items():
            mine = {**colours, name: "~me"}
            seen = sorted(_line(changes[n], mine) for n in dict.fromkeys(numbers))
            fresh[name] = _hash(colours[name], *seen)
        colours, before = fresh, count
        count = len(set(colours.values()))
        if count <= before:
            return colours


def _hash(*parts: str) -> str:
    digest = hashlib.blake2b("\x1f".join(parts).encode(), digest_size=5).hexdigest()
    return f"~{digest}"
