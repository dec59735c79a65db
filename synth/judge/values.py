"""Typed values in prose: dates, times, amounts of money, numbers, tokens.

A text is scanned once into non-overlapping values, so that the 10 of `R-10`, of `10:30` or of
`10 March` is no number, and the 12.50 of `12.50 EUR` is money. Nothing is ever compared as a
substring (tau-bench accepted "10" in "100", papers 14.4). Own grammar, nothing is evaluated; every
pattern is linear in practice because its repetitions are bounded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from decimal import Decimal, InvalidOperation
from functools import cache, lru_cache
from typing import Any, NamedTuple, TypeAlias

from synth.core.hearing import hearing, languages
from synth.core.invented import plain
from synth.core.speech import EXPONENT, speech
from synth.core.types import OutputValue


class Found(NamedTuple):
    """One value in a text: `kind` is date, time, money, number or word."""

    kind: str
    value: tuple[object, ...]
    start: int
    end: int


MONTHS = {
    name: number
    for number, names in enumerate(
        (
            ("january", "jan"), ("february", "feb"), ("march", "mar"), ("april", "apr"), ("may",),
            ("june", "jun"), ("july", "jul"), ("august", "aug"),
            ("september", "sept", "sep"), ("october", "oct"), ("november", "nov"),
            ("december", "dec"),
        ),
        start=1,
    )
    for name in names
}  # fmt: skip
for _foreign in languages():
    months = enumerate(speech(_foreign).months, 1)
    MONTHS |= {name.casefold(): i for i, name in months if name[0].isalpha()}
CURRENCIES = {
    "€": "EUR", "eur": "EUR", "euro": "EUR", "euros": "EUR",
    "$": "USD", "us$": "USD", "usd": "USD", "dollar": "USD", "dollars": "USD",
    "£": "GBP", "gbp": "GBP", "pound": "GBP", "pounds": "GBP",
    "¥": "JPY", "jpy": "JPY", "yen": "JPY",
    "chf": "CHF", "francs": "CHF", "sek": "SEK", "nok": "NOK", "dkk": "DKK", "pln": "PLN",
    "zł": "PLN", "czk": "CZK", "kč": "CZK", "huf": "HUF", "cad": "CAD", "aud": "AUD", "nzd": "NZD",
    "inr": "INR", "₹": "INR", "cny": "CNY", "krw": "KRW", "brl": "BRL", "mxn": "MXN", "zar": "ZAR",
    "kwd": "KWD", "try": "TRY",
}  # fmt: skip
for _foreign in languages():
    named = hearing(_foreign).money.items()
    CURRENCIES |= {word.casefold(): code for word, code in named if code}
_WORDS = {
    "zero": 0, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7,
    "eight": 8, "nine": 9, "ten": 10, "eleven": 11, "twelve": 12, "thirteen": 13, "fourteen": 14,
    "fifteen": 15, "sixteen": 16, "seventeen": 17, "eighteen": 18, "nineteen": 19, "twenty": 20,
}  # fmt: skip

_MONTH = "|".join(sorted(MONTHS, key=len, reverse=True))
_CODE = "|".join(sorted((c for c in CURRENCIES if c[0].isalpha()), key=len, reverse=True))
_START = re.compile(r"\d(?:(?<!\w\d)|(?<=\bEUR\d)|(?<=\bUSD\d)|(?<=\bGBP\d)|(?<=\bCHF\d))")
"""A digit that no letter or digit precedes: a leading digit lets the search skip the prose."""
_REST = re.compile(r"[\w.,:/-]*\w")
"""What is left of a token that is no value."""
_BEFORE = re.compile(
    rf"(?:\b(?P<month>{_MONTH})\b\.?\ |"
    rf"(?P<minus>(?<!\w)[-−])?(?P<currency>US\$|[€$£¥₹]|\b(?:{_CODE})(?![a-z]))[ \u00a0]?)?"
    r"(?P<sign>(?<!\w)[-−])?\Z",
    re.I,
)
_NUMBER = r"(?:\d{1,3}(?:[,.'\u2019\u00a0\u202f ]\d{3}){1,5}(?!\d)|\d{1,18})(?:[.,]\d{1,12})?"
_AMOUNT = re.compile(rf"(?P<amount>{_NUMBER})(?!\w|[.,/:@-]\w)")
_VALUE = re.compile(
    rf"""
    (?P<iso>\d{{4}}-\d\d-\d\d)(?![\w-]|T\d)
    |(?P<isoday>\d{{4}}-\d\d-\d\d)T(?P<isotime>\d\d:\d\d)(?::\d\d(?:\.\d{{1,9}})?)?
        (?:Z|[+-]\d\d:\d\d)?(?![\w-])
    |(?P<day>\d{{1,2}})(?:st|nd|rd|th|er)?\.?\ (?:of\ |de\ )?(?P<month>{_MONTH})\b\.?
        (?:,?\ (?:de\ )?(?P<year>\d{{4}})(?![\w:]))?
    |(?P<one>\d{{1,2}})(?P<sep>[./])(?P<two>\d{{1,2}})(?P=sep)(?P<figyear>\d{{4}})(?![\w/])
    |(?P<hour>[01]?\d|2[0-3]):(?P<minute>[0-5]\d)(?::[0-5]\d)?
        (?:\ ?(?P<half>[ap])\.?m\b\.?)?(?![\w:])
    |(?P<onlyhour>\d{{1,2}})\ ?(?P<onlyhalf>[ap])\.?m\b\.?
    |(?P<amount>{_NUMBER})[ \u00a0\u202f]?(?P<currency>[€$£¥₹](?!\d)|(?:{_CODE}|cents?|pence)(?!\w))
    |(?P<number>(?:\d{{1,3}}(?:[,'\u2019\u00a0\u202f]\d{{3}}){{1,5}}(?!\d)|\d{{1,18}})
        (?:[.,]\d{{1,12}})?)(?!\w|[.,/:@-]\w)
    """,
    re.X | re.I,
)
_MONTH_FIRST = re.compile(
    r"(?P<day>\d{1,2})(?:st|nd|rd|th)?(?![\w:])(?:,?\ (?P<year>\d{4})(?![\w:]))?", re.I
)
_WIDE = re.compile(r"[\u3000-\u303f\u3400-\u9fff\uff00-\uffef]")
"""Characters and marks of Chinese."""
_BLANKS = re.compile(r"['\u2019\u00a0\u202f ]")
_NUMBER_WORD = re.compile(r"\w+")

_Item: TypeAlias = tuple[str, tuple[object, ...]]


@lru_cache(maxsize=256)
def scan(text: str) -> tuple[Found, ...]:
    """Return the values of a text that are written with digits, in order."""
    found: list[Found] = []
    text = _without_declared(plain(text), found)
    end = 0
    while start := _START.search(text, end):
        end = _take(text, start.start(), end, found)
    return tuple(sorted(found, key=lambda item: item.start))


def _without_declared(text: str, found: list[Found]) -> str:
    """Take the dates and times that only one language writes so; blank them, keeping positions.

    Chinese does not part its words either, so its characters are blanked too: what is left of
    `请付50元` is a sum between blanks.
    """
    for pattern, read in _declared():
        for match in pattern.finditer(text):
            item = read(match.groupdict())
            if item is not None:
                found.append(Found(*item, match.start(), match.end()))
                text = text[: match.start()] + " " * len(match[0]) + text[match.end() :]
    if not _WIDE.search(text):
        return text
    for match in _wide_sums().finditer(text):
        number = _decimal(match["amount"], dots=False)
        code = CURRENCIES[match["currency"].casefold()]
        if number is not None:
            money = Decimal(number) * 10 ** EXPONENT.get(code, 2)
            found.append(Found("money", (code, money), match.start(), match.end()))
            text = text[: match.start()] + " " * len(match[0]) + text[match.end() :]
    return _WIDE.sub(" ", text)


def _read_date(parts: dict[str, str | None]) -> _Item | None:
    month, day = int(parts["month"] or 0), int(parts["day"] or 0)
    said = parts.get("year")
    year = int(said) if said else None
    return ("date", (year, month, day)) if 0 < month <= 12 and 0 < day <= 31 else None


def _read_time(parts: dict[str, str | None]) -> _Item | None:
    hour, minute = int(parts["hour"] or 0), int(parts.get("minute") or 0)
    hour += 12 if parts.get("late") and hour < 12 else 0
    return ("time", (hour, minute)) if hour < 24 and minute < 60 else None


@cache
def _declared() -> tuple[tuple[re.Pattern[str], Callable[[dict[str, Any]], _Item | None]], ...]:
    every = [hearing(name) for name in languages()]
    dates = [(re.compile(text), _read_date) for each in every for text in each.dates]
    return (*dates, *((re.compile(text), _read_time) for each in every for text in each.times))


@cache
def _wide_sums() -> re.Pattern[str]:
    names = sorted((c for c in CURRENCIES if _WIDE.match(c)), key=len, reverse=True)
    return re.compile(rf"(?<![\d.,])(?P<amount>{_NUMBER}) ?(?P<currency>{'|'.join(names)})")


def number_words(text: str) -> list[Found]:
    """Return numbers and times of day that are written as words: `two`, `noon`."""
    found = []
    for match in _NUMBER_WORD.finditer(text):
        word = match[0].casefold()
        if word in _WORDS:
            item = Found("number", (Decimal(_WORDS[word]),), match.start(), match.end())
            found.append(item)
        elif word in ("noon", "midnight"):
            hour = 12 if word == "noon" else 0
            found.append(Found("time", (hour, 0), match.start(), match.end()))
    return found


def _take(text: str, at: int, free: int, found: list[Found]) -> int:
    """Read the value whose first digit is at `at`; return where to go on.

    What stands before `free` belongs to the value before.
    """
    if at > 1 and text[at - 1] in "-.@/:+," and text[at - 2].isalnum():
        return _skip(text, at)  # the 12 of `R-12`
    before = _BEFORE.search(text, max(free, at - 14), at)
    if before is None or text[at - 1 : at] == "+":
        return _skip(text, at)
    if before["month"] and (match := _MONTH_FIRST.match(text, at)):
        item = _date(match["year"], before["month"], match["day"])
        found.append(Found(*item, before.start(), match.end()))
        return match.end()
    currency = before["currency"]
    match = _AMOUNT.match(text, at) if currency else _VALUE.match(text, at)
    if match is None:
        return _skip(text, at)
    negative = bool(before["sign"] or before["minus"])
    start = before.start() if currency else at - negative
    items = _amount(match, currency, negative) if currency else _typed(match, negative)
    found.extend(Found(kind, value, start, match.end()) for kind, value in items)
    return match.end()


def _skip(text: str, at: int) -> int:
    rest = _REST.match(text, at)
    return rest.end() if rest else at + 1


def _typed(match: re.Match[str], negative: bool) -> Iterator[_Item]:
    day = match["iso"] or match["isoday"]
    if day:
        yield "date", (int(day[:4]), int(day[5:7]), int(day[8:]))
        if match["isotime"]:
            yield "time", clock(match["isotime"])
    elif match["month"]:
        yield _date(match["year"], match["month"], match["day"])
    elif match["one"]:
        yield from _figures(match)
    elif match["hour"] or match["onlyhour"]:
        yield _time(match)
    else:
        yield from _amount(match, match["currency"], negative)


def _amount(match: re.Match[str], unit: str | None, negative: bool) -> Iterator[_Item]:
    code = CURRENCIES.get(unit.casefold()) if unit is not None else None
    exponent = EXPONENT.get(code or "", 2)
    # A dot before three digits parts thousands of euros, but it ends the dinars.
    number = _decimal(match["amount"] or match["number"], dots=unit is not None and exponent != 3)
    if number is None:
        return
    number = -number if negative else number
    if unit is None:
        yield "number", (number,)
    else:  # cents of any currency, or an amount in its main unit
        yield "money", (code, number * 10**exponent if code else number)


def _date(year: str | None, month: str, day: str) -> _Item:
    return "date", (int(year) if year else None, MONTHS[month.lower()], int(day))


def _figures(match: re.Match[str]) -> Iterator[_Item]:
    """`3.4.2026` is day first; `3/4/2026` is told only where it cannot be misread."""
    one, two, year = int(match["one"]), int(match["two"]), int(match["figyear"])
    if match["sep"] == "." or one > 12 or one == two:
        yield "date", (year, two, one)
    elif two > 12:
        yield "date", (year, one, two)


def _time(match: re.Match[str]) -> _Item:
    hour = int(match["hour"] or match["onlyhour"])
    half = match["half"] or match["onlyhalf"]
    if half and hour <= 12:
        hour = hour % 12 + (12 if half.lower() == "p" else 0)
    return "time", (hour, int(match["minute"] or 0))


def _decimal(text: str, *, dots: bool) -> Decimal | None:
    """Read a number as people write it: `1,234.50`, `1.234,50`, `12,5`."""
    plain = _BLANKS.sub("", text)
    comma, dot = plain.rfind(","), plain.rfind(".")
    if comma >= 0 and dot >= 0:
        thousands, point = (",", ".") if dot > comma else (".", ",")
        plain = plain.replace(thousands, "").replace(point, ".")
    elif comma >= 0:
        plain = plain.replace(",", "" if _grouped(plain, ",") else ".")
    elif dots and dot >= 0 and _grouped(plain, "."):
        plain = plain.replace(".", "")
    try:
        return Decimal(plain)
    except InvalidOperation:
        return None


def _grouped(text: str, mark: str) -> bool:
    head, *groups = text.split(mark)
    return len(head) <= 3 and head != "0" and all(len(group) == 3 for group in groups)


# --- comparing -------------------------------------------------------------------------------

_KINDS = {
    "integer": "number", "number": "number", "money": "money", "date": "date", "datetime": "date",
}  # fmt: skip
_TIME = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)(:\d\d)?")


def kind_of(output: OutputValue) -> str:
    """Return the kind of value that tells this output: date, time, money, number or text."""
    if output.type == "text" and _TIME.fullmatch(str(output.value)):
        return "time"
    return _KINDS.get(output.type, "text")


def tells(found: Found, output: OutputValue) -> bool:
    """Return whether a value in a text is the wanted one (a datetime: its date part)."""
    kind = kind_of(output)
    if found.kind != kind:
        return kind == "money" and found.kind == "number" and _bare_amount(found, output)
    value = found.value
    if kind == "date":
        year, month, day = (int(part) for part in str(output.value)[:10].split("-"))
        return value in ((None, month, day), (year, month, day))
    if kind == "time":
        return value == clock(str(output.value))
    if kind == "money":
        same = value[0] is None or output.currency in (None, value[0])
        return same and value[1:] == (Decimal(str(output.value)),)
    return _equal(value[0], output)


def _bare_amount(found: Found, output: OutputValue) -> bool:
    """An amount without a currency counts only where it shows all its decimals: `12.50`."""
    exponent = EXPONENT.get(output.currency or "", 2)
    number = found.value[0]
    if not isinstance(number, Decimal) or not exponent or number.as_tuple().exponent != -exponent:
        return False
    return bool(number.scaleb(exponent) == Decimal(str(output.value)))


def _equal(number: object, output: OutputValue) -> bool:
    wanted = Decimal(str(output.value))
    if bool(number == wanted):
        return True
    if output.type != "number" or not isinstance(number, Decimal):
        return False
    # 4.3333 may be told as 4.33, but not as 4.3 or 4.
    exponent = number.as_tuple().exponent
    return isinstance(exponent, int) and exponent <= -2 and round(wanted, -exponent) == number


def clock(text: str) -> tuple[int, int]:
    """Return hour and minute of `09:30`, `2026-03-02T09:30:00`."""
    hour, minute = text[-8:-3].split(":") if "T" in text else text.split(":")[:2]
    return int(hour), int(minute)


def at_token(text: str, value: str) -> list[int]:
    """Return where `value` stands in `text` as whole tokens.

    A letter, digit or underscore beside it, or a joint (`-`, `.`, `@`, `/` and the like) that goes
    on with one, makes it part of something longer.
    """
    places = []
    at = text.find(value)
    while at >= 0:
        end = at + len(value)
        if not _joined(text, at - 1, -1, value[0]) and not _joined(text, end, 1, value[-1]):
            places.append(at)
        at = text.find(value, at + 1)
    return places


def _joined(text: str, at: int, step: int, edge: str) -> bool:
    if not (edge.isalnum() or edge == "_") or not 0 <= at < len(text):
        return False
    char = text[at]
    if _WIDE.match(char):
        return False  # Chinese does not part its words
    if char.isalnum() or char == "_":
        return True
    after = at + step
    if not 0 <= after < len(text):
        return False
    beyond = text[after]
    return (char in "-.@/+" and beyond.isalnum()) or (
        char == ":" and edge.isdigit() and beyond.isdigit()
    )
