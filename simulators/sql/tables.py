"""The tables of an application: from CREATE TABLE text to what the engine relies on.

Every table is STRICT, has one primary key `id TEXT`, and is stored WITHOUT ROWID (the engine adds
that). So the order in which rows are scanned depends on the rows alone and never on how they got
there: a state that was undone, restored or forked behaves as the original does.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from typing import Any

import apsw

from simulators.sql.clock import Clock
from simulators.sql.guard import Budget, Guard, Mode, add_sources, connect
from synth.core.application import Application
from synth.core.errors import BadApplication

_TYPES = {"TEXT", "INTEGER", "INT", "REAL"}
_LITERAL = re.compile(r"[-+]?[0-9.]+|'([^']|'')*'|NULL|TRUE|FALSE", re.IGNORECASE)
_BOOLEAN = re.compile(
    r"CHECK\s*\(\s*[\"`\[]?(\w+)[\"`\]]?\s+IN\s*\(\s*(?:0\s*,\s*1|1\s*,\s*0)\s*\)\s*\)",
    re.IGNORECASE,
)
_KEY = "every table has one primary key, `id TEXT PRIMARY KEY`"
_NAME = re.compile(r"[a-z][a-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Column:
    """One column. `boolean`: an INTEGER under `CHECK (x IN (0,1))`, shown as true and false."""

    name: str
    type: str
    """TEXT, INTEGER or REAL."""
    not_null: bool
    boolean: bool
    default: str | None
    """The literal after DEFAULT, as SQL text."""


@dataclass(frozen=True, slots=True)
class Table:
    """One table: columns in order, and the table each foreign key refers to (always its `id`)."""

    name: str
    columns: dict[str, Column]
    foreign_keys: dict[str, str]
    key: int
    """Place of `id` among the columns."""


def read_tables(application: Application) -> tuple[dict[str, Table], bytes]:
    """Run the schema of an application in an empty database.

    Returns:
        The tables by name in the order of the text, and the serialised empty database.

    Raises:
        BadApplication: the SQL is wrong or breaks a rule of the format.
    """
    where = f"{application.application}: schema"
    guard = Guard()
    connection = connect(guard, Budget())
    add_sources(connection, Clock(application.clock), str)
    if re.search(r"\bDEFERRABLE\b", application.table_sql, re.IGNORECASE):
        raise BadApplication("deferred foreign keys are not supported", where=where)
    guard.mode = Mode.SCHEMA
    try:
        connection.execute(application.table_sql)
    except (apsw.Error, ValueError) as error:
        what = guard.refused or str(error).split("\n")[0]
        remedy = "only CREATE TABLE and CREATE INDEX" if guard.refused else ""
        raise BadApplication(what, where=where, remedy=remedy) from error
    finally:
        guard.mode = Mode.ENGINE
    return _without_rowids(connection, application)


def _without_rowids(
    source: apsw.Connection, application: Application
) -> tuple[dict[str, Table], bytes]:
    where = f"{application.application}: schema"
    target = connect(Guard(), Budget())
    target.execute("PRAGMA page_size = 1024")
    add_sources(target, Clock(application.clock), str)
    made = "SELECT type, name, sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY rowid"
    flags = {name: (rowless, strict) for _, name, _, _, rowless, strict in _list(source)}
    names: list[str] = []
    rows: list[tuple[Any, ...]] = source.execute(made).fetchall()
    for kind, name, sql in rows:
        if kind == "table":
            names.append(name)
            sql = _rowless(sql, name, flags[name], where)
        try:
            target.execute(sql)
        except apsw.Error as error:
            raise BadApplication(str(error), where=where, remedy=_KEY) from error
    if not names:
        raise BadApplication("no tables", where=where)
    tables = {name: _table(target, name, where) for name in names}
    for table in tables.values():
        _check_references(table, tables, where)
        for column in table.foreign_keys:
            # Children are looked for all the time, by tools and by SQLite itself.
            name = f'"{table.name}.{column}"'
            target.execute(f'CREATE INDEX IF NOT EXISTS {name} ON "{table.name}" ("{column}")')
    return tables, target.serialize("main")


def _list(connection: apsw.Connection) -> list[tuple[Any, ...]]:
    return connection.execute("PRAGMA main.table_list").fetchall()


def _rowless(sql: str, name: str, flags: tuple[int, int], where: str) -> str:
    rowless, strict = flags
    if not strict:
        raise BadApplication(f"table {name!r} is not STRICT", where=where, remedy="end with STRICT")
    return sql if rowless else f"{sql}\n, WITHOUT ROWID"


def _table(connection: apsw.Connection, name: str, where: str) -> Table:
    if not _NAME.fullmatch(name) or name.startswith("sqlite_"):
        raise BadApplication(
            f"table name {name!r}", where=where, remedy="lower-case letters, digits and _"
        )
    sql = connection.execute("SELECT sql FROM sqlite_schema WHERE name = ?", (name,)).get
    booleans = {column.lower() for column in _BOOLEAN.findall(str(sql))}
    columns: dict[str, Column] = {}
    keys: list[str] = []
    for _, column, kind, not_null, default, key, hidden in connection.execute(
        f"PRAGMA table_xinfo('{name}')"
    ):
        _check_column(f"{name}.{column}", kind, default, hidden, where)
        if key:
            keys.append(column)
        kind = "INTEGER" if kind == "INT" else kind
        boolean = kind == "INTEGER" and column in booleans
        columns[column] = Column(column, kind, bool(not_null or key), boolean, default)
    if keys != ["id"] or columns["id"].type != "TEXT":
        raise BadApplication(
            f"table {name!r} has the primary key ({', '.join(keys)})",
            where=where,
            remedy=_KEY,
        )
    _check_indexes(connection, name, where)
    place = list(columns).index("id")
    return Table(name, columns, _foreign_keys(connection, name, where), place)


def _check_column(column: str, kind: str, default: str | None, hidden: int, where: str) -> None:
    if not _NAME.fullmatch(column.split(".", 1)[1]):
        raise BadApplication(
            f"column name {column!r}", where=where, remedy="lower-case letters, digits and _"
        )
    if kind.upper() not in _TYPES:
        raise BadApplication(
            f"column {column} has type {kind}", where=where, remedy="TEXT, INTEGER or REAL"
        )
    if hidden:
        raise BadApplication(f"column {column} is generated", where=where, remedy="store it")
    if default is not None and not _LITERAL.fullmatch(default):
        raise BadApplication(
            f"the default of {column} is an expression", where=where, remedy="give a literal"
        )


def _check_indexes(connection: apsw.Connection, name: str, where: str) -> None:
    for _, index, *_ in connection.execute(f"PRAGMA index_list('{name}')").fetchall():
        for _, number, _ in connection.execute(f"PRAGMA index_info('{index}')"):
            if number == -2:
                raise BadApplication(
                    f"index {index!r} is on an expression", where=where, remedy="index columns"
                )


def _foreign_keys(connection: apsw.Connection, name: str, where: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for _, part, table, column, target, *_ in connection.execute(
        f"PRAGMA foreign_key_list('{name}')"
    ):
        if part or target not in (None, "id"):
            raise BadApplication(
                f"the foreign key {name}.{column} does not refer to an id",
                where=where,
                remedy=f"REFERENCES {table}",
            )
        found[column] = table
    return found


def _check_references(table: Table, tables: dict[str, Table], where: str) -> None:
    for column, target in table.foreign_keys.items():
        if target not in tables:
            close = difflib.get_close_matches(target, tables, n=3, cutoff=0.5)
            hint = f"did you mean {', '.join(map(repr, close))}?" if close else ""
            what = f"{table.name}.{column} refers to table {target!r}, which does not exist"
            raise BadApplication(what, where=where, remedy=hint)
