"""Seed an application's tables: literal rows, generated rows, then `after_seed`.

Every column draws from its own stream, named by application, seed, table and column. So adding a
column leaves the others as they were, and the same seed gives the same bytes in any process.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import apsw

from simulators.sql.clock import Clock
from simulators.sql.compile import Compiler
from simulators.sql.functions import BadValue
from simulators.sql.generators import Row
from simulators.sql.guard import Budget, Guard, Mode, add_sources, connect
from simulators.sql.identity import Counters, highest
from simulators.sql.rows import make_source
from simulators.sql.tables import Table
from synth.core.application import SeedTable
from synth.core.errors import BadApplication
from synth.core.seeds import rng
from synth.core.types import Scalar

MAX_ROWS = 20_000
"""Rows of one table."""


@dataclass(frozen=True, slots=True)
class Seeded:
    """A seeded database. `highest`: where `next_id` starts, see `identity`."""

    image: bytes
    highest: dict[str, tuple[int, int]]


@dataclass(slots=True)
class Seeding:
    """One database being filled."""

    compiler: Compiler
    seed: int
    connection: apsw.Connection
    guard: Guard
    budget: Budget
    parents: dict[str, list[dict[str, Scalar]]] = field(default_factory=dict)

    def stream(self, table: str, column: str) -> random.Random:
        """Return the random stream of a column."""
        name = self.compiler.application.application
        return rng("application", name, self.seed, table, column)

    def query(self, sql: str, values: dict[str, Scalar], path: str) -> list[tuple[Any, ...]]:
        """Run a vetted SELECT.

        Raises:
            BadApplication: it fails, or exceeds the bounds of a call.
        """
        self.budget.start()
        try:
            return self.connection.execute(sql, values).fetchall()
        except (apsw.Error, ValueError) as error:
            raise self.compiler.fail(path, _line(error)) from error


def seed_image(compiler: Compiler, empty: bytes, seed: int) -> Seeded:
    """Fill an empty database.

    Args:
        compiler: of the application.
        empty: the serialised database with empty tables.
        seed: names the state.

    Raises:
        BadApplication: a rule cannot be met, a row is refused, a foreign key leads nowhere.
    """
    application = compiler.application
    guard, budget = Guard(frozenset(compiler.tables)), Budget()
    connection = connect(guard, budget)
    counters = Counters()
    add_sources(connection, Clock(application.clock), counters.next)
    connection.deserialize("main", empty)
    work = Seeding(compiler, seed, connection, guard, budget)
    connection.execute("PRAGMA foreign_keys = OFF; BEGIN")
    guard.mode = Mode.RUN
    for name, rules in application.seed.items():
        _fill(work, compiler.tables[name], rules)
    if any("next_id" in sql.lower() for sql in application.after_seed):
        guard.mode = Mode.ENGINE
        counters.start(highest(connection, compiler.tables))
        guard.mode = Mode.RUN
    for number, sql in enumerate(application.after_seed):
        work.query(sql, {}, f"after_seed[{number}]")
    guard.mode = Mode.ENGINE
    _check_keys(work)
    connection.execute("COMMIT")
    found = Seeded(connection.serialize("main"), highest(connection, compiler.tables))
    connection.close()
    return found


def _fill(work: Seeding, table: Table, rules: SeedTable) -> None:
    path = f"seed.{table.name}"
    _check_complete(work.compiler, table, rules)
    rows: list[dict[str, Scalar]] = [dict(row) for row in rules.rows]
    for number, literal in enumerate(rows):
        _insert(work, table, literal, f"{path}.rows[{number}]")
    sources = [
        make_source(work, table, column, [row.get(column) for row in rows])
        for column in rules.columns
    ]
    chance = work.stream(table.name, "~place").random
    made = [
        Row(number, chance(), parent)
        for number, parent in enumerate(_parents(work, table, rules), len(rows) + 1)
    ]
    if any(source.own for source in sources):
        for row in made:
            for source in sources:
                row.values[source.column] = source.make(row)
            _insert(work, table, row.values, f"{path} (row {row.number})")
    elif made:
        # No row sees another one: column by column, then all at once.
        for source in sources:
            column, make = source.column, source.make
            for row in made:
                row.values[column] = make(row)
        _insert_all(work, table, made, path)
    work.parents[table.name] = rows + [row.values for row in made]


def _insert_all(work: Seeding, table: Table, made: Sequence[Row], path: str) -> None:
    before = work.connection.total_changes()
    values = [tuple(row.values.values()) for row in made]
    sql = _sql(table, made[0].values)
    try:
        work.connection.executemany(sql, values)
    except (apsw.Error, ValueError, TypeError, OverflowError) as error:
        row = made[work.connection.total_changes() - before]
        raise _refused(work, f"{path} (row {row.number})", row.values, error) from error


def _parents(work: Seeding, table: Table, rules: SeedTable) -> Iterator[dict[str, Scalar] | None]:
    """Yield the parent of each row to make, None where there are no parents."""
    draw = work.stream(table.name, "~count")
    path = f"seed.{table.name}"
    low, high = (rules.count, rules.count) if isinstance(rules.count, int) else rules.count
    if not 0 <= low <= high:
        raise work.compiler.fail(f"{path}.count", f"[{low}, {high}] is no range", "[low, high]")
    parents: Sequence[dict[str, Scalar] | None] = [None]
    if rules.each is not None:
        if rules.each not in work.parents:
            what = f"{rules.each!r} is seeded later"
            raise work.compiler.fail(f"{path}.each", what, f"move it above {table.name}")
        parents = work.parents[rules.each]
    total = 0
    for parent in parents:
        count = draw.randint(low, high)
        total += count
        if total > MAX_ROWS:
            raise work.compiler.fail(f"{path}.count", f"more than {MAX_ROWS} rows", "seed fewer")
        for _ in range(count):
            yield parent


def _insert(work: Seeding, table: Table, values: dict[str, Scalar], path: str) -> None:
    try:
        work.connection.execute(_sql(table, values), tuple(values.values()))
    except (apsw.Error, ValueError, TypeError, OverflowError) as error:
        raise _refused(work, path, values, error) from error


def _sql(table: Table, values: dict[str, Scalar]) -> str:
    columns = '", "'.join(values)
    return f'INSERT INTO "{table.name}" ("{columns}") VALUES ({", ".join("?" * len(values))})'


def _refused(
    work: Seeding, path: str, values: dict[str, Scalar], error: Exception
) -> BadApplication:
    shown = ", ".join(f"{name}={value!r}" for name, value in values.items())[:200]
    return work.compiler.fail(path, f"{_line(error)}: {shown}")


def _check_complete(compiler: Compiler, table: Table, rules: SeedTable) -> None:
    needed = [c.name for c in table.columns.values() if c.not_null and c.default is None]
    generated = not (rules.count == 0 and not rules.columns)
    given = [(set(rules.columns), f"seed.{table.name}.columns")] if generated else []
    given += [(set(r), f"seed.{table.name}.rows[{n}]") for n, r in enumerate(rules.rows)]
    for names, path in given:
        missing = [name for name in needed if name not in names]
        if missing:
            what = f"column {missing[0]!r} is NOT NULL and gets no value"
            raise compiler.fail(path, what, "add it")


def _check_keys(work: Seeding) -> None:
    for table, _, parent, number in work.connection.execute("PRAGMA foreign_key_check"):
        keys = list(work.compiler.tables[table].foreign_keys)
        what = f"a foreign key of {table} leads to no row of {parent}"
        hint = f"check {', '.join(keys)} (key number {number}) and after_seed"
        raise work.compiler.fail(f"seed.{table}", what, hint)


def _line(error: Exception) -> str:
    text = str(error).splitlines()[0] if str(error) else type(error).__name__
    return f"{text} (a date function)" if isinstance(error, BadValue) else text[:200]
