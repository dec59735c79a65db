"""Values as the people of a language say them; the data lies in `voices/LANGUAGE/speech.yaml`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from synth.core.errors import UnknownName

_FOLDER = Path(__file__).parent / "voices"
EXPONENT = {"JPY": 0, "KRW": 0, "VND": 0, "CLP": 0, "ISK": 0, "KWD": 3, "BHD": 3, "TND": 3}
"""ISO 4217 minor units where they are not 2."""
_QUOTED = r'"[^"]*"|“[^”]*”|„[^“]*“|«[^»]*»|《[^》]*》'
"""Text that is nobody's own words."""


class Speech:
    """How one language says dates, sums, and what is whose.

    Args:
        language: its name.
        data: the parsed `speech.yaml`.
    """

    def __init__(self, language: str, data: Mapping[str, Any]) -> None:
        self.language = language
        self.months: tuple[str, ...] = tuple(data["months"])
        self._date: str = data["date"]
        self._moment: str = data["moment"]
        self._first: str = data["first"]
        self._money: str = data["money"]
        self._currencies: dict[str, str] = data["currencies"]
        self._point: str = data["point"]
        self._thousands: str = data["thousands"]
        self._truth: tuple[str, str] = (data["no"], data["yes"])
        self.space: str = data["space"]
        """What parts sentences; Chinese has none."""
        self.unset: str = data["unset"]
        """There is no value."""
        self._and: str = data["and"]
        self._or: str = data["or"]
        self._comma: str = data["comma"]
        self._mine: dict[str, str] = data["mine"]
        self.know: str = data["know"]
        """What a bare question gets to become a wish."""
        self.summary: str = data["summary"]
        """What a colleague reads of a `{clause}` that is handed over."""
        self._added: str = data["added"]
        self._line: str = data["line"]
        self._many = re.compile(data["many"])
        self._turned: dict[str, str] = data["turned"]
        self._capitals = {text[0].upper() + text[1:]: text for text in self._turned}
        words = sorted({*self._turned, *self._capitals}, key=len, reverse=True)
        self._word: str = data["word"]
        self._turn = re.compile(self._word.format("|".join(map(re.escape, words))))

    def date(self, text: str) -> str:
        """Return `2026-03-02` in words."""
        day = int(text[8:10])
        return self._date.format(
            day=self._first if day == 1 and self._first else day,
            month=self.months[int(text[5:7]) - 1],
            year=text[:4],
        )

    def moment(self, text: str, *, form: str = "") -> str:
        """Return `2026-03-02T09:00:00` in words."""
        return (form or self._moment).format(date=self.date(text), time=text[11:16])

    def money(self, minor: int, currency: str) -> str:
        """Return an amount of minor units in words: `1250, "EUR"` -> `12.50 EUR`."""
        exponent = EXPONENT.get(currency, 2)
        whole, rest = divmod(abs(minor), 10**exponent)
        sign = "-" if minor < 0 else ""
        tail = f"{self._point}{rest:0{exponent}d}" if exponent else ""
        amount = f"{whole:,}".replace(",", self._thousands)
        name = self._currencies.get(currency, currency)
        return self._money.format(amount=f"{sign}{amount}{tail}", currency=name)

    def added(self, label: str, spoken: str) -> str:
        """Return how a fact is put behind the wish that it belongs to."""
        return self._added.format(label=label, spoken=spoken)

    def line(self, label: str, spoken: str) -> str:
        """Return how a value is told without a verb: right for one thing and for several."""
        return self._line.format(label=label, spoken=spoken)

    def is_many(self, label: str) -> bool:
        """Say whether a label may name several things: `points`."""
        return self._many.search(label) is not None

    def truth(self, value: bool) -> str:
        """Return a yes or a no."""
        return self._truth[value]

    def turned(self, text: str, values: Iterable[str] = ()) -> str:
        """Turn a user's words round, as the agent says them: `my loan` -> `your loan`.

        Args:
            text: of the user.
            values: names and other values, which stay as they are; so does quoted text.
        """
        # Hardly a value has a word that is turned; the others need no protection.
        held = [v for v in values if self._turn.search(v) and v not in self._turned]
        kept = [self._word.format(re.escape(v)) for v in sorted(held, key=len, reverse=True)]
        pattern = re.compile(f"({'|'.join((_QUOTED, *kept))})")
        parts = pattern.split(text)
        parts[::2] = [self._turn.sub(self._other, part) for part in parts[::2]]
        return "".join(parts)

    def _other(self, match: re.Match[str]) -> str:
        said = self._turned.get(match[0])
        if said is not None:
            return said
        # With a capital only where a sentence begins; elsewhere it is a name (`Take On Me`).
        if match.string[: match.start()].rstrip()[-1:] not in ("", ".", "!", "?", ":"):
            return match[0]
        said = self._turned[self._capitals[match[0]]]
        return said[0].upper() + said[1:]

    def listed(self, items: Sequence[str], *, choice: bool = False) -> str:
        """Return `a, b and c`; with `choice`, `a, b or c`."""
        if len(items) < 2:
            return "".join(items)
        joint = self._or if choice else self._and
        return f"{self._comma.join(items[:-1])}{joint}{items[-1]}"

    def bare(self, label: str) -> str:
        """Return a label without its article: `die Adresse` -> `Adresse`."""
        article = self._article(label)
        return label[len(article) :] if article else label

    def mine(self, label: str) -> str:
        """Return how its owner calls a thing: `die Adresse` -> `meine Adresse`."""
        article = self._article(label)
        if article is None:
            return f"{self._mine.get('', '')}{label}"
        return f"{self._mine[article]}{label[len(article) :]}"

    def _article(self, label: str) -> str | None:
        return next((a for a in self._mine if a and label.startswith(a)), None)


@cache
def speech(language: str = "en") -> Speech:
    """Return how a language says values.

    Raises:
        UnknownName: nobody here speaks it.
    """
    path = _FOLDER / language / "speech.yaml"
    if not path.is_file():
        known = sorted(found.parent.name for found in _FOLDER.glob("*/speech.yaml"))
        raise UnknownName("language", language, known)
    return Speech(language, yaml.safe_load(path.read_text(encoding="utf-8")))


ENGLISH = speech("en")
