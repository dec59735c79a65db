"""The generators of seed columns: each draws one value for one row from its column's stream.

A generator with few values (`choice`, `integer`, `date`, `words`, `ref`) that must be `unique`
draws from what is left; the others try again and give up with a clear error.
"""

from __future__ import annotations

import datetime
import random
import re
import string
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from simulators.sql.guard import Mode
from simulators.sql.people import (
    ascii_word,
    cities,
    companies,
    full_name,
    origins,
    streets,
)
from simulators.sql.tables import Table
from synth.core.application import Generator
from synth.core.errors import BadApplication
from synth.core.types import Scalar

if TYPE_CHECKING:
    from simulators.sql.seeding import Seeding

_TRIES = 500
_MAX_DOMAIN = 100_000
_MAILS = ("example.com", "example.org", "example.net")


@dataclass(slots=True)
class Row:
    """The row being made. `place` in [0, 1) chooses one origin and one city for all its columns."""

    number: int
    parent: dict[str, Scalar] | None
    place: float
    values: dict[str, Scalar]


Make = Callable[[Row, random.Random], Scalar]
Domain = Callable[[Row], Sequence[Scalar]]


@dataclass(frozen=True, slots=True)
class Rule:
    """How to make a value, and (if they are few) which values there are."""

    make: Make
    domain: Domain | None = None


class Source:
    """A column's generator at work."""

    def __init__(self, generator: Generator, rule: Rule, stream: random.Random, path: str) -> None:
        self.generator, self.rule, self.stream, self.path = generator, rule, stream, path

    def draw(self, row: Row, used: set[Scalar]) -> Scalar:
        """Return the value for `row`; `used` are the column's values so far.

        Raises:
            Unmet: `unique` cannot be met.
        """
        if self.generator.null and self.stream.random() < self.generator.null:
            return None
        value = self.rule.make(row, self.stream)
        if not self.generator.unique or value is None or value not in used:
            return value
        if self.rule.domain is not None:
            left = [v for v in self.rule.domain(row) if v not in used]
            if left:
                return self.stream.choice(left)
            raise self._unmet(len(used))
        for _ in range(_TRIES):
            value = self.rule.make(row, self.stream)
            if value not in used:
                return value
        raise self._unmet(len(used))

    def _unmet(self, count: int) -> BadApplication:
        return BadApplication(
            f"no further unique value after {count} rows",
            where=self.path,
            remedy="seed fewer rows, or allow more values",
        )


def make_source(work: Seeding, table: Table, column: str, generator: Generator) -> Source:
    """Return the source of one column.

    Raises:
        BadApplication: the generator's argument is wrong.
    """
    path = f"seed.{table.name}.columns.{column}"
    maker = _Maker(work, table, column, generator, path)
    try:
        rule = getattr(maker, f"make_{generator.kind}")(generator.argument)
    except (ValueError, TypeError) as error:
        raise work.compiler.fail(path, f"{generator.kind}: {error}") from error
    name = work.compiler.application.application
    return Source(generator, rule, work.stream(table.name, column), f"{name}: {path}")


