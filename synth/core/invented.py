"""Which values in a text can nobody have told its author: addresses, codes, numbers, sums, dates.

papers 2.4: whatever looks like an identifier in a user's message must occur in what the user knows
or in what the agent said. Simulated users make up order numbers (tolokaforge #1078, Kiln #1784).
What can be written in several ways is compared by what it means: `1,175 EUR` is `1175.00 EUR`, and
`28.5.2026` is `28 May 2026`. Small bare numbers are no identifiers.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from decimal import Decimal
from functools import cache

from synth.core.hearing import Hearing, hearing, languages

_EMAIL = re.compile(r"[\w.+-]+@[\w-]+\.[\w.-]*\w", re.ASCII)
_IBAN = re.compile(r"\b[A-Z]{2}\d\d(?: [A-Z\d]{4}){2,7}(?: [A-Z\d]{1,4})?\b")
_PHONE = re.compile(r"(?<![\w.,])\+?\d(?:[\s()/.-]{0,2}\d){6,}(?!\w)", re.ASCII)
"""Seven digits or more, however they are grouped."""
_CODE = re.compile(r"(?<![\w-])(?=[\w-]*\d)(?=[\w-]*[^\W\d_])[\w-]{4,}", re.ASCII)
_MIXED = re.compile(r"(?:[a-z]+\d+){2}|(?:\d+[a-z]+){2}|(?:\D*\d){3}", re.I)
"""What tells a code from a word: letters and digits by turns, or three digits (`MP3` is a word)."""
_LONG = re.compile(r"(?<![\w.,])\d{4,}(?!\w)", re.ASCII)
_PLAIN = re.compile(
    r"\d+(?:[-.,x]\d+)*(?:-?[a-z]+|-[A-ZÄÖÜ][a-zäöüß]+)(?:-[A-ZÄÖÜ]?[a-zäöüß]+)*|"
    # 1990s, 100-page, 1920x1080px, 2008er-Modell, 500-Gramm-Packung
    r"\d+-?(?:[KMGT]?[BW]|[KMG]?HZ|V|AM|PM|EUR|USD|GBP|CHF)|"
    r"(?:\d+(?:h|d|min|m|s)){1,3}\d*(?:-\d+h\d*)?|"
    r"(?:mid|pre|post|early|late|since|fy|[qh]\d)-?(?:19|20)\d\ds?|"
    r"(?:19|20)\d\d(?:[-/]\d\d(?:\d\d)?)?|"  # 2026, 2025/26
    r"\d{1,2}[.]\d\d-\d{1,2}[.]\d\d|\d{1,6}[05]00|\d{1,3}(?:[ .,']\d{3})+"
)
"""Quantities, ordinals, years, spans of time and round numbers: no codes, no telephone numbers."""
_NUMBER = r"\d{1,3}(?:[.,' \u00a0\u202f]\d{3})+(?:[.,]\d{1,2})?|\d+(?:[.,]\d+)?"
_SIGNS = r"US\$|[€$£¥₹]|(?:EUR|USD|GBP|CHF|JPY|INR)(?![^\W\u3400-\u9fff])"
_ANY_NUMBER = re.compile(_NUMBER)
_ISO = re.compile(r"\d{4}-(?P<month>\d\d)-(?P<day>\d\d)(?!\d)")
_FIGURES = re.compile(
    r"(?P<led>\b[^\W\d_]+ )?(?<![\d./])(?P<one>\d{1,2})(?P<mark>[./])(?P<two>\d{1,2})(?P=mark)"
    r"(?P<year>\d{4}|\d\d)?(?![\d/])"
)
_AMOUNT = re.compile(
    r"(?<![.,:/-])(?<![^\W\u3400-\u9fff])(\d+(?:[.,]\d+)?)[ \u00a0\u202f]?"
    r"([\u3400-\u9fff]|(?<=\s)[^\W\d_]{3,})"
)
_YEAR = r"(?:,?(?: de(?:l)?)? (?:19|20)\d\d)?"
_FORMS = re.compile(r"[\uff0b\uff0d\uff0e\uff20-\uff3a\uff3f\uff41-\uff5a]|(?![0-9])\d")
"""Full-width letters and marks of codes, and the digits of all scripts but ASCII's."""
_LOOSE = re.compile(r"[\W_]+")

_Day = tuple[int, int]


