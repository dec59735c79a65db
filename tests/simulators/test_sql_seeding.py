"""Seeding: every generator, the order of things, the same bytes everywhere, and clear errors."""

import copy
import hashlib
import os
import re
import subprocess
import sys
from collections import Counter
from datetime import date, datetime
from pathlib import Path

import pytest

from simulators.sql.engine import Engine
from simulators.sql.load import applications, load_application
from simulators.sql.people import ascii_word, cities, companies, origins, streets
from synth.core.application import GENERATORS, Application, Generator
from synth.core.errors import BadApplication
from synth.core.seeds import rng

LIBRARY = Path(__file__).parent / "data" / "library.yaml"
ENDLESS = "WITH RECURSIVE k(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM k)"
START = datetime.fromisoformat("2026-03-02T00:00:00")
BASE = {
    "application": "seeds",
    "category": "test",
    "summary": "Seeds.",
    "clock": "2026-03-02T09:00:00",
    "schema": """
        CREATE TABLE houses (
          id TEXT PRIMARY KEY, city TEXT, country TEXT, street TEXT, code TEXT
        ) STRICT;
        CREATE TABLE people (
          id TEXT PRIMARY KEY, house_id TEXT REFERENCES houses, name TEXT, a TEXT, b TEXT,
          n INTEGER, r REAL
        ) STRICT;
    """,
    "seed": {},
    "policy": "none",
    "tools": {},
}


def engine(seed, after=(), schema=None):
    value = {**copy.deepcopy(BASE), "seed": seed, "after_seed": list(after)}
    if schema:
        value["schema"] = schema
    return Engine(Application.model_validate(value))


def rows(table, seed, number=1, after=()):
    environment = engine(seed, after).environment()
    environment.reset_now(number)
    return environment.query(f"SELECT * FROM {table} ORDER BY length(id), id")


def column(generator, count=300, number=1, name="a", before=None):
    columns = {"id": {"serial": "P{n}"}, **(before or {}), name: generator}
    return [
        row[name]
        for row in rows("people", {"people": {"count": count, "columns": columns}}, number)
    ]


def complaint(seed, after=(), schema=None):
    with pytest.raises(BadApplication) as caught:
        engine(seed, after, schema).image(1)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def wrong(generator, name="a"):
    return complaint(
        {"people": {"count": 3, "columns": {"id": {"serial": "P{n}"}, name: generator}}}
    )


# --- generators ------------------------------------------------------------------------------


def test_serial_counts_from_one_in_its_pattern():
    assert column({"serial": "M{n:03d}/x"}, 3) == ["M001/x", "M002/x", "M003/x"]
    assert column({"serial": "{n}"}, 2) == ["1", "2"]


def test_choice_takes_all_and_weights_count():
    assert set(column({"choice": ["S", "M", "L"]})) == {"S", "M", "L"}
    counts = Counter(column({"choice": {"common": 9, "rare": 1, "never": 0}}, 1000))
    assert counts["never"] == 0
    assert 850 < counts["common"] < 950
    assert set(column({"choice": {True: 1, False: 1}}, name="n")) == {0, 1}


def test_numbers_stay_in_their_range():
    assert set(column({"integer": [1, 4]}, name="n")) == {1, 2, 3, 4}
    assert set(column({"integer": [-10, 30, 20]}, name="n")) == {-10, 10, 30}
    values = column({"number": [1, 2, 1]}, name="r")
    assert set(values) == {1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7, 1.8, 1.9, 2.0}


