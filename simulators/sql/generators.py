"""Generators that need no other row: each makes a value from its own random stream.

Used for the columns of a seed (`seeding`, with those of `rows` that look at other rows) and for
new values of parameters (`generate:`).
"""

from __future__ import annotations

import datetime
import random
import re
import string
from bisect import bisect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from simulators.sql.people import ascii_word, cities, companies, full_name, origins, streets
from synth.core.application import Generator
from synth.core.types import Scalar

_MAX_DOMAIN = 100_000
_MAILS = ("example.com", "example.org", "example.net")
_LETTERS = string.ascii_uppercase
_RUNS = re.compile(r"\.+|#{1,12}|\?")
"""Pieces of a pattern: text as it stands, digits that one draw gives, a letter."""


@dataclass(slots=True)
class Row:
    """The row being made. `place` in [0, 1) chooses one origin and one city for all its columns."""

    number: int
    place: float
    parent: dict[str, Scalar] | None = None
    values: dict[str, Scalar] = field(default_factory=dict)


Make = Callable[[Row], Scalar]


@dataclass(frozen=True, slots=True)
class Rule:
    """How to make a value, and (if they are few) which values there are."""

    make: Make
    domain: Callable[[Row], Sequence[Scalar]] | None = None


class Kinds:
    """One method for each kind of generator; a wrong argument is a `ValueError`.

    Args:
        clock: the application's clock.
        stream: where chance comes from.
    """

    def __init__(self, clock: str, stream: random.Random) -> None:
        self.clock = datetime.datetime.fromisoformat(clock)
        self.stream = stream

    def rule(self, generator: Generator) -> Rule:
        """Return the rule of a generator.

        Raises:
            ValueError: the argument is wrong, or the kind needs rows that are not there.
        """
        method = getattr(self, f"of_{generator.kind}", None)
        if method is None:
            raise ValueError(f"{generator.kind} needs a row of a seed")
        try:
            rule: Rule = method(generator.argument)
        except (ValueError, TypeError, OverflowError) as error:
            raise ValueError(f"{generator.kind}: {error}") from error
        return rule

    # --- plain values ------------------------------------------------------------------------

    def of_value(self, argument: Any) -> Rule:
        """A constant."""
        if isinstance(argument, (dict, list)):
            raise ValueError("one plain value")
        return Rule(lambda row: argument)

    def of_choice(self, argument: Any) -> Rule:
        """One of a list, or of the keys of `{value: weight}`."""
        chance = self.stream.random
        if not isinstance(argument, dict):
            return self._one_of(as_list(argument))
        values = list(argument)
        weights = [float(weight) for weight in argument.values()]
        if not values or min(weights) < 0 or not sum(weights) > 0:
            raise ValueError("weights are numbers, not all 0")
        bounds = list(accumulate(weights))
        top = bounds[-1]
        possible = [value for value, weight in zip(values, weights, strict=True) if weight]
        return Rule(
            lambda row: values[bisect(bounds, chance() * top, 0, len(values) - 1)],
            lambda row: possible,
        )

    def of_words(self, argument: Any) -> Rule:
        """One of some phrases."""
        return self._one_of(as_list(argument))

    def of_integer(self, argument: Any) -> Rule:
        """A whole number of [low, high] or [low, high, step]."""
        low, high, step = whole_numbers(argument, 3, 1)
        if low > high or step < 1:
            raise ValueError(f"[{low}, {high}, {step}] is no range [low, high, step]")
        return self._one_of(range(low, high + 1, step))

    def of_number(self, argument: Any) -> Rule:
        """A number of [low, high, decimals]."""
        if not isinstance(argument, list) or len(argument) not in (2, 3):
            raise ValueError("give [low, high, decimals]")
        low, high = float(argument[0]), float(argument[1])
        decimals = int(argument[2]) if len(argument) == 3 else 2
        if not low <= high:
            raise ValueError(f"[{low}, {high}] is no range")
        chance = self.stream.random
        return Rule(lambda row: round(low + (high - low) * chance(), decimals))

    def of_code(self, argument: Any) -> Rule:
        """Text in which ? becomes a capital letter and # a digit."""
        text = as_text(argument)
        if "?" not in text and "#" not in text:
            raise ValueError(f"{text!r} has neither ? nor #")
        return Rule(self._pattern(text))

    def of_phone(self, argument: Any) -> Rule:
        """Text in which # becomes a digit, or one of several: people group digits as they like."""
        texts = as_list(argument) if isinstance(argument, list) else [argument]
        for text in texts:
            if "#" not in as_text(text):
                raise ValueError(f"{text!r} has no #")
        makes = [self._pattern(text, "#") for text in texts]
        if len(makes) == 1:
            return Rule(makes[0])
        chance = self.stream.random
        return Rule(lambda row: makes[int(chance() * len(makes))](row))

    # --- time --------------------------------------------------------------------------------

    def of_date(self, argument: Any) -> Rule:
        """A date of [from, to] in days from the clock."""
        low, high = whole_numbers(argument, 2, 0)
        if low > high:
            raise ValueError(f"[{low}, {high}] is no range of days")
        start = self.clock.date().toordinal()
        days = range(start + low, start + high + 1)
        datetime.date.fromordinal(days[0]), datetime.date.fromordinal(days[-1])
        read, chance, count = datetime.date.fromordinal, self.stream.random, len(days)
        return Rule(
            lambda row: read(days[int(chance() * count)]).isoformat(),
            lambda row: [read(day).isoformat() for day in days[:_MAX_DOMAIN]],
        )

    def of_datetime(self, argument: Any) -> Rule:
        """A date-time of [from, to, minutes]: days from the clock, on a grid of minutes."""
        low, high, grid = whole_numbers(argument, 3, 60)
        if low > high or grid < 1:
            raise ValueError("give [from day, to day, minutes of the grid]")
        start = self.clock.replace(hour=0, minute=0, second=0) + datetime.timedelta(days=low)
        slots = (high - low + 1) * 1440 // grid
        if slots < 1:
            raise ValueError(f"a grid of {grid} minutes has no place in these days")
        step, chance = datetime.timedelta(minutes=grid), self.stream.random
        return Rule(lambda row: (start + step * int(chance() * slots)).isoformat())

    # --- people and places -------------------------------------------------------------------

    def of_person(self, argument: Any) -> Rule:
        """A person's name: full, first or last."""
        if argument not in ("full", "first", "last"):
            raise ValueError("full, first or last")
        return Rule(lambda row: self._name(row)[("first", "last", "full").index(argument)])

    def of_email(self, argument: Any) -> Rule:
        """An address made of the name in another column; the row's number tells namesakes apart."""
        column, chance = as_text(argument), self.stream.random

        def make(row: Row) -> Scalar:
            name = row.values[column] if column in row.values else self._name(row)[2]
            local = ".".join(filter(None, map(ascii_word, show(name).split()))) or "mail"
            return f"{local}{row.number}@{_MAILS[int(chance() * len(_MAILS))]}"

        return Rule(make)

    def of_address(self, argument: Any) -> Rule:
        """A part of an address; all parts of one row are of one city."""
        if argument not in ("street", "city", "postcode", "country"):
            raise ValueError("street, city, postcode or country")
        chance, known = self.stream.random, cities()
        postcodes = {city.name: self._pattern(city.postcode) for city in known}

        def make(row: Row) -> Scalar:
            city = known[int(row.place * len(known))]
            if argument == "street":
                names = streets(city.country)
                number = str(1 + int(chance() * 120))
                return names[int(chance() * len(names))].replace("#", number)
            if argument == "postcode":
                return postcodes[city.name](row)
            return city.name if argument == "city" else city.country

        return Rule(make)

    def of_company(self, argument: Any) -> Rule:
        """A company's name."""
        if argument is not True:
            raise ValueError("write company: true")
        return self._one_of(companies())

    # --- inside ------------------------------------------------------------------------------

    def _name(self, row: Row) -> tuple[str, str, str]:
        known = origins()
        first, last = full_name(known[int(row.place * len(known))], self.stream)
        return first, last, f"{first} {last}"

    def _one_of(self, values: Sequence[Any]) -> Rule:
        plain = isinstance(values, range)
        if not plain and any(isinstance(value, (dict, list)) for value in values[:100]):
            raise ValueError("the choices are plain values")
        chance, count = self.stream.random, len(values)
        domain = (lambda row: values) if count <= _MAX_DOMAIN else None
        return Rule(lambda row: values[int(chance() * count)], domain)

    def _pattern(self, text: str, signs: str = "#?") -> Make:
        chance = self.stream.random
        drawn = "".join("#" if s == "#" else "?" if s in signs else "." for s in text)
        pieces = [
            (text[run.start() : run.end()] if run[0][0] == "." else "", run[0].count("#"))
            for run in _RUNS.finditer(drawn)
        ]

        def make(row: Row) -> Scalar:
            out = ""
            for literal, digits in pieces:
                if digits:
                    out += f"{int(chance() * 10**digits):0{digits}d}"
                else:
                    out += literal or _LETTERS[int(chance() * 26)]
            return out

        return make


