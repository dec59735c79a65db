"""State diffs: what writes add up to, as canonical lines, generated ids renamed by content.

Two runs that do the same in another order give out identifiers in another order. So a generated id
is replaced by a name made from its row and from the rows that refer to it: colours are refined as
by Weisfeiler and Lehman until no round tells more rows apart. Rows still alike are told apart one
at a time, choosing the one that gives the least colours, so every row keeps its own name. Not told
apart are graphs that even this does not (strongly regular ones of 16 rows and more).
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import apsw
import orjson

from simulators.sql.tables import Table
from synth.core.canonical import canonical
from synth.core.types import Diff

_Row = dict[str, Any]
_SORTED = orjson.OPT_SORT_KEYS


Values = tuple[Any, ...]
"""A whole row, in the order of the table's columns."""
Event = tuple[str, Values | None, Values | None]
"""A table, and one row of it before and after a write: None where there is none."""


@dataclass(slots=True)
class Change:
    """One changed row: all columns of an insert or delete, `id` and the changed ones else."""

    table: str
    operation: str
    before: _Row | None
    after: _Row | None
    floats: bool


def net(events: Iterable[Event], tables: Mapping[str, Table]) -> list[Event]:
    """Return what events add up to: one for each row that is not what it was."""
    rows: dict[tuple[str, Any], list[Values | None]] = {}
    for table, old, new in events:
        key = tables[table].key
        if old is not None:
            rows.setdefault((table, old[key]), [old, None])[1] = None
        if new is not None:
            rows.setdefault((table, new[key]), [None, None])[1] = new
    return [(table, old, new) for (table, _), (old, new) in rows.items() if old != new]


def own(parts: Iterable[Iterable[Event]], tables: Mapping[str, Table]) -> list[Event]:
    """Return the net changes that calls made where something else wrote in between.

    Of a row that only calls wrote it is what `net` says. Of one that something else wrote too, it
    is the columns that calls changed, from what the first of them found to what the last one left.

    Args:
        parts: the net changes by calls, between which something else wrote.
        tables: the tables by name.
    """
    rows: dict[tuple[str, Any], tuple[Values | None, Values | None]] = {}
    for table, old, new in (event for part in parts for event in part):
        key = tables[table].key
        place = (table, (old or new or ())[key])
        first, last = rows.get(place, (old, old))
        if last is not None and old is not None and new is not None:
            changed = zip(last, old, new, strict=True)
            new = tuple(kept if was == now else now for kept, was, now in changed)
        rows[place] = first, new
    return [(table, old, new) for (table, _), (old, new) in rows.items() if old != new]


def read_changes(
    events: Iterable[Event], tables: Mapping[str, Table], ignored: Mapping[str, Collection[str]]
) -> list[Change]:
    """Return net events as changes, without columns that do not count.

    Args:
        events: what `net` gave.
        tables: the tables by name.
        ignored: for each table, the columns that do not count.
    """
    found = (_change(event, tables[event[0]], ignored.get(event[0], ())) for event in events)
    return [change for change in found if change is not None]


def _change(event: Event, table: Table, skip: Collection[str]) -> Change | None:
    name, old, new = event
    columns: Iterable[str] = table.columns
    if old and new:
        before, after = {}, {}
        for column, was, now in zip(columns, old, new, strict=True):
            if was != now and column not in skip:
                before[column], after[column] = was, now
        if not before:
            return None
        key = table.key
        before["id"], after["id"] = old[key], new[key]
        floats = float in map(type, before.values()) or float in map(type, after.values())
        return Change(name, "update", before, after, floats)
    row = dict(zip(columns, new or old or (), strict=True))
    for column in skip:
        row.pop(column, None)
    floats = float in map(type, row.values())
    return (
        Change(name, "insert", None, row, floats)
        if new
        else Change(name, "delete", row, None, floats)
    )


def apply_changes(
    connection: apsw.Connection, events: Sequence[Event], tables: Mapping[str, Table]
) -> None:
    """Make net events happen on the state they were recorded from.

    Changed rows are taken out before any is put in, with foreign keys unchecked meanwhile: rows may
    have swapped a UNIQUE value.
    """
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_FKEY, 0)
    try:
        for table, old, _ in events:
            if old is not None:
                key = old[tables[table].key]
                connection.execute(f'DELETE FROM "{table}" WHERE id = ?', (key,))
        for table, _, new in events:
            if new is not None:
                marks = ", ".join("?" * len(tables[table].columns))
                connection.execute(f'INSERT INTO "{table}" VALUES ({marks})', new)
    finally:
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_FKEY, 1)


def lines(changes: list[Change], generated: Collection[str]) -> Diff:
    """Return the canonical lines, sorted.

    Args:
        changes: what changed.
        generated: identifiers that `next_id` gave out.
    """
    names = _names(changes, generated) if generated else {}
    return tuple(sorted([_line(change, names) for change in changes]))


def _line(change: Change, names: Mapping[str, str]) -> str:
    before, after = _rename(change.before, names), _rename(change.after, names)
    line = [change.table, change.operation, before, after]
    # Without floats `canonical` gives just this, after a walk that costs more than the writing.
    return canonical(line) if change.floats else orjson.dumps(line, option=_SORTED).decode()


def _rename(row: _Row | None, names: Mapping[str, str]) -> _Row | None:
    if row is None or not names:
        return row
    return {k: names.get(v, v) if isinstance(v, str) else v for k, v in row.items()}


def _names(changes: list[Change], generated: Collection[str]) -> dict[str, str]:
    """Name each generated id that occurs in the changes."""
    places: dict[str, list[int]] = {}
    for number, change in enumerate(changes):
        for row in (change.before, change.after):
            for value in (row or {}).values():
                if isinstance(value, str) and value in generated:
                    places.setdefault(value, []).append(number)
    if len(places) <= 1:
        return dict.fromkeys(places, _hash("the only one"))
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
