"""Whose rows are whose: paths of references that lead to the user who speaks."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

from simulators.sql.facts import Scene
from simulators.sql.graph import Graph, Leaf
from synth.core.types import Scalar


def owned(scene: Scene, table: str, user: Scalar) -> list[dict[str, Scalar]]:
    """Return the rows of `table` that belong to the user; all rows where nothing leads there."""
    paths = [path for path in scene.graph.owners[table] if path]
    if not paths or user is None:
        return scene.select(f'SELECT * FROM "{table}" ORDER BY id', {})
    found = [row for path in paths for row in scene.select(_owned_sql(path), {"user_id": user})]
    return found if len(paths) == 1 else list({str(row["id"]): row for row in found}.values())


@lru_cache(maxsize=1_000)
def _owned_sql(path: tuple[str, ...]) -> str:
    source, last = _joined(path)
    return f"SELECT t0.* {source} WHERE {last} = :user_id ORDER BY t0.id"


@lru_cache(maxsize=1_000)
def _owners_sql(path: tuple[str, ...]) -> str:
    source, last = _joined(path)
    return f"SELECT DISTINCT {last} AS owner {source} ORDER BY owner"


def _joined(path: tuple[str, ...]) -> tuple[str, str]:
    """Return the FROM clause along a path of references, and its last column."""
    table = path[0].split(".")[0]
    joins = "".join(
        f' JOIN "{after.split(".")[0]}" t{i} ON t{i}.id = t{i - 1}."{before.split(".")[1]}"'
        for i, (before, after) in enumerate(pairwise(path), start=1)
    )
    last = f't{len(path) - 1}."{path[-1].split(".")[1]}"'
    return f'FROM "{table}" t0{joins}', last


def speakers(scene: Scene, graph: Graph, wanted: Sequence[Leaf]) -> list[Scalar]:
    """Return the users who own at least one row of every table that `wanted` draws from.

    A tool on loans is of no use to a member without loans; drawing such a user wastes the attempt.
    """
    users = scene.speakers()
    for leaf in wanted:
        entity = leaf.parameter.entity
        if entity is None or not leaf.required or leaf.parameter.sample:
            continue
        paths = graph.owners[entity.split(".")[0]]
        if paths and all(paths):
            owners = {o for path in paths for o in scene.column(_owners_sql(path))}
            users = [user for user in users if user in owners]
    return users
