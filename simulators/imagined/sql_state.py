"""The state of an application whose tools a model plays: its own tables, with all their rules.

The rows lie in the same kind of store as those of the executable twin, so that CHECK, UNIQUE, NOT
NULL and foreign keys hold as they do there, and a diff is written in the same words.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import apsw

from simulators.imagined.patch import Change, Refused, Row, Shape, first_problem, is_text, shown
from simulators.sql.engine import Engine
from simulators.sql.environment import SqlEnvironment
from simulators.sql.program import CallFailed
from simulators.sql.tables import Column, Table
from synth.core import schemas
from synth.core.canonical import content_key
from synth.core.types import CallError, Diff, Scalar

_TYPES = {"TEXT": "string", "INTEGER": "integer", "REAL": "number"}
_ORDER = {"insert": 0, "update": 1, "delete": 2}
_CHOICE = re.compile(r"(\w+)\s+IN\s*\(\s*('[^']*'(?:\s*,\s*'[^']*')*)\s*\)", re.IGNORECASE)
_TABLE = re.compile(r"CREATE\s+TABLE\s+(\w+)\s*\((.*?)\)\s*STRICT", re.IGNORECASE | re.DOTALL)
_NEXT = re.compile(r"next_id\('(\w+)'\)")
_INSERT = re.compile(r"INSERT\s+INTO\s+(\w+)", re.IGNORECASE)


class _Rows(SqlEnvironment):
    """The application's store, written to row by row instead of by its tools."""

    def change_now(self, change: Change, table: Table) -> None:
        """Make one change, whose types are right; raises what SQLite says against it."""
        store = self._ready()
        store.budget.start()
        # One mark for all: who refuses a patch goes back to a snapshot.
        store.savepoint()
        try:
            store.connection.execute(*_statement(change, table))
            changed = store.connection.changes()
        except BaseException:
            store.roll_back()
            raise
        store.release()
        self._diff = None
        if changed != 1:
            raise Refused("row", f"there is no row {shown(change.id)} in {change.table}")

    def objection(self, tool: str, arguments: Mapping[str, Any]) -> CallError | None:
        """Return what is wrong with arguments: their form, or a key that does not exist."""
        store, program = self._ready(), self.engine.every[tool]
        try:
            program.arguments.bind(arguments)
            store.budget.start()
            for lookup in program.lookups:
                lookup.check(store.cursor, arguments)
        except CallFailed as error:
            return CallError(code=error.code, message=error.message)
        return None

    def next_key(self, prefix: str) -> str:
        """Give out the next key."""
        return self._ready().counters.next(prefix)

    def look_ahead(self, prefix: str, count: int) -> list[str]:
        """Return the next keys without giving them out."""
        counters = self._ready().counters
        used = counters.used.copy()
        try:
            return [counters.next(prefix) for _ in range(count)]
        finally:
            counters.used = used

    def content(self) -> list[Any]:
        """Return seed, counters and net changes, in an order that is theirs."""
        store = self._ready()
        changes = sorted(repr(change) for change in store.changes())
        return [store.seed, sorted(store.counters.used.items()), changes]


def _statement(change: Change, table: Table) -> tuple[str, tuple[Scalar, ...]]:
    name, values = change.table, change.values
    if change.op == "insert":
        columns = ["id", *values]
        marks = ", ".join("?" * len(columns))
        named = ", ".join(f'"{column}"' for column in columns)
        return f'INSERT INTO "{name}" ({named}) VALUES ({marks})', (change.id, *values.values())
    if change.op == "delete":
        return f'DELETE FROM "{name}" WHERE id = ?', (change.id,)
    sets = ", ".join(f'"{column}" = ?' for column in values)
    return f'UPDATE "{name}" SET {sets} WHERE id = ?', (*values.values(), change.id)


class _Types:
    """What does not change from state to state of an application."""

    def __init__(self, engine: Engine) -> None:
        self.shapes = shapes(engine)
        self.validators = {n: schemas.validator(shape.row) for n, shape in self.shapes.items()}
        self.ranks = _ranks(engine.tables)
        self.prefixes = _prefixes(engine)


_KNOWN: WeakKeyDictionary[Engine, _Types] = WeakKeyDictionary()


