"""Calls: what they return, what they leave behind, and every way they fail."""

import asyncio
import copy
import gc
import json
import math
import time
import weakref
from pathlib import Path

import pytest

from simulators.sql.engine import Engine
from simulators.sql.environment import SqlEnvironment
from simulators.sql.load import load_application
from synth.core.application import Application
from synth.core.errors import BadApplication, BadInput, ToolloomError
from synth.core.protocols import Environment

LIBRARY = Engine(load_application(Path(__file__).parent / "data" / "library.yaml"))

SHOP = {
    "application": "shop",
    "category": "test",
    "summary": "Things that go wrong.",
    "clock": "2026-03-02T09:30:00",
    "schema": """
        CREATE TABLE boxes (
          id TEXT PRIMARY KEY, label TEXT UNIQUE, size INTEGER NOT NULL CHECK (size < 100),
          open INTEGER NOT NULL DEFAULT 0 CHECK (open IN (0, 1)), weight REAL,
          due TEXT, inside_id TEXT REFERENCES boxes
        ) STRICT;
    """,
    "seed": {
        "boxes": {
            "rows": [
                {"id": "X1", "label": "a", "size": 1, "weight": 0.5, "due": "2026-03-02"},
                {"id": "X2", "label": "b", "size": 2},
                {"id": "X009", "label": "c", "size": 3, "open": True},
            ]
        }
    },
    "policy": "none",
    "tools": {},
}


def shop(steps, effect="write", **parameters):
    value = copy.deepcopy(SHOP)
    value["tools"] = {
        "act": {"description": "x", "effect": effect, "parameters": parameters, "steps": steps},
        "list": {
            "description": "x",
            "effect": "read",
            "steps": [{"return": "SELECT * FROM boxes ORDER BY id", "shape": "list"}],
        },
        "add": {
            "description": "x",
            "effect": "write",
            "parameters": {"label": {"type": "string", "optional": True}},
            "steps": [
                {"let": {"id": "SELECT next_id('X')"}},
                {"write": "INSERT INTO boxes (id, label, size) VALUES (:id, :label, 5)"},
                {"return": "SELECT id, label FROM boxes WHERE id = :id", "shape": "object"},
            ],
        },
    }
    environment = Engine(Application.model_validate(value)).environment()
    environment.reset_now(0)
    return environment


def library():
    environment = LIBRARY.environment()
    environment.reset_now(1)
    return environment


def answer(environment, name="act", /, **arguments):
    result = environment.call_now(name, arguments)
    assert result.ok, result.content
    assert result.error is None
    return json.loads(result.content)


def error(environment, name="act", /, **arguments):
    """Make a call that fails; it must leave nothing behind."""
    before = environment.snapshot_now(), environment.diff_now()
    result = environment.call_now(name, arguments)
    assert not result.ok
    assert (environment.snapshot_now(), environment.diff_now()) == before
    assert json.loads(result.content) == {
        "error": result.error.code,
        "message": result.error.message,
    }
    return result.error.code, result.error.message


TEXT = {"type": "string"}
OPTIONAL = {"type": "string", "optional": True}
WRITE = {"write": "UPDATE boxes SET size = size + 1 WHERE id = 'X1'"}


# --- results ---------------------------------------------------------------------------------


def test_an_object_is_the_row_and_a_list_is_a_result_of_rows():
    environment = shop(
        [{"return": "SELECT id, size FROM boxes WHERE id = :id", "shape": "object"}],
        "read",
        id=TEXT,
    )
    assert environment.call_now("act", {"id": "X1"}).content == '{"id":"X1","size":1}'
    assert environment.call_now("list", {}).content == (
        '{"result":[{"id":"X009","label":"c","size":3,"open":true,"weight":null,"due":null,'
        '"inside_id":null},{"id":"X1","label":"a","size":1,"open":false,"weight":0.5,'
        '"due":"2026-03-02","inside_id":null},{"id":"X2","label":"b","size":2,"open":false,'
        '"weight":null,"due":null,"inside_id":null}]}'
    )


