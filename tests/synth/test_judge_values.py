"""Typed values in prose: every usual spelling, and nothing that merely looks like one."""

import datetime
from decimal import Decimal
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synth.core.types import OutputValue
from synth.judge.values import at_token, number_words, scan, tells
from synth.telling import say_value


def found(text):
    return [(f.kind, *f.value) for f in scan(text)]


def output(kind, value, currency=None):
    return OutputValue(label="x", type=kind, value=value, currency=currency)


def told(text, kind, value, currency=None):
    values = [*scan(text), *number_words(text)]
    return any(tells(f, output(kind, value, currency)) for f in values)


DATE = ("date", 2026, 3, 5)


def test_full_width_digits_are_read_where_they_stand():
    text = "费用是１２０．５０欧元。"
    assert [(f.kind, f.value) for f in scan(text)] == [("money", ("EUR", Decimal(12050)))]
    assert text[scan(text)[0].start : scan(text)[0].end] == "１２０．５０欧元"


@pytest.mark.parametrize(
    "text",
    [
        "2026-03-05", "5 March 2026", "5 Mar. 2026", "5th of March 2026", "March 5, 2026",
        "March 5th, 2026", "05.03.2026", "5.3.2026", "2026-03-05T09:00:00", "(2026-03-05).",
        "on Thursday, 5 March 2026, at nine", "it is 5 March 2026.",
    ],
)  # fmt: skip
def test_dates_in_their_spellings(text):
    assert found(text)[0] == DATE


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("5 March", [("date", None, 3, 5)]),
        ("13/04/2026", [("date", 2026, 4, 13)]),
        ("04/13/2026", [("date", 2026, 4, 13)]),
        ("3/4/2026", []),  # nobody knows which is the month
        ("9:30 am", [("time", 9, 30)]),
        ("12:05 a.m.", [("time", 0, 5)]),
        ("at 8pm", [("time", 20, 0)]),
        ("2026-03-05 17:45", [DATE, ("time", 17, 45)]),
        ("2026-03-05T17:45:00Z", [DATE, ("time", 17, 45)]),
        ("10:30-11:00", [("time", 10, 30)]),
    ],
)
def test_dates_and_times_together(text, values):
    assert found(text) == values


@pytest.mark.parametrize(
    "text",
    [
        "12.50 EUR", "EUR 12.50", "EUR12.50", "€12.50", "12.50€", "12,50 €", "12.50 euros",
        "€ 12,50.", "(12.50 EUR)", "12.5 EUR", "a fee of 12.50 EUR, that is all",
    ],
)  # fmt: skip
def test_amounts_in_their_spellings(text):
    assert found(text) == [("money", "EUR", Decimal("1250"))]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("$1,234.50", [("money", "USD", Decimal(123450))]),
        ("1.234,50 €", [("money", "EUR", Decimal(123450))]),
        ("1 234,50 €", [("money", "EUR", Decimal(123450))]),
        ("£29", [("money", "GBP", Decimal(2900))]),
        ("¥1,200", [("money", "JPY", Decimal(1200))]),
        ("-12.50 EUR", [("money", "EUR", Decimal(-1250))]),
        ("-€12.50", [("money", "EUR", Decimal(-1250))]),
        ("1250 cents", [("money", None, Decimal(1250))]),
        ("US$ 3", [("money", "USD", Decimal(300))]),
        ("1.5 KWD", [("money", "KWD", Decimal(1500))]),
    ],
)
def test_amounts_with_groups_signs_and_other_currencies(text, values):
    assert found(text) == values


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("10 books", [10]), ("It is 10.", [10]), ("(10)", [10]), ("#10", [10]), ("12%", [12]),
        ("1,234", [1234]), ("12,345,678", [12345678]), ("12.5 or 13,5", [12.5, 13.5]),
        ("-5 and −6", [-5, -6]), ("0.5", [0.5]), ("x=-3", [-3]),
        ("R-10", []), ("B10", []), ("10B", []), ("a/10", []), ("10/12", []), ("10-12", []),
        ("v1.10.2", []), ("5kg", []), ("a_10", []), ("10:99", []), ("+49 30", [30]),
        ("3rd", []), ("10@x.org", []),
    ],
)  # fmt: skip
def test_numbers_and_what_only_looks_like_them(text, values):
    assert found(text) == [("number", Decimal(str(value))) for value in values]


@pytest.mark.parametrize(
    ("text", "kind", "value", "currency", "right"),
    [
        ("in 100 days", "integer", 10, None, False),
        ("ten days", "integer", 10, None, True),
        ("10.0", "integer", 10, None, True),
        ("about 4.33", "number", 4.3333, None, True),
        ("4.3", "number", 4.3333, None, False),
        ("0.0000001", "number", 0.0000002, None, False),
        ("12.50", "money", 1250, "EUR", True),
        ("12.5", "money", 1250, "EUR", False),
        ("1250", "money", 1250, "EUR", False),
        ("12.50 USD", "money", 1250, "EUR", False),
        ("12.51 EUR", "money", 1250, "EUR", False),
        ("5 March", "date", "2026-03-05", None, True),
        ("5 March 2025", "date", "2026-03-05", None, False),
        ("5 May 2026", "date", "2026-03-05", None, False),
        ("9:30 am", "text", "09:30", None, True),
        ("9:30 pm", "text", "09:30", None, False),
        ("noon", "text", "12:00", None, True),
    ],
)
def test_values_are_compared_by_type(text, kind, value, currency, right):
    assert told(text, kind, value, currency) is right


@given(
    value=st.one_of(
        st.dates(datetime.date(1900, 1, 1), datetime.date(2199, 12, 31)).map(
            lambda d: ("date", d.isoformat(), None)
        ),
        st.tuples(
            st.just("money"),
            st.integers(-(10**12), 10**12),
            st.sampled_from(["EUR", "USD", "JPY", "KWD"]),
        ),
        st.integers(-(10**15), 10**15).map(lambda n: ("integer", n, None)),
    ),
    iso=st.booleans(),
)
@settings(max_examples=150, deadline=None)
def test_whatever_the_reference_agent_says_is_read_back(value, iso):
    kind, plain, currency = value
    wanted = output(kind, plain, currency)
    text = f"The value is {say_value(wanted, iso_dates=iso)}."
    assert told(text, kind, plain, currency)
    assert len(scan(text)) == 1


@given(text=st.text(alphabet="0123456789-./:,€$ EURamMch\n", max_size=80))
@settings(max_examples=300, deadline=None)
def test_any_text_is_read_into_values_that_do_not_overlap(text):
    spans = sorted({(f.start, f.end) for f in scan(text)})
    assert all(0 <= start < end <= len(text) for start, end in spans)
    assert all(one[1] <= two[0] for one, two in pairwise(spans))


@pytest.mark.parametrize("text", ["9" * 5000, "1," * 3000, "12 " * 3000, "1.1." * 2000])
def test_long_figures_take_no_time(text):
    assert len(scan(text)) <= len(text)


@pytest.mark.parametrize(
    ("text", "value", "places"),
    [
        ("loan L-12.", "L-12", [5]),
        ("L-120", "L-12", []), ("XL-12", "L-12", []), ("L-12-A", "L-12", []),
        ("L-12 and L-12", "L-12", [0, 9]), ("a@b.org", "b.org", []), ("(M)", "M", [1]),
        ("pineapple", "pine", []), ("the pine.", "pine", [4]), ("x_pine", "pine", []),
    ],
)  # fmt: skip
def test_tokens_end_where_words_and_codes_end(text, value, places):
    assert at_token(text, value) == places
