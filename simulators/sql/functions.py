"""The SQL functions an application may call: SQLite's pure ones, and ours for time.

Dates are text, `2026-03-02`; date-times are `2026-03-02T09:00:00`, without zone. Every function of
ours returns NULL for a NULL argument. SQLite's own date and random functions are not on the list:
they read wall time and chance.
"""

from __future__ import annotations

import calendar
import datetime
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

_PURE_OF_SQLITE = """
abs avg ceil ceiling char coalesce concat concat_ws count cume_dist dense_rank exp first_value
floor format glob group_concat hex if ifnull iif instr json json_array json_array_length
json_each json_extract json_group_array json_group_object json_insert json_object json_patch
json_quote json_remove json_replace json_set json_tree json_type json_valid lag last_value lead
length like likelihood likely ln log log10 log2 lower ltrim max median min mod nth_value ntile
nullif octet_length percent_rank pow power printf quote rank replace round row_number rtrim sign
sqrt string_agg substr substring subtype sum total trim trunc typeof unicode unlikely upper ->
->>
"""
SQLITE_FUNCTIONS = frozenset(_PURE_OF_SQLITE.split())

_SHAPE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(T[0-9]{2}:[0-9]{2}(:[0-9]{2})?)?")
_DATE = "YYYY-MM-DD"
_TIME = "YYYY-MM-DDTHH:MM:SS"


_KEPT = 1024
"""Results remembered. Only right arguments give any, and those are short."""


class BadValue(ValueError):
    """A function was given text that is no date: the caller's argument is at fault."""


@lru_cache(_KEPT)
def _moment(value: Any) -> datetime.datetime:
    """Read a date or a date-time; a date is its midnight."""
    text = value if isinstance(value, str) else repr(value)
    try:
        if isinstance(value, str) and _SHAPE.fullmatch(value):
            return datetime.datetime.fromisoformat(value)
    except ValueError:
        pass
    raise BadValue(f"{text[:40]!r} is not a date ({_DATE}) or date-time ({_TIME})")


def _whole(value: Any) -> int:
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return int(value)
    raise BadValue(f"{str(value)[:40]!r} is not a whole number")


def _shift(value: Any, delta: Callable[[datetime.datetime], datetime.datetime]) -> Any:
    try:
        return delta(_moment(value))
    except OverflowError:
        raise BadValue("the date is out of range") from None


def date_add(date: Any, days: Any) -> str | None:
    """Return the date `days` days later (earlier if negative)."""
    if date is None or days is None:
        return None
    return _days_later(date, days)


@lru_cache(_KEPT)
def _days_later(date: Any, days: Any) -> str:
    moment = _shift(date, lambda m: m + datetime.timedelta(days=_whole(days)))
    return str(moment.date())


def month_add(date: Any, months: Any) -> str | None:
    """Return the same day `months` months later, or the month's last day if there is none."""
    if date is None or months is None:
        return None
    moment, count = _moment(date), _whole(months)
    year, month = divmod(moment.year * 12 + moment.month - 1 + count, 12)
    if not 1 <= year <= 9999:
        raise BadValue("the date is out of range")
    day = min(moment.day, calendar.monthrange(year, month + 1)[1])
    return str(datetime.date(year, month + 1, day))


def time_add(time: Any, minutes: Any) -> str | None:
    """Return the date-time `minutes` minutes later."""
    if time is None or minutes is None:
        return None
    moment = _shift(time, lambda m: m + datetime.timedelta(minutes=_whole(minutes)))
    return str(moment.isoformat(timespec="seconds"))


def days_between(first: Any, last: Any) -> int | None:
    """Return the number of days from date `first` to date `last`; times of day do not count."""
    if first is None or last is None:
        return None
    return (_moment(last).date() - _moment(first).date()).days


def minutes_between(first: Any, last: Any) -> int | None:
    """Return the whole minutes from `first` to `last`, rounded down."""
    if first is None or last is None:
        return None
    return (_moment(last) - _moment(first)) // datetime.timedelta(minutes=1)


def weekday(date: Any) -> int | None:
    """Return the day of the week, Monday 1 to Sunday 7."""
    return None if date is None else _moment(date).isoweekday()


PURE: dict[str, tuple[Callable[..., Any], int]] = {
    "date_add": (date_add, 2),
    "month_add": (month_add, 2),
    "time_add": (time_add, 2),
    "days_between": (days_between, 2),
    "minutes_between": (minutes_between, 2),
    "weekday": (weekday, 1),
}
"""Our functions of their arguments alone, with the number of these."""

CLOCK = frozenset({"now", "today"})
"""Read the environment's clock: the date-time and the date."""

IDENTITY = "next_id"
"""The one source of identifiers; only write tools may call it."""

ALLOWED = SQLITE_FUNCTIONS | PURE.keys() | CLOCK


def is_date(text: str) -> bool:
    """Return whether `text` is a date as the functions here take it."""
    return "T" not in text and _reads(text)


def is_datetime(text: str) -> bool:
    """Return whether `text` is a date-time as the functions here take it."""
    return "T" in text and _reads(text)


def is_time(text: str) -> bool:
    """Return whether `text` is a time of day, `09:00` or `09:00:00`."""
    return _reads(f"2000-01-01T{text}")


def _reads(text: str) -> bool:
    try:
        _moment(text)
    except BadValue:
        return False
    return True


def is_email(text: str) -> bool:
    """Return whether `text` is plainly an e-mail address: one @, no spaces, a dot after it."""
    local, _, domain = text.partition("@")
    return bool(local) and "." in domain.strip(".") and not set(text[len(local) + 1 :]) & {" ", "@"}


FORMATS: dict[str, Callable[[str], bool]] = {
    "email": is_email,
    "date": is_date,
    "date-time": is_datetime,
    "time": is_time,
}
"""What `format:` means here; JSON Schema's own date-time demands a zone, which the clock lacks."""
