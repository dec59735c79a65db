"""One result in which one row is meant: what tells it apart from the others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, TypeAlias

from simulators.sql.facts import Known
from simulators.sql.graph import Graph
from synth.core.types import Fact, Scalar

MOST_ADDED = 3
"""Facts added at most to tell the rows of one result apart."""

Key: TypeAlias = tuple[str, Scalar]
"""A (unified) column and a value of it."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The executed result of a look-up for one row."""

    graph: Graph
    tool: str
    out: str
    """The result column that is wanted."""
    rows: list[dict[str, Any]]
    truth: dict[str, Any]
    """The row that is meant."""

    def unique(self, columns: Iterable[str]) -> bool:
        """Return whether the values of `columns` leave one value of the wanted column."""
        columns = tuple(columns)
        wanted = self.truth[self.out]
        return all(
            row[self.out] == wanted or any(row.get(c) != self.truth.get(c) for c in columns)
            for row in self.rows
        )

    def usable(self, known: Iterable[Known]) -> dict[str, Fact]:
        """Return the result columns whose value for the meant row is among the known facts."""
        by_origin: dict[str, list[Fact]] = {}
        for item in known:
            by_origin.setdefault(item.origin, []).append(item.fact)
        found: dict[str, Fact] = {}
        for column, origin in self.graph.outputs[self.tool].items():
            facts = by_origin.get(origin or "", [])
            # Two facts of one column (two accounts of a transfer) cannot be told apart here.
            if len(facts) == 1 and self.truth.get(column) == facts[0].value:
                found[column] = facts[0]
        return found

    def smallest(self, stated: Sequence[str], usable: Mapping[str, Fact]) -> tuple[str, ...] | None:
        """Return the fewest usable columns that, with the stated ones, leave one row; or None."""
        further = [column for column in usable if column not in stated]
        for size in range(min(MOST_ADDED, len(further)) + 1):
            for added in combinations(further, size):
                if self.unique([*stated, *added]):
                    return added
        return None

    def references(self) -> list[tuple[str, Key]]:
        """Return the other result columns that hold keys, with the key in the meant row."""
        return [
            (column, (self.graph.root(origin), self.truth.get(column)))
            for column, origin in self.graph.outputs[self.tool].items()
            if origin is not None and column != self.out
        ]
