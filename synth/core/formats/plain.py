"""Plain JSON: ChatML turns, calls as `{"name": …, "arguments": {…}}`, one a line.

For models without a tool format of their own. Nothing marks a call but its shape: see `prose` for
what is one. A message whose text would be read as something else cannot be written.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from synth.core.formats import chatml
from synth.core.formats.base import Parsed, Piece, Unwritable, Wire, calls_of, said_with
from synth.core.formats.calls import Call, Reading, outcome, reads_back
from synth.core.formats.declarations import declare
from synth.core.formats.prose import read_prose

_HOW = 'To use a tool, write {"name": tool, "arguments": {…}}, one a line, and nothing after it.'


@dataclass(frozen=True)
class PlainJson:
    """See the module."""

    name: str = "json"
    stop: str = chatml.STOP

    def pieces(
        self, messages: Sequence[Wire], tools: Sequence[Wire], *, cue: bool = False
    ) -> list[Piece]:
        """Write a conversation; see `ToolFormat.pieces`."""
        declared = f"Tools:\n{declare(tools)}\n{_HOW}" if tools else ""
        return chatml.conversation(messages, declared, _assistant, cue=cue)

    def parse(self, text: str, *, first_call: int = 0) -> Parsed:
        """Read one reply; see `ToolFormat.parse`, and `calls` for what is read with a note.

        A list of calls is as good as one call a line here.
        """
        return outcome(text, first_call, _read, _reads_back)


def _read(text: str, repairs: list[str]) -> Reading:
    return read_prose(text, repairs, "arguments")


def _written(content: str, calls: Sequence[Call]) -> str:
    lines = [content] if content else []
    for call in calls:
        name = json.dumps(call.name, ensure_ascii=False)
        lines.append(f'{{"name": {name}, "arguments": {call.arguments}}}')
    return "\n".join(lines)


def _reads_back(content: str, calls: Sequence[Call]) -> bool:
    return reads_back(_written(content, calls), content, calls, _read)


def _assistant(message: Wire, index: int) -> tuple[Piece, ...]:
    calls = [Call(name, arguments) for _, name, arguments in calls_of(message, index)]
    content = said_with(message, calls, index)
    if not _reads_back(content, calls):
        raise Unwritable(f"message {index} says what would be read as a call, or as a broken one")
    text = _written(content, calls)
    return (Piece(text, index, sampled=True),) if text else ()
