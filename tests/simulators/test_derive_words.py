"""How values are said, and what templates of applications may do."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulators.sql.words import Spoken, Unsaid, Withheld, Words, occurs, singular, spoken
from synth.core.errors import BadApplication


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("2026-03-03", "3 March 2026"),
        ("2026-12-31T08:05:00", "31 December 2026, 08:05"),
        ("2026-13-01", "2026-13-01"),
        (True, "yes"),
        (False, "no"),
        (7, "7"),
        ("not_recognised", "not recognised"),
        ("Dune", "Dune"),
    ],
)
def test_values_are_said_as_people_say_them(value, said):
    assert spoken(value) == said


def test_money_is_said_in_major_units():
    assert spoken(1250, currency="EUR") == "12.50 EUR"
    assert spoken(5, currency="EUR") == "0.05 EUR"
    assert spoken(-1999, currency="USD") == "-19.99 USD"


@given(st.integers(min_value=-(10**12), max_value=10**12))
def test_said_money_can_be_read_back(cents):
    number = spoken(cents, currency="EUR").removesuffix(" EUR")
    units, hundredths = number.lstrip("-").split(".")
    assert (int(units) * 100 + int(hundredths)) * (-1 if number[0] == "-" else 1) == cents


def test_a_stored_truth_is_said_as_yes_or_no():
    assert spoken(1, boolean=True) == "yes"
    assert spoken(0, boolean=True) == "no"


@pytest.mark.parametrize(
    ("table", "noun"),
    [("members", "member"), ("copies", "copy"), ("boxes", "box"), ("glass", "glass")],
)
def test_a_table_is_singular_for_one_row(table, noun):
    assert singular(table) == noun


def test_words_occur_only_whole():
    assert occurs("art", "State of the Art.")
    assert not occurs("art", "start")
    assert not occurs("", "anything")
    assert occurs("2", "for 2 nights")
    assert not occurs("2", "for 12 nights")


@given(st.text(alphabet="ab ", max_size=4), st.text(alphabet="ab ", max_size=12))
def test_occurring_agrees_with_a_search_between_non_letters(text, inside):
    text = text.strip()  # words have no blanks at their ends
    found = re.search(rf"(?<![^\W_]){re.escape(text)}(?![^\W_])", inside) if text else None
    assert occurs(text, inside) == bool(found)


# --- templates -------------------------------------------------------------------------------


def rendered(source, **values):
    return Words(source, where="here").render(values)


def test_a_clause_is_one_line():
    assert rendered("borrow\n  {{ title }}  now ", title="Dune") == "borrow Dune now"


def test_conditions_loops_and_filters_render():
    text = "{% for x in xs %}{% if not loop.first %} and {% endif %}{{ x | lower }}{% endfor %}"
    assert rendered(text, xs=["A", "B"]) == "a and b"
    assert rendered("{{ 'it' if xs | length == 1 else 'them' }}", xs=[1, 2]) == "them"


@pytest.mark.parametrize(
    "source",
    [
        "{{ ''.__class__ }}{{ x() }}",
        "{{ cycler('a') }}",
        "{% for i in range(9) %}x{% endfor %}",
        "{{ 'x' * 100000000 }}",
        "{{ 2 ** 100000 }}",
        "{% set x = 1 %}{{ x }}",
        "{% macro m() %}{% endmacro %}",
        "{% include 'other' %}",
        "{% import 'other' as o %}",
        "{{ x | replace('a', 'aaaaaaaa') }}",
        "{{ x | attr('__class__') }}",
        "{% for a in x recursive %}{{ a }}{% endfor %}",
        "{% for a in x %}{% for b in x %}{% for c in x %}{% endfor %}{% endfor %}{% endfor %}",
        "{% for a in [1, 2] %}{{ a }}{% endfor %}",
    ],
)
def test_templates_have_no_more_power_than_they_need(source):
    with pytest.raises(BadApplication) as caught:
        Words(source, where="app: tools.t.intent")
    assert str(caught.value).startswith("app: tools.t.intent: ")


def test_private_attributes_are_out_of_reach():
    with pytest.raises(BadApplication, match="here"):
        rendered("{{ x.__class__.__mro__ }}", x="a")


def test_broken_syntax_is_named():
    with pytest.raises(BadApplication, match="not a template"):
        Words("{{ x", where="here")


def test_an_unknown_name_is_no_empty_text():
    with pytest.raises(BadApplication, match="'x' is undefined"):
        rendered("{{ x }}")


def test_a_long_rendering_is_stopped():
    with pytest.raises(BadApplication, match="more than 600 characters"):
        rendered("{% for a in x %}{% for b in x %}{{ b }}{% endfor %}{% endfor %}", x=["ab"] * 100)


def test_a_long_template_is_refused():
    with pytest.raises(BadApplication, match="template of"):
        Words("a" * 20_001, where="here")


def test_absent_and_withheld_values_cannot_be_printed():
    with pytest.raises(Unsaid):
        rendered("{{ x }}", x=None)
    with pytest.raises(Unsaid):
        rendered("{{ x }}", x=Withheld())
    assert rendered("a{% if x %} {{ x }}{% endif %}", x=Withheld()) == "a"


def test_said_values_compare_as_what_they_are():
    amount = Spoken(1250, "12.50 EUR")
    assert rendered("{% if x == 1250 %}{{ x }}{% endif %}", x=amount) == "12.50 EUR"
    assert rendered("{% if x > 1000 and x < 2000 %}ok{% endif %}", x=amount) == "ok"
    assert rendered("{{ 'open' if x else 'shut' }}", x=Spoken(False, "no")) == "shut"


def test_a_template_knows_what_it_uses_and_what_it_always_prints():
    source = "{% for o in orders %}{{ o.x }}{% endfor %} {{ a.b }} {% if c %}{{ d }}{% endif %}"
    words = Words(source, where="here")
    assert words.names == {"orders", "a", "c", "d"}
    assert words.printed == {"a"}
