"""Answers of yes and no, and the answer that there is nothing."""

from __future__ import annotations

import re

from synth.core.types import OutputValue
from synth.judge.evidence import Evidence

_TOKEN = re.compile(r"[^\W_]{2,}")
_YES = re.compile(
    r"(?:^|[:,.\n]\s*|\b(?:is|and|or) |\bthat'?s )(yes|true|correct|ja|richtig|sí)\b", re.I | re.M
)
_NO = re.compile(
    r"(?:^|[:,.\n]\s*|\b(?:is|and|or) )(no|false|nein)\b(?! (problem|worries|later|more|less))",
    re.I | re.M,
)
_DENIED = re.compile(
    r"\b(?:not|never|cannot|without|off|disabled|inactive|switched off|no)\b|n['’]t\b", re.I
)
_DOUBT = re.compile(r"\b(?:if|whether|maybe|perhaps|might|may|could)\b", re.I)
_LINE = re.compile(r"[^.!?;\n]+[.!?;]?")
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
            if line.endswith("?") or _DOUBT.search(line.rpartition(":")[2]):
                continue
            if len(line.split()) >= _OWN and any(_plain(line) in text for text in asked):
                continue  # the question said back
            if _YES.search(line) or _NO.search(line):
                found.add(not _NO.search(line))
            elif about and len({w[:6] for w in about}) * 2 >= len(set(words)):
                found.add(not _DENIED.search(line))
    return found


def _statements(text: str) -> list[str]:
    """Return what a user stated: what follows "whether" is what the answer is made of."""
    return [_DOUBT.split(line, maxsplit=1)[0] for line in _LINE.findall(text)]


def _plain(text: str) -> str:
    return " ".join(_TOKEN.findall(text.casefold()))


def yes_or_no(output: OutputValue, evidence: Evidence) -> str | None:
    """Return why a boolean was not told, or None: every line about it has to agree."""
    found = _polarities(output, evidence)
    if not found:
        return "neither yes nor no was said"
    return None if found == {bool(output.value)} else "the opposite was said, or both"


_NOTHING = re.compile(
    r"\b(?:none|nothing|not set|not given|not recorded|empty|missing|n/a|unknown|no \w+|"
    r"(?:has|have|is|does)(?:n['’]t| not))\b",
    re.I,
)


def nothing(output: OutputValue, evidence: Evidence) -> str | None:
    """Return why the absence of a value was not told, or None."""
    words = set(_TOKEN.findall(output.label.casefold())) - _PLAIN
    for _, text in evidence.told:
        for match in _LINE.finditer(text):
            line = match[0].casefold()
            if words & set(_TOKEN.findall(line)) and _NOTHING.search(line):
                return None
    return "that there is none was not said"
