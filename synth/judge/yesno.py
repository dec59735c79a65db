"""Answers of yes and no, and the answer that there is nothing."""

from __future__ import annotations

import re

from synth.core.reading import reading
from synth.core.types import OutputValue
from synth.judge.evidence import Evidence

_TOKEN = re.compile(r"[\u3400-\u9fff]|[^\W_\u3400-\u9fff]{2,}")
_LINE = re.compile(r"[^.!?;。！？；\n]+[.!?;。！？；]?")
_STATED = re.compile(r".*[:：]", re.S)
_OWN = 4
"""Words of a line from which on it is no coincidence that the user said it before."""
_PLAIN = frozenset({
    "the", "a", "an", "of", "your", "my", "is", "are", "and", "or", "for", "to", "in", "on", "at",
    "with", "this", "that", "it", "whether",
})  # fmt: skip


def _polarities(output: OutputValue, evidence: Evidence) -> set[bool]:
    words = [w[:6] for w in _TOKEN.findall(output.label.casefold()) if w not in _PLAIN]
    asked = [_plain(part) for text in evidence.user for part in _statements(text)]
    found = set()
    for _, text in evidence.told:
        for match in _LINE.finditer(text):
            line = match[0].strip()
            about = [w for w in _TOKEN.findall(line.casefold()) if w[:6] in words]
            # "Whether it is paid: yes" answers; "Hello: tell me whether it is paid" does not.
            if line.endswith(("?", "？")) or reading("doubts").search(_STATED.sub("", line)):
                continue
            if len(line.split()) >= _OWN and any(_plain(line) in text for text in asked):
                continue  # the question said back
            if reading("affirms").search(line) or reading("negates").search(line):
                found.add(not reading("negates").search(line))
            elif about and len({w[:6] for w in about}) * 2 >= len(set(words)):
                found.add(not reading("switched_off").search(line))
    return found


def _statements(text: str) -> list[str]:
    """Return what a user stated: what follows "whether" is what the answer is made of."""
    return [reading("doubts").split(line, maxsplit=1)[0] for line in _LINE.findall(text)]


def _plain(text: str) -> str:
    return " ".join(_TOKEN.findall(text.casefold()))


def yes_or_no(output: OutputValue, evidence: Evidence) -> str | None:
    """Return why a boolean was not told, or None: every line about it has to agree."""
    found = _polarities(output, evidence)
    if not found:
        return "neither yes nor no was said"
    return None if found == {bool(output.value)} else "the opposite was said, or both"


def nothing(output: OutputValue, evidence: Evidence) -> str | None:
    """Return why the absence of a value was not told, or None."""
    words = set(_TOKEN.findall(output.label.casefold())) - _PLAIN
    for _, text in evidence.told:
        for match in _LINE.finditer(text):
            line = match[0].casefold()
            if words & set(_TOKEN.findall(line)) and reading("nothing").search(line):
                return None
    return "that there is none was not said"
