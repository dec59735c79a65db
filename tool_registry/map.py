"""The map of Figure 9 of the Kimi K2 report: every listed tool a point, tools that read alike near.

Fitted once on the union of real and synthetic tools, so that both lie in one space: words
(`vectors`), 50 dimensions by SVD, two by t-SNE. The same registry gives the same map. Distances
between far points of a t-SNE mean nothing; `distance` is measured before it, over words.
"""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import duckdb
import orjson

from synth.core.errors import BadInput, storage_error
from synth.core.jsonl import write_atomic
from synth.core.optional import package
from synth.core.prompts import prompts
from synth.core.store import Workspace, insert
from tool_registry.backfill import fill
from tool_registry.duplicates import clusters, keep
from tool_registry.vectors import EXTRA, Vectors

DIMENSIONS = 50
PERPLEXITY = 30.0
ROUNDS = 500
LEAST = 8
"""Tools below which there is no map."""
LABELS = 24
"""Largest categories that are named on the picture."""
Progress = Callable[[int, int, str], None]
_SHOWN = """
SELECT m.tool, m.x, m.y, c.application IS NOT NULL AS synthetic,
       coalesce(c.category, '') AS category, c.effect
FROM map_points m JOIN catalogue c USING (tool) WHERE c.listed ORDER BY m.tool
"""


@dataclass(frozen=True, slots=True)
class Mapped:
    """What became of it."""

    tools: int
    clusters: int
    """Of near duplicates."""
    png: Path
    html: Path


def make_map(
    workspace: Workspace, folder: Path, progress: Progress = lambda done, total, note: None
) -> Mapped:
    """Fit the map, write it down in one transaction, and draw it.

    Args:
        workspace: whose registry.
        folder: for `map.png` and `map.html`.
        progress: called before each step with steps done, steps in all, and what is done now.

    Raises:
        BadInput: a package is missing, there are too few tools for a map, or nothing can be
            written in `folder`.
        DiskFull: the disk is full.
    """
    package("matplotlib", EXTRA).use("agg")
    png, html = folder / "map.png", folder / "map.html"
    try:  # minutes of work are lost where this is found out at their end
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise storage_error(error, folder) from error
    progress(0, 5, "reading words")
    with workspace.read() as con:
        vectors = Vectors.of(con)
    if len(vectors.tools) < LEAST:
        what = f"{len(vectors.tools)} tools are no map"
        raise BadInput(what, where=str(workspace.database), remedy="toolloom crawl SOURCE")
    progress(1, 5, f"nearest neighbours of {len(vectors.tools)} tools")
    neighbour, distance = _neighbours(vectors)
    progress(2, 5, f"laying out {len(vectors.tools)} tools: minutes for 20,000")
    places = _layout(vectors)
    progress(3, 5, "near duplicates")
    with workspace.read() as con:
        alike = clusters(con, vectors)
    with workspace.write() as con:
        fill(con)
        found = keep(con, alike)
        con.execute("DELETE FROM map_points")
        placed = zip(vectors.tools, places, neighbour, distance, strict=True)
        rows = (
            {"tool": tool, "x": x, "y": y, "neighbour": near, "distance": far}
            for tool, (x, y), near, far in placed
        )
        insert(con, "map_points", rows)
    progress(4, 5, "drawing")
    with workspace.read() as con:
        points = _points(con)
    write_atomic(html, _page(points).encode())
    try:
        _draw(points, png)
    except OSError as error:
        raise storage_error(error, png) from error
    return Mapped(len(points), found, png, html)


def _layout(vectors: Vectors) -> list[tuple[float, float]]:
    """Return a place for each tool."""
    svd = package("sklearn.decomposition", EXTRA).TruncatedSVD
    tsne = package("sklearn.manifold", EXTRA).TSNE
    dimensions = min(DIMENSIONS, min(vectors.matrix.shape) - 1)
    reduced = svd(dimensions, random_state=0).fit_transform(vectors.matrix)
    fit = tsne(
        2,
        perplexity=min(PERPLEXITY, (len(vectors.tools) - 1) / 3),
        init="pca" if dimensions > 1 else "random",
        max_iter=ROUNDS,
        random_state=0,
        n_jobs=-1,
    )
    return [(round(float(x), 3), round(float(y), 3)) for x, y in fit.fit_transform(reduced)]


def _neighbours(vectors: Vectors) -> tuple[list[str | None], list[float | None]]:
    """Return for each tool the nearest of the other kind, and how far it is."""
    np = package("numpy", EXTRA)
    real, made = np.flatnonzero(~vectors.synthetic), np.flatnonzero(vectors.synthetic)
    near: list[str | None] = [None] * len(vectors.tools)
    far: list[float | None] = [None] * len(vectors.tools)
    if not len(real) or not len(made):
        return near, far
    for of, among in ((real, made), (made, real)):
        found, distance = vectors.nearest(of, among)
        for tool, other, gap in zip(of.tolist(), found.tolist(), distance.tolist(), strict=True):
            near[tool] = vectors.tools[other] if other >= 0 else None
            far[tool] = round(gap, 4)
    return near, far


