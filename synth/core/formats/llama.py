"""Llama 3: header turns, calls as `{"name": …, "parameters": {…}}`, bare or after a tag.

Llama 3.1 to 3.3 write a call of a custom tool as bare JSON, alone in its turn, or after
`<|python_tag|>`; several are parted by `; `. Both ways are read by both formats here; they differ
in what they write. What follows the tag must be a call: the family's built-in tools are Python
code, which is never read as one. The tools are declared in the system turn, so that they stay where
they are as the conversation grows; results come in the role `ipython`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from synth.core.formats.base import Parsed, Piece, Problem, Unwritable, Wire, calls_of, said_with
from synth.core.formats.calls import (
    Broken,
    Call,
    Reading,
    add_calls,
    calls_in,
    json_at,
    outcome,
    reads_back,
)
from synth.core.formats.declarations import declare
from synth.core.formats.prose import read_prose
from synth.core.formats.values import skip_space

TAG = "<|python_tag|>"
_STOPS = ("<|eom_id|>", "<|eot_id|>")
_HOW = 'To use a tool, answer with {"name": tool, "parameters": {…}} alone; part several by "; ".'
_TITLES = {"tool": "ipython"}


@dataclass(frozen=True)
class Llama3:
    """See the module."""

    tag: bool = False
    """Write the tag before calls."""
    stop: str = "<|eot_id|>"

    @property
    def name(self) -> str:
        """Return the name it is registered under."""
        return "llama3-tag" if self.tag else "llama3"

    def pieces(
        self, messages: Sequence[Wire], tools: Sequence[Wire], *, cue: bool = False
    ) -> list[Piece]:
        """Write a conversation; see `ToolFormat.pieces`."""
        out = [Piece("<|begin_of_text|>", -1, control=True)]
        first = 0
        if tools:
            first = 1 if messages and messages[0]["role"] == "system" else 0
            system = str(messages[0].get("content") or "") if first else ""
            declared = f"Tools:\n{declare(tools)}\n{_HOW}"
            declared = f"{system}\n\n{declared}" if system else declared
            out += self._turn("system", (Piece(declared, first - 1),), first - 1)
        for index, message in enumerate(messages[first:], first):
            role = message["role"]
            if role == "assistant":
                out += self._turn(role, self._assistant(message, index), index, sampled=True)
            else:
                body = (Piece(str(message.get("content") or ""), index),)
                out += self._turn(_TITLES.get(role, str(role)), body, index)
        if cue:
            out += _open("assistant", len(messages))
        return out

    def parse(self, text: str, *, first_call: int = 0) -> Parsed:
        """Read one reply; see `ToolFormat.parse`, and `calls` for what is read with a note."""
        return outcome(text, first_call, _read, self._reads_back)

    def _turn(
        self, title: str, body: Sequence[Piece], index: int, *, sampled: bool = False
    ) -> list[Piece]:
        end = Piece(self.stop, index, control=True, sampled=sampled)
        return [*_open(title, index), *body, end]

    def _assistant(self, message: Wire, index: int) -> list[Piece]:
        calls = [Call(name, arguments) for _, name, arguments in calls_of(message, index)]
        content = said_with(message, calls, index)
        if not self._reads_back(content, calls):
            raise Unwritable(f"message {index} says what would be read as a call, or as broken")
        before, tag, after = self._written(content, calls)
        parts = (
            Piece(before, index, sampled=True),
            Piece(tag, index, control=True, sampled=True),
            Piece(after, index, sampled=True),
        )
        return [part for part in parts if part.text]

    def _written(self, content: str, calls: Sequence[Call]) -> tuple[str, str, str]:
        after = "; ".join(map(_one, calls))
        if calls and self.tag:
            return content, TAG, after
        return (f"{content}\n" if content and calls else content), "", after

    def _reads_back(self, content: str, calls: Sequence[Call]) -> bool:
        return reads_back("".join(self._written(content, calls)), content, calls, _read)


def _one(call: Call) -> str:
    name = json.dumps(call.name, ensure_ascii=False)
    return f'{{"name": {name}, "parameters": {call.arguments}}}'


def _open(title: str, index: int) -> tuple[Piece, ...]:
    return (
        Piece("<|start_header_id|>", index, control=True),
        Piece(title, index),
        Piece("<|end_header_id|>", index, control=True),
        Piece("\n\n", index),
    )


def _read(text: str, repairs: list[str]) -> Reading:
    start = text.find(TAG)
    if start < 0:
        return read_prose(text, repairs, "parameters", ";")
    notes: list[str] = []
    said, calls = read_prose(text, notes, "parameters", ";") if "{" in text[:start] else ([], [])
    if calls and TAG not in said[0]:
        # The tag stands inside a bare call, or after one; it opens nothing.
        repairs += notes
        return said, calls
    return _read_tagged(text, start, repairs)


def _read_tagged(text: str, start: int, repairs: list[str]) -> Reading:
    said: list[str] = []
    found: list[Call] = []
    position = 0
    while start >= 0:
        said.append(text[position:start])
        calls, position = _tagged(text, start + len(TAG), repairs)
        add_calls(found, calls)
        start = text.find(TAG, position)
    after = text[position:]
    if after.strip() in _STOPS:
        repairs.append("stop_mark")
        after = ""
    return [*said, after], found


def _tagged(text: str, position: int, repairs: list[str]) -> tuple[list[Call], int]:
    """Read the calls after a tag; return where they end too."""
    calls: list[Call] = []
    while True:
        position = skip_space(text, position)
        if text[position : position + 1] not in ("{", "["):
            what = "nothing" if position == len(text) else f"{text[position : position + 40]!r}"
            raise Broken(Problem.NOT_A_CALL, f"a call is wanted after {TAG}, found {what}")
        value = json_at(text, position, repairs)
        add_calls(calls, calls_in(value, repairs, "parameters"))
        position = skip_space(text, value.end)
        if text.startswith(";", position):
            position += 1
        elif text[position : position + 1] != "{":
            return calls, value.end
