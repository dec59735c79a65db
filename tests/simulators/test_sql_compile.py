"""What the engine refuses before anything runs, and the place and remedy it names."""

import copy
from pathlib import Path

import pytest

from simulators.sql.engine import Engine
from simulators.sql.load import load_application
from simulators.sql.yaml12 import read_yaml
from synth.core.application import Application
from synth.core.errors import BadApplication

LIBRARY = Path(__file__).parent / "data" / "library.yaml"
VALUE = read_yaml(LIBRARY.read_text(encoding="utf-8"))
ENGINE = Engine(load_application(LIBRARY))


def refused(**changes):
    """Change parts of the library by path (`tools__lend_book__steps`) and return the complaint."""
    value = copy.deepcopy(VALUE)
    for path, new in changes.items():
        *parents, last = path.split("__")
        place = value
        for part in parents:
            place = place[int(part) if part.isdigit() else part]
        place[int(last) if last.isdigit() else last] = new
    with pytest.raises(BadApplication) as caught:
        Engine(Application.model_validate(value)).image(1)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def schema(text):
    return refused(
        schema=text,
        seed={},
        after_seed=[],
        tools={},
        policy_rules=[],
        known={},
        identify=[],
        user={},
        money=[],
        compare={},
    )


def tool(steps, effect="read", parameters=None):
    return refused(
        tools__find_member={
            "description": "x",
            "effect": effect,
            "parameters": parameters or {"email": {"type": "string"}},
            "steps": steps,
        }
    )


# --- the schema ------------------------------------------------------------------------------

GOOD = "CREATE TABLE a (id TEXT PRIMARY KEY) STRICT;"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "library: schema: no tables"),
        ("CREATE TABLE a (id TEXT PRIMARY KEY)", "table 'a' is not STRICT (end with STRICT)"),
        ("CREATE TABLE a (x TEXT) STRICT", "PRIMARY KEY missing on table a (every table has one"),
        (
            "CREATE TABLE a (id INTEGER PRIMARY KEY) STRICT",
            "one primary key, `id TEXT PRIMARY KEY`",
        ),
        ("CREATE TABLE a (id TEXT, b TEXT, PRIMARY KEY (id, b)) STRICT", "primary key (id, b)"),
        ("CREATE TABLE a (id TEXT PRIMARY KEY, x BLOB) STRICT", "column a.x has type BLOB"),
        ("CREATE TABLE a (id TEXT PRIMARY KEY, x ANY) STRICT", "column a.x has type ANY"),
        ("CREATE TABLE A (id TEXT PRIMARY KEY) STRICT", "table name 'A'"),
        ('CREATE TABLE a (id TEXT PRIMARY KEY, "x y" TEXT) STRICT', "column name 'a.x y'"),
        ("CREATE TABLE a (id TEXT PRIMARY KEY, x TEXT AS (id)) STRICT", "column a.x is generated"),
        (
            "CREATE TABLE a (id TEXT PRIMARY KEY, x TEXT DEFAULT CURRENT_TIMESTAMP) STRICT",
            "function CURRENT_TIMESTAMP() is not allowed",
        ),
        (
            "CREATE TABLE a (id TEXT PRIMARY KEY, x INTEGER DEFAULT (1+1)) STRICT",
            "the default of a.x is an expression",
        ),
        ("CREATE TABLE a (id TEXT PRIMARY KEY, x INTEGER DEFAULT (random())) STRICT", "random"),
        (
            "CREATE TABLE a (id TEXT PRIMARY KEY, x INTEGER CHECK (x > random())) STRICT",
            "function random() is not allowed here (only CREATE TABLE and CREATE INDEX)",
        ),
        (
            "CREATE TABLE a (id TEXT PRIMARY KEY, b_id TEXT REFERENCES bs) STRICT;"
            "CREATE TABLE b (id TEXT PRIMARY KEY) STRICT",
            "a.b_id refers to table 'bs', which does not exist (did you mean 'b'?)",
        ),
        (
            "CREATE TABLE a (id TEXT PRIMARY KEY, x TEXT UNIQUE) STRICT;"
            "CREATE TABLE b (id TEXT PRIMARY KEY, x TEXT REFERENCES a(x)) STRICT",
            "the foreign key b.x does not refer to an id",
        ),
        (
            "CREATE TABLE a (id TEXT PRIMARY KEY,"
            " b TEXT REFERENCES a DEFERRABLE INITIALLY DEFERRED) STRICT",
            "deferred foreign keys are not supported",
        ),
        (GOOD + "CREATE INDEX i ON a (lower(id))", "index 'i' is on an expression"),
        (GOOD + "CREATE VIEW v AS SELECT 1", "is not allowed"),
        (GOOD + "CREATE TRIGGER t AFTER INSERT ON a BEGIN SELECT 1; END", "is not allowed"),
        (GOOD + "CREATE VIRTUAL TABLE v USING fts5(x)", "is not allowed"),
        (GOOD + "CREATE TEMP TABLE v (id TEXT PRIMARY KEY) STRICT", "is not allowed"),
        (GOOD + "CREATE TABLE b AS SELECT 1 AS id", "is not allowed"),
        (GOOD + "INSERT INTO a VALUES ('1')", "INSERT on 'a' is not allowed"),
        (GOOD + "PRAGMA foreign_keys = OFF", "PRAGMA foreign_keys is not allowed"),
        (GOOD + "ATTACH 'x.db' AS x", "ATTACH x.db is not allowed"),
        (GOOD + "DROP TABLE a", "is not allowed"),
        (GOOD + "CREATE TABLE sqlite_x (id TEXT PRIMARY KEY) STRICT", "reserved for internal use"),
        ("CREATE TABLE a (id TEXT PRIMARY KEY,) STRICT", "syntax error"),
        ("CREATE TABLE a (id TEXT PRIMARY KEY) STRICT" + "x" * 100_001, "too big|too long"),
    ],
)
def test_a_schema_that_breaks_a_rule_is_refused(text, message):
    found = schema(text)
    assert any(part in found for part in message.split("|")), found


