"""Calls that stand in prose without any markup: found by their shape, or left alone.

Prose may hold JSON that is no call. A JSON value is taken as a whole: it is a call (or a list of
calls), or it is text, whatever is nested in it. Broken JSON is a problem only where it begins like
a call and goes on like one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from synth.core.formats.base import Problem
from synth.core.formats.calls import Broken, Call, Reading, add_calls, calls_in, is_call, json_at
from synth.core.formats.values import (
    Unreadable,
    Value,
    extent,
    foreign_end,
    is_blank,
)

_OPENING = re.compile(
    r'(?:\[\s*+)?\{\s*+"(?:name|function|type|id|index|arguments|parameters|tool_calls)"\s*+:'
)
_GOES_ON = re.compile(r'"(?:arguments|parameters|function|tool_calls)"\s*+:')
_FOREIGN = re.compile(r'\{\s*+["}]|\[\s*+[\[\]{"0-9tfnNI-]')
"""Where a JSON object or list may begin; other brackets are prose."""
_SEPARATOR = re.compile(r"\s*+[;,]?\s*+\Z")
_FENCE = re.compile(r"\s*+```")
_LONGEST_LANGUAGE = 20
_PATIENCE = 8
"""How many times over a text is read, in search of the ends of brackets, before it is given up."""
_PRICE = 100
"""What one bracket that closes nowhere costs beside, in characters read: the time of an error."""


def read_prose(text: str, repairs: list[str], key: str, separator: str = "") -> Reading:
    """Read a reply whose calls are bare JSON.

    Args:
        text: the reply.
        repairs: gets what deviates.
        key: what the family calls the arguments.
        separator: what the family writes between calls, besides white space.

    Raises:
        Broken: something meant as a call cannot be read.
    """
    search = _Search(text, repairs, key)
    search.run()
    if not search.calls:
        return [text], []
    said = _without_fences(search.said, repairs, separator)
    said[0] = said[0].removesuffix("\n")
    return said, search.calls


class _Search:
    def __init__(self, text: str, repairs: list[str], key: str) -> None:
        self._text, self._repairs, self._key = text, repairs, key
        self._effort = 0
        self.said: list[str] = []
        self.calls: list[Call] = []

    def run(self) -> None:
        done = at = 0
        opening = _OPENING.search(self._text)
        while opening:
            foreign = _FOREIGN.search(self._text, at, opening.end())
            start = foreign.start() if foreign else opening.start()
            if start < opening.start():
                at = self._past_foreign(start)
            else:
                value, at = self._value(start, opening.end())
                if value is not None:
                    self.said.append(self._text[done:start])
                    add_calls(self.calls, calls_in(value, self._repairs, self._key))
                    done = at
            if opening.start() < at:
                opening = _OPENING.search(self._text, at)
        self.said.append(self._text[done:])

    def _past_foreign(self, start: int) -> int:
        try:
            end, effort = foreign_end(self._text, start)
        except Unreadable as error:
            raise Broken(Problem.BROKEN_JSON, str(error)) from None
        if end is not None:
            return end
        self._spend(effort)
        return start + 1

    def _value(self, start: int, opened: int) -> tuple[Value | None, int]:
        """Read the value at `start`: itself if it is made of calls, and where to go on."""
        end = extent(self._text, start)
        stop = len(self._text) if end is None else end
        meant = _GOES_ON.search(self._text, start, stop)
        if end is None:
            if meant or '"name"' in self._text[start:opened]:
                raise Broken(Problem.UNCLOSED, "a bracket that is never closed")
            self._spend(stop - start)
            return None, start + 1
        if not meant:
            return None, end
        notes: list[str] = []
        value = json_at(self._text[start:end], 0, notes)
        if not _is_made_of_calls(value.value):
            return None, end
        self._repairs += notes
        return value, end

    def _spend(self, effort: int) -> None:
        self._effort += effort + _PRICE
        if self._effort > _PATIENCE * (len(self._text) + 1000):
            raise Broken(Problem.BROKEN_JSON, "too many brackets that are never closed")


def _is_made_of_calls(value: Any) -> bool:
    if isinstance(value, dict) and isinstance(value.get("tool_calls"), list):
        value = value["tool_calls"]
    if not isinstance(value, list):
        return is_call(value)
    kinds = {is_call(item) for item in value}
    if len(kinds) > 1:
        raise Broken(Problem.NOT_A_CALL, "a list of calls and other things")
    return kinds == {True}


# --- fences and separators -------------------------------------------------------------------


def _without_fences(said: list[str], repairs: list[str], separator: str) -> list[str]:
    """Take code fences around calls, and separators between them, out of the prose."""
    last = len(said) - 1
    run = 0
    while run < last:
        after = run + 1
        while after < last and _SEPARATOR.match(said[after]):
            if said[after].strip() not in ("", separator):
                repairs.append("separator")
            said[after] = ""
            after += 1
        _unfence(said, run, after, repairs)
        run = after
    return said


def _unfence(said: list[str], before: int, after: int, repairs: list[str]) -> None:
    opening = _OpeningFence.at_end_of(said[before])
    if opening is None:
        return
    closing = _FENCE.match(said[after])
    if closing:
        said[after] = said[after][closing.end() :]
    elif opening.language and after == len(said) - 1 and is_blank(said[after]):
        repairs.append("missing_close")
    else:
        return
    said[before] = said[before][: opening.start]
    repairs.append("code_fence")


@dataclass(frozen=True, slots=True)
class _OpeningFence:
    start: int
    language: str

    @classmethod
    def at_end_of(cls, prose: str) -> _OpeningFence | None:
        start = prose.rfind("```")
        if start < 0 or prose.count("```", 0, start) % 2:
            return None
        language, _, below = prose[start + 3 :].partition("\n")
        language = language.strip()
        line = prose[prose.rfind("\n", 0, start) + 1 : start]
        if line.strip() or below.strip() or len(language) > _LONGEST_LANGUAGE:
            return None
        return cls(start, language) if language.isidentifier() or not language else None
