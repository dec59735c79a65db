"""Mistral: `[INST]` turns, calls after `[TOOL_CALLS]`, in the three ways of its tokenizers.

| version | one call | its result |
|---|---|---|
| 3 | `[TOOL_CALLS][{"name": …, "arguments": {…}, "id": …}]` | JSON with `content` and `call_id` |
| 11 | `[TOOL_CALLS]NAME[CALL_ID]ID[ARGS]{…}` | `ID[TOOL_CONTENT]…` |
| 13 | `[TOOL_CALLS]NAME[ARGS]{…}` | the content alone, in the order of the calls |

All three are read by each. Identifiers are nine letters and digits (`identifiers`). Tools are
declared before the first user message, as version 13 has it: older templates move them to the last
one, and then what a model saw when it sampled is not what it is trained on.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from synth.core.formats.base import Parsed, Piece, Problem, Unwritable, Wire, calls_of, said_with
from synth.core.formats.calls import (
    Broken,
    Call,
    Reading,
    add_calls,
    arguments_of,
    calls_in,
    json_at,
    outcome,
    reads_back,
)
from synth.core.formats.identifiers import NineCharacters, is_nine, own
from synth.core.formats.values import skip_space

CALLS, ID, ARGUMENTS = "[TOOL_CALLS]", "[CALL_ID]", "[ARGS]"
_AFTER_NAME = re.compile(r"\[CALL_ID\]|\[ARGS\]|\[TOOL_CALLS\]|\{")
_PLAIN_NAME = re.compile(r"[\w./:-]+")


@dataclass(frozen=True)
class Mistral:
    """See the module."""

    version: Literal[3, 11, 13] = 13
    stop: str = "</s>"

    @property
    def name(self) -> str:
        """Return the name it is registered under."""
        return "mistral" if self.version == 13 else f"mistral-v{self.version}"

    def pieces(
        self, messages: Sequence[Wire], tools: Sequence[Wire], *, cue: bool = False
    ) -> list[Piece]:
        """Write a conversation; see `ToolFormat.pieces`. Nothing opens an assistant's turn."""
        return _Writer(self.version, self.stop).conversation(messages, tools, cue=cue)

    def parse(self, text: str, *, first_call: int = 0) -> Parsed:
        """Read one reply; see `ToolFormat.parse`, and `calls` for what is read with a note.

        A call keeps an identifier of nine letters and digits that its text has; any other is ours.
        """
        return outcome(text, first_call, _read, lambda content, _: CALLS not in content)


# --- writing ---------------------------------------------------------------------------------


class _Writer:
    def __init__(self, version: int, stop: str) -> None:
        self._version, self._stop = version, stop
        self._identifiers = NineCharacters()
        self._calls = 0
        self._system = ""
        """Version 3 has no system turn: the text waits for the first user message."""

    def conversation(
        self, messages: Sequence[Wire], tools: Sequence[Wire], *, cue: bool
    ) -> list[Piece]:
        out = [Piece("<s>", -1, control=True)]
        declared = not tools
        for index, message in enumerate(messages):
            if not declared and message["role"] != "system":
                out += self._declared(tools, index - 1)
                declared = True
            out += self._message(message, index)
        if not declared:
            out += self._declared(tools, len(messages) - 1)
        return out + self._waiting(len(messages)) if cue else out

    def _declared(self, tools: Sequence[Wire], index: int) -> list[Piece]:
        listed = json.dumps(list(tools), ensure_ascii=False)
        return _between("[AVAILABLE_TOOLS]", [listed], "[/AVAILABLE_TOOLS]", index)

    def _message(self, message: Wire, index: int) -> list[Piece]:
        role = message["role"]
        content = str(message.get("content") or "")
        if role == "assistant":
            end = Piece(self._stop, index, control=True, sampled=True)
            return [*self._waiting(index), *self._assistant(message, index), end]
        if role == "tool":
            return self._result(message, content, index)
        if role != "system":
            if self._system:
                content, self._system = f"{self._system}\n\n{content}", ""
            return _between("[INST]", [content], "[/INST]", index)
        if self._version == 3:
            self._system = f"{self._system}\n\n{content}" if self._system else content
            return []
        return _between("[SYSTEM_PROMPT]", [content], "[/SYSTEM_PROMPT]", index)

    def _waiting(self, index: int) -> list[Piece]:
        content, self._system = self._system, ""
        return _between("[INST]", [content], "[/INST]", index - 1) if content else []

    def _result(self, message: Wire, content: str, index: int) -> list[Piece]:
        identifier = self._identifiers.short(str(message.get("tool_call_id") or ""))
        parts = [content]
        if self._version == 11:
            parts = [identifier, "[TOOL_CONTENT]", content]
        elif self._version == 3:
            parts = [json.dumps({"content": content, "call_id": identifier}, ensure_ascii=False)]
        return _between("[TOOL_RESULTS]", parts, "[/TOOL_RESULTS]", index)

    def _assistant(self, message: Wire, index: int) -> list[Piece]:
        calls = []
        for given, name, arguments in calls_of(message, index):
            short = self._identifiers.short(given or f"\0{self._calls}")
            calls.append(Call(name, arguments, short))
            self._calls += 1
        content = said_with(message, calls, index)
        parts = [content, *self._parts(calls)]
        if not reads_back("".join(parts), content, calls, _read):
            names = ", ".join(repr(call.name) for call in calls)
            what = f"calls {names} or says {CALLS}" if calls else f"says {CALLS}"
            raise Unwritable(f"message {index} {what}: it would be read as something else")
        return _marked(parts, index, sampled=True)

    def _parts(self, calls: Sequence[Call]) -> list[str]:
        if self._version == 3 and calls:
            return [CALLS, f"[{', '.join(map(_listed, calls))}]"]
        out = []
        for call in calls:
            out += [CALLS, call.name]
            out += [ID, call.given] if self._version == 11 else []
            out += [ARGUMENTS, call.arguments]
        return out


