"""What a tool may return: the form of its result, its errors, and what ties it to the state."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import jsonschema_rs

from simulators.imagined.patch import Refused, Row, State, first_problem, shown
from simulators.imagined.sql_state import shapes
from simulators.sql.engine import Engine
from simulators.sql.program import ResultColumn, Write
from synth.core import schemas
from synth.core.application import Tool
from synth.core.types import ENGINE_ERRORS, Effect, ToolSpec

_ANY: dict[str, Any] = {"type": ["string", "number", "integer", "boolean", "null"]}
_DONE = {
    "type": "object",
    "properties": {"done": {"const": True}},
    "required": ["done"],
    "additionalProperties": False,
}
_WRITES = re.compile(r"(?:INSERT\s+INTO|UPDATE|DELETE\s+FROM)\s+\"?(\w+)", re.IGNORECASE)
OURS = frozenset({"not_found", "conflict"})
"""Codes of the engine that a model may use, too."""
_LONGEST_MESSAGE = 300
Gone = Mapping[tuple[str, str], Row]
"""Rows by table and key."""


@dataclass(frozen=True, slots=True)
class Result:
    """What a tool may return.

    Args:
        schema: of a success; None is any JSON object.
        codes: of errors, with their message where one is declared; None is any but the engine's.
        origins: name in a row of the result -> `table.column` that it shows.
        must_change: a success without any change is none.
        tables: those it may change; None is any.
    """

    schema: Mapping[str, Any] | None = None
    codes: Mapping[str, str] | None = None
    origins: Mapping[str, str] | None = None
    must_change: bool = False
    tables: frozenset[str] | None = None

    @property
    def concerns(self) -> frozenset[str]:
        """The tables that it shows or may change."""
        shown = {origin.split(".")[0] for origin in (self.origins or {}).values()}
        return frozenset(shown) | (self.tables or frozenset())

    def error_schema(self) -> dict[str, Any]:
        """Return the form of a failure."""
        code: dict[str, Any] = {"type": "string", "maxLength": 40}
        if self.codes is not None:
            code = {"enum": sorted({*self.codes, *OURS})}
        message = {"type": "string", "maxLength": _LONGEST_MESSAGE}
        return {
            "type": "object",
            "properties": {"error": code, "message": message},
            "required": ["error", "message"],
            "additionalProperties": False,
        }


def of_spec(spec: ToolSpec) -> Result:
    """Return what a tool may return that is known by its specification only."""
    return Result(spec.returns, None, None, spec.effect in (Effect.WRITE, Effect.DESTRUCTIVE))


def of_application(engine: Engine) -> dict[str, Result]:
    """Return what each tool of an application may return."""
    return {name: _of_tool(engine, name) for name in engine.every}


def _of_tool(engine: Engine, name: str) -> Result:
    tool, program = engine.application.tools[name], engine.every[name]
    codes = {step.error: step.message or "" for step in tool.steps if step.error is not None}
    writes = [step for step in program.steps if isinstance(step, Write)]
    rows = [step.rows for step in writes]
    tables = _changed(tool)
    if program.result is None:
        return Result(_DONE, codes, {}, any(count != "any" for count in rows), tables)
    columns = program.result.columns
    row = {
        "type": "object",
        "properties": {column.name: _column(engine, column) for column in columns},
        "required": [column.name for column in columns],
        "additionalProperties": False,
    }
    if program.result.writes:
        rows.append(program.result.rows)
    schema = row
    if program.result.shape == "list":
        schema = {
            "type": "object",
            "properties": {"result": {"type": "array", "items": row}},
            "required": ["result"],
            "additionalProperties": False,
        }
    origins = {column.name: column.origin for column in columns if column.origin}
    return Result(schema, codes, origins, any(count != "any" for count in rows), tables)


def _changed(tool: Tool) -> frozenset[str]:
    """Return the tables that the statements of a tool write to."""
    texts = [text for step in tool.steps for text in (step.write, step.returns) if text]
    return frozenset(name for text in texts for name in _WRITES.findall(text))


def _column(engine: Engine, column: ResultColumn) -> dict[str, Any]:
    if column.boolean:
        return {"type": ["boolean", "null"]}
    if column.origin is None:
        return _ANY
    table, name = column.origin.split(".")
    kind = shapes(engine)[table].columns[name].get("type", "string")
    # A join or an aggregate may give none where the column always has one.
    return {"type": [kind if isinstance(kind, str) else kind[0], "null"]}


class Observations:
    """Reads the observations of one tool.

    Args:
        result: what it may return.
    """

    def __init__(self, result: Result) -> None:
        self.result = result
        self._schema = result.schema or {"type": "object"}
        self._validator: jsonschema_rs.Validator = schemas.validator(self._schema)
        self._errors = schemas.validator(result.error_schema())

    def is_error(self, observation: Any) -> bool:
        """Say whether it tells of a failure; raise `Refused` where it does so in a wrong form."""
        if not isinstance(observation, dict) or observation.keys() != {"error", "message"}:
            return False
        properties = self._schema.get("properties", {})
        if "error" in properties:  # its own result has such a member
            return False
        code = observation["error"]
        if problem := first_problem(self._errors, observation):
            raise Refused("error_code", f"not an error of this tool: {problem}")
        if self.result.codes is None and code in ENGINE_ERRORS - OURS:
            raise Refused("error_code", f"the code {code!r} is not for tools to use")
        return True

    def check(self, observation: Any) -> Any:
        """Return a success in the order and the types of its schema.

        Raises:
            Refused: it has another form.
        """
        if problem := first_problem(self._validator, observation):
            raise Refused("observation", f"the observation: {problem}")
        return _ordered(observation, self._schema)

    def ground(self, observation: Any, state: State, gone: Gone) -> None:
        """Compare what an observation says of rows with the rows.

        Args:
            observation: of a success.
            state: after the call.
            gone: the rows that the call deleted: it may tell of them, too.

        Raises:
            Refused: it names a row that is not there, or tells something else of it.
        """
        for row in self._rows(observation):
            self._ground(row, state, gone)

    def invented(self, observation: Any, state: State, known: Collection[str]) -> Iterator[str]:
        """Yield the texts of an observation that are from nowhere.

        Args:
            observation: of a success.
            state: after the call; a text that the column it comes from holds is none.
            known: texts of the call and of its patch, which are none either.
        """
        origins = self.result.origins or {}
        for row in self._rows(observation):
            for name, origin in origins.items():
                value, (table, column) = row.get(name), origin.split(".")
                # Numbers that come from a column may be its sum: only the twin can tell.
                told = not isinstance(value, str) or value in known
                if not told and not state.holds(table, column, value):
                    yield f"{name}: {shown(value)}"

    def _rows(self, observation: Any) -> list[dict[str, Any]]:
        if not self.result.origins:
            return []
        listed = observation.get("result")
        rows = listed if isinstance(listed, list) and len(observation) == 1 else [observation]
        return [row for row in rows if isinstance(row, dict)]

    def _ground(self, row: Mapping[str, Any], state: State, gone: Gone) -> None:
        def stored(table: str, key: Any) -> Row | None:
            return state.row(table, key) or gone.get((table, key))

        origins = self.result.origins or {}
        keys: dict[str, list[str]] = {}
        for name, origin in origins.items():
            table, column = origin.split(".")
            target = table if column == "id" else state.shapes[table].references.get(column)
            if target is None or row.get(name) is None:
                continue
            if stored(target, row[name]) is None:
                what = f"{target} has no row {shown(row[name])}"
                raise Refused("made_up", f"the observation: {name}: {what}")
            if column == "id":
                keys.setdefault(table, []).append(name)
        for table, names in keys.items():
            if len(names) == 1:
                self._agrees(row, table, stored(table, row[names[0]]) or {})

    def _agrees(self, row: Mapping[str, Any], table: str, stored: Mapping[str, Any]) -> None:
        for name, value in row.items():
            # Under another name it may be of another row of the same table.
            if (self.result.origins or {}).get(name) != f"{table}.{name}":
                continue
            if value != stored[name]:
                is_now = f"{name} of {shown(stored['id'])} in {table} is {shown(stored[name])}"
                raise Refused("contradiction", f"the observation: {is_now}")


def _ordered(value: Any, schema: Mapping[str, Any]) -> Any:
    properties, items = schema.get("properties"), schema.get("items")
    if isinstance(value, dict) and isinstance(properties, Mapping):
        known = {k: _ordered(value[k], s) for k, s in properties.items() if k in value}
        return known | {name: item for name, item in value.items() if name not in known}
    if isinstance(value, list) and isinstance(items, Mapping):
        return [_ordered(item, items) for item in value]
    kinds = schema.get("type")
    if isinstance(value, float) and kinds == ["integer", "null"]:
        return int(value)  # JSON Schema takes 3.0 for an integer
    if type(value) is int and kinds == ["number", "null"]:
        return float(value)
    return value