def test_tables_are_stored_without_rowid_whatever_comments_surround_them():
    value = copy.deepcopy(VALUE)
    value["schema"] = value["schema"].replace("STRICT;", "STRICT -- lending;\n /* x */ ;")
    engine = Engine(Application.model_validate(value))
    assert engine.tables == ENGINE.tables
    with pytest.raises(BadApplication, match="no such column: rowid"):
        engine.columns("SELECT rowid FROM books")


def test_tables_say_types_booleans_and_foreign_keys():
    members, loans = ENGINE.tables["members"], ENGINE.tables["loans"]
    assert list(ENGINE.tables) == ["branches", "members", "books", "loans", "holds"]
    assert [(c.name, c.type, c.not_null, c.boolean) for c in members.columns.values()] == [
        ("id", "TEXT", True, False),
        ("name", "TEXT", True, False),
        ("email", "TEXT", True, False),
        ("blocked", "INTEGER", True, True),
        ("fees", "INTEGER", True, False),
    ]
    assert members.columns["blocked"].default == "0"
    assert loans.foreign_keys == {"book_id": "books", "member_id": "members"}
    assert not loans.columns["note"].not_null


# --- statements ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT nme FROM members", "no such column: nme (did you mean 'name'"),
        ("SELECT name FROM member", "no such table: member (did you mean 'members'"),
        ("SELECT lenght(name) AS n FROM members", "no such function: lenght"),
        ("SELECT name FROM members WHERE email = :emial", "unknown parameter :emial (did you mean"),
        ("SELECT name FROM members WHERE email = ?", "a parameter without a name: write :name"),
        ("SELECT name FROM members; SELECT 1", "more than one statement in one text"),
        ("SELECT count(*) FROM members", "the column 'count(*)' has no name (name it with AS)"),
        ("SELECT m.id, b.id FROM members m, books b", "two columns named 'id'"),
        ('SELECT "nothing" FROM members', "no such column"),
        ("-- only a comment", "an empty statement"),
        ("   ;  ", "an empty statement"),
        ("SELEC 1", "SELEC is not allowed"),
        ("SELECT FROM", "syntax error"),
        ("EXPLAIN SELECT 1", "EXPLAIN is not allowed"),
        ("VACUUM", "VACUUM is not allowed"),
        ("VACUUM INTO '/tmp/x'", "VACUUM is not allowed"),
        ("ATTACH ':memory:' AS x", "ATTACH is not allowed"),
        ("DETACH main", "DETACH is not allowed"),
        ("PRAGMA writable_schema = 1", "PRAGMA is not allowed"),
        ("BEGIN", "BEGIN is not allowed"),
        ("COMMIT", "COMMIT is not allowed"),
        ("ROLLBACK", "ROLLBACK is not allowed"),
        ("SAVEPOINT call", "SAVEPOINT is not allowed"),
        ("ANALYZE", "ANALYZE is not allowed"),
        ("REINDEX", "REINDEX is not allowed"),
        ("DROP TABLE members", "DROP is not allowed"),
        ("ALTER TABLE members ADD x TEXT", "ALTER is not allowed"),
        ("CREATE TABLE x (id TEXT)", "CREATE is not allowed"),
        ("SELECT sql FROM sqlite_master", "reading 'sqlite_master' is not allowed"),
        ("SELECT count(*) AS n FROM sqlite_schema", "is not allowed"),
        ("SELECT name FROM pragma_table_info('members')", "is not allowed"),
        ("SELECT count(*) AS n FROM dbstat", "reading 'dbstat' is not allowed"),
        ("SELECT load_extension('x') AS x", "function load_extension() is not allowed here"),
        ("SELECT random() AS x", "function random() is not allowed here"),
        ("SELECT randomblob(8) AS x", "function randomblob() is not allowed here"),
        ("SELECT date('now') AS x", "function date() is not allowed here"),
        ("SELECT CURRENT_TIMESTAMP AS x", "function current_timestamp() is not allowed here"),
        ("SELECT unixepoch() AS x", "function unixepoch() is not allowed here"),
        ("SELECT changes() AS x", "function changes() is not allowed here"),
        ("SELECT last_insert_rowid() AS x", "function last_insert_rowid() is not allowed here"),
        ("SELECT sqlite_version() AS x", "function sqlite_version() is not allowed here"),
        ("SELECT next_id('L') AS x", "function next_id() is not allowed here"),
        ("DELETE FROM members RETURNING id", "DELETE on 'members' is not allowed here"),
        ("UPDATE members SET fees = 0 RETURNING id", "UPDATE on 'members' is not allowed here"),
        ("WITH x AS (SELECT 1) INSERT INTO branches SELECT 1, 2, 3 RETURNING id", "INSERT on"),
        ("SELECT 1" + " + 1" * 300 + " AS x", "Expression tree is too large"),
    ],
)
def test_a_read_tool_may_only_read_the_applications_tables(sql, message):
    found = tool([{"return": sql, "shape": "list"}])
    assert found.startswith("library: tools.find_member.steps[0].return: ")
    assert any(part in found for part in message.split("|")), found


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT 1", "the statement writes nothing (use let)"),
        ("INSERT INTO sqlite_master VALUES (1,2,3,4,5)", "not allowed|may not be modified"),
        ("DELETE FROM sqlite_schema", "not allowed|may not be modified"),
        ("INSERT INTO json_each VALUES (1)", "not allowed|may not be modified"),
        ("UPDATE members SET fees = random()", "function random() is not allowed here"),
        ("UPDATE members SET fees = 0; UPDATE books SET copies = 0", "more than one statement"),
        ("UPDATE members SET rowid = 1", "no such column: rowid"),
        ("UPDATE member SET fees = 0", "no such table: member"),
        ("PRAGMA foreign_keys = OFF", "PRAGMA is not allowed"),
        ("COMMIT", "COMMIT is not allowed"),
    ],
)
def test_a_write_step_may_only_write_the_applications_tables(sql, message):
    found = tool([{"write": sql}], effect="write")
    assert found.startswith("library: tools.find_member.steps[0].write: ")
    assert any(part in found for part in message.split("|")), found


