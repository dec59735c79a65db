"""A state of JSON rows, for tools that belong to no application: typed by a schema of the world's.

    {"type": "object", "properties": {
        "rooms": {"type": "array", "items": {"type": "object", "properties": {
            "id": {"type": "string"},
            "floor": {"type": "integer"},
            "building": {"type": "string", "x-references": "buildings"}}}}}}

Each property is a table: a list of objects whose `id` is a text. `x-references` names the table
whose ids a column holds. What the schema says of a row is held to as it stands.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import orjson

from simulators.imagined.patch import Change, Refused, Row, Shape, first_problem, shown
from simulators.sql import changes as sql_changes
from synth.core import schemas
from synth.core.canonical import canonical, content_key
from synth.core.errors import BadInput
from synth.core.types import Diff, Scalar

Tables = dict[str, dict[str, Row]]
Rule = Callable[[Mapping[str, Mapping[str, Row]]], bool]
_FORMAT = "toolloom/rows/1"
_KEY = re.compile(r"([A-Za-z][A-Za-z_-]*)(\d+)")


class Kind:
    """What states of one world are like.

    Args:
        schema: JSON Schema of the state, see the module.
        rows: seed -> rows by table; tables without any may be left out.
        never: what no call may bring about: a sentence -> whether it is so in these rows.

    Raises:
        BadInput: the schema is none of tables, or is no schema.
    """

    def __init__(
        self,
        schema: Mapping[str, Any],
        rows: Callable[[int], Mapping[str, Sequence[Row]]],
        never: Mapping[str, Rule] | None = None,
    ) -> None:
        self.shapes: dict[str, Shape] = dict(_tables(schema))
        self.make, self.never = rows, dict(never or {})
        for shape in self.shapes.values():
            if unknown := set(shape.references.values()) - self.shapes.keys():
                raise _bad(f"{shape.name} refers to {', '.join(sorted(unknown))}: no such table")
        try:
            self.validators = {n: schemas.validator(shape.row) for n, shape in self.shapes.items()}
        except schemas.BROKEN as error:
            raise _bad(str(error).splitlines()[0]) from error

    def seeded(self, seed: int) -> Tables:
        """Return the rows of a seed.

        Raises:
            BadInput: a row is not of its type, or the rows are not consistent.
        """
        made = self.make(seed)
        tables = {n: {row["id"]: dict(row) for row in made.get(n, ())} for n in self.shapes}
        try:
            for name, rows in tables.items():
                for row in rows.values():
                    self.check_row(name, row)
            self.check(tables)
        except Refused as error:
            raise _bad(f"state {seed}: {error.why}") from error
        return tables

    def check_row(self, table: str, row: Row) -> None:
        """Raise `Refused` unless a row is of its table's type."""
        if problem := first_problem(self.validators[table], row):
            raise Refused("type", f"{table} {shown(row.get('id'))}: {problem}")

    def check(self, tables: Tables) -> None:
        """Raise `Refused` unless all references lead somewhere and no promise is broken."""
        for name, shape in self.shapes.items():
            for column, target in shape.references.items():
                for row in tables[name].values():
                    value = row.get(column)
                    if value is not None and value not in tables[target]:
                        said = f"{column} of {row['id']} in {name}: {target} has no {shown(value)}"
                        raise Refused("reference", said)
        for what, broken in self.never.items():
            if broken(tables):
                raise Refused("promise", f"afterwards {what}")


def _bad(what: str) -> BadInput:
    return BadInput(what, where="the schema of a state", remedy="mend it")


def _tables(schema: Mapping[str, Any]) -> Iterator[tuple[str, Shape]]:
    properties = schema.get("properties")
    if schema.get("type") != "object" or not isinstance(properties, Mapping) or not properties:
        raise _bad("a state is an object with a property for each table")
    for name, table in properties.items():
        row = table.get("items") if isinstance(table, Mapping) else None
        columns = row.get("properties") if isinstance(row, Mapping) else None
        if row is None or not isinstance(columns, Mapping) or "id" not in columns:
            raise _bad(f"{name} is no list of objects with an id")
        required = sorted({*row.get("required", ()), "id"})
        whole = {
            **row,
            "type": "object",
            "properties": {**columns, "id": {**columns["id"], "type": "string", "minLength": 1}},
            "required": required,
            "additionalProperties": False,
        }
        references = {
            column: about["x-references"]
            for column, about in columns.items()
            if isinstance(about, Mapping) and "x-references" in about
        }
        yield name, Shape(name, whole, references)