def test_dates_count_from_the_clock():
    assert set(column({"date": [-1, 1]})) == {"2026-03-01", "2026-03-02", "2026-03-03"}
    moments = [datetime.fromisoformat(v) for v in column({"datetime": [0, 1, 90]})]
    assert all(len(v) == 19 for v in column({"datetime": [0, 1, 90]}, 5))
    assert {m.date() for m in moments} == {date(2026, 3, 2), date(2026, 3, 3)}
    minutes = {((m - START).days * 1440 + (m - START).seconds // 60) for m in moments}
    assert {m % 90 for m in minutes} == {0}
    assert max(minutes) <= 2 * 1440 - 90


def test_people_have_names_of_one_origin_in_a_row():
    before = {"name": {"person": "first"}}
    values = [
        (row["name"], row["a"])
        for row in rows(
            "people",
            {
                "people": {
                    "count": 200,
                    "columns": {"id": {"serial": "P{n}"}, **before, "a": {"person": "last"}},
                }
            },
        )
    ]
    assert len(set(values)) > 150
    folder = Path(sys.modules["simulators.sql.people"].__file__).parent / "values"
    firsts, lasts = ({}, {})
    for name, found in (("first_names", firsts), ("last_names", lasts)):
        heading = ""
        for line in (folder / f"{name}.txt").read_text(encoding="utf-8").splitlines():
            heading = line if line.startswith("[") else heading
            if line and not line.startswith("["):
                found.setdefault(line, set()).add(heading)
    assert all(firsts[first] & lasts[last] for first, last in values)
    full = column({"person": "full"})
    assert all(len(name.split()) >= 2 for name in full)
    assert len(set(full)) > 250


def test_an_address_is_made_of_the_name_and_unlike_any_other():
    columns = {"id": {"serial": "P{n}"}, "name": {"person": "full"}, "a": {"email": "name"}}
    people = rows("people", {"people": {"count": 300, "columns": columns}})
    assert len({row["a"] for row in people}) == 300
    for number, row in enumerate(people, 1):
        local = ".".join(ascii_word(word) for word in row["name"].split())
        assert re.fullmatch(rf"{re.escape(local)}{number}@example\.(com|org|net)", row["a"])
        assert row["a"].isascii()


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("Jürgen", "juergen"),
        ("Øystein", "oystein"),
        ("Łukasz", "lukasz"),
        ("Élodie", "elodie"),
        ("Şahin", "sahin"),
        ("Yıldırım", "yildirim"),
        ("O'Neil", "oneil"),
        ("Đặng", "dang"),
    ],
)
def test_names_are_folded_to_ascii(name, plain):
    assert ascii_word(name) == plain


def test_all_parts_of_an_address_are_of_one_city():
    parts = {"city": "city", "country": "country", "street": "street", "code": "postcode"}
    columns = {
        "id": {"serial": "H{n}"},
        **{name: {"address": part} for name, part in parts.items()},
    }
    known = {city.name: city for city in cities()}
    houses = rows("houses", {"houses": {"count": 200, "columns": columns}})
    assert len({house["city"] for house in houses}) > 30
    for house in houses:
        city = known[house["city"]]
        assert house["country"] == city.country
        pattern = (
            re.escape(city.postcode)
            .replace(r"\#", r"\d")
            .replace(r"\?", "[A-Z]")
            .replace("?", "[A-Z]")
        )
        assert re.fullmatch(pattern, house["code"])
        assert re.sub(r"\d+", "#", house["street"]) in streets(city.country)


def test_every_country_has_streets_and_every_origin_last_names():
    assert {city.country for city in cities()} == {
        c.country for c in cities() if streets(c.country)
    }
    assert len(origins()) >= 12
    assert len(set(companies())) == len(companies()) >= 60
    assert all("#" in street for city in cities() for street in streets(city.country))


def test_patterns_are_filled_in():
    assert all(re.fullmatch(r"\+49 30 \d{7}", v) for v in column({"phone": "+49 30 #######"}, 20))
    grouped = column({"phone": ["+49 30 #######", "+49 30 ### ####"]}, 40)
    assert {bool(re.fullmatch(r"\+49 30 \d{3} \d{4}", v)) for v in grouped} == {True, False}
    assert all(re.fullmatch(r"[A-Z]{2}-\d{4}", v) for v in column({"code": "??-####"}, 20))
    assert len(set(column({"code": "????####"}))) == 300