@dataclass(frozen=True, slots=True)
class _Maker:
    """Reads the argument of a generator; one method a kind."""

    work: Seeding
    table: Table
    column: str
    generator: Generator
    path: str

    # --- plain values ------------------------------------------------------------------------

    def make_value(self, argument: Any) -> Rule:
        return Rule(lambda row, rng: argument)

    def make_serial(self, argument: Any) -> Rule:
        text = _text(argument)
        match = re.fullmatch(r"([^{}]*)\{n(?::0?(\d{1,2})d)?\}([^{}]*)", text)
        if match is None:
            raise ValueError(f'{text!r} is no pattern such as "M{{n:03d}}"')
        before, width, after = match[1], int(match[2] or 0), match[3]
        return Rule(lambda row, rng: f"{before}{row.number:0{width}d}{after}")

    def make_choice(self, argument: Any) -> Rule:
        if isinstance(argument, dict):
            values, weights = list(argument), [float(w) for w in argument.values()]
            if not values or min(weights) < 0 or not sum(weights):
                raise ValueError("weights are numbers above 0")
            return Rule(lambda row, rng: rng.choices(values, weights)[0], lambda row: values)
        items = _list(argument)
        return Rule(lambda row, rng: rng.choice(items), lambda row: items)

    def make_words(self, argument: Any) -> Rule:
        return self.make_choice(_list(argument))

    def make_integer(self, argument: Any) -> Rule:
        low, high, step = _numbers(argument, 3, 1)
        if low > high or step < 1:
            raise ValueError(f"[{low}, {high}, {step}] is no range [low, high, step]")
        values = range(low, high + 1, step)
        domain = (lambda row: values) if len(values) <= _MAX_DOMAIN else None
        return Rule(lambda row, rng: rng.choice(values), domain)

    def make_number(self, argument: Any) -> Rule:
        if not isinstance(argument, list) or len(argument) not in (2, 3):
            raise ValueError("give [low, high, decimals]")
        low, high = float(argument[0]), float(argument[1])
        decimals = int(argument[2]) if len(argument) == 3 else 2
        return Rule(lambda row, rng: round(rng.uniform(low, high), decimals))

    def make_code(self, argument: Any) -> Rule:
        text = _text(argument)
        if "?" not in text and "#" not in text:
            raise ValueError(f"{text!r} has neither ? nor #")
        return Rule(lambda row, rng: _fill_pattern(text, rng))

    def make_template(self, argument: Any) -> Rule:
        text = _text(argument)
        for _, name, spec, conversion in string.Formatter().parse(text):
            if name is not None:
                if spec or conversion or not name.isidentifier():
                    raise ValueError(f"{{{name}}} is no plain column")
                self._column(name)
        return Rule(lambda row, rng: re.sub(r"\{(\w+)\}", lambda m: _show(row.values[m[1]]), text))

    # --- time --------------------------------------------------------------------------------

    def make_date(self, argument: Any) -> Rule:
        low, high = _range(argument)
        first = datetime.datetime.fromisoformat(self.work.compiler.application.clock).date()
        days = [str(first + datetime.timedelta(days=n)) for n in range(low, high + 1)]
        return Rule(lambda row, rng: rng.choice(days), lambda row: days)

    def make_datetime(self, argument: Any) -> Rule:
        low, high, grid = _numbers(argument, 3, 60)
        if low > high or grid < 1:
            raise ValueError("give [from day, to day, minutes of the grid]")
        clock = datetime.datetime.fromisoformat(self.work.compiler.application.clock)
        start = clock.replace(hour=0, minute=0, second=0) + datetime.timedelta(days=low)
        slots = (high - low + 1) * 1440 // grid

        def make(row: Row, rng: random.Random) -> Scalar:
            return (start + datetime.timedelta(minutes=grid * rng.randrange(slots))).isoformat()

        return Rule(make)

    # --- people and places -------------------------------------------------------------------

    def make_person(self, argument: Any) -> Rule:
        if argument not in ("full", "first", "last"):
            raise ValueError("full, first or last")

        def make(row: Row, rng: random.Random) -> Scalar:
            first, last = full_name(_pick(origins(), row.place), rng)
            return {"full": f"{first} {last}", "first": first, "last": last}[argument]

        return Rule(make)

    def make_email(self, argument: Any) -> Rule:
        column = _text(argument)
        self._column(column)

        def make(row: Row, rng: random.Random) -> Scalar:
            local = ".".join(ascii_word(w) for w in _show(row.values[column]).split()) or "mail"
            # The row's number keeps namesakes apart without a second draw.
            return f"{local}{row.number}@{rng.choice(_MAILS)}"

        return Rule(make)

    def make_phone(self, argument: Any) -> Rule:
        text = _text(argument)
        if "#" not in text:
            raise ValueError(f"{text!r} has no #")
        return Rule(lambda row, rng: re.sub("#", lambda _: str(rng.randrange(10)), text))

    def make_address(self, argument: Any) -> Rule:
        if argument not in ("street", "city", "postcode", "country"):
            raise ValueError("street, city, postcode or country")

        def make(row: Row, rng: random.Random) -> Scalar:
            city = _pick(cities(), row.place)
            if argument == "street":
                return rng.choice(streets(city.country)).replace("#", str(rng.randint(1, 120)))
            if argument == "postcode":
                return _fill_pattern(city.postcode, rng)
            return city.name if argument == "city" else city.country

        return Rule(make)

    def make_company(self, argument: Any) -> Rule:
        if argument is not True:
            raise ValueError("write company: true")
        names = companies()
        return Rule(lambda row, rng: rng.choice(names), lambda row: names)

    # --- rows --------------------------------------------------------------------------------

    def make_parent(self, argument: Any) -> Rule:
        column = _text(argument)
        each = self.work.compiler.application.seed[self.table.name].each
        if each is None:
            raise ValueError("the table has no `each`")
        self.work.compiler.origin(f"{each}.{column}", self.path)
        return Rule(lambda row, rng: (row.parent or {}).get(column))

    def make_ref(self, argument: Any) -> Rule:
        rule = argument if isinstance(argument, dict) else {"table": argument}
        extra = set(rule) - {"table", "where", "unique"}
        if extra:
            raise ValueError(f"unknown key {min(extra)!r}; known: table, where, unique")
        target, where = _text(rule.get("table")), rule.get("where")
        self.work.compiler.origin(f"{target}.id", self.path)
        sql = f'SELECT id FROM "{target}"' + (f" WHERE {where}" if where else "") + " ORDER BY id"
        found = self.work.compiler.look(sql, Mode.READ, self.path)
        fixed = not found.parameters and target != self.table.name
        if fixed and not self._ids(sql, {}):
            seeded = target in self.work.parents
            hint = f"check {where!r}" if seeded else f"seed {target!r} before {self.table.name!r}"
            raise self.work.compiler.fail(self.path, f"no row of {target!r} to refer to", hint)
        cached = self._ids(sql, {}) if fixed else None
        taken: set[Scalar] | None = set() if rule.get("unique") else None

        def domain(row: Row) -> list[Scalar]:
            ids = (
                cached if cached is not None else self._ids(sql, self._seen(row, found.parameters))
            )
            return ids if taken is None else [value for value in ids if value not in taken]

        def make(row: Row, rng: random.Random) -> Scalar:
            ids = domain(row)
            if not ids:
                return self._nothing(target)
            value = rng.choice(ids)
            if taken is not None:
                taken.add(value)
            return value

        return Rule(make, domain)

    def make_sql(self, argument: Any) -> Rule:
        sql = _text(argument)
        found = self.work.compiler.look(sql, Mode.READ, self.path)
        if len(found.columns) != 1:
            raise ValueError("select one value")

        def make(row: Row, rng: random.Random) -> Scalar:
            rows = self.work.query(sql, self._seen(row, found.parameters), self.path)
            value: Scalar = rows[0][0] if rows else None
            return value

        return Rule(make)

    def _nothing(self, target: str) -> None:
        if self.table.columns[self.column].not_null:
            raise self.work.compiler.fail(
                self.path, f"no row of {target!r} is left to refer to", "seed more of them"
            )

    def _ids(self, sql: str, values: dict[str, Scalar]) -> list[Scalar]:
        return [value for (value,) in self.work.query(sql, values, self.path)]

    def _seen(self, row: Row, names: Sequence[str]) -> dict[str, Scalar]:
        for name in names:
            if name not in row.values:
                self._column(name)
        return {name: row.values[name] for name in names}

    def _column(self, name: str) -> None:
        """Check that `name` is an earlier column of the same row."""
        before: list[str] = []
        for column in self.work.compiler.application.seed[self.table.name].columns:
            if column == self.column:
                break
            before.append(column)
        if name not in before:
            listed = ", ".join(before) or "none"
            raise ValueError(f"{name!r} is no earlier column of the row (these are: {listed})")