class JsonState:
    """Implements `patch.State` on rows of JSON.

    Args:
        kind: of the world.
    """

    def __init__(self, kind: Kind) -> None:
        self._kind = kind
        self.shapes: Mapping[str, Shape] = kind.shapes
        self._base: Tables = {}
        self._tables: Tables = {}
        self._seed = 0
        self._issued: list[str] = []
        """Keys given out since `reset`."""

    def reset(self, seed: int) -> None:
        """Start over from the rows that `seed` names."""
        self._base = self._kind.seeded(seed)
        self._tables = copy.deepcopy(self._base)
        self._seed, self._issued = seed, []

    def rows(self, table: str) -> Sequence[Row]:
        """Return the rows of a table, by key."""
        return [row for _, row in sorted(self._tables[table].items())]

    def row(self, table: str, key: Any) -> Row | None:
        """Return one row."""
        return self._tables[table].get(key) if isinstance(key, str) else None

    def holds(self, table: str, column: str, value: Scalar) -> bool:
        """Say whether a row of the table has that value."""
        return any(row.get(column) == value for row in self._tables[table].values())

    def fresh(self, table: str, count: int) -> list[str]:
        """Return the keys that the next new rows of a table get: above all that ever were."""
        known = [*self._base[table], *self._tables[table], *self._issued]
        found = [match for key in known if (match := _KEY.fullmatch(key))]
        prefix, digits, last = f"{table}-", 1, 0
        if found:
            prefix, digits = found[0][1], len(found[0][2])
        last = max((int(m[2]) for m in found if m[1] == prefix), default=0)
        return [f"{prefix}{last + 1 + n:0{digits}d}" for n in range(count)]

    def apply(self, changes: Sequence[Change]) -> None:
        """Make changes.

        Raises:
            Refused: a type, a key, a reference or a promise of the world.
        """
        for change in changes:
            rows = self._tables.get(change.table)
            if rows is None:
                known = ", ".join(self.shapes)
                raise Refused("table", f"there is no table {shown(change.table)}; tables: {known}")
            if change.op == "insert":
                key = self._keyed(change)
                row = {"id": key, **change.values}
            elif change.id not in rows:
                raise Refused("row", f"there is no row {shown(change.id)} in {change.table}")
            elif change.op == "delete":
                del rows[change.id]
                continue
            else:
                key, row = change.id, {**rows[change.id], **change.values}
            self._kind.check_row(change.table, row)
            _text(row)
            rows[key] = copy.deepcopy(row)
        if changes:
            self._kind.check(self._tables)

    def _keyed(self, change: Change) -> str:
        key = self.fresh(change.table, 1)[0]
        if change.id and change.id != key:
            said = f"the key of the new row in {change.table} is {key!r}, not {shown(change.id)}"
            raise Refused("key", said)
        self._issued.append(key)
        return key

    def diff(self) -> Diff:
        """Return the net change since `reset`, in the words of applications."""
        found = []
        for name in self.shapes:
            before, after = self._base[name], self._tables[name]
            for key in sorted(before.keys() | after.keys()):
                if before.get(key) != after.get(key):
                    found.append(_change(name, before.get(key), after.get(key)))
        return sql_changes.lines(found, self._issued)

    def key(self) -> str:
        """Return what tells this state from others, in any process."""
        return content_key([self._seed, self._issued, self._tables])

    def snapshot(self) -> bytes:
        """Return all of it."""
        whole = [_FORMAT, list(self.shapes), self._seed, self._issued, self._tables]
        return canonical(whole).encode()

    def restore(self, state: bytes) -> None:
        """Go back to a snapshot.

        Raises:
            BadInput: it is none of this world's.
        """
        try:
            form, names, seed, issued, tables = orjson.loads(state)
            if form != _FORMAT or names != list(self.shapes) or tables.keys() != set(names):
                raise ValueError("another world's")
        except (ValueError, TypeError, AttributeError) as error:
            what = "this is no snapshot of such rows"
            raise BadInput(what, where="restore", remedy="give one that it made") from error
        self._base = self._kind.seeded(seed)
        self._seed, self._issued, self._tables = seed, issued, tables

    def fork(self) -> JsonState:
        """Return an independent copy."""
        twin = JsonState(self._kind)
        twin.restore(self.snapshot())
        return twin

    def close(self) -> None:
        """Give everything back. Harmless when called twice."""
        self._base, self._tables = {}, {}


def _text(row: Row) -> None:
    try:
        canonical(row)
    except ValueError as error:
        raise Refused("type", f"the row is {error}") from error


def _change(table: str, old: Row | None, new: Row | None) -> sql_changes.Change:
    floats = True  # rows may hold any JSON: the careful writer is the right one
    if old is None:
        return sql_changes.Change(table, "insert", None, dict(new or {}), floats)
    if new is None:
        return sql_changes.Change(table, "delete", dict(old), None, floats)
    names = [name for name in {**old, **new} if name == "id" or old.get(name) != new.get(name)]
    before = {name: old.get(name) for name in names}
    return sql_changes.Change(table, "update", before, {n: new.get(n) for n in names}, floats)
