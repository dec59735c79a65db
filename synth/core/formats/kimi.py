r"""Kimi K2: calls as `functions.NAME:COUNTER` inside a section of their own (K2 appendix B).

The marks are those of the released tokenizer, which differ from the ones printed in the paper. Two
faults of the published reading code are avoided: its `[\w\.]+` loses names with a hyphen or a
slash, and its split at the first dot cuts `functions.fs.read:0` down to `fs`. The counter runs
through the dialogue, as the paper says; any counter is accepted when reading.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from synth.core.formats.base import (
    Parsed,
    Piece,
    Problem,
    Unwritable,
    Wire,
    calls_of,
    said_with,
)
from synth.core.formats.calls import (
    Broken,
    Call,
    Reading,
    add_calls,
    arguments_of,
    json_at,
    outcome,
)

SECTION, SECTION_END = "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"
CALL, ARGUMENT, CALL_END = (
    "<|tool_call_begin|>",
    "<|tool_call_argument_begin|>",
    "<|tool_call_end|>",
)
_PREFIX = "functions."
_OPENING = {"user": "<|im_user|>", "assistant": "<|im_assistant|>"}


@dataclass(frozen=True)
class KimiK2:
    """See the module."""

    name: str = "kimi-k2"
    stop: str = "<|im_end|>"

    def pieces(
        self, messages: Sequence[Wire], tools: Sequence[Wire], *, cue: bool = False
    ) -> list[Piece]:
        """Write a conversation; see `ToolFormat.pieces`."""
        out: list[Piece] = []
        identifiers: dict[str, tuple[str, str]] = {}
        counter = 0
        if tools:
            listed = json.dumps(list(tools), ensure_ascii=False, separators=(",", ":"))
            out += _turn("tool_declare", "tool_declare", (Piece(listed, -1),), -1)
        for index, message in enumerate(messages):
            role = message["role"]
            if role == "assistant":
                calls = calls_of(message, index)
                for given, name, _ in calls:
                    identifiers[given] = (name, f"{_PREFIX}{name}:{counter}")
                    counter += 1
                body = _assistant(message, index, calls, counter - len(calls))
                out += _turn(role, role, body, index, sampled=True)
                continue
            content = str(message.get("content") or "")
            title = role
            if role == "tool":
                given = str(message.get("tool_call_id") or "")
                title, identifier = identifiers.get(given, ("tool", given))
                content = f"## Return of {identifier}\n{content}"
            out += _turn(role, title, (Piece(content, index),), index)
        if cue:
            out += _open("assistant", "assistant", len(messages))
        return out

    def parse(self, text: str, *, first_call: int = 0) -> Parsed:
        """Read one reply; see `ToolFormat.parse`, and `calls` for what is read with a note."""
        return outcome(text, first_call, _read, lambda content, _: SECTION not in content)


# --- writing ---------------------------------------------------------------------------------


def _open(role: str, title: str, index: int) -> tuple[Piece, ...]:
    mark = _OPENING.get(role, "<|im_system|>")
    return (
        Piece(mark, index, control=True),
        Piece(title, index),
        Piece("<|im_middle|>", index, control=True),
    )


def _turn(
    role: str, title: str, body: Sequence[Piece], index: int, *, sampled: bool = False
) -> list[Piece]:
    end = Piece("<|im_end|>", index, control=True, sampled=sampled)
    return [*_open(role, title, index), *body, end]


def _assistant(
    message: Wire, index: int, calls: Sequence[tuple[str, str, str]], counter: int
) -> tuple[Piece, ...]:
    content = said_with(message, calls, index)
    if SECTION in content:
        raise Unwritable(f"message {index} says {SECTION} without making a call")
    out: list[Piece] = [Piece(content, index, sampled=True)] if content else []
    if not calls:
        return tuple(out)

    def mark(text: str) -> Piece:
        return Piece(text, index, control=True, sampled=True)

    out.append(mark(SECTION))
    for n, (_, name, arguments) in enumerate(calls):
        if "<" in name:
            raise Unwritable(f"message {index} calls {name!r}: a name cannot hold '<'")
        out += (
            mark(CALL),
            Piece(f"{_PREFIX}{name}:{counter + n}", index, sampled=True),
            mark(ARGUMENT),
            Piece(arguments, index, sampled=True),
            mark(CALL_END),
        )
    out.append(mark(SECTION_END))
    return tuple(out)


# --- reading ---------------------------------------------------------------------------------


def _read(text: str, repairs: list[str]) -> Reading:
    said: list[str] = []
    found: list[Call] = []
    position = 0
    while (start := text.find(SECTION, position)) >= 0:
        if found:
            repairs.append("several_sections")
        said.append(text[position:start])
        calls, position = _section(text, start + len(SECTION), repairs)
        add_calls(found, calls)
    return ([*said, text[position:]], found) if found else ([text], [])


def _section(text: str, position: int, repairs: list[str]) -> tuple[list[Call], int]:
    """Read a section whose opening mark ends at `position`; return where it ends too."""
    calls: list[Call] = []
    while True:
        position = _skip_space(text, position)
        if text.startswith(SECTION_END, position):
            position += len(SECTION_END)
            break
        if position >= len(text) and calls:
            repairs.append("missing_close")
            break
        call, position = _call(text, position, repairs)
        add_calls(calls, [call])
    if not calls:
        raise Broken(Problem.NOT_A_CALL, "a section without a call")
    return calls, position


def _skip_space(text: str, position: int) -> int:
    while position < len(text) and text[position].isspace():
        position += 1
    return position


def _call(text: str, position: int, repairs: list[str]) -> tuple[Call, int]:
    """Read one call at `position`; return where it ends too."""
    if not text.startswith(CALL, position):
        found = text[position : position + 40]
        raise Broken(Problem.UNCLOSED, f"a call is wanted, found {found!r}")
    position += len(CALL)
    middle = text.find(ARGUMENT, position)
    if middle < 0:
        raise Broken(Problem.UNCLOSED, "a call without arguments")
    path, colon, counter = text[position:middle].strip().rpartition(":")
    name = path.removeprefix(_PREFIX)
    if not (colon and counter.isascii() and counter.isdecimal()) or not name.strip() or "<" in name:
        found = text[position : min(middle, position + 80)]
        raise Broken(Problem.BAD_NAME, f"the identifier is {found!r}")
    if name == path:
        repairs.append("no_prefix")
    arguments, end = _arguments(text, middle + len(ARGUMENT), repairs)
    end = _skip_space(text, end)
    call = Call(name, arguments, f"{path}:{counter}")
    if text.startswith(CALL_END, end):
        return call, end + len(CALL_END)
    if end >= len(text):
        repairs.append("missing_close")
        return call, end
    raise Broken(Problem.BROKEN_JSON, f"text after the arguments: {text[end : end + 40]!r}")


def _arguments(text: str, start: int, repairs: list[str]) -> tuple[str, int]:
    if text.startswith(CALL_END, _skip_space(text, start)):
        repairs.append("no_arguments")
        return "{}", start
    value = json_at(text, start, repairs, cut=text.find(CALL_END, start) < 0)
    return arguments_of(value.value, value.text, repairs), value.end