# --- arguments -------------------------------------------------------------------------------


def _text(argument: Any) -> str:
    if not isinstance(argument, str) or not argument:
        raise ValueError(f"expected text, found {argument!r}")
    return argument


def _list(argument: Any) -> list[Any]:
    if not isinstance(argument, list) or not argument:
        raise ValueError(f"expected a list, found {argument!r}")
    return argument


def _numbers(argument: Any, count: int, last: int) -> tuple[int, ...]:
    items = [*argument, last] if isinstance(argument, list) and len(argument) < count else argument
    if (
        not isinstance(items, list)
        or len(items) != count
        or any(isinstance(i, bool) or not isinstance(i, int) for i in items)
    ):
        raise ValueError(f"expected {count - 1} or {count} whole numbers, found {argument!r}")
    return tuple(items)


def _range(argument: Any) -> tuple[int, int]:
    low, high = _numbers(argument, 2, 0)
    if low > high or high - low > _MAX_DOMAIN:
        raise ValueError(f"[{low}, {high}] is no range")
    return low, high


def _fill_pattern(text: str, rng: random.Random) -> str:
    out = []
    for sign in text:
        if sign == "#":
            sign = str(rng.randrange(10))
        elif sign == "?":
            sign = rng.choice(string.ascii_uppercase)
        out.append(sign)
    return "".join(out)


def _show(value: Scalar) -> str:
    return "" if value is None else str(value)


def _pick(items: Sequence[Any], share: float) -> Any:
    return items[int(share * len(items))]
