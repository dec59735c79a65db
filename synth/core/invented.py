"""Which values in a text can nobody have told its author: addresses, codes, numbers, sums, dates.

papers 2.4: whatever looks like an identifier in a user's message must occur in what the user knows
or in what the agent said. Simulated users make up order numbers (tolokaforge #1078, Kiln #1784).
What can be written in several ways is compared by what it means: `1,175 EUR` is `1175.00 EUR`, and
`28.5.2026` is `28 May 2026`. Small bare numbers are no identifiers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from decimal import Decimal
from functools import cache

from synth.core.hearing import Hearing, hearing, languages

_EMAIL = re.compile(r"[\w.+-]+@[\w-]+\.[\w.-]*\w")
_PHONE = re.compile(r"(?<![\w.,])\+?\d(?:[\s()/.-]{0,2}\d){6,}(?!\w)")
"""Seven digits or more, however they are grouped."""
_CODE = re.compile(r"(?<![\w-])(?=[\w-]*\d)(?=[\w-]*[^\W\d_])[\w-]{3,}", re.ASCII)
_LONG = re.compile(r"\d{4,}")
_PLAIN = re.compile(
    r"\d+(?:-?(?:st|nd|rd|th|er|re|ème|ter|am|pm|h|hrs?|min|mins|sec|s|d|x|k|kg|g|mg|km|m|cm|mm|ml|"
    r"l|kwh|wh|kw|w|gb|mb|tb|pt|px|eur|usd|gbp|chf|days?|hours?|minutes?|weeks?|months?|years?|"
    r"nights?|people|persons?|year-old|fold|uhr|jährig\w*))+|\d+h\d+|[a-z]\d|covid-19|24-7",
    re.I | re.ASCII,
)
"""Quantities, ordinals and times of day: no codes, although letters stand beside digits."""
_NUMBER = r"\d{1,3}(?:[.,' \u00a0\u202f]\d{3})+(?:[.,]\d{1,2})?|\d+(?:[.,]\d+)?"
_CURRENCY = (
    r"US\$|[€$£¥₹元]|(?:EUR|USD|GBP|CHF|JPY|INR|euros?|dollars?|pounds?|francs?|Franken|cents?|"
    r"dólares|libras|francos|livres|欧元|美元)(?!\w)"
)
_SUM = re.compile(
    rf"(?:{_CURRENCY})\s?(?P<behind>{_NUMBER})(?![\w])|(?<![\w.,])(?P<before>{_NUMBER})\s?(?:{_CURRENCY})",
    re.I,
)
_ANY_NUMBER = re.compile(_NUMBER)
_ISO = re.compile(r"\d{4}-(?P<month>\d\d)-(?P<day>\d\d)(?!\d)")
_FIGURES = re.compile(r"(?<![\d./])(\d{1,2})([./])(\d{1,2})\2(?:\d{4}|\d\d)?(?![\d/])")
_CHINESE = re.compile(r"(?P<month>\d{1,2})月(?P<day>\d{1,2})[日号]")
_AMOUNT = re.compile(r"(?<![\w.,-])(\d+(?:[.,]\d+)?) ([^\W\d_]{3,})")
_MONTH = 3
"""Letters by which a month is told from a unit."""
_LOOSE = re.compile(r"[\s\-().,'’/\u00a0\u202f]+")

_Day = tuple[int, int]


class Known:
    """What somebody may have from somewhere.

    Args:
        texts: all that they know or were told.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        text = "\n".join(texts)
        self._bare = _squeeze(text)
        self._numbers = {number for match in _ANY_NUMBER.finditer(text) if
                         (number := _decimal(match[0])) is not None}  # fmt: skip
        self._days = {day for _, days in _dates(text) for day in days}

    def invented(self, text: str) -> Iterator[str]:
        """Yield the values of a text that are known from nowhere, as they are written."""
        rest = text
        for written, days in _dates(text):
            if self._days.isdisjoint(days):
                yield written
            rest = rest.replace(written, " ")
        for match in _SUM.finditer(rest):
            if _decimal(match["behind"] or match["before"]) not in self._numbers:
                yield match[0].strip()
        for pattern in (_EMAIL, _PHONE, _CODE, _LONG):
            for match in pattern.finditer(rest):
                if not _PLAIN.fullmatch(match[0]) and _squeeze(match[0]) not in self._bare:
                    yield match[0]


def amounts(text: str, hears: Hearing) -> dict[str, list[str]]:
    """Return the numbers that stand before each unit, in order: `5 days` -> `{"day": ["5"]}`.

    Args:
        text: anybody's.
        hears: its language, whose months are no units.
    """
    months = {month[:_MONTH] for month in hears.months}
    found: dict[str, list[str]] = {}
    for number, unit in _AMOUNT.findall(text):
        if unit.lower()[:_MONTH] not in months:
            found.setdefault(unit.lower().rstrip("s"), []).append(number.replace(",", "."))
    return found


def _squeeze(text: str) -> str:
    """Leave out what people write differently each time: case, spaces, dashes, dots."""
    return _LOOSE.sub("", text.casefold())


def _decimal(text: str) -> Decimal | None:
    """Return a number as people write it, or None: `1.175,00`, `1,175`, `12,5`."""
    plain = re.sub(r"[' \u00a0\u202f]", "", text)
    head, mark, tail = plain, "", ""
    if found := re.fullmatch(r"(.*)([.,])(\d+)", plain):
        head, mark, tail = found[1], found[2], found[3]
    if mark and len(tail) == 3 and len(re.sub(r"\D", "", head)) <= 3 and mark not in head:
        head, tail = head + tail, ""  # thousands
    elif mark and mark in head:
        head, tail = head + tail, ""
    digits = re.sub(r"\D", "", head)
    return Decimal(f"{digits or 0}.{tail or 0}").normalize() if digits or tail else None


def _dates(text: str) -> Iterator[tuple[str, set[_Day]]]:
    """Yield dates as they are written, with the days (month, day) that they may be."""
    for pattern in (_ISO, _CHINESE):
        for match in pattern.finditer(text):
            yield match[0], {(int(match["month"]), int(match["day"]))}
    for match in _FIGURES.finditer(text):
        one, two = int(match[1]), int(match[3])
        yield match[0], {(two, one)} if match[2] == "." else {(one, two), (two, one)}
    pattern, numbers = _months()
    for match in pattern.finditer(text):
        day = match["day"] or match["late"]
        name = match["month"] or match["first"]
        yield match[0], {(number, int(day)) for number in numbers[name.casefold()]}


@cache
def _months() -> tuple[re.Pattern[str], dict[str, set[int]]]:
    """Return what finds a day with the name of its month, and the names in every language."""
    numbers: dict[str, set[int]] = {}
    for language in languages():
        for number, month in enumerate(hearing(language).months, 1):
            if month.isascii() or month[0].isalpha():
                numbers.setdefault(month.casefold(), set()).add(number)
    for name, own in [(name, own) for name, own in numbers.items() if len(name) > 3]:
        numbers.setdefault(name[:3], set()).update(own)
    names = "|".join(sorted(map(re.escape, numbers), key=len, reverse=True))
    pattern = (
        rf"(?<![\w.,])(?<!\d )(?P<day>\d{{1,2}})(?:st|nd|rd|th|er|\.)? (?:of |de )?"
        rf"(?P<month>{names})\b(?! (?:I|we|you|it|they|be|not|have)\b)|"
        rf"\b(?P<first>{names})\.? (?P<late>\d{{1,2}})(?:st|nd|rd|th)?(?![\w:.,]\d|\w)"
    )
    return re.compile(pattern, re.I), numbers