def test_companies_words_and_values():
    assert set(column({"company": True})) <= set(companies())
    assert set(column({"words": ["one thing", "another"]})) == {"one thing", "another"}
    assert set(column({"value": "x"})) == {"x"}
    assert set(column(7, name="n")) == {7}
    assert set(column("fixed")) == {"fixed"}


def test_a_template_sees_earlier_columns():
    before = {"name": {"value": "Ann"}, "n": {"integer": [5, 5]}, "b": {"value": None}}
    assert column({"template": "{name}, {n}{b}!"}, 1, before=before) == ["Ann, 5!"]


def test_sql_sees_the_rows_so_far_and_earlier_columns():
    before = {"n": {"integer": [1, 1]}}
    sql = "SELECT (SELECT count(*) FROM people) * 10 + :n"
    assert column({"sql": sql}, 3, name="a", before=before) == ["1", "11", "21"]
    assert column({"sql": "SELECT 1 WHERE 0"}, 2) == [None, None]


def test_nulls_come_at_their_share():
    values = column({"value": "x", "null": 0.3}, 1000)
    assert 240 < values.count(None) < 360


@pytest.mark.parametrize(
    ("generator", "count"),
    [
        ({"choice": ["a", "b", "c"], "unique": True}, 3),
        ({"choice": {"a": 100, "b": 1}, "unique": True}, 2),
        ({"integer": [1, 200], "unique": True}, 200),
        ({"date": [0, 99], "unique": True}, 100),
        ({"words": ["a", "b"], "unique": True}, 2),
        ({"code": "##", "unique": True}, 60),
    ],
)
def test_unique_values_are_drawn_to_the_last(generator, count):
    values = column(generator, count, name="n" if "integer" in generator else "a")
    assert len(set(values)) == count


@pytest.mark.parametrize(
    "generator",
    [
        {"choice": ["a", "b"]},
        {"choice": {"a": 1, "b": 1, "c": 0}},
        {"date": [0, 1]},
        {"value": "a"},
        {"phone": "#"},
    ],
)
def test_a_unique_that_cannot_be_met_says_so(generator):
    message = complaint(
        {
            "people": {
                "count": 11,
                "columns": {"id": {"serial": "P{n}"}, "a": {**generator, "unique": True}},
            }
        }
    )
    assert re.search(
        r"seeds: seed\.people\.columns\.a: no further unique value after \d+ \(seed fewer", message
    )


def test_unique_counts_literal_rows_and_not_nulls():
    seed = {
        "people": {
            "rows": [{"id": "P1", "a": "x"}],
            "count": 3,
            "columns": {
                "id": {"serial": "P{n}"},
                "a": {"choice": ["x", "y"], "unique": True, "null": 0.7},
            },
        }
    }
    for number in range(20):
        try:
            values = [row["a"] for row in rows("people", seed, number)]
        except BadApplication:
            continue
        assert values.count("x") == 1
        assert values.count("y") <= 1
        assert len(values) == 4


# --- rows and references -----------------------------------------------------------------------

HOUSES = {"count": 5, "columns": {"id": {"serial": "H{n}"}, "city": {"choice": ["Ulm", "Bonn"]}}}


def people(**columns):
    return {
        "houses": HOUSES,
        "people": {"count": 60, "columns": {"id": {"serial": "P{n}"}, **columns}},
    }


def test_a_reference_leads_to_rows_that_fit():
    seed = people(house_id={"ref": "houses"})
    assert {row["house_id"] for row in rows("people", seed)} == {f"H{n}" for n in range(1, 6)}
    seed = people(
        a={"choice": ["Ulm", "Bonn"]}, house_id={"ref": {"table": "houses", "where": "city = :a"}}
    )
    town = {row["id"]: row["city"] for row in rows("houses", seed, 3)}
    assert {"Ulm", "Bonn"} == set(town.values())
    assert all(town[row["house_id"]] == row["a"] for row in rows("people", seed, 3))


def test_a_unique_reference_uses_each_row_once():
    for ref in ({"ref": {"table": "houses", "unique": True}}, {"ref": "houses", "unique": True}):
        seed = people(house_id=ref)
        seed["people"]["count"] = 5
        assert len({row["house_id"] for row in rows("people", seed)}) == 5


