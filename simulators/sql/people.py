"""Names of people, cities, streets and companies: word lists written for this project.

The lists are text files in `values/`, one entry a line, with `[headings]` by origin or country.
Any likeness to a real person's full name is by chance.
"""

from __future__ import annotations

import random
import unicodedata
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).resolve().parent / "values"
_LETTERS = str.maketrans(
    {
        "ß": "ss",
        "ø": "o",
        "Ø": "O",
        "æ": "ae",
        "Æ": "Ae",
        "ł": "l",
        "Ł": "L",
        "đ": "d",
        "Đ": "D",
        "ı": "i",
        "ð": "d",
        "þ": "th",
        "œ": "oe",
        "ä": "ae",
        "ö": "oe",
        "ü": "ue",
    }
)


@dataclass(frozen=True, slots=True)
class City:
    """A city. `postcode`: # is a digit, ? a capital letter."""

    name: str
    country: str
    postcode: str


@cache
def _sections(name: str) -> dict[str, tuple[str, ...]]:
    """Read one list: lines under `[heading]` lines."""
    found: dict[str, list[str]] = {}
    heading = ""
    for line in (_FOLDER / f"{name}.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            heading = line.strip("[]")
        elif line:
            found.setdefault(heading, []).append(line)
    return {key: tuple(lines) for key, lines in found.items()}


@cache
def origins() -> tuple[str, ...]:
    """Return the origins of names."""
    return tuple(_sections("first_names"))


def full_name(origin: str, rng: random.Random) -> tuple[str, str]:
    """Draw a first and a last name of one origin (two draws, whichever is used)."""
    first = rng.choice(_sections("first_names")[origin])
    return first, rng.choice(_sections("last_names")[origin])


@cache
def cities() -> tuple[City, ...]:
    """Return all cities."""
    found = []
    for country, lines in _sections("cities").items():
        for line in lines:
            name, _, postcode = line.partition(" | ")
            found.append(City(name, country, postcode))
    return tuple(found)


def streets(country: str) -> tuple[str, ...]:
    """Return the streets of a country; # stands for the house number."""
    return _sections("streets")[country]


@cache
def companies() -> tuple[str, ...]:
    """Return company names."""
    return _sections("companies")[""]


def ascii_word(word: str) -> str:
    """Write a name as in an e-mail address: lower-case ASCII letters and digits."""
    plain = unicodedata.normalize("NFKD", word.translate(_LETTERS))
    return "".join(c for c in plain.lower() if c.isascii() and c.isalnum())