def test_an_object_without_a_row_is_an_error_and_a_list_is_empty():
    select = "SELECT id FROM boxes WHERE id = :id"
    assert error(shop([{"return": select, "shape": "object"}], "read", id=TEXT), id="X8") == (
        "not_found",
        "Nothing was found.",
    )
    assert answer(shop([{"return": select, "shape": "list"}], "read", id=TEXT), id="X8") == {
        "result": []
    }


def test_a_write_without_a_return_step_says_that_it_is_done():
    assert shop([WRITE]).call_now("act", {}).content == '{"done":true}'


def test_let_binds_a_value_for_later_steps():
    environment = shop(
        [
            {"let": {"old": "SELECT size FROM boxes WHERE id = 'X2'", "none": "SELECT 1 WHERE 0"}},
            {"write": "UPDATE boxes SET size = :old * 10 WHERE id = 'X1'"},
            {
                "return": "SELECT size, :old AS old, :none AS none FROM boxes WHERE id = 'X1'",
                "shape": "object",
            },
        ]
    )
    assert answer(environment) == {"size": 20, "old": 2, "none": None}


def test_returning_gives_the_result_of_a_write():
    environment = shop(
        [
            {
                "return": "UPDATE boxes SET open = 1 WHERE size < :n RETURNING id, open",
                "shape": "list",
            }
        ],
        n={"type": "integer"},
    )
    assert answer(environment, n=2) == {"result": [{"id": "X1", "open": True}]}
    assert error(environment, n=0)[0] == "conflict"


def test_absent_parameters_are_null_and_messages_see_them():
    environment = shop(
        [
            {
                "require": "SELECT :b IS NOT NULL",
                "error": "no_b",
                "message": "{a} {a!r} {b} {b!r} {c} {d!r}",
            },
            WRITE,
        ],
        a=TEXT,
        b=OPTIONAL,
        c={"type": "boolean", "optional": True},
        d={"type": "array", "items": TEXT, "optional": True},
    )
    assert error(environment, a="it's", c=True, d=["x"]) == (
        "no_b",
        "it's \"it's\" nothing nothing 1 '[\"x\"]'",
    )


def test_a_value_is_never_read_as_a_template():
    environment = shop(
        [{"require": "SELECT 0", "error": "no", "message": "{{{a}}}"}, WRITE], a=TEXT
    )
    assert error(environment, a="{b.__class__}{0}%s") == ("no", "{{b.__class__}{0}%s}")


def test_arrays_and_objects_are_bound_as_json_text():
    environment = shop(
        [{"return": "SELECT :a AS a, :o AS o, json_array_length(:a) AS n", "shape": "object"}],
        "read",
        a={"type": "array", "items": TEXT},
        o={"type": "object", "properties": {"k": {"type": "number"}}},
    )
    assert answer(environment, a=["ü", 'q"'], o={"k": 1.5}) == {
        "a": '["ü","q\\""]',
        "o": '{"k":1.5}',
        "n": 2,
    }


def test_time_stands_still_and_never_is_the_wall_clocks():
    environment = shop(
        [{"return": "SELECT now() AS now, today() AS today", "shape": "object"}], "read"
    )
    assert answer(environment) == {"now": "2026-03-02T09:30:00", "today": "2026-03-02"}


# --- identity --------------------------------------------------------------------------------


def test_identifiers_begin_above_the_seed_and_keep_its_width():
    environment = shop([WRITE])
    assert [answer(environment, "add")["id"] for _ in range(2)] == ["X010", "X011"]
    environment.reset_now(0)
    assert answer(environment, "add")["id"] == "X010"


def test_a_failed_call_gives_its_identifiers_back():
    environment = shop([WRITE])
    assert error(environment, "add", label="a")[0] == "conflict"
    assert answer(environment, "add")["id"] == "X010"


def test_counters_belong_to_snapshots_and_forks():
    environment = shop([WRITE])
    answer(environment, "add")
    state, twin = environment.snapshot_now(), environment.fork_now()
    assert [answer(environment, "add")["id"], answer(twin, "add")["id"]] == ["X011", "X011"]
    environment.restore_now(state)
    assert answer(environment, "add")["id"] == "X011"