# --- arguments -------------------------------------------------------------------------------


def as_text(argument: Any) -> str:
    """Return `argument` if it is a text that is not empty."""
    if not isinstance(argument, str) or not argument:
        raise ValueError(f"expected text, found {argument!r}")
    return argument


def as_list(argument: Any) -> list[Any]:
    """Return `argument` if it is a list that is not empty."""
    if not isinstance(argument, list) or not argument:
        raise ValueError(f"expected a list, found {argument!r}")
    return argument


def whole_numbers(argument: Any, count: int, last: int) -> tuple[int, ...]:
    """Return `count` whole numbers; the last one may be left out and is then `last`."""
    items = [*argument, last] if isinstance(argument, list) and len(argument) < count else argument
    if (
        not isinstance(items, list)
        or len(items) != count
        or any(isinstance(i, bool) or not isinstance(i, int) for i in items)
    ):
        raise ValueError(f"expected {count} whole numbers, found {argument!r}")
    return tuple(items)


def show(value: Scalar) -> str:
    """Write a value into a text; nothing for None."""
    return "" if value is None else str(value)


def fields(template: str) -> list[str]:
    """Return the names of the plain `{name}` fields of a template.

    Raises:
        ValueError: a field is not plain.
    """
    names = []
    for _, name, spec, conversion in string.Formatter().parse(template):
        if name is not None:
            if spec or conversion or not re.fullmatch(r"\w+", name):
                raise ValueError(f"the field {{{name}}} is not plain")
            names.append(name)
    return names
