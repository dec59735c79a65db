"""Count the agents of a configuration: how various they are, and whose tools they hold.

toolloom agents
toolloom agents --set 'generate.applications=["evolved:*", "twin:*"]' --set generate.agents=4

Nothing is played. An agent is a system prompt, a toolset and a way to behave; how alike prompts
are, how large toolsets are and how much they overlap is measured over all of them.
"""

from __future__ import annotations

import argparse
import asyncio
from typing import Any

from synth.app._options import add_config, read_config
from synth.app._show import bar, show
from synth.pipeline.agents import survey
from synth.pipeline.worlds import open_worlds


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_config(parser)


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Make the agents, and return what they are like."""
    config = read_config(arguments)
    with bar("agents") as shown:
        worlds = open_worlds(config, arguments.workspace)

        def tell(done: int, note: str) -> None:
            shown.update(done, len(worlds), note)

        report = survey(config, worlds, tell)
    asyncio.run(_close(worlds))
    if not arguments.json:
        show("\n".join(_lines(report)))
    return report


async def _close(worlds: dict[str, Any]) -> None:
    for world in worlds.values():
        await world.close()


def _lines(report: dict[str, Any]) -> list[str]:
    def named(counts: dict[Any, Any]) -> str:
        return ", ".join(f"{name} {count}" for name, count in counts.items())

    sets = report["toolsets"]
    return [
        f"{report['distinct']} distinct agents of {report['agents']} over "
        f"{report['applications']} applications",
        f"nearly the same as an earlier one: {report['near_duplicates']} "
        f"({report['near_duplicate_share']:.2%}; {report['near_duplicate_measure']})",
        f"behaviours: {named(report['behaviours'])}",
        f"toolsets: {sets['distinct']} distinct; by size: {named(sets['sizes'])}",
        "overlap of two toolsets of one application, its median, by decile of applications: "
        + ", ".join(f"{share:.2f}" for share in sets["overlap_deciles_within"]),
        f"crawled tools in toolsets: {report['crawled_tools']}; distinct tools by way: "
        + named(report["tools_by_way"]),
        f"places in toolsets by way: {named(report['places_by_way'])}",
    ]
