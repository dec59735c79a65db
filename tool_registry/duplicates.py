"""Tools of different servers that do nearly the same, in clusters.

Two tools are near duplicates where their words are alike (`vectors`), their names say the same kind
of action, and each is about what the other's name says: definitions of one server read all alike,
and `notes_create` is no `notes_delete`. Tools that differ in nothing but formatting are in the view
`duplicates`, which needs no packages.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import duckdb

from synth.core.store import Workspace, insert
from synth.core.types import Effect
from tool_registry.effect import VERBS
from tool_registry.search import title_of, words_of
from tool_registry.vectors import Vectors

ALIKE = 0.75
"""Cosine from which on two definitions read alike."""
UNKNOWN = -1
"""Column of a word that nobody says: it was indexed in another form."""
_READS = "read"


def refresh(workspace: Workspace) -> int:
    """Find the near duplicates of a registry anew and write them down; returns their clusters.

    Raises:
        BadInput: a package is missing, or there is no tool.
    """
    with workspace.read() as con:
        rows = clusters(con, Vectors.of(con))
    with workspace.write() as con:
        return keep(con, rows)


def keep(con: duckdb.DuckDBPyConnection, rows: Sequence[Mapping[str, Any]]) -> int:
    """Replace the near duplicates of a registry; returns how many clusters there are."""
    con.execute("DELETE FROM near_duplicates")
    insert(con, "near_duplicates", rows)
    return len({row["cluster"] for row in rows})


def clusters(con: duckdb.DuckDBPyConnection, vectors: Vectors) -> list[dict[str, Any]]:
    """Return the rows of `near_duplicates`: each tool that has some, with its cluster.

    Each cluster is a tool and those that are near duplicates of *it*, so that likeness does not
    creep from one to the next. The one seen first comes first.

    Args:
        con: a registry.
        vectors: its words.
    """
    heads: dict[str, str] = {}
    rows = []
    for one, others in _ranked(con, vectors).items():
        if one in heads:
            continue
        for other, cosine in others:
            if other not in heads:
                heads[other] = heads[one] = one
                rows.append({"tool": other, "cluster": one, "similarity": cosine})
        if heads.get(one) == one:
            rows.append({"tool": one, "cluster": one, "similarity": 1.0})
    return rows


def _ranked(con: duckdb.DuckDBPyConnection, vectors: Vectors) -> dict[str, list[tuple[str, float]]]:
    """Return for each tool its near duplicates, the tools that were seen first first.

    The registry may have changed since its words were read: tools that are gone have none.
    """
    order = "SELECT tool FROM tools WHERE listed ORDER BY first_seen, tool"
    found: dict[str, list[tuple[str, float]]] = {
        row[0]: [] for row in con.execute(order).fetchall()
    }
    for one, other, cosine in near_pairs(vectors):
        a, b = vectors.tools[one], vectors.tools[other]
        if a in found and b in found:
            found[a].append((b, cosine))
            found[b].append((a, cosine))
    return {tool: sorted(likes, key=lambda x: (-x[1], x[0])) for tool, likes in found.items()}


def near_pairs(vectors: Vectors, least: float = ALIKE) -> Iterator[tuple[int, int, float]]:
    """Yield near duplicates of different servers: numbers of two tools, and their cosine."""
    about = [_about(vectors, number) for number in range(len(vectors.tools))]
    matrix, said = vectors.matrix, {}
    for one, others, cosines in vectors.alike(least):
        for other, cosine in zip(others.tolist(), cosines.tolist(), strict=True):
            if vectors.servers[one] == vectors.servers[other] or about[one][0] != about[other][0]:
                continue
            for number in (one, other):
                if number not in said:
                    begin, end = matrix.indptr[number : number + 2]
                    said[number] = frozenset(matrix.indices[begin:end].tolist())
            if about[one][1] <= said[other] and about[other][1] <= said[one]:
                yield one, other, round(min(1.0, cosine), 4)


def _about(vectors: Vectors, number: int) -> tuple[frozenset[str], frozenset[int]]:
    """Return what a tool's name says is done, and the columns of the words that say to what."""
    words = set(words_of(vectors.names[number]))
    done = {_READS if VERBS[word] is Effect.READ else word for word in words if word in VERBS}
    things = words - VERBS.keys() - _titles(vectors.servers[number])
    return frozenset(done), frozenset(vectors.words.get(word, UNKNOWN) for word in things)


@lru_cache(maxsize=4096)
def _titles(server: str) -> frozenset[str]:
    return frozenset(words_of(title_of(server)))
