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
from typing import Any, Literal

from synth.core.formats.base import (
    Members,
    Parsed,
    Piece,
    Problem,
    Unwritable,
    Wire,
    calls_of,
    members_of,
    value_at,
)
from synth.core.formats.declarations import declare
from synth.core.types import ToolCall

OPEN, CLOSE = "<tool_call>", "</tool_call>"
_FENCE = re.compile(r"\s*```(?:json)?\s*\n?")
_HOW = f'To use a tool, write {OPEN}{{"name": tool, "arguments": {{…}}}}{CLOSE}'


class _Broken(Exception):
    def __init__(self, problem: Problem, detail: str) -> None:
        super().__init__(detail)
        self.problem, self.detail = problem, detail


@dataclass(frozen=True)
class Hermes:
    """See the module."""

    declarations: Literal["compact", "json"] = "compact"
    stop: str = "<|im_end|>"

    @property
    def name(self) -> str:
        """Return the name it is registered under."""
        return "hermes" if self.declarations == "compact" else "hermes-json"

    def pieces(
        self, messages: Sequence[Wire], tools: Sequence[Wire], *, cue: bool = False
    ) -> list[Piece]:
        """Write a conversation; see `ToolFormat.pieces`."""
        out: list[Piece] = []
        first = 0
        if tools:
            first = 1 if messages and messages[0]["role"] == "system" else 0
            system = str(messages[0].get("content") or "") if first else ""
            text = f"{system}\n\n{self._declared(tools)}" if system else self._declared(tools)
            out += _turn("system", (Piece(text, first - 1),), first - 1, sampled=False)
        for index, message in enumerate(messages[first:], first):
            role = message["role"]
            body = (
                _assistant(message, index)
                if role == "assistant"
                else (Piece(str(message.get("content") or ""), index),)
            )
            out += _turn(role, body, index, sampled=role == "assistant")
        if cue:
            out += _open("assistant", len(messages))
        return out

    def _declared(self, tools: Sequence[Wire]) -> str:
        if self.declarations == "compact":
            return f"Tools:\n{declare(tools)}\n{_HOW}"
        listed = "\n".join(json.dumps(tool, ensure_ascii=False) for tool in tools)
        return f"<tools>\n{listed}\n</tools>\n{_HOW}"

    def parse(self, text: str, *, first_call: int = 0) -> Parsed:
        """Read one reply; see `ToolFormat.parse`.

        Read with a note in `repairs`, because there is one meaning only: a code fence around the
        JSON, `parameters` for `arguments`, arguments written as a JSON text, no arguments, the
        OpenAI wrapper, a list of calls in one pair of tags, text after a call, and a missing last
        closing tag.
        """
        said: list[str] = []
        found: list[tuple[str, str]] = []
        repairs: list[str] = []
        position = 0
        try:
            while (start := text.find(OPEN, position)) >= 0:
                said.append(text[position:start])
                calls, position = _tagged(text, start + len(OPEN), repairs)
                found += calls
        except _Broken as broken:
            return Parsed(None, problem=broken.problem, detail=broken.detail)
        tail = text[position:]
        if not found:
            return Parsed(tail or None)
        if tail.strip():
            repairs.append("text_after_call")
        before = said[0].removesuffix("\n")
        content = "".join((before, *said[1:], tail)) if tail.strip() else before
        calls_read = tuple(
            ToolCall(id=f"call_{first_call + n}", name=name, arguments=arguments)
            for n, (name, arguments) in enumerate(found)
        )
        return Parsed(
            content if content.strip() else None,
            calls_read,
            repairs=tuple(dict.fromkeys(repairs)),
        )


# --- writing ---------------------------------------------------------------------------------


def _open(role: str, index: int) -> tuple[Piece, ...]:
    return (Piece("<|im_start|>", index, control=True), Piece(f"{role}\n", index))


def _turn(role: str, body: Sequence[Piece], index: int, *, sampled: bool) -> list[Piece]:
    end = Piece("<|im_end|>", index, control=True, sampled=sampled)
    return [*_open(role, index), *body, end, Piece("\n", index)]


def _assistant(message: Wire, index: int) -> tuple[Piece, ...]:
    content = str(message.get("content") or "")
    if OPEN in content:
        raise Unwritable(f"message {index} says {OPEN} without making a call")
    calls = calls_of(message, index)
    if calls and not content.strip():
        content = ""
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


def _tagged(text: str, start: int, repairs: list[str]) -> tuple[list[tuple[str, str]], int]:
    """Read what follows an opening tag; return its calls and where the reading stopped."""
    fence = _FENCE.match(text, start)
    if fence:
        repairs.append("code_fence")
        start = fence.end()
    try:
        value, start, end = value_at(text, start)
    except ValueError as error:
        cut = CLOSE not in text[start:]
        raise _Broken(Problem.UNCLOSED if cut else Problem.BROKEN_JSON, str(error)) from None
    calls = _several(text, start, value, repairs) if isinstance(value, list) else None
    if calls is None:
        calls = [_call(text, start, value, repairs)]
    closing = re.compile(r"\s*```\s*" if fence else r"\s*").match(text, end)
    end = closing.end() if closing else end
    if text.startswith(CLOSE, end):
        return calls, end + len(CLOSE)
    if end == len(text):
        repairs.append("missing_close")
        return calls, end
    raise _Broken(Problem.BROKEN_JSON, f"text after the call: {text[end : end + 40]!r}")


def _several(text: str, start: int, values: list[Any], repairs: list[str]) -> list[tuple[str, str]]:
    repairs.append("list_of_calls")
    calls, position = [], start + 1
    for value in values:
        _, position, end = value_at(text, position)
        calls.append(_call(text, position, value, repairs))
        position = end
        while text[position] in " \t\n\r,":
            position += 1
    if not calls:
        raise _Broken(Problem.NOT_A_CALL, "an empty list of calls")
    return calls


def _call(text: str, start: int, value: Any, repairs: list[str]) -> tuple[str, str]:
    if not isinstance(value, dict):
        raise _Broken(Problem.NOT_A_CALL, f"an object is wanted, found {type(value).__name__}")
    members = members_of(text, start)
    if isinstance(value.get("function"), dict) and "name" not in value:
        repairs.append("openai_wrapper")
        members = members_of(members.texts["function"], 0)
    name = members.values.get("name")
    if not isinstance(name, str) or not name.strip():
        raise _Broken(Problem.BAD_NAME, f"the name is {name!r}")
    return name, _arguments(members, repairs)


def _arguments(members: Members, repairs: list[str]) -> str:
    key = "arguments"
    if key not in members.values and "parameters" in members.values:
        key = "parameters"
        repairs.append("parameters_key")
    if key not in members.values:
        repairs.append("no_arguments")
        return "{}"
    value, text = members.values[key], members.texts[key]
    if isinstance(value, str):
        try:
            inner = members_of(value, 0)
        except ValueError as error:
            raise _Broken(Problem.BROKEN_JSON, f"arguments as text: {error}") from None
        if value[inner.end :].strip():
            raise _Broken(Problem.BROKEN_JSON, "arguments as text: text after the object")
        repairs.append("arguments_as_text")
        return value.strip()
    if not isinstance(value, dict):
        raise _Broken(Problem.NOT_A_CALL, f"arguments are {type(value).__name__}, not an object")
    return text
