"""The part of a state that a model is shown: bounded, what the call is about first."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from simulators.imagined.patch import Row, State

_TOKEN = re.compile(r"\d|[^\W\d_]{1,4}|[^\w\s]{1,2}|_")
_LEAST = 3
"""Characters of a text that rows are searched for."""
Place = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Rows by table, best first, and how many of each table are left out."""

    rows: dict[str, list[Row]]
    hidden: dict[str, int]

    @property
    def tables(self) -> list[str]:
        """Names of the tables, those with rows first."""
        return [*self.rows, *(name for name in self.hidden if name not in self.rows)]


def tokens(text: str) -> int:
    """Return about how many tokens a model makes of a text, rather too many: digits count each."""
    return len(_TOKEN.findall(text))


def excerpt(
    state: State,
    arguments: Mapping[str, Any],
    most: int,
    first: Collection[str] = (),
) -> Excerpt:
    """Choose rows: those that the arguments name, those around them, those that match, the rest.

    Args:
        state: where they are.
        arguments: of the call.
        most: tokens in all, as `tokens` counts them.
        first: tables that the tool shows or changes: of rows as near, theirs come first.
    """
    rows = {name: {str(row["id"]): row for row in state.rows(name)} for name in state.shapes}
    chosen: dict[str, list[Row]] = {}
    seen: set[Place] = set()
    for table, key in _ranked(state, rows, arguments, first):
        if (table, key) in seen:
            continue
        seen.add((table, key))
        cost = tokens(orjson.dumps(rows[table][key], default=str).decode()) + 1
        if cost > most:
            break  # what follows is less to the point: none of it is smuggled in
        most -= cost
        chosen.setdefault(table, []).append(rows[table][key])
    hidden = {name: len(found) - len(chosen.get(name, ())) for name, found in rows.items()}
    return Excerpt(chosen, {name: count for name, count in hidden.items() if count})


def _ranked(
    state: State,
    rows: Mapping[str, Mapping[str, Row]],
    arguments: Mapping[str, Any],
    first: Collection[str],
) -> Iterator[Place]:
    """Yield all rows, the nearest first; some twice."""
    said = list(leaves(arguments))

    def near(places: Iterable[Place]) -> list[Place]:
        return sorted(places, key=lambda place: place[0] not in first)

    named = [(table, str(value)) for value in said for table in rows if str(value) in rows[table]]
    yield from near(named)
    around = [*_above(state, rows, named), *_below(state, rows, named)]
    yield from near(around)
    words = [value.casefold() for value in said if isinstance(value, str) and len(value) >= _LEAST]
    matching = [
        (table, key)
        for table, found in (rows.items() if words else ())
        for key, row in found.items()
        if _matches(row, words)
    ]
    yield from near(matching)
    yield from near([*_above(state, rows, [*around, *matching]), *_below(state, rows, matching)])
    yield from near((table, key) for table, found in rows.items() for key in found)


def leaves(value: Any) -> Iterator[Any]:
    """Yield the texts and numbers in a piece of JSON."""
    if isinstance(value, Mapping):
        for item in value.values():
            yield from leaves(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from leaves(item)
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        yield value


def _matches(row: Row, words: list[str]) -> bool:
    texts = [value.casefold() for value in row.values() if isinstance(value, str)]
    return any(word in text for text in texts for word in words)


def _above(
    state: State, rows: Mapping[str, Mapping[str, Row]], places: list[Place]
) -> Iterator[Place]:
    """Yield the rows that these refer to."""
    for table, key in places:
        for column, target in state.shapes[table].references.items():
            value = rows[table][key].get(column)
            if value is not None and str(value) in rows[target]:
                yield target, str(value)


def _below(
    state: State, rows: Mapping[str, Mapping[str, Row]], places: list[Place]
) -> Iterator[Place]:
    """Yield the rows that refer to these."""
    wanted = set(places)
    for table, shape in state.shapes.items():
        for column, target in shape.references.items():
            for key, row in rows[table].items():
                if (target, str(row.get(column))) in wanted:
                    yield table, key