@pytest.mark.parametrize("prefix", ["''", "NULL", "5", "'X1'", "'a b'", "'" + "x" * 17 + "'"])
def test_a_prefix_is_a_short_word_of_letters(prefix):
    environment = shop([{"let": {"x": f"SELECT next_id({prefix})"}}, WRITE])
    code, message = error(environment)
    assert code == "tool_fault"
    assert "next_id needs a prefix of letters" in message


# --- failures --------------------------------------------------------------------------------


def test_an_unknown_entity_is_not_found_and_nothing_runs():
    environment = library()
    assert error(environment, "lend_book", book_id="B999", member_id="M001") == (
        "not_found",
        "Unknown value 'B999' for book_id.",
    )
    assert error(environment, "search_books", branch_id="nope")[0] == "not_found"
    assert answer(environment, "search_books", title="no such title") == {"result": []}


def test_each_item_of_an_array_of_entities_must_exist():
    environment = library()
    assert error(environment, "return_loans", loan_ids=["L1", "L999"]) == (
        "not_found",
        "Unknown value 'L999' for loan_ids.",
    )
    assert error(environment, "return_loans", loan_ids=["L1", "L1"])[0] == "invalid_arguments"
    answer(environment, "return_loans", loan_ids=["L1", "L2"])


def test_entities_inside_objects_must_exist():
    box = {"type": "string", "entity": "boxes.id"}
    line = {
        "type": "object",
        "properties": {"box_id": box, "n": {"type": "integer", "optional": True}},
    }
    environment = shop(
        [WRITE], lines={"type": "array", "items": line}, one={**line, "optional": True}
    )
    answer(environment, lines=[{"box_id": "X1", "n": 1}, {"box_id": "X2"}])
    assert error(environment, lines=[{"box_id": "X1"}, {"box_id": "X7"}]) == (
        "not_found",
        "Unknown value 'X7' for lines.box_id.",
    )
    assert error(environment, lines=[], one={"box_id": "X8"})[0] == "not_found"


def test_a_require_fails_with_the_applications_own_code():
    environment = library()
    book = environment.query("SELECT id FROM books WHERE copies = 0 ORDER BY id")[0]["id"]
    assert error(environment, "lend_book", book_id=book, member_id="M001") == (
        "unavailable",
        f"No copy of '{book}' is available.",
    )


@pytest.mark.parametrize(
    ("rows", "where", "code"),
    [
        (None, "id = 'X1'", None),
        (None, "1", None),
        (None, "0", "conflict"),
        ("any", "0", None),
        (1, "id = 'X1'", None),
        (1, "1", "conflict"),
        (3, "1", None),
        (0, "1", "conflict"),
        (0, "0", None),
    ],
)
def test_a_write_must_change_as_many_rows_as_it_says(rows, where, code):
    environment = shop([{"write": f"UPDATE boxes SET size = 7 WHERE {where}", "rows": rows}])
    if code is None:
        answer(environment)
    else:
        assert error(environment)[0] == code


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE boxes SET label = 'b' WHERE id = 'X1'",
        "UPDATE boxes SET size = 100",
        "UPDATE boxes SET size = NULL",
        "UPDATE boxes SET size = 'many'",
        "UPDATE boxes SET inside_id = 'X404'",
        "INSERT INTO boxes (id, size) VALUES ('X1', 1)",
        "INSERT INTO boxes (id, size) VALUES (NULL, 1)",
        "UPDATE boxes SET open = 2",
    ],
)
def test_a_broken_constraint_is_a_conflict_and_undoes_the_whole_call(sql):
    environment = shop([WRITE, {"write": sql}])
    code, message = error(environment)
    assert code == "conflict"
    assert message.startswith("The change is not possible: ")


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (2**63, "too large"),
        (-(2**63) - 1, "too large"),
        (math.nan, "not of type"),
        (math.inf, "not of type"),
        (True, "not of type"),
        ("5", "not of type"),
        (1.5, "not of type"),
        (None, "not of type"),
        (b"5", "type"),
    ],
)
def test_an_integer_that_sqlite_cannot_hold_is_an_invalid_argument(value, told):
    code, message = error(shop([WRITE], n={"type": "integer"}), n=value)
    assert code == "invalid_arguments"
    assert told in message.lower()