@pytest.mark.parametrize(
    ("steps", "effect", "message"),
    [
        ([{"write": "DELETE FROM holds"}], "read", "steps[0].write: a read tool writes"),
        ([{"let": {"x": "SELECT 1"}}], "read", "a read tool returns nothing"),
        (
            [{"return": "SELECT 1 AS x", "shape": "list"}],
            "write",
            "effect is write and no step writes",
        ),
        (
            [{"return": "SELECT 1 AS x", "shape": "list"}, {"let": {"x": "SELECT 1"}}],
            "read",
            "steps[1]: a step after return",
        ),
        (
            [{"require": "SELECT 1", "error": "not_found", "message": "x"}],
            "read",
            "steps[0].error: 'not_found' is a code of the engine (choose another code)",
        ),
        ([{"require": "SELECT 1, 2", "error": "x", "message": "x"}], "read", "require: 2 columns"),
        ([{"let": {"email": "SELECT 1"}}], "read", "let.email: 'email' is bound already"),
        ([{"let": {"x": "DELETE FROM holds RETURNING id"}}], "write", "DELETE on 'holds'"),
        (
            [{"return": "SELECT 1 AS x", "shape": "list", "columns": {"y": "books.id"}}],
            "read",
            "steps[0].columns: no column 'y' (known: x)",
        ),
        (
            [{"return": "SELECT 1 AS x", "shape": "list", "columns": {"x": "books.titel"}}],
            "read",
            "columns.x: no column 'titel' in 'books' (did you mean 'title'?)",
        ),
        (
            [{"return": "DELETE FROM holds", "shape": "list"}],
            "write",
            "the statement returns no columns",
        ),
    ],
)
def test_steps_must_fit_the_effect_and_one_another(steps, effect, message):
    assert message in tool(steps, effect)


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ("{email.__class__}", "the field {email.__class__} is not plain"),
        ("{email[0]}", "is not plain"),
        ("{0}", "unknown parameter '0'|not plain"),
        ("{}", "is not plain"),
        ("{email!s}", "is not plain"),
        ("{email:>99999999}", "is not plain"),
        ("{emial}", "unknown parameter 'emial' (did you mean 'email'?)"),
        ("{email", "expected '}'"),
    ],
)
def test_a_message_has_plain_fields_only(message, told):
    found = tool([{"require": "SELECT 1", "error": "x", "message": message}])
    assert "steps[0].message: " in found
    assert any(part in found for part in told.split("|")), found


