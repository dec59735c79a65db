"""From the tools of an application to programs: every statement is prepared once, under guard.

Errors name the step (`library: tools.lend_book.steps[2].write`) and suggest close names.
"""

from __future__ import annotations

import difflib
import random
import re
import string
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import apsw
import jsonschema_rs

from simulators.sql.functions import FORMATS
from simulators.sql.generators import Kinds
from simulators.sql.guard import Guard, Look, Mode, Refused, look
from simulators.sql.program import (
    CHANCE,
    NOT_NOW,
    USER,
    Arguments,
    Happening,
    Let,
    Lookup,
    Naming,
    Program,
    Require,
    ResultColumn,
    Return,
    Text,
    Write,
)
from simulators.sql.tables import Table
from synth.core.application import Application, Parameter, Step, Tool
from synth.core.errors import BadApplication
from synth.core.schemas import refuse
from synth.core.types import ENGINE_ERRORS

_PATTERNS = jsonschema_rs.RegexOptions(size_limit=2**20, dfa_size_limit=2**20)
"""The engine that runs in linear time; the default one backtracks."""


def suggest(name: str, known: Iterable[str]) -> str:
    """Return a remedy that lists close names, or all of a few."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    if close:
        return f"did you mean {', '.join(map(repr, close))}?"
    return f"known: {', '.join(names[:20])}" if names else ""


@dataclass(frozen=True, slots=True)
class Compiler:
    """Prepares the statements of one application on an empty database with its tables."""

    application: Application
    tables: Mapping[str, Table]
    connection: apsw.Connection
    guard: Guard
    selects: dict[str, Look] = field(default_factory=dict)
    """What `select` has looked at."""

    def fail(self, path: str, what: str, remedy: str = "") -> BadApplication:
        """Return the error for a place of the application."""
        where = f"{self.application.application}: {path}"
        return BadApplication(what, where=where, remedy=remedy)

    def look(self, sql: str, mode: Mode, path: str, names: Iterable[str] | None = None) -> Look:
        """Prepare a statement that may use the parameters `names` (None: any).

        Raises:
            BadApplication: SQLite or the guard refuses it, or it uses another parameter.
        """
        try:
            found = look(self.connection, self.guard, sql, mode)
        except Refused as error:
            raise self.fail(path, str(error), self._remedy(str(error))) from error
        known = None if names is None else set(names)
        for name in found.parameters:
            if known is not None and name not in known:
                raise self.fail(path, f"unknown parameter :{name}", suggest(name, known))
        return found

    def select(self, sql: str, path: str) -> Look:
        """Prepare a SELECT of the seed rules, once for all seeds; raises as `look`."""
        found = self.selects.get(sql)
        if found is None:
            found = self.selects[sql] = self.look(sql, Mode.READ, path)
        return found

    def _remedy(self, text: str) -> str:
        missing = re.match(r"no such (column|table|function): (?:\w+\.)?\"?(\w+)", text)
        if missing is None:
            return ""
        if missing[1] == "table":
            return suggest(missing[2], self.tables)
        columns = {column for table in self.tables.values() for column in table.columns}
        return suggest(missing[2], columns) if missing[1] == "column" else ""

    def origin(self, column: str, path: str) -> None:
        """Check that `table.column` exists.

        Raises:
            BadApplication: it does not.
        """
        table, _, name = column.partition(".")
        if table not in self.tables:
            raise self.fail(path, f"no table {table!r}", suggest(table, self.tables))
        if name not in self.tables[table].columns:
            known = self.tables[table].columns
            raise self.fail(path, f"no column {name!r} in {table!r}", suggest(name, known))

    # --- tools -------------------------------------------------------------------------------

    def program(self, name: str) -> Program:
        """Compile one tool."""
        tool, path = self.application.tools[name], f"tools.{name}"
        lookups = tuple(self._lookups(tool.parameters, f"{path}.parameters", ()))
        known = set(tool.parameters) | ({USER} if tool.by == "user" else set())
        if tool.by == "user" and USER in tool.parameters:
            raise self.fail(f"{path}.parameters", f"{USER!r} is who calls it", "rename it")
        steps: list[Require | Let | Write] = []
        result: Return | None = None
        for number, step in enumerate(tool.steps):
            here = f"{path}.steps[{number}]"
            if result is not None:
                raise self.fail(here, "a step after return", "return comes last")
            if step.returns is not None:
                result = self._return(step, tool, known, here)
            else:
                steps += self._steps(step, tool, known, here)
        writes = any(isinstance(step, Write) for step in steps) or bool(result and result.writes)
        if tool.effect == "read" and result is None:
            raise self.fail(path, "a read tool returns nothing", "end with a return step")
        if tool.effect != "read" and not writes:
            raise self.fail(path, f"effect is {tool.effect} and no step writes", "effect: read")
        arguments = self._arguments(name, tool)
        return Program(name, tool.effect != "read", arguments, lookups, tuple(steps), result)

    def _steps(
        self, step: Step, tool: Tool, known: set[str], here: str
    ) -> Iterator[Require | Let | Write]:
        reads = Mode.READ if tool.effect == "read" else Mode.LET
        if step.require is not None:
            self._one_value(step.require, reads, f"{here}.require", known)
            if step.error in ENGINE_ERRORS:
                what = f"{step.error!r} is a code of the engine"
                raise self.fail(f"{here}.error", what, "choose another code")
            message = self._text(step.message or "", known, f"{here}.message")
            yield Require(step.require, step.error or "", message)
        for name, sql in (step.let or {}).items():
            if name in known:
                raise self.fail(f"{here}.let.{name}", f"{name!r} is bound already", "rename it")
            self._one_value(sql, reads, f"{here}.let.{name}", known)
            known.add(name)
            yield Let(name, sql)
        if step.write is not None:
            if tool.effect == "read":
                raise self.fail(f"{here}.write", "a read tool writes", "effect: write")
            if self.look(step.write, Mode.WRITE, f"{here}.write", known).readonly:
                raise self.fail(f"{here}.write", "the statement writes nothing", "use let")
            yield Write(step.write, step.rows)

    def _one_value(self, sql: str, mode: Mode, path: str, known: set[str]) -> None:
        found = self.look(sql, mode, path, known)
        if len(found.columns) != 1:
            raise self.fail(path, f"{len(found.columns)} columns", "select one value")

    def _return(self, step: Step, tool: Tool, known: set[str], here: str) -> Return:
        sql, path = step.returns or "", f"{here}.return"
        mode = Mode.READ if tool.effect == "read" else Mode.WRITE
        found = self.look(sql, mode, path, known)
        names = [name for name, _ in found.columns]
        for name in names:
            if names.count(name) > 1:
                raise self.fail(path, f"two columns named {name!r}", "rename one with AS")
            if not re.fullmatch(r"[A-Za-z_]\w*", name):
                raise self.fail(path, f"the column {name!r} has no name", "name it with AS")
        if not names:
            raise self.fail(path, "the statement returns no columns", "use write, or RETURNING")
        declared = step.columns or {}
        for name, column in declared.items():
            if name not in names:
                raise self.fail(f"{here}.columns", f"no column {name!r}", suggest(name, names))
            self.origin(column, f"{here}.columns.{name}")
        columns = self.result_columns(found, declared)
        shape, naming = step.shape or "list", Naming(columns)
        return Return(sql, shape, columns, not found.readonly, step.rows, naming)

    def result_columns(
        self, found: Look, declared: Mapping[str, str] | None = None
    ) -> tuple[ResultColumn, ...]:
        """Add to the columns of a statement what `columns:` declares and the tables know."""
        out = []
        for name, origin in found.columns:
            origin = (declared or {}).get(name, origin)
            table, _, column = (origin or "").partition(".")
            # json_each and the like are no origin anybody could follow.
            known = table in self.tables and column in self.tables[table].columns
            boolean = known and self.tables[table].columns[column].boolean
            out.append(ResultColumn(name, origin if known else None, boolean))
        return tuple(out)

    def _text(self, template: str, known: set[str], path: str) -> Text:
        parts: list[tuple[str, str | None, bool]] = []
        remedy = "only {parameter} or {parameter!r}; write {{ for a brace"
        try:
            fields = list(string.Formatter().parse(template))
        except ValueError as error:
            raise self.fail(path, str(error), remedy) from error
        for literal, name, spec, conversion in fields:
            if name is not None:
                if spec or conversion not in (None, "r") or not re.fullmatch(r"\w+", name):
                    raise self.fail(path, f"the field {{{name}}} is not plain", remedy)
                if name not in known:
                    raise self.fail(path, f"unknown parameter {name!r}", suggest(name, known))
            parts.append((literal, name, conversion == "r"))
        return Text(tuple(parts))

    def event(self, name: str) -> Happening:
        """Compile something that happens by itself."""
        event, path = self.application.events[name], f"events.{name}"
        steps: list[Require | Let | Write] = []
        known = {CHANCE}
        for let, sql in event.let.items():
            if let in known:
                raise self.fail(f"{path}.let.{let}", f"{let!r} is bound already", "rename it")
            self._one_value(sql, Mode.LET, f"{path}.let.{let}", known)
            known.add(let)
            steps.append(Let(let, sql))
        self._one_value(event.when, Mode.READ, f"{path}.when", known)
        steps.append(Require(event.when, NOT_NOW, Text(())))
        for number, sql in enumerate(event.write):
            here = f"{path}.write[{number}]"
            if self.look(sql, Mode.WRITE, here, known).readonly:
                raise self.fail(here, "the statement writes nothing", "use let")
            steps.append(Write(sql, None))
        return Happening(name, tuple(steps), self._text(event.says, known, f"{path}.says"))

    # --- parameters --------------------------------------------------------------------------

    def _lookups(
        self, parameters: Mapping[str, Parameter], path: str, prefix: tuple[str, ...]
    ) -> Iterator[Lookup]:
        for name, parameter in parameters.items():
            yield from self._lookup(parameter, f"{path}.{name}", (*prefix, name))

    def _lookup(self, parameter: Parameter, path: str, at: tuple[str, ...]) -> Iterator[Lookup]:
        for meaning in ("entity", "match", "sets"):
            column = getattr(parameter, meaning)
            if column is not None:
                self.origin(column, f"{path}.{meaning}")
        if parameter.format is not None and parameter.format not in FORMATS:
            what = f"unknown format {parameter.format!r}"
            raise self.fail(f"{path}.format", what, suggest(parameter.format, FORMATS))
        if parameter.generate is not None:
            try:
                Kinds(self.application.clock, random.Random(0)).rule(parameter.generate)
            except ValueError as error:
                raise self.fail(f"{path}.generate", str(error)) from error
        if parameter.entity is not None:
            if parameter.type in ("array", "object"):
                raise self.fail(f"{path}.entity", f"an {parameter.type} is no key", "under items")
            table, column = parameter.entity.split(".")
            yield Lookup(at, f'SELECT 1 FROM "{table}" WHERE "{column}" = ?')
        if parameter.items is not None:
            yield from self._lookup(parameter.items, f"{path}.items", (*at, "*"))
        if parameter.properties is not None:
            yield from self._lookups(parameter.properties, f"{path}.properties", at)

    def _arguments(self, name: str, tool: Tool) -> Arguments:
        specs = {**self.application.specs, **self.application.user_specs}
        schema: dict[str, Any] = specs[name].parameters
        try:
            validator = jsonschema_rs.Draft202012Validator(
                schema,
                formats=FORMATS,
                validate_formats=True,
                pattern_options=_PATTERNS,
                retriever=refuse,
            )
        except ValueError as error:
            what = str(error).split("\n")[0]
            remedy = "no look-around or back-references" if "regex" in what else ""
            raise self.fail(f"tools.{name}.parameters", what, remedy) from error
        return Arguments(schema, tool.parameters, validator)