def test_a_reference_to_the_own_table_leads_to_earlier_rows():
    schema = "CREATE TABLE t (id TEXT PRIMARY KEY, boss_id TEXT REFERENCES t) STRICT"
    seed = {"t": {"count": 20, "columns": {"id": {"serial": "T{n}"}, "boss_id": {"ref": "t"}}}}
    environment = engine(seed, schema=schema).environment()
    environment.reset_now(1)
    found = environment.query("SELECT id, boss_id FROM t ORDER BY length(id), id")
    assert found[0]["boss_id"] is None
    assert all(int(row["boss_id"][1:]) < int(row["id"][1:]) for row in found[1:])


def test_children_are_made_for_each_parent_row():
    seed = {
        "houses": HOUSES,
        "people": {
            "each": "houses",
            "count": [1, 3],
            "columns": {
                "id": {"serial": "P{n}"},
                "house_id": {"parent": "id"},
                "a": {"parent": "city"},
            },
        },
    }
    town = {row["id"]: row["city"] for row in rows("houses", seed)}
    found = rows("people", seed)
    counts = Counter(row["house_id"] for row in found)
    assert set(counts) == set(town)
    assert set(counts.values()) <= {1, 2, 3}
    assert all(town[row["house_id"]] == row["a"] for row in found)
    assert [row["id"] for row in found] == [f"P{n}" for n in range(1, len(found) + 1)]
    seed["people"]["count"] = 2
    assert set(Counter(row["house_id"] for row in rows("people", seed)).values()) == {2}


def test_literal_rows_come_first_and_are_counted():
    seed = {
        "houses": {
            "rows": [{"id": "H1", "city": "Oslo"}],
            "count": 2,
            "columns": {"id": {"serial": "H{n}"}},
        }
    }
    assert [row["id"] for row in rows("houses", seed)] == ["H1", "H2", "H3"]


def test_a_range_of_rows_depends_on_the_seed():
    seed = {"houses": {"count": [2, 9], "columns": {"id": {"serial": "H{n}"}}}}
    counts = {len(rows("houses", seed, number)) for number in range(30)}
    assert counts == set(range(2, 10))


def test_statements_after_the_seed_make_it_consistent():
    after = [
        "UPDATE houses SET city = 'X' WHERE id = 'H1'",
        "INSERT INTO houses (id) VALUES (next_id('H'))",
    ]
    found = rows("houses", {"houses": HOUSES}, after=after)
    assert found[0]["city"] == "X"
    assert found[-1]["id"] == "H6"


# --- the same everywhere -----------------------------------------------------------------------


def test_another_seed_gives_another_state_and_the_same_gives_the_same_bytes():
    left, right = Engine(load_application(LIBRARY)), Engine(load_application(LIBRARY))
    assert left.image(3) == right.image(3)
    assert left.image(3) != left.image(4)
    assert [left.image(n) for n in range(70)][3] == left.image(3)


def test_the_bytes_are_the_same_in_any_process():
    code = (
        "import hashlib, sys\n"
        "from simulators.sql.engine import Engine\n"
        "from simulators.sql.load import load_application\n"
        "for path in sys.argv[1:]:\n"
        "    engine = Engine(load_application(path))\n"
        "    print(hashlib.sha256(engine.image(5)).hexdigest())\n"
    )
    paths = [str(LIBRARY), *map(str, applications().values())]
    engines = [Engine(load_application(path)) for path in paths]
    mine = [hashlib.sha256(e.image(5)).hexdigest() for e in engines]
    salt = str(int.from_bytes(os.urandom(4), "big"))
    environ = {**os.environ, "PYTHONHASHSEED": salt, "TZ": "Asia/Tokyo", "LC_ALL": "C"}
    command = [sys.executable, "-c", code, *paths]
    out = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
    assert out.stdout.split() == mine


