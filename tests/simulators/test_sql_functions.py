"""The SQL functions of time: right values, NULL for NULL, and a clear complaint."""

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulators.sql.clock import Clock
from simulators.sql.functions import (
    ALLOWED,
    FORMATS,
    PURE,
    BadValue,
    date_add,
    days_between,
    minutes_between,
    month_add,
    time_add,
    weekday,
)
from simulators.sql.guard import Budget, Guard, add_sources, connect


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (date_add("2026-02-28", 1), "2026-03-01"),
        (date_add("2024-02-28T23:30:00", 1), "2024-02-29"),
        (date_add("2026-01-01", -1), "2025-12-31"),
        (date_add("2026-01-01", 2.0), "2026-01-03"),
        (month_add("2026-01-31", 1), "2026-02-28"),
        (month_add("2024-02-29", 12), "2025-02-28"),
        (month_add("2026-03-15", -3), "2025-12-15"),
        (time_add("2026-03-02T23:30:00", 45), "2026-03-03T00:15:00"),
        (time_add("2026-03-02", -1), "2026-03-01T23:59:00"),
        (days_between("2026-03-02", "2026-03-09"), 7),
        (days_between("2026-03-02T23:59:00", "2026-03-03T00:01:00"), 1),
        (days_between("2026-03-09", "2026-03-02"), -7),
        (minutes_between("2026-03-02T09:00:00", "2026-03-02T10:30:59"), 90),
        (minutes_between("2026-03-02T09:00:30", "2026-03-02T09:00:00"), -1),
        (minutes_between("2026-03-02", "2026-03-03T00:00:00"), 1440),
        (weekday("2026-03-02"), 1),
        (weekday("2026-03-08T12:00:00"), 7),
    ],
)
def test_functions_of_time_give_the_right_value(value, expected):
    assert value == expected


@pytest.mark.parametrize("name", sorted(PURE))
def test_every_function_gives_null_for_null(name):
    function, count = PURE[name]
    assert function(*([None] * count)) is None


@pytest.mark.parametrize(
    ("function", "arguments", "message"),
    [
        (date_add, ("tomorrow", 1), "'tomorrow' is not a date"),
        (date_add, ("2026-02-30", 1), "is not a date"),
        (date_add, ("2026-3-2", 1), "is not a date"),
        (date_add, ("20260302", 1), "is not a date"),
        (date_add, ("2026-W10-1", 1), "is not a date"),
        (date_add, ("٢٠٢٦-03-02", 1), "is not a date"),
        (date_add, (20260302, 1), "20260302' is not a date"),
        (date_add, ("2026-03-02", 1.5), "'1.5' is not a whole number"),
        (date_add, ("2026-03-02", "x"), "'x' is not a whole number"),
        (date_add, ("9999-12-31", 1), "out of range"),
        (date_add, ("2026-03-02", 2**62), "out of range"),
        (month_add, ("2026-03-02", 10**9), "out of range"),
        (month_add, ("0001-01-01", -1), "out of range"),
        (time_add, ("9999-12-31T23:59:00", 1), "out of range"),
        (weekday, ("2026-03-02T09:00:00+01:00",), "is not a date"),
        (weekday, ("x" * 1000,), "is not a date"),
    ],
)
def test_what_is_no_date_is_complained_about(function, arguments, message):
    with pytest.raises(BadValue, match=message) as caught:
        function(*arguments)
    assert len(str(caught.value)) < 150


DATES = st.dates(datetime.date(1900, 1, 1), datetime.date(2100, 1, 1))


@given(DATES, st.integers(-30_000, 30_000))
def test_adding_days_and_counting_them_agree(date, days):
    later = date_add(date.isoformat(), days)
    assert days_between(date.isoformat(), later) == days
    assert date_add(later, -days) == date.isoformat()
    assert (weekday(later) - weekday(date.isoformat()) - days) % 7 == 0


@given(st.text(max_size=20))
def test_formats_accept_what_the_functions_take(text):
    def taken():
        try:
            return weekday(text) is not None
        except BadValue:
            return False

    assert (FORMATS["date"](text) or FORMATS["date-time"](text)) <= taken()


@pytest.mark.parametrize(
    ("text", "is_address"),
    [
        ("a@b.c", True),
        ("a.b+c@d.example", True),
        ("a@b", False),
        ("@b.c", False),
        ("a b@c.d", True),
        ("a@b c.d", False),
        ("a@b@c.d", False),
        ("a@.", False),
        ("", False),
    ],
)
def test_an_address_has_one_at_and_a_domain(text, is_address):
    assert FORMATS["email"](text) is is_address


def test_every_allowed_function_exists_in_sqlite():
    connection = connect(Guard(), Budget())
    add_sources(connection, Clock("2026-03-02T09:00:00"), str)
    known = {name for (name,) in connection.execute("SELECT name FROM pragma_function_list")}
    # json_each and json_tree are tables; `if` is written by SQLite as iif.
    assert ALLOWED - known <= {"json_each", "json_tree", "if", "subtype"}
    assert not ALLOWED & {
        "random",
        "randomblob",
        "date",
        "datetime",
        "time",
        "julianday",
        "strftime",
        "unixepoch",
        "current_date",
        "current_time",
        "current_timestamp",
        "load_extension",
        "changes",
        "total_changes",
        "last_insert_rowid",
        "zeroblob",
        "fts3_tokenizer",
        "sqlite_version",
        "readfile",
    }