def test_a_whole_float_is_an_integer_as_json_schema_says():
    environment = shop(
        [{"return": "SELECT :n AS n, typeof(:n) AS t", "shape": "object"}],
        "read",
        n={"type": "integer"},
    )
    assert answer(environment, n=3.0) == {"n": 3, "t": "integer"}


@pytest.mark.parametrize("value", ["\ud800", "x\udfff", "x" * 100_001, "ü" * 60_000])
def test_text_that_sqlite_cannot_hold_is_an_invalid_argument(value):
    assert error(shop([WRITE], a=TEXT), a=value)[0] == "invalid_arguments"
    deep = {"type": "object", "properties": {"k": TEXT}}
    assert error(shop([WRITE], a=deep), a={"k": value})[0] == "invalid_arguments"


def test_numbers_that_are_none_are_invalid_wherever_they_hide():
    environment = shop(
        [WRITE],
        a={"type": "array", "items": {"type": "number"}},
        n={"type": "number", "optional": True},
    )
    assert error(environment, a=[math.nan])[0] == "invalid_arguments"
    assert error(environment, a=[], n=math.inf)[0] == "invalid_arguments"
    assert error(environment, a=[], n=2**70)[0] == "invalid_arguments"


@pytest.mark.claim("a09")
def test_wrong_arguments_name_the_place():
    environment = library()
    assert error(environment, "lend_book", book_id="B1") == (
        "invalid_arguments",
        '"member_id" is a required property',
    )
    assert error(environment, "extend_loan", loan_id="L1", days=99) == (
        "invalid_arguments",
        "days: 99 is greater than the maximum of 28",
    )
    assert (
        "'bok_id' was unexpected"
        in error(environment, "lend_book", book_id="B1", member_id="M001", bok_id="B1")[1]
    )
    assert (
        error(environment, "return_loans", loan_ids=["L1", 5])[1]
        == 'loan_ids.1: 5 is not of type "string"'
    )


@pytest.mark.parametrize(
    "arguments", [None, [], "x", 5, {1: 2}, [("a", 1, 2)], {"email": object()}, {"email": {1, 2}}]
)
def test_arguments_that_are_no_object_are_a_result(arguments):
    environment = library()
    assert environment.call_now("find_member", arguments).error.code == "invalid_arguments"


def test_arguments_nested_beyond_reason_are_a_result():
    deep = []
    for _ in range(100_000):
        deep = [deep]
    environment = shop([WRITE], a={"type": "array"}, o={"type": "object", "optional": True})
    assert error(environment, a=deep)[0] == "invalid_arguments"
    while deep:
        deep = deep.pop()


def test_an_unknown_tool_is_a_result():
    assert error(library(), "lend_bok") == ("unknown_tool", "There is no tool 'lend_bok'.")
    assert library().call_now("\ud800", {}).error.code == "unknown_tool"


def test_a_date_function_refuses_what_is_no_date_as_the_callers_fault():
    environment = shop(
        [{"write": "UPDATE boxes SET due = date_add(:day, 1) WHERE id = 'X1'"}], day=TEXT
    )
    answer(environment, day="2026-03-31")
    assert error(environment, day="tomorrow") == (
        "invalid_arguments",
        "'tomorrow' is not a date (YYYY-MM-DD) or date-time (YYYY-MM-DDTHH:MM:SS)",
    )
    assert environment.query("SELECT due FROM boxes WHERE id = 'X1'") == [{"due": "2026-04-01"}]


