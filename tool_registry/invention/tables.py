"""Tables as a model describes them: their SQL, and how they are filled."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from synth.core.application import Application, Generator
from tool_registry.edits import with_column
from tool_registry.invention.form import Column, Table

_SQL_TYPE = {"integer": "INTEGER", "money": "INTEGER", "yes_no": "INTEGER", "number": "REAL"}
_PEOPLE = {"person": "full", "city": "city", "street": "street"}
_NUMBERS = frozenset({"integer", "money", "number", "date", "datetime"})


class Misfit(ValueError):
    """What was written does not fit together; says where and what would."""


def problems(error: ValidationError, most: int = 5) -> str:
    """Return what is wrong, place by place, in a line."""
    found = []
    for one in error.errors(include_url=False)[:most]:
        said = one["msg"]
        if one["type"] == "string_pattern_mismatch":  # a small model learns nothing from a pattern
            said = f"{str(one['input'])[:80]!r} is no name: one word, small letters, digits and _"
        found.append(f"{'.'.join(map(str, one['loc'])) or 'the whole'}: {said}")
    return "; ".join(found)


def ddl(table: Table) -> str:
    """Return the SQL that creates a table."""
    columns = ", ".join(["id TEXT PRIMARY KEY", *(_definition(c) for c in table.columns)])
    return f"CREATE TABLE {table.name} ({columns}) STRICT;"


def _definition(column: Column) -> str:
    if column.kind == "reference":
        return f"{column.name} TEXT NOT NULL REFERENCES {column.table}"
    text = f"{column.name} {_SQL_TYPE.get(column.kind, 'TEXT')} NOT NULL"
    if column.kind == "yes_no":
        return f"{text} CHECK ({column.name} IN (0, 1))"
    if column.kind == "choice":
        listed = ", ".join("'" + word.replace("'", "''") + "'" for word in column.words)
        return f"{text} CHECK ({column.name} IN ({listed}))"
    return text


def seeded(table: Table, tables: Mapping[str, Any]) -> dict[str, Any]:
    """Return how a table is filled; `tables` are those that it may refer to.

    Raises:
        Misfit: it refers to none of them, or a column lacks what its kind needs.
    """
    names = [column.name for column in table.columns]
    if "id" in names or len(set(names)) < len(names):
        raise Misfit(f"{table.name}: `id` is there by itself, and no two columns share a name")
    if table.each is not None and table.each not in tables:
        raise Misfit(f"{table.name}.each: there is no table {table.each!r}")
    parent = next((c for c in table.columns if c.table and c.table == table.each), None)
    if table.each is not None and parent is None:
        raise Misfit(f"{table.name}: a column of the kind reference to {table.each} is missing")
    people = next((c.name for c in table.columns if c.kind == "person"), None)
    columns: dict[str, Any] = {"id": {"serial": table.prefix + "{n:03d}"}}
    for column in table.columns:
        where = f"{table.name}.{column.name}"
        if column is parent:
            columns[column.name] = {"parent": "id"}
        elif column.kind == "email":
            if people is None:
                raise Misfit(f"{where}: an email needs a column of the kind person before it")
            columns[column.name] = {"email": people, "unique": True}
        else:
            columns[column.name] = generator(column, where, tables)
    most = min([len(c.words) for c in table.columns if c.kind == "name"] or [table.rows])
    if table.each is None:
        return {"count": min(table.rows, most), "columns": columns}
    return {"each": table.each, "count": [0, min(table.rows, 6)], "columns": columns}


def generator(column: Column, where: str, tables: Iterable[str] = ()) -> dict[str, Any]:
    """Return how values of a column are made, apart from those that depend on their row.

    Raises:
        Misfit: the column lacks what its kind needs.
    """
    kind, words = column.kind, list(column.words)
    if kind in ("name", "choice", "phrase", "code") and not words:
        raise Misfit(f"{where}: a column of the kind {kind} needs words")
    if kind == "reference":
        if column.table not in set(tables):
            raise Misfit(f"{where}.table: there is no table {column.table!r}")
        return {"ref": column.table}
    if kind in _NUMBERS:
        return _number(column, where)
    simple: dict[str, dict[str, Any]] = {
        "name": {"choice": words, "unique": True},
        "choice": {"choice": words},
        "phrase": {"words": words},
        "code": {"code": words[0] if words else ""},
        "yes_no": {"choice": [0, 1]},
        "phone": {"phone": "+49 30 ######"},
        "company": {"company": True},
        "email": {"email": "name"},
        "person": {"person": "full"},
    }
    return simple.get(kind) or {"address": _PEOPLE[kind]}


def _number(column: Column, where: str) -> dict[str, Any]:
    low = 0 if column.low is None else column.low
    high = low + 30 if column.high is None else column.high
    if high < low:
        raise Misfit(f"{where}: high is below low")
    if column.kind == "number":
        return {"number": [low, high, 2]}
    low, high = int(low), int(high)
    if column.kind == "datetime":
        return {"datetime": [low, high, 30]}
    if column.kind == "date":
        return {"date": [low, high]}
    return {"integer": [low, high, 50 if column.kind == "money" and high - low >= 50 else 1]}


def known_columns(tables: Sequence[Table]) -> dict[str, list[str]]:
    """Return by which columns users name the rows of each table."""
    found = {t.name: [c.name for c in t.columns if c.known] for t in tables}
    return {name: columns for name, columns in found.items() if columns}


def with_new_column(application: Application, table: str, column: Column) -> Application:
    """Return an application one of whose tables has a column more.

    Raises:
        Misfit: this table can have none, or none of this kind.
    """
    where = f"{table}.{column.name}"
    if column.kind not in ("choice", "yes_no", "integer", "money"):
        raise Misfit(f"{where}: a new column of an old table is a choice, yes_no, integer or money")
    made = generator(column, where)
    values = made.get("choice") or [int(n) for n in _spread(*made["integer"])]
    first = values[0] if column.kind != "choice" else "'" + values[0].replace("'", "''") + "'"
    name, rest = _definition(column).split(" ", 1)
    rest = rest.replace(" NOT NULL", f" NOT NULL DEFAULT {first}", 1)
    try:
        child = with_column(
            application, table, name, rest, Generator(kind="choice", argument=values)
        )
    except ValidationError as error:
        raise Misfit(f"{where}: {problems(error)}") from error
    if child is None:
        raise Misfit(f"{where}: this table cannot get a column: write a table of its own for it")
    return child


def _spread(low: int, high: int, step: int) -> list[int]:
    places = range(low, high + 1, max(step, (high - low) // 7 or 1))
    return list(places)
