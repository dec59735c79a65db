"""Answers from a dataset: a request that is the beginning of a row gets the row's next message.

So a run whose agents ask this endpoint repeats the accepted trajectories of a scripted run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson

from synth.core.errors import BadRow
from synth.core.jsonl import read
from synth.core.llm.mock.said import Said

_START = b"toolloom"


class Script:
    """The rows of one dataset, by their beginnings. Where two rows begin alike, the first counts.

    Args:
        path: JSON Lines whose rows hold `messages` in the OpenAI shape.

    Raises:
        BadRow: no such file, a line that is no row, or no row at all; names file and line.
    """

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise BadRow("there is no such file", where=str(path), remedy="check the path")
        self._next: dict[bytes, bytes] = {}
        self.rows = 0
        for number, row in enumerate(read(path), 1):
            messages = row.get("messages") if isinstance(row, dict) else None
            if not isinstance(messages, list):
                remedy = "write it with `toolloom export --format openai`"
                raise BadRow("not a row with messages", where=f"{path}:{number}", remedy=remedy)
            try:
                self._add(messages)
            except (AttributeError, KeyError, TypeError, ValueError) as error:
                what = f"the messages are not in the OpenAI shape: {error}"
                raise BadRow(what, where=f"{path}:{number}") from error
            self.rows += 1
        if not self.rows:
            raise BadRow("there is no row in it", where=str(path))

    def _add(self, messages: Sequence[dict[str, Any]]) -> None:
        state = _START
        for index, message in enumerate(messages):
            if message["role"] == "assistant" and index:
                self._next.setdefault(state, orjson.dumps(_said(message)))
            state = _after(state, message)

    def __len__(self) -> int:
        """Return how many beginnings have an answer."""
        return len(self._next)

    def answer(self, messages: Sequence[dict[str, Any]]) -> Said | None:
        """Return the message that follows `messages` in a row, or None."""
        state = _START
        try:
            for message in messages:
                state = _after(state, message)
        except (AttributeError, KeyError, TypeError):
            return None
        found = self._next.get(state)
        if found is None:
            return None
        content, calls = orjson.loads(found)
        return Said(content, tuple((name, arguments) for name, arguments in calls))


def _after(state: bytes, message: dict[str, Any]) -> bytes:
    """Return the hash of a conversation that goes on with `message`."""
    role = message["role"]
    words = [
        "system" if role == "developer" else role,
        _text(message.get("content")) or "",
        [[name, _plain(arguments)] for name, arguments in _calls(message)],
    ]
    text = orjson.dumps(words, option=orjson.OPT_SORT_KEYS)
    return hashlib.blake2b(state + text, digest_size=16).digest()


def _said(message: dict[str, Any]) -> tuple[str | None, list[tuple[str, str]]]:
    return _text(message.get("content")) or None, _calls(message)


def _calls(message: dict[str, Any]) -> list[tuple[str, str]]:
    functions = [call["function"] for call in message.get("tool_calls") or ()]
    found = [(function["name"], function["arguments"]) for function in functions]
    if not all(isinstance(part, str) for call in found for part in call):
        raise TypeError("name and arguments of a call are texts")
    return found


def _text(content: Any) -> str | None:
    if isinstance(content, list):  # parts, as the API allows
        return "".join(part["text"] for part in content)
    return content if content is None else str(content)


def _plain(arguments: Any) -> Any:
    """Return arguments as a value, so that spaces and the order of keys do not count."""
    try:
        return orjson.loads(arguments)
    except orjson.JSONDecodeError:
        return arguments