def test_another_column_leaves_the_others_as_they_were():
    plain = people(house_id={"ref": "houses"}, name={"person": "full"})
    more = people(
        a={"integer": [1, 9]}, house_id={"ref": "houses"}, b={"code": "??"}, name={"person": "full"}
    )
    pick = [(row["house_id"], row["name"]) for row in rows("people", plain)]
    assert pick == [(row["house_id"], row["name"]) for row in rows("people", more)]


# --- new values for parameters -------------------------------------------------------------------


def test_new_values_are_made_without_rows():
    made = engine({}).generate
    kinds = {
        "choice": ["a"],
        "integer": [1, 9],
        "number": [0, 1, 2],
        "date": [1, 9],
        "datetime": [1, 9, 30],
        "person": "full",
        "email": "name",
        "phone": "###",
        "address": "street",
        "company": True,
        "words": ["a b"],
        "code": "??",
        "value": 5,
    }
    for kind, argument in kinds.items():
        generator = Generator(kind=kind, argument=argument)
        assert made(generator, rng("x", 1)) == made(generator, rng("x", 1))
    for kind in GENERATORS - set(kinds):
        with pytest.raises(BadApplication, match="needs a row of a seed"):
            made(Generator(kind=kind, argument="x"), rng("x", 1))
    assert re.fullmatch(
        r"[a-z.]+\d+@example\.\w+", made(Generator(kind="email", argument="name"), rng("y"))
    )
    assert made(Generator(kind="value", argument=1, null=1.0), rng("x")) is None


# --- complaints ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("generator", "message"),
    [
        ({"serial": "M{k}"}, "serial: 'M{k}' is no pattern"),
        ({"serial": "M{n:>99999999d}"}, "is no pattern"),
        ({"choice": []}, "choice: expected a list, found []"),
        ({"choice": "abc"}, "choice: expected a list, found 'abc'"),
        ({"choice": {"a": "x"}}, "choice: could not convert"),
        ({"choice": {"a": 0}}, "weights are numbers, not all 0"),
        ({"choice": {"a": -1, "b": 2}}, "weights are numbers"),
        ({"choice": [[1]]}, "the choices are plain values"),
        ({"integer": [3, 1]}, "is no range [low, high, step]"),
        ({"integer": [1, 3, 0]}, "is no range [low, high, step]"),
        ({"integer": 5}, "expected 3 whole numbers, found 5"),
        ({"integer": [1.5, 2]}, "expected 3 whole numbers"),
        ({"number": [1]}, "give [low, high, decimals]"),
        ({"number": [2, 1]}, "is no range"),
        ({"date": [1, 0]}, "is no range of days"),
        ({"date": [-99999999, 0]}, "date: "),
        ({"datetime": [0, 0, 2000]}, "has no place in these days"),
        ({"datetime": [0, 0, 0]}, "minutes of the grid"),
        ({"datetime": [10**12, 10**12, 5]}, "datetime: "),
        ({"person": "middle"}, "full, first or last"),
        ({"email": "nobody"}, "'nobody' is no earlier column of the row (these are: id)"),
        ({"phone": "none"}, "'none' has no #"),
        ({"address": "planet"}, "street, city, postcode or country"),
        ({"company": False}, "write company: true"),
        ({"ref": "hauses"}, "no table 'hauses' (did you mean 'houses'?)"),
        ({"ref": "houses"}, "no row of 'houses' to refer to (seed 'houses' before 'people')"),
        (
            {"ref": {"table": "houses", "were": "1"}},
            "unknown key 'were'; known: table, where, unique",
        ),
        ({"ref": {"table": "houses", "where": "citty = 1"}}, "no such column: citty"),
        ({"ref": {"table": "houses", "where": "1; DROP TABLE houses"}}, "more than one statement"),
        ({"ref": {"table": "houses", "where": "city = :zzz"}}, "'zzz' is no earlier column"),
        ({"parent": "id"}, "the table has no `each`"),
        ({"template": "{nope}"}, "'nope' is no earlier column"),
        ({"template": "{id.__class__}"}, "is not plain"),
        ({"words": "abc"}, "expected a list"),
        ({"code": "abc"}, "'abc' has neither ? nor #"),
        ({"value": [1]}, "one plain value"),
        ({"sql": "SELECT 1, 2"}, "select one value"),
        ({"sql": "DELETE FROM houses"}, "DELETE on 'houses' is not allowed"),
        ({"sql": "SELECT random()"}, "random() is not allowed"),
        ({"sql": "SELECT :later"}, "'later' is no earlier column"),
        (
            {"sql": f"{ENDLESS} SELECT max(i) FROM k"},
            "interrupted",
        ),
        ({"sql": "SELECT date_add('x', 1)"}, "'x' is not a date"),
    ],
)
def test_a_wrong_generator_names_column_and_fault(generator, message):
    found = wrong(generator)
    assert found.startswith("seeds: seed.people.columns.a: ")
    assert message in found


