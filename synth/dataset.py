"""From accepted episodes to dataset rows, and the export of a run.

A row is one conversation in the OpenAI shape plus where it came from. Everything whose shape
differs from row to row (tool schemas, players, verdict) is JSON *text*: column stores pad nested
objects with nulls, and padded schemas have leaked into prompts of models trained on them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Protocol

import orjson

from synth.core.canonical import canonical
from synth.core.plugins import Plugins
from synth.core.types import Agent, Message, ToolSpec
from synth.run import Episode, Planned, agent_of, read_agents, read_episodes, read_plan

EXPORTERS = Plugins("exporter", "synth.exporters", "EXPORTER")
USUAL = ("openai", "parquet")
"""Formats of an export that names none."""

COLUMNS = {
    "id": "VARCHAR",
    "messages": (
        "STRUCT(role VARCHAR, content VARCHAR, tool_calls STRUCT(id VARCHAR, type VARCHAR, "
        '"function" STRUCT(name VARCHAR, arguments VARCHAR))[], tool_call_id VARCHAR)[]'
    ),
    "tools": "VARCHAR",
    "application": "VARCHAR",
    "kind": "VARCHAR",
    "difficulty": "INTEGER",
    "voice": "VARCHAR",
    "real": "BOOLEAN",
    "task": "VARCHAR",
    "agent": "VARCHAR",
    "players": "VARCHAR",
    "criteria": "VARCHAR",
}
"""SQL type of each column of a row, in the order written."""


class Exporter(Protocol):
    """Writes conversations to one file, and reads them back: an export is compared with its source.

    What a format has no room for is `Unwritable`, and left out of that file with the reason.
    """

    suffix: str

    def encode(self, row: dict[str, Any]) -> dict[str, Any]:
        """Return a row as the file has it.

        Raises:
            Unwritable: the format cannot say this.
        """

    def write(self, rows: Iterable[dict[str, Any]], path: Path) -> int:
        """Write encoded rows (old file or new file, nothing between); return how many."""

    def read(self, path: Path) -> Iterator[dict[str, Any]]:
        """Yield the conversation of each row: `messages` in the OpenAI shape, `tools` as text."""


def dataset_row(planned: Planned, agent: Agent, episode: Episode, tools: str) -> dict[str, Any]:
    """Return the row of one accepted episode; `tools` is the agent's tool list as JSON text."""
    trajectory = episode.trajectory
    return {
        "id": trajectory.episode,
        "messages": [openai_message(message) for message in trajectory.messages],
        "tools": tools,
        "application": trajectory.world,
        "kind": str(trajectory.kind),
        "difficulty": planned.task.difficulty,
        "voice": planned.task.persona.voice,
        "real": trajectory.real,
        "task": trajectory.task,
        "agent": agent.key,
        "players": canonical(trajectory.players),
        "criteria": canonical([r.model_dump(mode="json") for r in episode.verdict.results]),
    }


def openai_message(message: Message) -> dict[str, Any]:
    """Return a message as rows have it: in the OpenAI shape, its content never null."""
    row = message.openai()
    if row["content"] is None:
        row["content"] = ""  # several chat templates fail on a null content
    return row


def accepted(
    plan: Iterable[Planned], episodes: dict[str, Episode], limit: int | None = None
) -> Iterator[tuple[Planned, Episode]]:
    """Yield the first `limit` accepted episodes in plan order."""
    found = 0
    for planned in plan:
        if limit is not None and found >= limit:
            return
        episode = episodes.get(planned.episode)
        if episode is not None and episode.verdict.passed:
            found += 1
            yield planned, episode


def dataset_rows(
    run: Path, tools: dict[str, dict[str, ToolSpec]], limit: int | None = None
) -> Iterator[dict[str, Any]]:
    """Yield the dataset rows of a run folder, in plan order.

    Args:
        run: the run folder.
        tools: world -> name -> tool, as the agents of the run were shown them.
        limit: at most so many rows.
    """
    agents = {agent.key: agent for agent in read_agents(run)}
    episodes = {episode.trajectory.episode: episode for episode in read_episodes(run)}
    lists: dict[str, str] = {}
    for planned, episode in accepted(read_plan(run), episodes, limit):
        agent = agent_of(planned, agents, run)
        if agent.key not in lists:
            shown = [tools[agent.application][name].openai() for name in agent.tools]
            lists[agent.key] = orjson.dumps(shown).decode()
        yield dataset_row(planned, agent, episode, lists[agent.key])
