"""Where tools are, and where none are: cells of category and effect.

A cell is what a person can name and a composer can aim at ("destructive tools of the energy
field"); cells of a map would shift with every fit (`docs/decisions/0019`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import networkx as nx

_CELLS = """
SELECT category, effect, real, synthetic, real_to_synthetic, synthetic_to_real FROM coverage
ORDER BY category, effect
"""
_TREE = """
SELECT coalesce(category, '(none)'), server, application IS NOT NULL, effect, count(*)
FROM catalogue WHERE listed AND ($1 IS NULL OR category = $1) GROUP BY ALL ORDER BY ALL
"""
ROOT = "tools"


@dataclass(frozen=True, slots=True)
class Cell:
    """Tools of one category and effect."""

    category: str
    effect: str
    """read, write or destructive."""
    real: int
    """Listed by servers."""
    synthetic: int
    """Of applications."""
    real_to_synthetic: float | None = None
    """Median distance of a real tool to the nearest synthetic one; None before a map was made."""
    synthetic_to_real: float | None = None

    @property
    def held_by(self) -> str:
        """Return who has tools here: both, real, synthetic or nobody."""
        if self.real and self.synthetic:
            return "both"
        return "real" if self.real else "synthetic" if self.synthetic else "nobody"


def cells(con: duckdb.DuckDBPyConnection) -> list[Cell]:
    """Return every cell of the registry's categories, empty ones too."""
    return [Cell(*row) for row in con.execute(_CELLS).fetchall()]


def thin_cells(con: duckdb.DuckDBPyConnection, count: int) -> list[Cell]:
    """Return the thinnest cells of a registry, thinnest first."""
    return thinnest_first(cells(con))[:count]


def thinnest_first(found: Iterable[Cell]) -> list[Cell]:
    """Return cells with the fewest tools first, crawled and synthetic ones together.

    Of those with equally many, the one comes first that has fewer synthetic tools: evolution fills
    cells in this order.
    """
    return sorted(found, key=lambda c: (c.real + c.synthetic, c.synthetic, c.category, c.effect))


def entropy(counts: Sequence[int]) -> float | None:
    """Return how evenly counts are spread, in bits; None where there are none."""
    total = sum(counts)
    if not total:
        return None
    return -sum(n / total * math.log2(n / total) for n in counts if n) + 0.0


def coverage(con: duckdb.DuckDBPyConnection) -> dict[str, Any]:
    """Return the cells, how many are held by whom, and how evenly tools are spread over them.

    Returns:
        `cells`; `held_by`: who -> cells; `entropy`: of real, synthetic and all tools, in bits, and
        `most`, that of an even spread; `unplaced`: listed tools without a category or effect.
    """
    found = cells(con)
    held = dict.fromkeys(("both", "real", "synthetic", "nobody"), 0)
    for cell in found:
        held[cell.held_by] += 1
    real, synthetic = [c.real for c in found], [c.synthetic for c in found]
    both = [a + b for a, b in zip(real, synthetic, strict=True)]
    (listed,) = con.execute("SELECT count(*) FROM tools WHERE listed").fetchall()[0]
    return {
        "cells": found,
        "held_by": held,
        "entropy": {
            "real": entropy(real),
            "synthetic": entropy(synthetic),
            "all": entropy(both),
            "most": math.log2(len(found)) if found else None,
        },
        "unplaced": listed - sum(both),
    }


def tree(con: duckdb.DuckDBPyConnection, category: str | None = None) -> nx.DiGraph:
    """Return category > server or application > effect as a tree with counts of tools.

    Nodes are tuples from the root down; each has `tools`, `real`, `synthetic` and `effects`.

    Args:
        con: a registry.
        category: only this one.
    """
    graph = nx.DiGraph()
    for name, server, synthetic, effect, count in con.execute(_TREE, [category]).fetchall():
        path = ((ROOT,), (ROOT, name), (ROOT, name, server))
        nx.add_path(graph, path)
        for node in path:
            facts = graph.nodes[node]
            facts["tools"] = facts.get("tools", 0) + count
            kind = "synthetic" if synthetic else "real"
            facts[kind] = facts.get(kind, 0) + count
            effects = facts.setdefault("effects", {})
            effects[effect] = effects.get(effect, 0) + count
    return graph
