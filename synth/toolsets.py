"""Which tools an agent gets: walks on the dependency graph, with look-ups and distractors.

K2 report 3.1.1 equips agents with different combinations of tools; how they are combined follows
APIGen-MT 4.1.1: an edge A -> B where a result of A can feed an argument of B, and random walks on
that graph, so that tools of one set belong together. A set is never drawn uniformly: uniform sets
have no dependency edge, and then no task of several steps exists.

One toolset belongs to one world, because an episode runs in one environment.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any
from weakref import WeakKeyDictionary

import networkx as nx

from synth.core.errors import NotSuitable
from synth.core.protocols import Distracting, World
from synth.core.types import Effect, ToolSpec

_KEY = re.compile(r"(^|_|\.)ids?$")
"""Names of keys: what nobody knows by heart and only a tool can tell."""
MISSING_SHARE = 0.15
"""Share of toolsets from which the tool they were grown around is taken away again."""
OVERLAP_PAIRS = 20_000
"""Most pairs of toolsets that `toolset_stats` compares; beyond, a seeded sample is drawn."""


class ToolGraph:
    """The dependency graph of a world's tools.

    Args:
        world: its `tools()` are the nodes, its `edges()` the edges.
    """

    def __init__(self, world: World) -> None:
        self.handoff = world.handoff
        self.specs: dict[str, ToolSpec] = {spec.name: spec for spec in world.tools()}
        self.graph: nx.DiGraph[str] = nx.DiGraph()
        self.graph.add_nodes_from(self.specs)
        self._sources: dict[tuple[str, str], list[str]] = {}
        for edge in world.edges():
            if edge.source == edge.target or self.handoff in (edge.source, edge.target):
                continue
            self.graph.add_edge(edge.source, edge.target)
            if not _KEY.search(edge.parameter) and not _KEY.search(edge.column):
                continue  # a value a person can say, such as an e-mail address: no look-up needed
            parameter = edge.parameter.partition(".")[0]
            sources = self._sources.setdefault((edge.target, parameter), [])
            if edge.source not in sources:
                sources.append(edge.source)
        idle = world.distractors if isinstance(world, Distracting) else frozenset()
        self.anchors = tuple(n for n in self.specs if n != self.handoff and n not in idle)
        self.idle = tuple(sorted(idle))
        self._depth = self._depths()

    def is_read(self, name: str) -> bool:
        """Return whether a tool changes nothing."""
        return self.specs[name].effect is Effect.READ

    def needs(self, name: str) -> dict[str, list[str]]:
        """Return parameter -> tools whose results feed it, for parameters that must be given."""
        required: Sequence[str] = self.specs[name].parameters.get("required", ())
        found = {p: self._sources.get((name, p), []) for p in required}
        return {p: sources for p, sources in found.items() if sources}

    def _depths(self) -> dict[str, int]:
        """How many look-ups lie before a tool: 0 where nothing it must be given comes from a tool.

        A tool inside a cycle of look-ups has no depth; walks prefer sources that have one.
        """
        depth = {name: 0 for name in self.anchors if not self.needs(name)}
        for level in range(1, len(self.anchors) + 1):
            grown = {
                name: level
                for name in self.anchors
                if name not in depth
                and all(any(s in depth for s in sources) for sources in self.needs(name).values())
            }
            if not grown:
                break
            depth.update(grown)
        return depth

    def lookups(self, name: str, rng: random.Random) -> list[str]:
        """Return tools that together let an agent find what `name` must be given.

        Of several sources one read is drawn, shallow ones first: the fewest look-ups that suffice.
        """
        found: list[str] = []
        waiting = [name]
        while waiting:
            for sources in self.needs(waiting.pop()).values():
                if any(s in found or s == name for s in sources):
                    continue
                chosen = self._draw_source(sources, rng)
                found.append(chosen)
                waiting.append(chosen)
        return found

    def _draw_source(self, sources: list[str], rng: random.Random) -> str:
        far = len(self.anchors)
        reads = [s for s in sources if self.is_read(s)] or sources
        best = min(self._depth.get(s, far) for s in reads)
        return rng.choice([s for s in reads if self._depth.get(s, far) == best])

    def near(self, names: Iterable[str]) -> list[str]:
        """Return tools one edge away from `names` in either direction, or with a common source."""
        inside = dict.fromkeys(names)
        found: dict[str, None] = {}
        for name in inside:
            for source in self.graph.predecessors(name):
                found[source] = None
                found.update(dict.fromkeys(self.graph.successors(source)))
            found.update(dict.fromkeys(self.graph.successors(name)))
        return sorted(name for name in found if name not in inside)


_graphs: WeakKeyDictionary[Any, ToolGraph] = WeakKeyDictionary()


def tool_graph(world: World) -> ToolGraph:
    """Return the dependency graph of a world; computed once and kept while the world lives."""
    graph = _graphs.get(world)
    if graph is None:
        graph = _graphs[world] = ToolGraph(world)
    return graph


def sample_toolset(
    world: World, rng: random.Random, *, size: tuple[int, int] = (4, 9), missing: bool | None = None
) -> tuple[str, ...]:
    """Draw a toolset: an anchor, what it needs, neighbours along a random walk, distractors.

    Args:
        world: where the tools come from.
        rng: the only source of chance.
        size: fewest and most tools, the hand-off tool not counted. A set grows beyond only where
            the look-ups of its anchor demand it, and is smaller only where the world is.
        missing: take the anchor away again, so that a request for it finds look-ups but no tool
            (papers: removing such samples ruins the sense for irrelevant tools). Default: with
            probability `MISSING_SHARE`.

    Returns:
        Tool names in the order shown to the agent (shuffled). The hand-off tool is always in.

    Raises:
        NotSuitable: the world has no tool.
    """
    graph = tool_graph(world)
    if not graph.anchors:
        raise NotSuitable("no_tools")
    low, high = size
    wanted = rng.randint(low, max(low, high))
    writes = [name for name in graph.anchors if not graph.is_read(name)]
    reads = [name for name in graph.anchors if graph.is_read(name)]
    anchor = rng.choice(writes if writes and (not reads or rng.random() < 0.75) else reads)
    chosen = dict.fromkeys([anchor, *graph.lookups(anchor, rng)])
    _walk(graph, chosen, wanted, rng)
    _distract(graph, chosen, wanted, rng)
    if missing is None:
        missing = rng.random() < MISSING_SHARE
    if missing and len(chosen) > 1:
        del chosen[anchor]
    if graph.handoff is not None:
        chosen[graph.handoff] = None
    names = list(chosen)
    rng.shuffle(names)
    return tuple(names)


def _walk(graph: ToolGraph, chosen: dict[str, None], wanted: int, rng: random.Random) -> None:
    """Follow edges from tool to tool; each stop brings its look-ups if they still fit."""
    here = next(iter(chosen))
    steps = rng.randint(1, 3)
    for _ in range(steps):
        around = sorted({*graph.graph.successors(here), *graph.graph.predecessors(here)})
        if not around or len(chosen) >= wanted:
            return
        here = rng.choice(around)
        added = [name for name in (here, *graph.lookups(here, rng)) if name not in chosen]
        if len(chosen) + len(added) <= wanted:
            chosen.update(dict.fromkeys(added))


def _distract(graph: ToolGraph, chosen: dict[str, None], wanted: int, rng: random.Random) -> None:
    """Fill up with tools nobody needs: two of three from nearby, the others from anywhere."""
    near = graph.near(chosen)
    rng.shuffle(near)
    far = [n for n in (*graph.anchors, *graph.idle) if n not in chosen and n not in near]
    rng.shuffle(far)
    while len(chosen) < wanted and (near or far):
        pool = near if near and (not far or rng.random() < 2 / 3) else far
        chosen[pool.pop()] = None


@dataclass(frozen=True, slots=True)
class ToolsetStats:
    """How various a collection of toolsets is (K2 report 3.1.1: different combinations)."""

    toolsets: int
    distinct: int
    """Different sets, the order of tools left out."""
    sizes: dict[int, int]
    """Tools per set -> sets."""
    overlap: tuple[float, ...]
    """Deciles (0 %, 10 %, …, 100 %) of the Jaccard overlap of pairs of distinct sets."""
    unused: tuple[str, ...]
    """Tools of the world that no set holds; empty if no world was given."""


def toolset_stats(toolsets: Sequence[Sequence[str]], world: World | None = None) -> ToolsetStats:
    """Measure sizes and overlap of toolsets.

    Args:
        toolsets: the sets; names of different worlds should be prefixed by the caller.
        world: if given, its tools that no set holds are listed.
    """
    sets = [frozenset(names) for names in toolsets]
    distinct = sorted(set(sets), key=sorted)
    used = frozenset().union(*distinct)
    every = [spec.name for spec in world.tools()] if world is not None else []
    return ToolsetStats(
        toolsets=len(sets),
        distinct=len(distinct),
        sizes=dict(sorted(Counter(len(names) for names in toolsets).items())),
        overlap=_deciles(_overlaps(distinct)),
        unused=tuple(name for name in every if name not in used),
    )


def _overlaps(sets: Sequence[frozenset[str]]) -> list[float]:
    count = len(sets)
    if count * (count - 1) // 2 <= OVERLAP_PAIRS:
        pairs: Iterable[tuple[frozenset[str], frozenset[str]]] = combinations(sets, 2)
    else:
        rng = random.Random(count)
        pairs = (
            (sets[i], sets[j])
            for i, j in (rng.sample(range(count), 2) for _ in range(OVERLAP_PAIRS))
        )
    return sorted(len(a & b) / len(a | b) for a, b in pairs)


def _deciles(ordered: Sequence[float]) -> tuple[float, ...]:
    if not ordered:
        return ()
    last = len(ordered) - 1
    return tuple(round(ordered[round(last * step / 10)], 4) for step in range(11))