@pytest.mark.parametrize(
    ("parameter", "message"),
    [
        (
            {"type": "string", "entity": "book.id"},
            "email.entity: no table 'book' (did you mean 'books'?)",
        ),
        ({"type": "string", "match": "books.tilte"}, "email.match: no column 'tilte' in 'books'"),
        ({"type": "string", "sets": "books.nope"}, "email.sets: no column 'nope'"),
        ({"type": "array", "entity": "books.id"}, "an array is no key (under items)"),
        (
            {"type": "array", "items": {"type": "string", "entity": "books.nope"}},
            "email.items.entity: no column 'nope'",
        ),
        (
            {"type": "object", "properties": {"b": {"type": "string", "entity": "x.id"}}},
            "email.properties.b.entity: no table 'x'",
        ),
        (
            {"type": "string", "format": "dat"},
            "email.format: unknown format 'dat' (did you mean 'date'",
        ),
        ({"type": "string", "pattern": "("}, 'is not a "regex"'),
        ({"type": "string", "pattern": "(a)\\1"}, "no look-around or back-references"),
        ({"type": "string", "pattern": "(?<=a)b"}, "no look-around or back-references"),
        ({"type": "string", "pattern": "(((a{99}){99}){99}){99}"}, 'is not a "regex"'),
        ({"type": "string", "generate": {"serial": "M{n}"}}, "email.generate: serial needs a row"),
        ({"type": "string", "generate": {"integer": [5, 1]}}, "is no range [low, high, step]"),
        (
            {"type": "string", "sample": "SELECT id FROM bookz"},
            "email.sample: no such table: bookz",
        ),
        ({"type": "string", "sample": "SELECT :member_id"}, "unknown parameter :member_id"),
    ],
)
def test_a_parameter_must_make_sense(parameter, message):
    steps = [{"return": "SELECT :email AS email", "shape": "list"}]
    assert message in tool(steps, parameters={"email": parameter})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"user": {"table": "member"}}, "user.table: no table 'member' (did you mean 'members'?)"),
        ({"user": {"table": None}}, "user: an operator has no row (give user.table)"),
        ({"user__where": "blokced = 0"}, "user.where: no such column: blokced"),
        ({"user__where": "blocked = 0; SELECT 1"}, "user.where: more than one statement"),
        ({"user__where": "1 = 1 UNION SELECT sql FROM sqlite_master"}, "'sqlite_master'"),
        ({"known__books": ["titel"]}, "known.books: no column 'titel' in 'books'"),
        ({"identify": ["nam"]}, "identify: no column 'nam' in 'members' (did you mean 'name'"),
        ({"money": ["members.fee"]}, "money: no column 'fee' in 'members' (did you mean 'fees'"),
        ({"labels": {"loans.dew": "x"}}, "labels: no column 'dew' in 'loans' (did you mean 'due'"),
        ({"compare": {"loan.note": "ignore"}}, "compare: no table 'loan'"),
        ({"compare": {"loans.id": "ignore"}}, "compare: loans.id is the key of its row"),
        (
            {"policy_rules__0__when": "SELECT fee FROM members"},
            "policy_rules[0].when: no such column",
        ),
        ({"policy_rules__0__when": "SELECT :days"}, "unknown parameter :days"),
        ({"policy_rules__0__when": "SELECT 1, 2"}, "policy_rules[0].when: more than one column"),
        ({"after_seed": ["SELECT 1"]}, "after_seed[0]: the statement writes nothing"),
        ({"after_seed": ["DROP TABLE loans"]}, "after_seed[0]: DROP is not allowed"),
        ({"after_seed": ["UPDATE loans SET nope = 1"]}, "after_seed[0]: no such column: nope"),
        ({"seed__memberz": {"count": 1}}, "seed.memberz: no such table (did you mean 'members'"),
        ({"seed__loans__each": "lons"}, "seed.loans.each: no seeded table 'lons'"),
    ],
)
def test_names_outside_the_tools_must_exist(changes, message):
    found = refused(**changes)
    assert message in found, found