class SqlState:
    """Implements `patch.State` on the tables of an application.

    Args:
        engine: the compiled application.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine, self._rows = engine, _Rows(engine)
        types = _KNOWN.get(engine)
        if types is None:
            types = _KNOWN[engine] = _Types(engine)
        self.shapes: Mapping[str, Shape] = types.shapes
        self._validators, self._rank = types.validators, types.ranks
        self._prefixes = types.prefixes

    def reset(self, seed: int) -> None:
        """Start over from the rows that `seed` names."""
        self._rows.reset_now(seed)

    def rows(self, table: str) -> Sequence[Row]:
        """Return the rows of a table, by key."""
        return self._rows.query(f'SELECT * FROM "{table}" ORDER BY id')

    def row(self, table: str, key: Any) -> Row | None:
        """Return one row."""
        if not isinstance(key, str) or not is_text(key):
            return None
        found = self._rows.query(f'SELECT * FROM "{table}" WHERE id = :id', {"id": key})
        return found[0] if found else None

    def holds(self, table: str, column: str, value: Scalar) -> bool:
        """Say whether a row of the table has that value."""
        if isinstance(value, str) and not is_text(value):
            return False
        if isinstance(value, int) and abs(value) >= 2**63:
            return False
        sql = f'SELECT 1 FROM "{table}" WHERE "{column}" IS :value LIMIT 1'
        return bool(self._rows.query(sql, {"value": value}))

    def fresh(self, table: str, count: int) -> list[str]:
        """Return the keys that the next new rows of a table get."""
        return self._rows.look_ahead(self._prefix(table), count)

    def objection(self, tool: str, arguments: Mapping[str, Any]) -> CallError | None:
        """Return what is wrong with a call, in the words of the twin."""
        return self._rows.objection(tool, arguments)

    def _prefix(self, table: str) -> str:
        known = self._prefixes.get(table)
        if known is None:
            last = self._rows.query(f'SELECT max(id) AS id FROM "{table}"')[0]["id"]
            known = str(last or "").rstrip("0123456789")
            known = known if re.fullmatch("[A-Za-z][A-Za-z_-]{0,15}", known) else table[0].upper()
        return known

    def apply(self, changes: Sequence[Change]) -> None:
        """Make changes: new rows first, parents before children, removals last.

        Raises:
            Refused: a type, a key, a reference, a constraint or a promise of the application.
        """
        ranked = [self._typed(change) for change in changes]
        deep = len(self._rank)
        ranked.sort(
            key=lambda c: (
                _ORDER[c.op],
                deep - self._rank[c.table] if c.op == "delete" else self._rank[c.table],
            )
        )
        for change in ranked:
            if change.op == "insert":
                change = self._keyed(change)
            try:
                self._rows.change_now(change, self._engine.tables[change.table])
            except apsw.ConstraintError as error:
                said = str(error).removeprefix("ConstraintError: ").splitlines()[0]
                code = "reference" if "FOREIGN KEY" in said else "constraint"
                what = f"{change.op} of {shown(change.id)} in {change.table}: {said}"
                raise Refused(code, what) from error
            except (apsw.Error, ValueError, TypeError, OverflowError) as error:
                raise Refused("type", f"{change.table}: {str(error).splitlines()[0]}") from error
        if ranked:
            self._promised()

    def _keyed(self, change: Change) -> Change:
        key = self._rows.next_key(self._prefix(change.table))
        if change.id and change.id != key:
            said = f"the key of the new row in {change.table} is {key!r}, not {shown(change.id)}"
            raise Refused("key", said)
        return Change("insert", change.table, key, change.values)

    def _typed(self, change: Change) -> Change:
        """Return a change with values as the store keeps them."""
        shape = self.shapes.get(change.table)
        if shape is None:
            known = ", ".join(self.shapes)
            raise Refused("table", f"there is no table {shown(change.table)}; tables: {known}")
        if not is_text(change.id):
            raise Refused("type", "a key is no text")
        present = None if change.op == "insert" else self.row(change.table, change.id)
        if change.op != "insert" and present is None:
            raise Refused("row", f"there is no row {shown(change.id)} in {change.table}")
        whole = {**(present or {"id": change.id}), **change.values}
        problem = first_problem(self._validators[change.table], whole)
        if change.op != "delete" and problem:
            raise Refused("type", f"{change.table} {change.id}: {problem}")
        columns = self._engine.tables[change.table].columns
        try:
            values = {name: _stored(columns[name], v) for name, v in change.values.items()}
        except ValueError as error:
            raise Refused("type", f"{change.table} {change.id}: {error}") from error
        return Change(change.op, change.table, change.id, values)

    def _promised(self) -> None:
        for what, sql in self._engine.application.never.items():
            if self._rows.query(sql):
                raise Refused("promise", f"afterwards {what}")

    def diff(self) -> Diff:
        """Return the net change since `reset`."""
        return self._rows.diff_now()

    def key(self) -> str:
        """Return what tells this state from others, in any process."""
        return content_key(self._rows.content())

    def snapshot(self) -> bytes:
        """Return all of it, as the executable twin takes it."""
        return self._rows.snapshot_now()

    def restore(self, state: bytes) -> None:
        """Go back to a snapshot.

        Raises:
            BadInput: it is none of this application's.
        """
        self._rows.restore_now(state)

    def fork(self) -> SqlState:
        """Return an independent copy."""
        twin = SqlState(self._engine)
        twin.restore(self.snapshot())
        return twin

    def close(self) -> None:
        """Give everything back. Harmless when called twice."""
        self._rows.close_now()


def _stored(column: Column, value: Any) -> Scalar:
    """Return a value as a STRICT column takes it."""
    if isinstance(value, str) and not is_text(value):
        raise ValueError(f"{column.name} is no text")
    if column.type == "INTEGER" and value is not None:
        number = int(value)  # JSON Schema takes 3.0 for an integer, and booleans are 0 and 1 here
        if abs(number) >= 2**63:
            raise ValueError(f"{column.name} is too large")
        return number
    if column.type == "REAL" and value is not None:
        return float(value)
    return None if value is None else str(value)


# --- what an application says of its tables --------------------------------------------------


def shapes(engine: Engine) -> dict[str, Shape]:
    """Return the types of an application's rows, as JSON Schema."""
    choices = _choices(engine.application.table_sql)
    found = {}
    for name, table in engine.tables.items():
        columns = {
            column.name: _schema(column, choices.get((name, column.name)))
            for column in table.columns.values()
        }
        required = [c.name for c in table.columns.values() if c.not_null and c.default is None]
        row = {
            "type": "object",
            "properties": columns,
            "required": required,
            "additionalProperties": False,
        }
        found[name] = Shape(name, row, table.foreign_keys)
    return found


