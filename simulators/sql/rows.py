"""Generators that look at other rows or at earlier columns of the same row, and `unique`.

A generator with few values that must be `unique` draws from what is left; the others try again and
give up with a clear error.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from simulators.sql.generators import Kinds, Make, Row, Rule, as_text, fields, show
from simulators.sql.tables import Table
from synth.core.application import Generator
from synth.core.errors import BadApplication
from synth.core.types import Scalar

if TYPE_CHECKING:
    from simulators.sql.seeding import Seeding

_TRIES = 500
_SERIAL = re.compile(r"([^{}]*)\{n(?::0?(\d{1,2})d)?\}([^{}]*)")


@dataclass(frozen=True, slots=True)
class Source:
    """What makes the values of one column. `own`: it reads earlier rows of its own table."""

    column: str
    make: Make
    own: bool


def make_source(work: Seeding, table: Table, column: str, given: Iterable[Scalar]) -> Source:
    """Return what makes the values of one seed column.

    Args:
        work: the database being filled.
        table: the column's table.
        column: its name, a key of the seed table's `columns`.
        given: values the column has already.

    Raises:
        BadApplication: the generator's argument is wrong.
    """
    path = f"seed.{table.name}.columns.{column}"
    generator = work.compiler.application.seed[table.name].columns[column]
    stream = work.stream(table.name, column)
    kinds = _RowKinds(work, table, column, stream)
    try:
        rule = kinds.rule(generator)
    except ValueError as error:
        raise work.compiler.fail(path, str(error)) from error
    make = rule.make
    if generator.unique:
        make = _unique(rule, stream, set(given), partial(work.compiler.fail, path))
    return Source(column, _with_nulls(generator, make, stream), kinds.own)


def _with_nulls(generator: Generator, make: Make, stream: random.Random) -> Make:
    share, chance = generator.null, stream.random
    return (lambda row: None if chance() < share else make(row)) if share else make


def _unique(
    rule: Rule,
    stream: random.Random,
    used: set[Scalar],
    fail: Callable[[str, str], BadApplication],
) -> Make:
    """Make every value once (NULL does not count)."""

    def attempt(row: Row) -> Scalar:
        value = rule.make(row)
        if value is None or value not in used:
            return value
        if rule.domain is not None:
            left = [item for item in rule.domain(row) if item not in used]
            if left:
                return stream.choice(left)
        else:
            for _ in range(_TRIES):
                value = rule.make(row)
                if value not in used:
                    return value
        what = f"no further unique value after {len(used)}"
        raise fail(what, "seed fewer rows, or allow more values")

    def make(row: Row) -> Scalar:
        value = attempt(row)
        if value is not None:
            used.add(value)
        return value

    return make


class _RowKinds(Kinds):
    """The kinds of `Kinds` and those that need rows."""

    def __init__(self, work: Seeding, table: Table, column: str, stream: random.Random) -> None:
        super().__init__(work.compiler.application.clock, stream)
        self.work, self.table, self.column = work, table, column
        self.path = f"seed.{table.name}.columns.{column}"
        self.rules = work.compiler.application.seed[table.name]
        self.own = False

    def of_serial(self, argument: Any) -> Rule:
        """The row's number in a pattern."""
        match = _SERIAL.fullmatch(as_text(argument))
        if match is None:
            raise ValueError(f'{argument!r} is no pattern such as "M{{n:03d}}"')
        before, width, after = match[1], int(match[2] or 0), match[3]
        return Rule(lambda row: f"{before}{row.number:0{width}d}{after}")

    def of_template(self, argument: Any) -> Rule:
        """Text with earlier columns in it."""
        text = as_text(argument)
        for name in fields(text):
            self._earlier(name)
        return Rule(lambda row: text.format_map({k: show(v) for k, v in row.values.items()}))

    def of_email(self, argument: Any) -> Rule:
        """An address made of the name in an earlier column."""
        self._earlier(as_text(argument))
        return super().of_email(argument)

    def of_parent(self, argument: Any) -> Rule:
        """A column of the parent row."""
        column = as_text(argument)
        if self.rules.each is None:
            raise ValueError("the table has no `each`")
        self.work.compiler.origin(f"{self.rules.each}.{column}", self.path)
        return Rule(lambda row: (row.parent or {}).get(column))

    def of_ref(self, argument: Any) -> Rule:
        """The id of a row of another table, or of an earlier row of the same one."""
        rule = argument if isinstance(argument, dict) else {"table": argument}
        extra = set(rule) - {"table", "where", "unique"}
        if extra:
            raise ValueError(f"unknown key {min(extra)!r}; known: table, where, unique")
        target, where = as_text(rule.get("table")), rule.get("where")
        self.work.compiler.origin(f"{target}.id", self.path)
        sql = f'SELECT id FROM "{target}"' + (f" WHERE {where}" if where else "") + " ORDER BY id"
        select, fixed = self._select(sql)
        if fixed and not select(Row(0, 0.0)):
            self._empty(target, where)
        taken: set[Scalar] | None = set() if rule.get("unique") else None

        def domain(row: Row) -> list[Scalar]:
            ids = select(row)
            return ids if taken is None else [value for value in ids if value not in taken]

        def make(row: Row) -> Scalar:
            ids = domain(row)
            if not ids:
                return self._nothing(target)
            value = ids[int(self.stream.random() * len(ids))]
            if taken is not None:
                taken.add(value)
            return value

        return Rule(make, domain)

    def of_sql(self, argument: Any) -> Rule:
        """The value of a SELECT that sees the row's earlier columns."""
        select, _ = self._select(as_text(argument))

        def make(row: Row) -> Scalar:
            values = select(row)
            return values[0] if values else None

        return Rule(make)

    # --- inside ------------------------------------------------------------------------------

    def _empty(self, target: str, where: object) -> None:
        seeded = target in self.work.parents
        hint = f"check {where!r}" if seeded else f"seed {target!r} before {self.table.name!r}"
        raise self.work.compiler.fail(self.path, f"no row of {target!r} to refer to", hint)

    def _nothing(self, target: str) -> Scalar:
        if self.table.columns[self.column].not_null:
            what = f"no row of {target!r} is left to refer to"
            raise self.work.compiler.fail(self.path, what, "seed more of them")
        return None

    def _select(self, sql: str) -> tuple[Callable[[Row], list[Scalar]], bool]:
        """Vet a SELECT of one column.

        Returns:
            What runs it for a row, and whether it gives the same for every row.
        """
        found = self.work.compiler.select(sql, self.path)
        if len(found.columns) != 1:
            raise ValueError("select one value")
        for name in found.parameters:
            self._earlier(name)
        own = self.table.name in found.read
        self.own = self.own or own
        names, work, path = found.parameters, self.work, self.path
        known: dict[tuple[Scalar, ...], list[Scalar]] = {}

        def select(row: Row) -> list[Scalar]:
            key = tuple([row.values[name] for name in names])
            values = known.get(key)
            if values is None:
                values = [value for (value,) in work.query(sql, row.values, path)]
                # 1 and 1.0 are one key and two values.
                if not own and float not in map(type, key):
                    known[key] = values
            return values

        return select, not (names or own)

    def _earlier(self, name: str) -> None:
        """Check that `name` is an earlier column of the same row."""
        names = list(self.rules.columns)
        before = names[: names.index(self.column)]
        if name not in before:
            listed = ", ".join(before) or "none"
            raise ValueError(f"{name!r} is no earlier column of the row (these are: {listed})")
