"""Whether a value is stated in prose: not denied, not guessed at, not asked, not one of several."""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import lru_cache

from synth.core.reading import reading
from synth.judge.values import scan

_BOUNDARY = re.compile(r"[.!?;](?=\s|$)|[。！？；]|\n+|:\s(?=[A-Z\"])|\s[-–—]\s")
_QUOTED = re.compile(r'"[^"]*"|“[^”]*”|„[^“]*“|«[^»]*»|《[^》]*》')


@lru_cache(maxsize=256)
def _boundaries(text: str) -> tuple[int, ...]:
    """Return where sentences end; a full stop inside a value (`9 a.m.`) ends none."""
    spans = [(found.start, found.end) for found in scan(text)]
    ends = [0]
    for match in _BOUNDARY.finditer(text):
        if not any(start <= match.start() < end - 1 for start, end in spans):
            ends.append(match.end())
    ends.append(len(text))
    return tuple(ends)


def segment(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the bounds of the sentence around `text[start:end]`."""
    ends = _boundaries(text)
    left = ends[max(0, bisect_right(ends, start) - 1)]
    # A full stop within the value itself ("Dr. Amelie Brandner") does not end the sentence.
    right = next((at for at in ends if at >= end), len(text))
    return left, right


def stated(text: str, start: int, end: int) -> bool:
    """Return whether the value at `text[start:end]` is affirmed where it stands.

    Args:
        text: what an agent said.
        start: where the value begins.
        end: where it ends.
    """
    left, right = segment(text, start, end)
    after = text[end:right]
    if after.rstrip().endswith(("?", "？")):
        return False
    # What stands in quotes is a name: "Never Let Me Go" denies nothing.
    before = _QUOTED.sub(lambda match: "x" * len(match[0]), text[left:start])
    *earlier, clause = _clauses(before)
    if earlier and not clause.strip():
        clause = earlier[-1]  # "not on Tuesday, 3 March"
    if reading("conditions").search(clause) or reading("guesses").search(clause):
        return False
    if reading("or_after").match(after) or reading("denied_after").match(after):
        return False
    return not _denies(clause) or bool(reading("bounds").search(clause))


def _clauses(text: str) -> list[str]:
    parts, start = [], 0
    for match in reading("clause").finditer(text):
        if not _is_name(text, match):
            parts.append(text[start : match.start()])
            start = match.end()
    return [*parts, text[start:]]


def _is_name(text: str, match: re.Match[str]) -> bool:
    """Say whether a word is one of a name's: it has a capital inside a sentence.

    "Leading Without Authority is on 3 March" states the day, "it is NOT on 3 March" denies it.
    """
    return match[0].istitle() and bool(text[: match.start()].strip())


def _denies(clause: str) -> bool:
    found = reading("denies").finditer(clause)
    return any(not _is_name(clause, match) for match in found)
