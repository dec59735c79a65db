"""Whether a value is stated in prose: not denied, not guessed at, not asked, not one of several."""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import lru_cache

from synth.judge.values import scan

_BOUNDARY = re.compile(r"[.!?;](?=\s|$)|\n+|:\s(?=[A-Z\"])|\s[-–—]\s")
_CLAUSE = re.compile(
    r"[,;:(]|\b(?:but|yet|because|since|so|while|whereas)\b|"
    r"\b(?:aber|doch|weil|denn|während|pero|porque|pues|aunque)\b|"
    r"\band (?:it|you|your|they|the|this|that|is|are|was|has|will)\b",
    re.I,
)
_NOT = re.compile(
    r"\b(?:not|never|no|neither|nor|cannot|without|except|unlike|other than|instead of|"
    r"rather than|nicht|nie|niemals|kein\w*|weder|ohne|außer|anstatt|statt|"
    r"nunca|jamás|sin|ni|tampoco)\b|n['’]t\b",
    re.I,
)
_BOUND = re.compile(
    r"\b(?:more than|less than|exceed|beyond|over|later than|earlier than|until|before|after|only|"
    r"just|longer than|más de|menos de|hasta|antes de|después de|solo|sólo|"
    r"mehr als|weniger als|über|später als|früher als|bis|vor|nach|nur|erst)"
    r"(?: the| a| on)?\s*\W*$",
    re.I,
)
"""`not before 3 March` and `no more than 5` state the value all the same."""
_GUESS = re.compile(
    r"\b(?:or|either|maybe|perhaps|possibly|probably|roughly|approximately|about|around|almost|"
    r"nearly|between|something like|guess|might be|could be|may be|oder|entweder|vielleicht|"
    r"eventuell|womöglich|vermutlich|wahrscheinlich|ungefähr|circa|ca\.|etwa|rund|fast|zwischen|"
    r"könnte(?: es)?|quizás?|tal vez|aproximadamente|unos|unas|alrededor de|cerca de|entre|o)\s+"
    r"(?:the |on |at |a |der |die |das |am |um |el |la |los |las )?\W*$",
    re.I,
)
_IF = re.compile(r"\b(?:if|whether|unless|in case|suppose|assuming|wenn|falls|ob|si)\b", re.I)
_DENIED_AFTER = re.compile(
    r"\W*(?:is|was|are|were|would be)(?: \w+)? ?(?:not|never|wrong|incorrect|false)\b|"
    r"\W*(?:isn|wasn|aren)['’]t\b|\W*(?:ist|sind|war|wäre|stimmt)(?: \w+)? ?(?:nicht|falsch)\b",
    re.I,
)
_OR_AFTER = re.compile(
    r"(?:\s*,\s*[\w .'-]{1,40}){0,6}(?:\s*,)?(?:\s*\b(?:or|oder|o)\b\s*|\s+/\s+)"
    r"(?!let|you|i\b|we\b|if\b|would|just|please|call|contact|tell|ask|by\b|so\b|later|more|"
    r"earlier|less|visit|reply|sagen|nennen|melden|rufen|schreiben|soll|dígame|prefiere)[\w\"'€$£]",
    re.I,
)


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
    if text[end:right].rstrip().endswith("?"):
        return False
    *earlier, clause = _CLAUSE.split(text[left:start])
    if earlier and not clause.strip():
        clause = earlier[-1]  # "not on Tuesday, 3 March"
    if _IF.search(clause) or _GUESS.search(clause):
        return False
    after = text[end:right]
    if _OR_AFTER.match(after) or _DENIED_AFTER.match(after):
        return False
    return not _NOT.search(clause) or bool(_BOUND.search(clause))