@pytest.mark.parametrize(
    ("format_", "good", "bad"),
    [
        ("date", "2026-02-28", "2026-02-30"),
        ("date-time", "2026-02-28T10:00:00", "2026-02-28T10:00:00Z"),
        ("time", "09:30", "25:00"),
        ("email", "a.b@example.org", "nobody"),
    ],
)
def test_formats_are_those_of_the_clock(format_, good, bad):
    environment = shop([WRITE], a={"type": "string", "format": format_})
    answer(environment, a=good)
    assert error(environment, a=bad)[0] == "invalid_arguments"


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT CAST(x'ff' AS TEXT) AS x",
        "SELECT x'00' AS x",
        "SELECT abs(-9223372036854775808) AS x",
        "SELECT json('{') AS x",
        "SELECT 'a' LIKE replace(printf('%.*c', 2000, 'x'), 'x', '%') AS x",
        "SELECT printf('%.*c', 1000000, 'x') AS x",
    ],
)
def test_sql_that_breaks_when_run_is_a_fault_of_the_tool(sql):
    assert error(shop([{"return": sql, "shape": "object"}], "read"))[0] == "tool_fault"


def test_infinity_is_written_as_null_like_every_json_writer_does():
    assert answer(shop([{"return": "SELECT 9e999 AS x", "shape": "object"}], "read")) == {"x": None}


ENDLESS = "WITH RECURSIVE k(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM k)"


@pytest.mark.parametrize(
    "sql",
    [
        f"{ENDLESS} SELECT count(*) AS n FROM k",
        f"{ENDLESS} SELECT i FROM k ORDER BY i DESC",
        f"{ENDLESS}, t(s) AS (SELECT printf('%.*c', 90000, 'x') || i FROM k)"
        " SELECT DISTINCT s FROM t",
        f"{ENDLESS} SELECT group_concat(i) AS s FROM k",
        "SELECT count(*) AS n FROM boxes a, boxes b, boxes c, boxes d, boxes e, boxes f, boxes g,"
        " boxes h, boxes i, boxes j, boxes k, boxes l, boxes m, boxes n, boxes o",
    ],
)
def test_a_read_without_end_is_stopped(sql):
    environment = shop([{"return": sql, "shape": "list"}], "read")
    started = time.process_time()
    code, message = error(environment)
    assert code == "tool_fault"
    assert "too long" in message or "too large" in message
    assert time.process_time() - started < 5
    assert len(answer(environment, "list")["result"]) == 3


def test_a_result_without_measure_is_stopped():
    environment = shop([{"return": f"{ENDLESS} SELECT i FROM k", "shape": "list"}], "read")
    assert error(environment) == ("tool_fault", "The result is too large.")
    environment = shop(
        [
            {
                "return": f"{ENDLESS} SELECT printf('%.*c', 90000, 'x') AS s FROM k LIMIT 9",
                "shape": "list",
            }
        ],
        "read",
    )
    assert error(environment) == ("tool_fault", "The result is too large.")


@pytest.mark.parametrize(
    "sql",
    [
        f"INSERT INTO boxes (id, size) {ENDLESS} SELECT 'Y' || i, 1 FROM k",
        "INSERT OR ROLLBACK INTO boxes (id, size) VALUES ('X1', 5)",
        "UPDATE OR ROLLBACK boxes SET label = 'a'",
    ],
)
def test_when_sqlite_gives_up_the_transaction_the_episode_survives(sql):
    # An interrupted write and OR ROLLBACK end the whole transaction, earlier calls included.
    environment = shop([{"let": {"x": "SELECT next_id('X')"}}, {"write": sql}])
    answer(environment, "add", label="first")
    state = environment.snapshot_now()
    answer(environment, "add", label="second")
    before = environment.diff_now()
    assert error(environment)[0] in ("tool_fault", "conflict")
    assert environment.diff_now() == before
    assert answer(environment, "add")["id"] == "X012"
    environment.restore_now(state)
    answer(environment, "add", label="third")
    assert error(environment)[0] in ("tool_fault", "conflict")
    assert [row["label"] for row in environment.query("SELECT label FROM boxes ORDER BY id")] == [
        "c",
        "first",
        "third",
        "a",
        "b",
    ]


