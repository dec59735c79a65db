"""`toolloom registry tree`, `coverage`, `duplicates` and `map`."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any

from synth.app._show import bar, line
from synth.core.errors import UnknownName
from synth.core.store import Workspace

WIDTH = 30
"""Columns of the longest bar."""


def tree(workspace: Workspace, arguments: argparse.Namespace) -> dict[str, Any]:
    """Return categories with their servers and applications, and the tools of each.

    Raises:
        UnknownName: no tool is of that category.
    """
    from tool_registry import coverage

    with workspace.read() as con:
        graph = coverage.tree(con, arguments.text)
        known = graph or coverage.tree(con)
    root = (coverage.ROOT,)
    if arguments.text and not graph:
        names = [node[1] for node in known if len(node) == 2]
        raise UnknownName("category", arguments.text, names)
    below = {
        node: sorted(
            graph.successors(node), key=lambda child: (-graph.nodes[child]["tools"], child)
        )
        for node in graph
    }
    return {
        "tools": graph.nodes[root]["tools"] if graph else 0,
        "categories": [
            {
                "category": node[1],
                **graph.nodes[node],
                "servers": [{"server": leaf[2], **graph.nodes[leaf]} for leaf in below[node]],
            }
            for node in (below[root] if graph else ())
        ],
    }


def tree_page(result: dict[str, Any]) -> str:
    """Return the tree for people: of many categories, the largest servers only."""
    most = 3 if len(result["categories"]) > 1 else 50
    out = []
    for category in result["categories"]:
        out.append(line(f"{category['category']}  {_counts(category)}"))
        servers = category["servers"]
        out += [line(f"    {one['server']}  {_counts(one)}") for one in servers[:most]]
        if len(servers) > most:
            out.append(f"    and {len(servers) - most} more")
    return "\n".join(out) or "no tools"


def _counts(facts: dict[str, Any]) -> str:
    kinds = [f"{facts[kind]} {kind}" for kind in ("real", "synthetic") if kind in facts]
    effects = ", ".join(f"{count} {effect}" for effect, count in sorted(facts["effects"].items()))
    return f"{' + '.join(kinds)} ({effects})"


def coverage(workspace: Workspace, arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the cells of category and effect, who has tools there, and how even it is."""
    from tool_registry import coverage as cells

    with workspace.read() as con:
        found = cells.coverage(con)
        thin = cells.thin_cells(con, arguments.limit)
    return {
        **found,
        "cells": [asdict(cell) | {"held_by": cell.held_by} for cell in found["cells"]],
        "thin": [f"{cell.category}, {cell.effect}" for cell in thin],
    }


def coverage_page(result: dict[str, Any]) -> str:
    """Return the coverage for people: bars of real and synthetic tools for each category."""
    total: dict[str, list[int]] = {}
    for cell in result["cells"]:
        counts = total.setdefault(cell["category"], [0, 0])
        counts[0] += cell["real"]
        counts[1] += cell["synthetic"]
    most = max((sum(counts) for counts in total.values()), default=0) or 1
    wide = max(map(len, total), default=0)
    out = []
    for name, (real, synthetic) in sorted(total.items(), key=lambda item: (-sum(item[1]), item[0])):
        drawn = "█" * round(WIDTH * real / most) + "░" * round(WIDTH * synthetic / most)
        out.append(line(f"{name:{wide}}  {real:6} real {synthetic:6} synthetic  {drawn}"))
    held = ", ".join(f"{count} {who}" for who, count in result["held_by"].items())
    entropy = result["entropy"]
    told = ", ".join(f"{who} {_bits(entropy[who])}" for who in ("real", "synthetic", "all"))
    out += [
        "",
        f"cells (category x effect) with tools of: {held}",
        f"entropy over cells, in bits: {told}; an even spread has {_bits(entropy['most'])}",
        f"without a category or effect: {result['unplaced']} tools",
        "thinnest: " + "; ".join(result["thin"]),
    ]
    return "\n".join(out)


def _bits(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


_CLUSTERS = """
SELECT cluster, tool, similarity FROM near_duplicates JOIN tools USING (tool) WHERE listed
ORDER BY count(*) OVER (PARTITION BY cluster) DESC, cluster, similarity DESC, tool LIMIT $1
"""


def duplicates(workspace: Workspace, arguments: argparse.Namespace) -> dict[str, Any]:
    """Find the near duplicates anew; return those of the largest clusters."""
    from tool_registry.duplicates import refresh

    with bar("near duplicates"):
        count = refresh(workspace)
    with workspace.read() as con:
        found = con.execute(_CLUSTERS, [arguments.limit + 1]).fetchall()
    rows = [list(row) for row in found]
    return {
        "clusters": count,
        "columns": ["cluster", "tool", "similarity"],
        "rows": rows[: arguments.limit],
        "truncated": len(rows) > arguments.limit,
    }


def draw(workspace: Workspace, arguments: argparse.Namespace) -> dict[str, Any]:
    """Fit and draw the map; return where it is."""
    from tool_registry.map import make_map

    with bar("map") as shown:
        made = make_map(
            workspace,
            arguments.out or workspace.path / "map",
            lambda done, total, note: shown.update(done, total, note),
        )
    return {name: str(v) if name in ("png", "html") else v for name, v in asdict(made).items()}


def map_page(result: dict[str, Any]) -> str:
    """Return what was drawn."""
    return (
        f"{result['tools']} tools, {result['clusters']} clusters of near duplicates\n"
        f"{line(result['html'])}  (open it in a browser)\n{line(result['png'])}"
    )