# --- drawing ---------------------------------------------------------------------------------


def _points(con: duckdb.DuckDBPyConnection) -> list[dict[str, Any]]:
    found = con.execute(_SHOWN)
    columns = [column[0] for column in found.description or ()]
    return [dict(zip(columns, row, strict=True)) for row in found.fetchall()]


def _colours(points: list[dict[str, Any]]) -> dict[str, str]:
    """Return a colour for each category, the largest first; others are grey."""
    colors = package("matplotlib.colors", EXTRA)
    size: dict[str, int] = defaultdict(int)
    for point in points:
        if point["category"]:
            size[point["category"]] += 1
    names = sorted(size, key=lambda name: (-size[name], name))
    # Hues by the golden ratio: neighbours in the list are far apart on the wheel.
    return {
        name: colors.to_hex(colors.hsv_to_rgb(((n * 0.618034) % 1, 0.55 + 0.3 * (n % 2), 0.8)))
        for n, name in enumerate(names)
    }


def _draw(points: list[dict[str, Any]], path: Path) -> None:
    """Draw real and synthetic tools side by side over one layout."""
    pyplot = package("matplotlib.pyplot", EXTRA)
    effects = package("matplotlib.patheffects", EXTRA)
    colours = _colours(points)
    figure, axes = pyplot.subplots(1, 2, figsize=(15, 7.6), dpi=110, layout="constrained")
    halo = [effects.withStroke(linewidth=2.5, foreground="white")]
    for axis, synthetic in zip(axes, (False, True), strict=True):
        shown = [p for p in points if p["synthetic"] is synthetic]
        others = [p for p in points if p["synthetic"] is not synthetic]
        size = max(2.0, min(24.0, 30_000 / max(1, len(points))))
        axis.scatter(
            [p["x"] for p in others], [p["y"] for p in others], s=size / 2, c="#ececec", lw=0
        )
        axis.scatter(
            [p["x"] for p in shown],
            [p["y"] for p in shown],
            s=size,
            c=[colours.get(p["category"], "#b0b0b0") for p in shown],
            lw=0,
        )
        for name, (x, y) in _centres(shown).items():
            axis.text(
                x, y, name, fontsize=8, ha="center", color=colours[name], path_effects=halo,
                weight="bold",
            )  # fmt: skip
        kind = "synthetic tools, of applications" if synthetic else "real tools, of servers"
        axis.set_title(f"{len(shown):,} {kind}", fontsize=11, loc="left")
        axis.set_xticks([])
        axis.set_yticks([])
        axis.set_frame_on(False)
    figure.suptitle(
        "One t-SNE of all tools' words. Colours are categories; grey: none, or the other kind",
        fontsize=9, color="#666666", x=0.01, y=-0.01, ha="left",
    )  # fmt: skip
    temporary = path.with_name(f".{path.name}.tmp")
    figure.savefig(temporary, format="png", bbox_inches="tight", facecolor="white")
    pyplot.close(figure)
    temporary.replace(path)


def _centres(points: list[dict[str, Any]]) -> dict[str, tuple[float, float]]:
    """Return where names of the largest categories go: the middle of their points, none on another.

    The plot is about square, so a share of its width is one of its height.
    """
    by: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for point in points:
        if point["category"]:
            by[point["category"]].append(point)
    largest = sorted(by, key=lambda name: (-len(by[name]), name))[:LABELS]
    wide = max(p["x"] for p in points) - min(p["x"] for p in points) if points else 0.0
    placed: dict[str, tuple[float, float]] = {}
    for name in largest:
        x, y = median(p["x"] for p in by[name]), median(p["y"] for p in by[name])
        near = (abs(x - a) < 0.16 * wide and abs(y - b) < 0.025 * wide for a, b in placed.values())
        if not any(near):
            placed[name] = x, y
    return placed


def _page(points: list[dict[str, Any]]) -> str:
    """Return the interactive map: one file, nothing fetched."""
    categories = list(_colours(points).items())
    number = {name: n for n, (name, _) in enumerate(categories)}
    rows = [
        [
            point["tool"], round(point["x"], 2), round(point["y"], 2), int(point["synthetic"]),
            number.get(point["category"], -1), point["effect"],
        ]
        for point in points
    ]  # fmt: skip
    data = orjson.dumps({"points": rows, "categories": categories}).decode()
    # Within a script only these end it or begin a comment: names are strangers' words.
    safe = data.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    return prompts("tool_registry.templates").render("map", data=safe, count=len(points))
