"""Hermes: ChatML turns, calls as `<tool_call>{"name": …, "arguments": {…}}</tool_call>`.

The format of the Hermes and Qwen 2.5 families, and of small models trained here. Tools are declared
in the system turn, in one line each (`declarations="compact"`, about a third of the tokens) or as
JSON Schemas (`"json"`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from synth.core.formats import chatml
from synth.core.formats.base import (
    Parsed,
    Piece,
    Problem,
    Unwritable,
    Wire,
    calls_of,
    said_with,
)
from synth.core.formats.calls import Broken, Call, Reading, add_calls, calls_in, json_at, outcome
from synth.core.formats.declarations import declare
from synth.core.formats.values import skip_space

OPEN, CLOSE = "<tool_call>", "</tool_call>"
_FENCE = re.compile(r"\s*+```(?:json)?\s*+")
_HOW = f'To use a tool, write {OPEN}{{"name": tool, "arguments": {{…}}}}{CLOSE}'


@dataclass(frozen=True)
class Hermes:
    """See the module."""

    declarations: Literal["compact", "json"] = "compact"
    stop: str = chatml.STOP

    @property
    def name(self) -> str:
        """Return the name it is registered under."""
        return "hermes" if self.declarations == "compact" else "hermes-json"

    def pieces(
        self, messages: Sequence[Wire], tools: Sequence[Wire], *, cue: bool = False
    ) -> list[Piece]:
        """Write a conversation; see `ToolFormat.pieces`."""
        declared = self._declared(tools) if tools else ""
        return chatml.conversation(messages, declared, _assistant, cue=cue)

    def _declared(self, tools: Sequence[Wire]) -> str:
        if self.declarations == "compact":
            return f"Tools:\n{declare(tools)}\n{_HOW}"
        listed = "\n".join(json.dumps(tool, ensure_ascii=False) for tool in tools)
        return f"<tools>\n{listed}\n</tools>\n{_HOW}"

    def parse(self, text: str, *, first_call: int = 0) -> Parsed:
        """Read one reply; see `ToolFormat.parse`, and `calls` for what is read with a note."""
        return outcome(text, first_call, _read, lambda content, _: OPEN not in content)


# --- writing ---------------------------------------------------------------------------------


def _assistant(message: Wire, index: int) -> tuple[Piece, ...]:
    calls = calls_of(message, index)
    content = said_with(message, calls, index)
    if OPEN in content:
        raise Unwritable(f"message {index} says {OPEN} without making a call")
    out: list[Piece] = [Piece(content, index, sampled=True)] if content else []
    for n, (_, name, arguments) in enumerate(calls):
        if content or n:
            out.append(Piece("\n", index, sampled=True))
        body = f'{{"name": {json.dumps(name, ensure_ascii=False)}, "arguments": {arguments}}}'
        out += (
            Piece(OPEN, index, control=True, sampled=True),
            Piece(body, index, sampled=True),
            Piece(CLOSE, index, control=True, sampled=True),
        )
    return tuple(out)


# --- reading ---------------------------------------------------------------------------------


def _read(text: str, repairs: list[str]) -> Reading:
    said: list[str] = []
    found: list[Call] = []
    position = 0
    while (start := text.find(OPEN, position)) >= 0:
        said.append(text[position:start])
        calls, position = _tagged(text, start + len(OPEN), repairs)
        add_calls(found, calls)
    if not found:
        return [text], []
    said.append(text[position:])
    said[0] = said[0].removesuffix("\n")
    return said, found


def _tagged(text: str, start: int, repairs: list[str]) -> tuple[list[Call], int]:
    """Read what follows an opening tag; return its calls and where the reading stopped."""
    fence = _FENCE.match(text, start)
    if fence:
        repairs.append("code_fence")
        start = fence.end()
    calls: list[Call] = []
    while True:
        value = json_at(text, start, repairs, cut=text.find(CLOSE, start) < 0)
        if isinstance(value.value, list):
            repairs.append("list_of_calls")
        add_calls(calls, calls_in(value, repairs))
        end = skip_space(text, value.end)
        if fence and text.startswith("```", end):
            fence = None
            end = skip_space(text, end + 3)
        if text.startswith(CLOSE, end):
            return calls, end + len(CLOSE)
        if end == len(text) or text.startswith(OPEN, end):
            repairs.append("missing_close")
            return calls, end
        if text[end] not in "{[":
            raise Broken(Problem.BROKEN_JSON, f"text after the call: {text[end : end + 40]!r}")
        repairs.append("calls_in_one_tag")
        start = end