def test_an_interrupted_python_undoes_the_call_and_goes_on():
    def stop(*_):
        raise KeyboardInterrupt

    environment = shop([WRITE, {"write": "UPDATE boxes SET due = date_add(:day, 1)"}], day=TEXT)
    before = environment.snapshot_now()
    environment._store.connection.create_scalar_function("date_add", stop, 2)
    with pytest.raises(KeyboardInterrupt):
        environment.call_now("act", {"day": "2026-03-02"})
    assert environment.snapshot_now() == before
    assert answer(environment, "add")["id"] == "X010"


def test_patterns_are_matched_in_linear_time():
    environment = shop([WRITE], a={"type": "string", "pattern": "^(a+)+$"})
    started = time.process_time()
    assert error(environment, a="a" * 50_000 + "!")[0] == "invalid_arguments"
    assert time.process_time() - started < 10


def test_long_values_are_cut_short_in_messages():
    environment = library()
    message = error(environment, "lend_book", book_id="B" * 5000, member_id="M001")[1]
    assert len(message) < 300
    message = error(environment, "find_member", email="x" * 5000)[1]
    assert len(message) < 300
    assert len(error(environment, "extend_loan", loan_id="L1", days="9" * 5000)[1]) <= 300


def test_foreign_keys_hold_at_once_also_after_restore():
    environment = shop([{"write": "UPDATE boxes SET inside_id = :to WHERE id = 'X1'"}], to=TEXT)
    assert error(environment, to="X404")[0] == "conflict"
    answer(environment, to="X2")
    environment.restore_now(environment.snapshot_now())
    assert error(environment, to="X404")[0] == "conflict"
    answer(environment, to="X009")


# --- life of an environment --------------------------------------------------------------------


def test_it_is_an_environment_and_its_async_methods_do_the_same():
    async def play():
        environment = LIBRARY.environment()
        assert isinstance(environment, Environment)
        await environment.reset(1)
        result = await environment.call("list_loans", {"member_id": "M001"})
        twin = await environment.fork()
        await environment.restore(await environment.snapshot())
        assert await environment.diff() == await twin.diff() == ()
        await environment.close()
        await environment.close()
        await twin.close()
        return result

    assert asyncio.run(play()) == library().call_now("list_loans", {"member_id": "M001"})


def test_tools_are_the_applications_in_order():
    assert [spec.name for spec in library().tools()] == list(LIBRARY.application.tools)


def test_reset_comes_first_and_nothing_comes_after_close():
    environment = LIBRARY.environment()
    with pytest.raises(ToolloomError, match="library: reset comes first"):
        environment.call_now("list_loans", {})
    environment.reset_now(1)
    environment.close_now()
    for use in (environment.diff_now, environment.snapshot_now, lambda: environment.reset_now(1)):
        with pytest.raises(ToolloomError, match="the environment is closed"):
            use()


def test_a_snapshot_of_something_else_is_refused():
    environment = library()
    for state in (
        b"",
        b"x",
        b"{}\n",
        b"[]",
        b"null\n",
        b'{"seed":"a","counters":[]}\n',
        bytes(100),
    ):
        with pytest.raises(BadInput, match="no snapshot"):
            environment.restore_now(state)
    with pytest.raises(BadInput, match="shop: the snapshot is of another application"):
        shop([WRITE]).restore_now(environment.snapshot_now())
    environment.call_now("lend_book", {"book_id": "B1", "member_id": "M001"})
    with pytest.raises(BadInput, match="the snapshot is damaged"):
        environment.restore_now(environment.snapshot_now()[:-9])
    with pytest.raises(ToolloomError, match="reset comes first"):
        environment.diff_now()
    environment.reset_now(1)
    assert environment.diff_now() == ()


