"""Preference pairs: two continuations of one beginning, of which one passes and one does not.

The beginning is shared to the byte, and where the two part it is the agent that says something
else; so what is compared is what an agent did in one situation. Rows have the conversational form
that TRL's `DPOTrainer` reads: `prompt`, `chosen`, `rejected`, and `tools` as JSON text. Arguments
of calls are objects there: most chat templates would write text as a JSON string once more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Literal, Protocol

import orjson

from synth.core.canonical import canonical, content_key
from synth.core.errors import BadInput
from synth.core.types import Agent, Message, ToolSpec
from synth.dataset import openai_message
from synth.rowfile import RowFile
from synth.run import Episode, Planned, Written, agent_of

ORIGINS = "origins.jsonl"
"""File of a run of forks: the episodes that were forked, as they were."""
Width = Literal["whole", "step"]
"""How much of the two continuations stands in a row: all that is left of them, or the one message
in which they part. Trainers count every token after the prompt, results of calls too; a step holds
none of those."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two continuations of one beginning."""

    planned: Planned
    """Of the fork among them; of the later one, if both are."""
    chosen: Episode
    rejected: Episode
    shared: int
    """How many messages they share."""


def parting(one: Episode, other: Episode) -> int | None:
    """Return how many messages two episodes share; None where it is not the agent who parts them.

    An agent that says the same with other identifiers, or nothing at all, parts nothing.
    """
    first, second = one.trajectory.messages, other.trajectory.messages
    shared = 0
    while shared < min(len(first), len(second)) and first[shared] == second[shared]:
        shared += 1
    if shared >= min(len(first), len(second)):
        return None
    said = _said(first[shared]), _said(second[shared])
    if said[0] == said[1] or not all(said):
        return None
    return shared


def _said(message: Message) -> tuple[str | None, tuple[tuple[str, str], ...]] | None:
    """Return what a message of the agent says and does; None where it is none."""
    calls = tuple((call.name, call.arguments) for call in message.tool_calls)
    content = (message.content or "").strip()
    return (content, calls) if message.role == "assistant" and (content or calls) else None


class Finished(Protocol):
    """Episodes by identity."""

    def get(self, episode: str, /) -> Episode | None:
        """Return one, if it is there."""


def pairs(plan: Iterable[Planned], episodes: Finished, origins: Finished) -> Iterator[Pair]:
    """Yield the pairs of a run of forks, in plan order.

    Those who pass are compared with those whom the agent failed: never with what a user, a tool or
    a machine broke. The task is the same, its user included.

    Args:
        plan: of the run.
        episodes: those of the run.
        origins: those that were forked.
    """
    forks = (planned for planned in plan if planned.prefix is not None)
    for origin, rows in groupby(
        forks, key=lambda row: row.prefix.fork.episode if row.prefix else ""
    ):
        before = origins.get(origin)
        found: list[tuple[Planned | None, Episode]] = [] if before is None else [(None, before)]
        for row in rows:
            episode = episodes.get(row.episode)
            if episode is not None:
                found.append((row, episode))
        yield from _compared(found)


def _compared(found: list[tuple[Planned | None, Episode]]) -> Iterator[Pair]:
    for number, (later, second) in enumerate(found):
        for _, first in found[:number]:
            if first.trajectory.task != second.trajectory.task:
                continue
            good, bad = (first, second) if first.verdict.passed else (second, first)
            failed = bad.verdict.passed is False and bad.verdict.broken_by is None
            if good.verdict.passed is not True or not failed:
                continue
            shared = parting(good, bad)
            if shared is not None and later is not None:
                yield Pair(later, good, bad, shared)


def pair_rows(
    run: Path, tools: Mapping[str, Mapping[str, ToolSpec]], width: Width = "whole"
) -> Iterator[dict[str, Any]]:
    """Yield the rows of the pairs of a run of forks; two that say the same are one.

    Args:
        run: the run folder.
        tools: world -> name -> tool, as the agents of the run were shown them.
        width: how much of the continuations a row holds.

    Raises:
        BadInput: it is no run of forks.
        BadRow: a row is damaged; names file and line.
    """
    file = run / ORIGINS
    if not file.exists():
        what = "pairs are made of forks, and this is no run of forks"
        raise BadInput(what, where=str(run), remedy=f"toolloom fork --run {run.name} --all")
    written, seen = Written(run), set[str]()
    with _Origins(file) as origins:
        for pair in pairs(written.plan, written.episodes, origins):
            agent = agent_of(pair.planned, written.agents, run)
            row = _row(pair, agent, tools[agent.application], width)
            said = content_key([row[name] for name in ("prompt", "chosen", "rejected", "tools")])
            if said not in seen:
                seen.add(said)
                yield row


class _Origins:
    """The episodes that were forked, by identity."""

    def __init__(self, file: Path) -> None:
        self._places: dict[str, int] = {}
        self._rows = RowFile(file, Episode, seen=self._note, writable=False)

    def _note(self, episode: Episode, place: int) -> None:
        self._places[episode.trajectory.episode] = place

    def get(self, name: str) -> Episode | None:
        place = self._places.get(name)
        return None if place is None else self._rows[place]

    def __enter__(self) -> _Origins:
        return self

    def __exit__(self, *_: object) -> None:
        self._rows.close()


def _row(pair: Pair, agent: Agent, tools: Mapping[str, ToolSpec], width: Width) -> dict[str, Any]:
    chosen, rejected = pair.chosen.trajectory, pair.rejected.trajectory
    end = pair.shared + 1 if width == "step" else None
    task = pair.planned.task
    row = {
        "id": content_key([chosen.episode, rejected.episode, width], digits=16),
        "prompt": [conversational(message) for message in chosen.messages[: pair.shared]],
        "chosen": [conversational(message) for message in chosen.messages[pair.shared : end]],
        "rejected": [conversational(message) for message in rejected.messages[pair.shared : end]],
        "tools": orjson.dumps([tools[name].openai() for name in agent.tools]).decode(),
        "application": chosen.world,
        "kind": str(chosen.kind),
        "difficulty": task.difficulty,
        "voice": task.persona.voice,
        "task": chosen.task,
        "agent": agent.key,
    }
    for name, episode in (("chosen", pair.chosen), ("rejected", pair.rejected)):
        trajectory, verdict = episode.trajectory, episode.verdict
        row[f"{name}_episode"] = trajectory.episode
        row[f"{name}_players"] = canonical(trajectory.players)
        row[f"{name}_verdict"] = canonical(verdict.model_dump(mode="json", exclude={"episode"}))
    return row


def conversational(message: Message) -> dict[str, Any]:
    """Return a message with the arguments of its calls as objects; text that is none stays."""
    row = openai_message(message)
    for call, shown in zip(message.tool_calls, row.get("tool_calls", ()), strict=True):
        if call.value is not None:
            shown["function"]["arguments"] = call.value
    return row
