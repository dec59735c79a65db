"""One tool, compiled: check and bind the arguments, then run the steps.

Nothing here opens or ends a savepoint; `environment` does, around `Program.run`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import apsw
import jsonschema_rs
import orjson

from simulators.sql.functions import BadValue
from simulators.sql.guard import MAX_TEXT
from synth.core.application import Parameter
from synth.core.types import Scalar

MAX_RESULT = 200_000
"""Bytes of a result."""
MAX_ROWS = 2_000
_FEW = 20
"""Rows that are never too many."""
_SHOWN = 200

USER = "user_id"
"""What SQL calls the key of who speaks."""
Values = dict[str, Scalar]
"""What the SQL sees: every parameter, absent = NULL, arrays and objects as JSON text."""


class CallFailed(Exception):
    """The call fails with this code and message; all of it is rolled back."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message


def failure(error: BaseException) -> CallFailed:
    """Say in the agent's terms why SQLite, or a function of ours, gave up."""
    if isinstance(error, CallFailed):
        return error
    if isinstance(error, BadValue):
        return CallFailed("invalid_arguments", str(error))
    if isinstance(error, apsw.ConstraintError):
        text = str(error).split("\n")[0].removeprefix("ConstraintError: ")
        return CallFailed("conflict", f"The change is not possible: {text}.")
    if isinstance(error, apsw.InterruptError):
        return CallFailed("tool_fault", "The tool took too long and was stopped.")
    return CallFailed("tool_fault", f"The tool failed: {str(error).splitlines()[0][:_SHOWN]}")


# --- arguments -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Lookup:
    """An `entity` parameter: every value at `path` must exist."""

    path: tuple[str, ...]
    """Parameter, then `*` for each item of an array, then names of properties."""
    sql: str
    """`SELECT 1 FROM t WHERE c = ?`."""

    def check(self, cursor: apsw.Cursor, arguments: Mapping[str, Any]) -> None:
        """Raise `CallFailed` (not_found) for the first value that does not exist."""
        first = arguments.get(self.path[0])
        if first is None:
            return
        for value in _at(first, self.path[1:]):
            if not cursor.execute(self.sql, (value,)).fetchall():
                name = ".".join(part for part in self.path if part != "*")
                shown = _show(value, quoted=True)
                raise CallFailed("not_found", f"Unknown value {shown} for {name}.")


def _at(value: Any, path: Sequence[str]) -> list[Any]:
    if not path:
        return [value]
    if path[0] == "*":
        return [found for item in value for found in _at(item, path[1:])]
    return _at(value[path[0]], path[1:]) if value.get(path[0]) is not None else []


class Arguments:
    """Checks the arguments of one tool against its schema and turns them into `Values`."""

    def __init__(
        self,
        schema: dict[str, Any],
        parameters: dict[str, Parameter],
        validator: jsonschema_rs.Draft202012Validator,
    ) -> None:
        self._validator = validator
        self._empty: Values = dict.fromkeys(parameters)
        self._converters: dict[str, Callable[[Any], Scalar]] = {
            name: _CONVERTERS[parameter.type] for name, parameter in parameters.items()
        }
        self.schema = schema

    def bind(self, arguments: Any) -> Values:
        """Return what the SQL sees.

        Raises:
            CallFailed: invalid_arguments.
        """
        try:
            if not self._validator.is_valid(arguments):
                raise CallFailed("invalid_arguments", self._complaint(arguments))
            values = self._empty.copy()
            for name, value in arguments.items():
                values[name] = self._converters[name](value)
        except (ValueError, TypeError, OverflowError, RecursionError) as error:
            raise CallFailed("invalid_arguments", _clip(str(error).splitlines()[0])) from error
        return values

    def _complaint(self, arguments: Any) -> str:
        errors = [
            (len(error.instance_path), [str(part) for part in error.instance_path], error.message)
            for error in self._validator.iter_errors(arguments)
        ]
        _, path, message = min(errors)
        return _clip(f"{'.'.join(path)}: {message}" if path else message)


def _text(value: Any) -> str:
    if len(value) > MAX_TEXT // 4 and len(value.encode()) > MAX_TEXT:
        raise ValueError(f"text longer than {MAX_TEXT} bytes")
    if not value.isascii():
        value.encode()  # SQLite stores no lone surrogates
    return str(value)


def _integer(value: Any) -> int:
    number = int(value)  # JSON Schema takes 3.0 for an integer
    if not -(2**63) <= number < 2**63:
        raise ValueError("the number is too large")
    return number


def _number(value: Any) -> float | int:
    return value if isinstance(value, float) else _integer(value)


def _json(value: Any) -> str:
    return _text(json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False))


_CONVERTERS: dict[str, Callable[[Any], Scalar]] = {
    "string": _text,
    "integer": _integer,
    "number": _number,
    "boolean": int,
    "array": _json,
    "object": _json,
}


# --- messages --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Text:
    """A message: literal text and plain `{field}` or `{field!r}` places, nothing else."""

    parts: tuple[tuple[str, str | None, bool], ...]
    """Text before the field, the field's name, whether it is quoted."""

    def render(self, values: Values) -> str:
        """Fill in the fields."""
        out: list[str] = []
        for literal, name, quoted in self.parts:
            out.append(literal)
            if name is not None:
                out.append(_show(values[name], quoted=quoted))
        return "".join(out)


def _show(value: Any, *, quoted: bool) -> str:
    if value is None:
        return "nothing"
    if quoted and isinstance(value, str):
        return repr(_clip(value))
    return _clip(str(value))


def _clip(text: str) -> str:
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


