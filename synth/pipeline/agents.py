"""How many agents a configuration has, how various they are, and which crawled tools they hold."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from typing import Any

from simulators.imagined.world import ImaginedWorld
from simulators.sql.world import SqlWorld
from simulators.twin.world import TwinWorld
from synth.agents import NEAR_DUPLICATE, agents_for, near_duplicates
from synth.core.config import Config
from synth.core.protocols import World
from synth.toolsets import toolset_stats

WAYS = ("live", "twin", "distractor", "imagined", "application")
"""How a tool takes part: it runs on a real server; in an application behind its crawled schema; it
is only shown; a model plays it; it is an application's own."""
MEASURE = f"prompts without the policy share {NEAR_DUPLICATE:.0%} of their word triples"


def survey(
    config: Config, worlds: Mapping[str, World], tell: Callable[[int, str], None]
) -> dict[str, Any]:
    """Make every agent of a configuration and describe them.

    Args:
        config: says how many a world has, and how large toolsets are.
        worlds: by name.
        tell: hears of the worlds done.
    """
    settings = config.generate
    texts: list[str] = []
    toolsets: list[tuple[str, ...]] = []
    identities = set()
    behaviours: Counter[str] = Counter()
    ways: dict[str, set[str]] = defaultdict(set)
    uses: Counter[str] = Counter()
    for number, (name, world) in enumerate(worlds.items(), 1):
        policy = world.policy().strip()
        way = {tool.name: _way(world, tool.name) for tool in world.tools()}
        for agent in agents_for(world, settings.agents, config.seed, size=settings.tools):
            texts.append(agent.system.replace(policy, " ") if policy else agent.system)
            toolsets.append(tuple(f"{name}/{tool}" for tool in agent.tools))
            identities.add((agent.system, frozenset(toolsets[-1]), agent.behaviour.name))
            behaviours[agent.behaviour.name] += 1
            for tool in agent.tools:
                ways[way[tool]].add(f"{name}/{tool}")
                uses[way[tool]] += 1
        tell(number, f"{len(texts)} agents")
    alike = near_duplicates(texts)
    stats = toolset_stats(toolsets)
    crawled = sum(len(ways[way]) for way in WAYS[:3])
    return {
        "applications": len(worlds),
        "agents": len(texts),
        "distinct": len(identities),
        "near_duplicates": alike,
        "near_duplicate_share": round(alike / max(1, len(texts)), 4),
        "near_duplicate_measure": MEASURE,
        "behaviours": dict(sorted(behaviours.items())),
        "toolsets": {
            "distinct": stats.distinct,
            "sizes": stats.sizes,
            "overlap_deciles": stats.overlap,
            "overlap_deciles_within": _within(toolsets),
        },
        "crawled_tools": crawled,
        "tools_by_way": {way: len(ways[way]) for way in WAYS},
        "places_by_way": {way: uses[way] for way in WAYS},
    }


def _within(toolsets: list[tuple[str, ...]]) -> tuple[float, ...]:
    """Return the median overlap, and the deciles around it, of sets of one application."""
    by_world: dict[str, list[tuple[str, ...]]] = defaultdict(list)
    for tools in toolsets:
        by_world[tools[0].partition("/")[0]].append(tools)
    medians = sorted(
        found.overlap[5] for found in map(toolset_stats, by_world.values()) if found.overlap
    )
    last = len(medians) - 1
    return tuple(medians[round(last * step / 10)] for step in range(11)) if medians else ()


def _way(world: World, tool: str) -> str:
    if isinstance(world, TwinWorld):
        return "distractor" if tool in world.distractors else "twin"
    if isinstance(world, ImaginedWorld):
        return "imagined"
    return "application" if isinstance(world, SqlWorld) else "live"