def _schema(column: Column, choices: list[str] | None) -> dict[str, Any]:
    kind = "boolean" if column.boolean else _TYPES[column.type]
    if choices is not None:
        return {"enum": choices if column.not_null else [*choices, None]}
    return {"type": kind if column.not_null else [kind, "null"]}


def _choices(sql: str) -> dict[tuple[str, str], list[str]]:
    """Return the listed words of `CHECK (column IN ('a', 'b'))`, by table and column."""
    found = {}
    for table, body in _TABLE.findall(sql):
        for column, words in _CHOICE.findall(body):
            found[table, column] = re.findall(r"'([^']*)'", words)
    return found


def _ranks(tables: Mapping[str, Table]) -> dict[str, int]:
    """Return how deep each table lies below those that refer to nothing."""
    ranks = dict.fromkeys(tables, 0)
    for _ in tables:
        for name, table in tables.items():
            above = [ranks[t] + 1 for t in table.foreign_keys.values() if t != name]
            ranks[name] = min(max(above, default=0), len(tables))
    return ranks


def _prefixes(engine: Engine) -> dict[str, str]:
    """Return the prefix of each table's keys, where a tool says it plainly."""
    found: dict[str, str] = {}
    for tool in engine.application.tools.values():
        text = "\n".join(
            str(part)
            for step in tool.steps
            for part in (step.write, step.returns, *(step.let or {}).values())
            if part
        )
        tables, prefixes = set(_INSERT.findall(text)), set(_NEXT.findall(text))
        if len(tables) == len(prefixes) == 1:
            found.setdefault(tables.pop(), prefixes.pop())
    return found