def _listed(call: Call) -> str:
    name = json.dumps(call.name, ensure_ascii=False)
    return f'{{"name": {name}, "arguments": {call.arguments}, "id": "{call.given}"}}'


_MARKS = frozenset({CALLS, ID, ARGUMENTS, "[TOOL_CONTENT]"})


def _marked(parts: Sequence[str], index: int, *, sampled: bool = False) -> list[Piece]:
    """Return pieces of `parts`: content and marks in turns, content first."""
    return [
        Piece(part, index, control=bool(n % 2) and part in _MARKS, sampled=sampled)
        for n, part in enumerate(parts)
        if part
    ]


def _between(opening: str, parts: Sequence[str], closing: str, index: int) -> list[Piece]:
    return [
        Piece(opening, index, control=True),
        *_marked(parts, index),
        Piece(closing, index, control=True),
    ]


# --- reading ---------------------------------------------------------------------------------


def _read(text: str, repairs: list[str]) -> Reading:
    said: list[str] = []
    found: list[Call] = []
    position = 0
    while (start := text.find(CALLS, position)) >= 0:
        said.append(text[position:start])
        position = skip_space(text, start + len(CALLS))
        if text.startswith(("[", "{"), position) and not text.startswith(ARGUMENTS, position):
            value = json_at(text, position, repairs)
            add_calls(found, list(map(_known, calls_in(value, repairs))))
            position = value.end
        else:
            call, position = _named(text, position, repairs)
            add_calls(found, [call])
    if not found:
        return [text], []
    return [*said, text[position:]], found


def _known(call: Call) -> Call:
    given = own(call.given) if is_nine(call.given) else ""
    return Call(call.name, call.arguments, given)


def _named(text: str, start: int, repairs: list[str]) -> tuple[Call, int]:
    """Read `NAME[CALL_ID]ID[ARGS]{…}`; the middle is optional."""
    mark = _AFTER_NAME.search(text, start)
    if not mark or mark[0] == CALLS:
        raise Broken(Problem.UNCLOSED, f"a name without arguments: {text[start : start + 40]!r}")
    name, given = text[start : mark.start()].strip(), ""
    if not name or (mark[0] == "{" and not _PLAIN_NAME.fullmatch(name)):
        raise Broken(Problem.BAD_NAME, f"the name is {name[:80]!r}")
    position = mark.start()
    if mark[0] == ID:
        end = text.find(ARGUMENTS, mark.end())
        if end < 0:
            raise Broken(Problem.UNCLOSED, f"an identifier of {name!r} without arguments")
        given, position = text[mark.end() : end].strip(), end
    if mark[0] == "{":
        repairs.append("missing_mark")
    else:
        position += len(ARGUMENTS)
    arguments, position = _arguments(text, position, repairs)
    return _known(Call(name, arguments, given)), position


def _arguments(text: str, start: int, repairs: list[str]) -> tuple[str, int]:
    if text.startswith(CALLS, skip_space(text, start)):
        repairs.append("no_arguments")
        return "{}", start
    value = json_at(text, start, repairs)
    return arguments_of(value.value, value.text, repairs), value.end