class Known:
    """What somebody may have from somewhere.

    Args:
        texts: all that they know or were told.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        text = plain("\n".join(texts))
        self._bare = squeeze(text)
        self._numbers = {number for match in _ANY_NUMBER.finditer(text) if
                         (number := _decimal(match[0])) is not None}  # fmt: skip
        self._days = {day for _, days in _dates(text) for day in days}

    def invented(self, text: str) -> Iterator[str]:
        """Yield the values of a text that are known from nowhere, in plain letters and digits."""
        rest = text = plain(text)
        for written, days in _dates(text):
            if self._days.isdisjoint(days):
                yield written
            rest = rest.replace(written, " ")
        for match in _sums().finditer(rest):
            if _decimal(match["behind"] or match["before"]) not in self._numbers:
                yield match[0].strip()
        rest = _sums().sub(" ", rest)
        for pattern in (_EMAIL, _IBAN, _PHONE, _CODE, _LONG):
            for match in pattern.finditer(rest):
                if not _is_word(match[0]) and squeeze(match[0]) not in self._bare:
                    yield match[0]
            if pattern is _IBAN:
                rest = _IBAN.sub(" ", rest)


def plain(text: str) -> str:
    """Write the letters, digits and marks that have a wide or a foreign form in the plain one.

    Args:
        text: anybody's; it keeps its length.
    """
    if text.isascii():
        return text
    return _FORMS.sub(_in_ascii, text)


def _in_ascii(match: re.Match[str]) -> str:
    number = unicodedata.decimal(match[0], None)
    return unicodedata.normalize("NFKC", match[0]) if number is None else str(number)


def squeeze(text: str) -> str:
    """Leave out what people write differently each time: case, forms, spaces, dashes, marks.

    Args:
        text: anybody's.
    """
    return _LOOSE.sub("", plain(text).casefold())


def amounts(text: str, hears: Hearing) -> dict[str, list[str]]:
    """Return the numbers that stand before each unit, in order: `5 days` -> `{"day": ["5"]}`.

    Args:
        text: anybody's.
        hears: its language; dates, and words such as `for` and `and`, are no units.
    """
    found: dict[str, list[str]] = {}
    for written, _ in _dates(text):
        text = re.sub(re.escape(written) + _YEAR, ";", text)
    for number, unit in _AMOUNT.findall(text):
        if unit.lower() not in hears.no_units:
            found.setdefault(unit.lower().rstrip("s"), []).append(number.replace(",", "."))
    return found


def _is_word(text: str) -> bool:
    """Say whether what has digits is an ordinary word or number all the same."""
    if "@" in text:
        return False
    coded = text.isdecimal() or not any(c.isalpha() for c in text) or _MIXED.search(text)
    return not coded or _PLAIN.fullmatch(text) is not None


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
    for pattern in (_ISO, *_patterns()):
        for match in pattern.finditer(text):
            yield match[0], {(int(match["month"]), int(match["day"]))}
    for match in _FIGURES.finditer(text):
        one, two = int(match["one"]), int(match["two"])
        days = {(two, one)} if match["mark"] == "." else {(one, two), (two, one)}
        days = {(month, day) for month, day in days if 0 < month <= 12 and 0 < day <= 31}
        # `rated 4.5.` ends a sentence; `am 4.5.` is a day.
        led = (match["led"] or "").strip().casefold() in _leading()
        if days and (match["year"] or match["mark"] == "/" or led):
            yield match[0].removeprefix(match["led"] or ""), days
    pattern, numbers = _months()
    for match in pattern.finditer(text):
        day = match["day"] or match["late"]
        name = match["month"] or match["first"]
        if not _is_other_word(match, name):
            yield match[0], {(number, int(day)) for number in numbers[name.casefold()]}


def _is_other_word(match: re.Match[str], name: str) -> bool:
    """Say whether a month is the word of the same spelling: `you may 5 times`, `a year ago 3 …`."""
    unsure, before_other = _unsure()
    if name.casefold() not in unsure or not name.islower():
        return False
    after = re.match(r"\s+([^\W\d_]+)", match.string[match.end() :])
    return after is not None and after[1].casefold() not in before_other


@cache
def _sums() -> re.Pattern[str]:
    """Return what finds a sum with its currency, as all languages call them."""
    words = sorted({w for name in languages() for w in hearing(name).money}, key=len, reverse=True)
    # No letter may follow, but Chinese does not part its words.
    ends = r"(?![^\W\d_\u3400-\u9fff])"
    currency = rf"{_SIGNS}|(?:{'|'.join(map(re.escape, words))}){ends}"
    # 3单元501 and 公元2026 are no sums: a word of one character only follows its number.
    before = "|".join(re.escape(word) for word in words if len(word) > 1)
    leading = rf"{_SIGNS}|(?:{before}){ends}"
    return re.compile(
        rf"(?:{leading})[ \u00a0\u202f]?(?P<behind>{_NUMBER})(?![^\W\u3400-\u9fff])|"
        rf"(?<![a-zA-Z\d_.,])(?P<before>{_NUMBER})[ \u00a0\u202f]?(?:{currency})",
        re.I,
    )


@cache
def _patterns() -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(text) for name in languages() for text in hearing(name).dates)


@cache
def _leading() -> frozenset[str]:
    return frozenset(word for name in languages() for word in hearing(name).before_day)


@cache
def _unsure() -> tuple[frozenset[str], frozenset[str]]:
    """Return months that are other words as well, and what may follow a date."""
    every = [hearing(name) for name in languages()]
    return (
        frozenset(word for each in every for word in each.no_months),
        frozenset(word for each in every for word in each.no_units),
    )


@cache
def _months() -> tuple[re.Pattern[str], dict[str, set[int]]]:
    """Return what finds a day with the name of its month, and the names in every language."""
    numbers: dict[str, set[int]] = {}
    for language in languages():
        for number, month in enumerate(hearing(language).months, 1):
            if month[0].isalpha():
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