# --- steps -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Require:
    """The first value of the first row must be true."""

    sql: str
    code: str
    message: Text

    def run(self, cursor: apsw.Cursor, values: Values) -> None:
        """Raise `CallFailed` if it is not."""
        rows = cursor.execute(self.sql, values).fetchall()
        if not rows or not rows[0][0]:
            raise CallFailed(self.code, self.message.render(values))


@dataclass(frozen=True, slots=True)
class Let:
    """Binds the first value of the first row to a name, NULL if there is none."""

    name: str
    sql: str

    def run(self, cursor: apsw.Cursor, values: Values) -> None:
        """Bind it in `values`."""
        rows = cursor.execute(self.sql, values).fetchall()
        values[self.name] = rows[0][0] if rows else None


@dataclass(frozen=True, slots=True)
class Write:
    """Changes rows: at least one, exactly `rows`, or (`any`) perhaps none."""

    sql: str
    rows: str | int | None

    def run(self, cursor: apsw.Cursor, values: Values) -> None:
        """Raise `CallFailed` (conflict) if another number of rows was changed."""
        cursor.execute(self.sql, values).fetchall()
        check_changes(cursor, self.rows)


def check_changes(cursor: apsw.Cursor, rows: str | int | None) -> None:
    """Raise `CallFailed` unless the last statement changed as many rows as it must."""
    if rows == "any":
        return
    changed = cursor.connection.changes()
    if rows is None and not changed:
        raise CallFailed("conflict", "Nothing was changed: no entry fits this request.")
    if rows is not None and changed != rows:
        raise CallFailed("conflict", f"{changed} entries fit this request instead of {rows}.")


@dataclass(frozen=True, slots=True)
class ResultColumn:
    """One column of a tool's result. `origin` is `table.column` where SQLite or `columns:` says."""

    name: str
    origin: str | None
    boolean: bool


class Naming:
    """Names the values of rows; 0 and 1 of boolean columns become false and true.

    Args:
        columns: of the statement that gives the rows.
    """

    __slots__ = ("_booleans", "_names")

    def __init__(self, columns: Sequence[ResultColumn]) -> None:
        self._names = tuple(column.name for column in columns)
        self._booleans = tuple(column.name for column in columns if column.boolean)

    def dicts(self, rows: Sequence[tuple[Any, ...]]) -> list[dict[str, Scalar]]:
        """Return the rows as name -> value."""
        names = self._names
        found = [dict(zip(names, row)) for row in rows]  # noqa: B905  # SQLite gives equal lengths
        for name in self._booleans:
            for row in found:
                if row[name] in (0, 1):
                    row[name] = bool(row[name])
        return found


@dataclass(frozen=True, slots=True)
class Return:
    """Reads the result (or writes and reads it, with RETURNING)."""

    sql: str
    shape: str
    columns: tuple[ResultColumn, ...]
    writes: bool
    rows: str | int | None
    naming: Naming

    def run(self, cursor: apsw.Cursor, values: Values) -> str:
        """Return the result as JSON text: the row, or `{"result": [rows]}`."""
        rows = fetch(cursor.execute(self.sql, values))
        if self.writes:
            check_changes(cursor, self.rows)
        found = self.naming.dicts(rows)
        if self.shape == "list":
            return _dump({"result": found})
        if not found:
            raise CallFailed("not_found", "Nothing was found.")
        return _dump(found[0])


def fetch(cursor: apsw.Cursor) -> list[tuple[Any, ...]]:
    """Return the rows of a statement.

    Raises:
        CallFailed: they are more than a tool may return.
    """
    rows: list[tuple[Any, ...]] = list(islice(cursor, _FEW))
    if len(rows) < _FEW:
        return rows
    size = 0
    for row in cursor:
        rows.append(row)
        size += sum(len(value) for value in row if isinstance(value, str))
        if len(rows) > MAX_ROWS or size > MAX_RESULT:
            cursor.execute("")  # ends the statement
            raise CallFailed("tool_fault", "The result is too large.")
    return rows


def _dump(value: Any) -> str:
    try:
        text = orjson.dumps(value)
    except TypeError as error:
        raise CallFailed("tool_fault", f"The tool returned no JSON: {error}") from error
    if len(text) > MAX_RESULT:
        raise CallFailed("tool_fault", "The result is too large.")
    return text.decode()


CHANCE = "chance"
"""What SQL of an event calls the number that is drawn for it."""
NOT_NOW = "not_now"
"""Code of an event whose `when` is not true."""
_DONE = '{"done":true}'


@dataclass(frozen=True, slots=True)
class Program:
    """A whole tool. `writes`: it may change the state and needs a savepoint."""

    name: str
    writes: bool
    arguments: Arguments
    lookups: tuple[Lookup, ...]
    steps: tuple[Require | Let | Write, ...]
    result: Return | None

    def run(self, cursor: apsw.Cursor, arguments: Any, values: Values) -> str:
        """Run all steps and return the content of the result.

        Raises:
            CallFailed, apsw.Error, ValueError: see `failure`; the caller rolls back.
        """
        for lookup in self.lookups:
            lookup.check(cursor, arguments)
        for step in self.steps:
            step.run(cursor, values)
        return self.result.run(cursor, values) if self.result else _DONE


@dataclass(frozen=True, slots=True)
class Happening:
    """Something that happens by itself: steps without arguments, and what to say of it."""

    name: str
    steps: tuple[Require | Let | Write, ...]
    says: Text

    def run(self, cursor: apsw.Cursor, _: Any, values: Values) -> str:
        """Run all steps and return what happened.

        Raises:
            CallFailed, apsw.Error, ValueError: as `Program.run`.
        """
        for step in self.steps:
            step.run(cursor, values)
        return self.says.render(values)
