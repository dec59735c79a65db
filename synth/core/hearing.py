"""What words mean to a listener: an agent's sentences to a user, a user's to the judge.

The patterns of a language are data, `voices/LANGUAGE/heard.yaml`, as its phrases are. They come
with the package and are trusted; what they are run on is not.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import yaml

from synth.core.errors import BadInput, UnknownName
from synth.core.speech import speech

_FOLDER = Path(__file__).parent / "voices"
_TITLES = ("Dr.", "Mr.", "Mrs.", "Ms.", "St.", "Prof.", "Fr.", "Hr.", "Sra.", "Mme.")
"""Their full stops end no sentence."""
_SENTENCE = re.compile(
    "".join(rf"(?<!\b{re.escape(title)})" for title in _TITLES) + r"(?<=[.!?])\s+|(?<=[。！？])|\n+"
)
_ASKS = re.compile(r"[?？]")
_QUOTED = re.compile(r'"[^"]*"|“[^”]*”|„[^“]*“|«[^»]*»')
_HIDDEN = str.maketrans(".?!。？！", "\ue000\ue001\ue002\ue003\ue004\ue005")
_SHOWN = str.maketrans("\ue000\ue001\ue002\ue003\ue004\ue005", ".?!。？！")
_WORD = re.compile(r"[\u3400-\u9fff]|[^\W_\u3400-\u9fff]+(?:-mail)?")
"""Chinese does not part its words; its characters serve as well."""
_BLANK = re.compile(r"[\W_]+")

PATTERNS = frozenset({
    "request", "consent", "courtesy", "condition", "invitation", "welcome", "wanted", "wish",
    "wait", "refusal", "identity", "farewell", "thanks", "declines", "leak", "agent_like",
    "question_clause", "asks_to_know",
})  # fmt: skip
"""Kinds of sentence that every language tells apart."""
WORDS = frozenset({
    "empty", "same", "address", "of", "owner", "copula", "money", "dates", "times",
    "before_day",
    "no_months", "no_units", "relative",
})  # fmt: skip
"""Words that every language has; see `en/heard.yaml` for each."""


class Hearing:
    """How one language is understood.

    Args:
        language: its name.
        data: the parsed `heard.yaml`.

    Raises:
        BadInput: a kind of sentence is missing.
    """

    def __init__(self, language: str, data: Mapping[str, Any]) -> None:
        if missing := (PATTERNS | WORDS) - set(data):
            raise BadInput(
                f"kinds of sentence or word are missing: {', '.join(sorted(missing))}",
                where=f"{language}/heard.yaml",
            )
        self.language = language
        self._patterns = {
            kind: re.compile("|".join(f"(?:{text})" for text in data[kind]), re.I)
            for kind in PATTERNS
        }
        self._empty = frozenset(data["empty"])
        self._same: dict[str, str] = data["same"]
        self.of: tuple[str, ...] = tuple(data["of"])
        """What joins a column to its row, the longest first."""
        self.copula: tuple[str, ...] = tuple(data["copula"])
        """What stands between a label and its value."""
        self.months = tuple(month.casefold() for month in speech(language).months)
        self.money: dict[str, str] = data["money"]
        """Words for currencies and their codes; empty for a part of one."""
        self.dates: tuple[str, ...] = tuple(data["dates"])
        """Patterns of dates without the name of a month: groups `month`, `day`, perhaps `year`."""
        self.times: tuple[str, ...] = tuple(data["times"])
        """Patterns of times of day: groups `hour`, perhaps `minute` and `late` (after noon)."""
        self.before_day = frozenset(data["before_day"])
        """Words before a day in figures that has no year: `am 4.5.`"""
        self.no_months = frozenset(data["no_months"])
        """Beginnings of months that are words of another meaning: `you may`."""
        self.no_units = frozenset(data["no_units"]) | self._empty
        """Words that follow a number and are not what it counts."""
        self.relative: tuple[str, ...] = tuple(data["relative"])
        """Patterns of other words for dates and sums: `tomorrow`, `a hundred`."""
        self._address = frozenset(data["address"])
        self._owner: str = data["owner"]

    def has(self, kind: str, text: str) -> bool:
        """Say whether a text holds a sentence, or words, of a kind.

        Args:
            kind: one of `PATTERNS`.
            text: anybody's.
        """
        return self._patterns[kind].search(text) is not None

    def after(self, kind: str, text: str) -> str:
        """Return what follows a kind of beginning: `when it is due` of `know when it is due`."""
        found = self._patterns[kind].match(text)
        return text[found.end() :] if found else text

    def questions(self, text: str) -> list[str]:
        """Return the sentences that want an answer; politeness at the end of a talk is none."""
        # A title such as "Who goes there?" asks nothing and ends no sentence.
        hidden = _QUOTED.sub(lambda match: match[0].translate(_HIDDEN), text)
        sentences = (part.strip() for part in _SENTENCE.split(hidden) if part)
        return [
            sentence.translate(_SHOWN)
            for sentence in sentences
            if (_ASKS.search(sentence) or self.has("request", sentence))
            and not self.is_polite(sentence)
        ]

    def is_polite(self, sentence: str) -> bool:
        """Say whether a sentence offers more, or asks if all is well, and wants no answer.

        "If you need to change it, please let me know" asks for nothing; "let me know if I may go
        ahead" and "if you know your number, please tell me" do.
        """
        if self.has("consent", sentence):
            return False
        if self.has("courtesy", sentence):
            return True
        if self.has("wanted", sentence):
            return False
        offer = self.has("condition", sentence) and self.has("invitation", sentence)
        return offer or self.has("welcome", sentence)

    def takes_leave(self, text: str) -> bool:
        """Say whether a user's words are a goodbye, or thanks and nothing else."""
        if _ASKS.search(text):
            return False
        if self.has("farewell", text):
            return True
        rest = self._patterns["thanks"].sub("", text)
        return rest != text and not _BLANK.sub("", rest)

    def words(self, text: str) -> tuple[str, ...]:
        """Return the words of a text that carry meaning, in one spelling."""
        return _words(self, text)

    def _words(self, text: str) -> tuple[str, ...]:
        found = (word.lower() for word in _WORD.findall(text))
        words = tuple(self._same.get(word, word) for word in found if word not in self._empty)
        if "email" in words:  # "e-mail" asks for the "e-mail address"
            return tuple(word for word in words if word not in self._address)
        return words

    def owner(self, word: str, text: str) -> str | None:
        """Return whose `word` a text speaks of: `book` for `name` in "the name of the book"."""
        if not self._owner or word.lower() not in text.lower():
            return None
        found = re.search(rf"\b{re.escape(word)}{self._owner}", text, re.I)
        return found[1] if found else None

    def head(self, label: str) -> str:
        """Return the part of a label that names the column: `size` of `size of the box`."""
        for joint in self.of:
            before, found, _ = label.partition(f" {joint} ")
            if found:
                return before
        return label


@lru_cache(maxsize=4096)
def _words(hearing: Hearing, text: str) -> tuple[str, ...]:
    return hearing._words(text)


@cache
def languages() -> tuple[str, ...]:
    """Return the languages that are spoken and understood here, sorted."""
    return tuple(sorted(path.parent.name for path in _FOLDER.glob("*/heard.yaml")))


@cache
def hearing(language: str = "en") -> Hearing:
    """Return how a language is understood.

    Raises:
        UnknownName: nobody here understands it.
        BadInput: its file is broken.
    """
    if language not in languages():
        raise UnknownName("language", language, languages())
    text = (_FOLDER / language / "heard.yaml").read_text(encoding="utf-8")
    return Hearing(language, yaml.safe_load(text))