@pytest.mark.parametrize(
    ("seed", "message"),
    [
        (
            {"houses": {"count": 2, "columns": {"city": {"value": "x"}}}},
            "houses.columns: column 'id' is NOT NULL and gets no value",
        ),
        ({"houses": {"rows": [{"city": "x"}]}}, "seed.houses.rows[0]: column 'id' is NOT NULL"),
        (
            {"houses": {"rows": [{"id": "H1"}, {"id": "H1"}]}},
            "seed.houses.rows[1]: UNIQUE constraint failed: houses.id: id='H1'",
        ),
        (
            {"houses": {"count": 2, "columns": {"id": {"value": "H"}}}},
            "seed.houses (row 2): UNIQUE constraint failed",
        ),
        (
            {"houses": {"rows": [{"id": "H1", "citi": "x"}]}},
            "rows[0]: no column 'citi' in 'houses' (did you mean 'city'",
        ),
        (
            {"people": {"count": 1, "columns": {"id": {"serial": "P{n}"}, "n": {"value": "x"}}}},
            "cannot store TEXT value in INTEGER column people.n",
        ),
        ({"people": {"rows": [{"id": "P1", "n": 2**70}]}}, "seed.people.rows[0]: "),
        (
            {"people": {"rows": [{"id": "P1", "house_id": "H9"}]}},
            "a foreign key of people leads to no row of houses",
        ),
        (
            {
                "people": {"each": "houses", "count": 1, "columns": {"id": {"serial": "P{n}"}}},
                "houses": HOUSES,
            },
            "'houses' is seeded later (move it above people)",
        ),
        (
            {"houses": {"count": [3, 1], "columns": {"id": {"serial": "H{n}"}}}},
            "[3, 1] is no range",
        ),
        ({"houses": {"count": -1, "columns": {"id": {"serial": "H{n}"}}}}, "is no range"),
        (
            {"houses": {"count": 20_001, "columns": {"id": {"serial": "H{n}"}}}},
            "more than 20000 rows",
        ),
    ],
)
def test_a_seed_that_breaks_a_rule_names_table_and_row(seed, message):
    found = complaint(seed)
    assert message in found, found


def test_statements_after_the_seed_are_checked():
    found = complaint({"houses": HOUSES}, ["UPDATE houses SET id = 'H1'"])
    assert found.startswith("seeds: after_seed[0]: UNIQUE constraint failed")
    seed = people(house_id={"ref": "houses"})
    assert "a foreign key of people leads to no row" in complaint(seed, ["DELETE FROM houses"])
    bomb = f"{ENDLESS} INSERT INTO houses (id) SELECT 'Z' || i FROM k"
    assert "after_seed[0]: interrupted" in complaint({"houses": HOUSES}, [bomb])


def test_references_that_run_out_say_so():
    schema = BASE["schema"].replace("house_id TEXT", "house_id TEXT NOT NULL")
    seed = people(house_id={"ref": {"table": "houses", "unique": True}})
    assert "no row of 'houses' is left to refer to (seed more of them)" in complaint(
        seed, schema=schema
    )
