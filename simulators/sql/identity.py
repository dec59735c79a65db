"""Identifiers: the one source of them is `next_id(prefix)`, above what the seed holds."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import apsw

_PREFIX = re.compile(r"[A-Za-z][A-Za-z_-]{0,15}")
_DIGITS = 12
"""Of the number in an identifier."""

Highest = Mapping[str, tuple[int, int]]
"""For each prefix, the highest number in the seed and how many digits identifiers have."""


def highest(connection: apsw.Connection, tables: Iterable[str]) -> dict[str, tuple[int, int]]:
    """Return the highest number of each prefix; digits are counted where numbers are padded."""
    last: dict[tuple[str, int], str] = {}
    for table in tables:
        for (text,) in connection.execute(f'SELECT id FROM "{table}"'):
            prefix = text.rstrip("0123456789")
            kind = prefix, len(text) - len(prefix)
            if text > last.get(kind, ""):
                last[kind] = text
    found: dict[str, tuple[int, int]] = {}
    for (prefix, width), text in last.items():
        if 0 < width <= _DIGITS and _PREFIX.fullmatch(prefix):
            number, digits = found.get(prefix, (0, 0))
            found[prefix] = max(number, int(text[-width:])), max(digits, width)
    return found


class Counters:
    """How many identifiers were given out, by prefix."""

    __slots__ = ("highest", "used")

    def __init__(self) -> None:
        self.start({})

    def start(self, highest: Highest, used: dict[str, int] | None = None) -> None:
        """Begin above `highest`, with `used` numbers of each prefix given out already."""
        self.highest = highest
        self.used = {} if used is None else used

    def next(self, prefix: Any) -> str:
        """Give out the next identifier.

        Raises:
            ValueError: the prefix is no short word of letters.
        """
        if not isinstance(prefix, str) or not _PREFIX.fullmatch(prefix):
            raise ValueError(f"next_id needs a prefix of letters, not {prefix!r}")
        count = self.used.get(prefix, 0) + 1
        self.used[prefix] = count
        return self._text(prefix, count)

    def issued(self) -> frozenset[str]:
        """Return all identifiers given out."""
        return frozenset(
            self._text(prefix, number)
            for prefix, count in self.used.items()
            for number in range(1, count + 1)
        )

    def _text(self, prefix: str, number: int) -> str:
        start, digits = self.highest.get(prefix, (0, 0))
        return f"{prefix}{start + number:0{digits}d}"
