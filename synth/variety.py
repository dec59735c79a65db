"""How varied the rows of a dataset are, by measures that nothing was filtered with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson

from synth.core.types import ToolSpec

GRAM = 4
"""Words in an n-gram: Distinct-n (Li et al., arXiv 1510.03055), longer than phrases of courtesy."""


def variety(rows: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Count what is different in the rows of a dataset.

    Returns:
        `sequences`: different lists of tools called, in order, within an application; `distinct`
        of `grams`: different and all runs of four words in what users say.
    """
    sequences, grams = set(), Counter[tuple[str, ...]]()
    for row in rows:
        messages = row["messages"]
        calls = (c["function"]["name"] for m in messages for c in m.get("tool_calls") or ())
        sequences.add((row["application"], *calls))
        for message in messages:
            if message["role"] == "user":
                words = message["content"].lower().split()
                grams.update(zip(*(words[n:] for n in range(GRAM)), strict=False))
    return {"sequences": len(sequences), "distinct": len(grams), "grams": grams.total()}


def licences(
    rows: Iterable[Mapping[str, Any]], tools: Mapping[str, Mapping[str, ToolSpec]]
) -> dict[str, int]:
    """Return licence -> tools under it that rows show; what declares none is `not declared`.

    Args:
        rows: of a dataset.
        tools: world -> name -> tool, as the agents of the run were shown them.
    """
    shown = {
        (row["application"], tool["function"]["name"])
        for row in rows
        for tool in orjson.loads(row["tools"])
    }
    found = Counter(
        tools[world][name].provenance.licence or "not declared" for world, name in shown
    )
    return dict(sorted(found.items()))