def test_restore_survives_rows_that_swapped_a_unique_value():
    environment = shop(
        [
            {"write": "UPDATE boxes SET label = 'tmp' WHERE id = 'X1'"},
            {"write": "UPDATE boxes SET label = 'a', inside_id = 'X1' WHERE id = 'X2'"},
            {"write": "UPDATE boxes SET label = 'b', inside_id = 'X2' WHERE id = 'X1'"},
        ]
    )
    answer(environment)
    before = environment.diff_now()
    twin = environment.fork_now()
    assert twin.diff_now() == before
    assert twin.call_now("list", {}) == environment.call_now("list", {})


def test_queries_read_the_current_state_and_refuse_to_write():
    environment = shop([WRITE])
    answer(environment)
    sql = "SELECT id, size, open FROM boxes WHERE open = :open ORDER BY id"
    assert environment.query(sql, {"open": False}) == [
        {"id": "X1", "size": 2, "open": False},
        {"id": "X2", "size": 2, "open": False},
    ]
    for text in (
        "DELETE FROM boxes",
        "SELECT next_id('X')",
        "PRAGMA foreign_keys=0",
        WRITE["write"],
    ):
        with pytest.raises(BadApplication, match="not allowed"):
            environment.query(text)
    with pytest.raises(ToolloomError, match="open"):
        environment.query(sql)
    with pytest.raises(ToolloomError, match="interrupted"):
        environment.query(f"{ENDLESS} SELECT count(*) AS n FROM k")
    assert environment.query("SELECT size FROM boxes WHERE id = 'X1'") == [{"size": 2}]


def test_only_so_many_queries_are_remembered():
    environment = shop([WRITE])
    for number in range(2_050):
        environment.engine.reader(f"SELECT {number} AS n")
    assert len(environment.engine._readers) == 2_000
    assert environment.query("SELECT 0 AS n") == [{"n": 0}]


def test_one_database_serves_one_seed_after_the_other_and_prepares_nothing_again():
    engine = Engine(LIBRARY.application)
    environment, other = engine.environment(), engine.environment()
    other.reset_now(2)
    expected = other.call_now("find_member", {"email": "ben@example.org"}).content
    read = "SELECT group_concat(email) AS emails FROM members"
    emails = other.query(read)
    environment.reset_now(1)
    environment.query(read)
    store = environment._store
    guard, asked = store._guard, store._guard.read
    environment.call_now("find_member", {"email": "ben@example.org"})
    asked.clear()
    environment.reset_now(2)
    assert environment._store is store
    assert environment.query(read) == emails
    assert environment.call_now("find_member", {"email": "ben@example.org"}).content == expected
    assert guard.read == set()  # SQLite asks the guard only when it prepares


def test_databases_are_lent_to_others_and_kept_within_bounds():
    engine = Engine(LIBRARY.application)
    first = engine.environment()
    first.reset_now(1)
    answer(first, "lend_book", book_id="B1", member_id="M001")
    lent = first._store
    first.reset_now(2)
    assert first._store is lent
    first.close_now()
    second = engine.environment()
    second.reset_now(1)
    assert second._store is lent
    assert second.diff_now() == ()
    many = [engine.environment() for _ in range(40)]
    for seed, environment in enumerate(many):
        environment.reset_now(seed)
        environment.call_now("place_hold", {"book_id": "B1", "member_id": "M001"})
    for environment in many:
        environment.close_now()
        environment.close_now()
    fresh = engine.environment()
    fresh.reset_now(77)
    assert fresh.diff_now() == ()
    assert fresh.query("SELECT count(*) AS n FROM holds") == [{"n": 0}]


def test_environments_that_nobody_closes_are_collected():
    environment = library()
    environment.call_now("lend_book", {"book_id": "B1", "member_id": "M001"})
    gone = weakref.ref(environment)
    del environment
    gc.collect()
    assert gone() is None


def test_two_environments_of_one_engine_do_not_meet():
    left, right = library(), library()
    assert isinstance(left, SqlEnvironment)
    answer(left, "place_hold", book_id="B1", member_id="M001")
    assert right.diff_now() == ()
    assert right.query("SELECT count(*) AS n FROM holds") == [{"n": 0}]