def test_columns_tell_origins_without_running_anything():
    sql = (
        "WITH RECURSIVE k(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM k) "
        "SELECT m.name AS who, blocked, i, fees * 2 AS twice FROM members m, k WHERE m.id = :id"
    )
    assert ENGINE.columns(sql, ("id",)) == [
        ("who", "members.name"),
        ("blocked", "members.blocked"),
        ("i", None),
        ("twice", None),
    ]
    with pytest.raises(BadApplication, match="unknown parameter :id"):
        ENGINE.columns(sql, ("other",))
    with pytest.raises(BadApplication, match="DELETE on 'members' is not allowed"):
        ENGINE.columns("DELETE FROM members")


def test_origins_outside_the_tables_are_discarded():
    assert ENGINE.columns("SELECT value FROM json_each('[1]')") == [("value", None)]


def test_results_carry_declared_origins():
    found = {c.name: (c.origin, c.boolean) for c in ENGINE.results["search_books"]}
    assert found["title"] == ("books.title", False)
    assert found["available"] == ("members.blocked", True)
    assert ENGINE.results["return_loans"] == ()


def test_a_statement_that_would_explode_when_prepared_is_refused():
    steps = ", ".join(f"c{n} AS (SELECT a.id FROM c{n - 1} a, c{n - 1} b)" for n in range(1, 30))
    bomb = f"WITH c0 AS (SELECT id FROM books), {steps} SELECT id FROM c29"
    assert "nested too deep" in tool([{"return": bomb, "shape": "list"}])
