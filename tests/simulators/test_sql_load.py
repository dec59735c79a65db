"""Application files: where they are found, how YAML is read, and what a wrong one is told."""

import json
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from simulators.sql.load import FOLDER, applications, load_application, parse_application
from simulators.sql.yaml12 import MAX_DEPTH, YamlError, read_yaml
from synth.core.errors import BadApplication, UnknownName

LIBRARY = Path(__file__).parent / "data" / "library.yaml"
TEXT = LIBRARY.read_text(encoding="utf-8")


def wrong(text, where="x.yaml"):
    with pytest.raises(BadApplication) as caught:
        parse_application(text, where=where)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def swapped(old, new):
    assert TEXT.count(old) >= 1
    return TEXT.replace(old, new, 1)


# --- discovery -------------------------------------------------------------------------------


def test_every_file_of_the_folder_is_an_application_of_its_name():
    found = applications()
    assert set(found) == {path.stem for path in FOLDER.glob("*.yaml")}
    assert len(found) >= 1
    for name in found:
        assert load_application(name).application == name


def test_further_folders_are_searched(tmp_path):
    (tmp_path / "library.yaml").write_text(TEXT, encoding="utf-8")
    assert applications(tmp_path)["library"] == tmp_path / "library.yaml"
    assert load_application("library", tmp_path).summary.startswith("A lending library")


def test_two_files_of_one_name_are_refused(tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "twice.yaml").write_text(TEXT, encoding="utf-8")
    with pytest.raises(BadApplication, match=r"'twice' exists twice .*a/twice\.yaml"):
        applications(tmp_path / "a", tmp_path / "b")


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(BadApplication, match="nowhere: no such folder"):
        applications(tmp_path / "nowhere")


def test_an_unknown_name_suggests_close_ones(tmp_path):
    (tmp_path / "library.yaml").write_text(TEXT, encoding="utf-8")
    with pytest.raises(UnknownName, match=r"unknown application 'libary' \(did you mean 'library'"):
        load_application("libary", tmp_path)


def test_a_file_that_holds_another_application_is_refused(tmp_path):
    (tmp_path / "books.yaml").write_text(TEXT, encoding="utf-8")
    with pytest.raises(BadApplication, match=r"named books\.yaml and holds 'library'"):
        load_application("books", tmp_path)
    assert load_application(tmp_path / "books.yaml").application == "library"


def test_a_path_as_text_is_a_path():
    assert load_application(str(LIBRARY)).application == "library"


def test_a_missing_file_is_one_line(tmp_path):
    with pytest.raises(BadApplication, match=r"x\.yaml: there is no such file \(check"):
        load_application(tmp_path / "x.yaml")


def test_a_file_that_is_not_utf_8_is_one_line(tmp_path):
    (tmp_path / "x.yaml").write_bytes(b"application: \xff\xfe")
    with pytest.raises(BadApplication, match=r"not UTF-8 text \(byte 0x.. at 13\)"):
        load_application(tmp_path / "x.yaml")


def test_json_says_the_same_as_yaml(tmp_path):
    path = tmp_path / "library.json"
    path.write_text(json.dumps(read_yaml(TEXT)), encoding="utf-8")
    # JSON knows only text as keys, so weights of numbers are left out of the comparison.
    left, right = load_application(path), load_application(LIBRARY)
    assert left.tools == right.tools
    assert left.table_sql == right.table_sql


def test_broken_json_is_one_line():
    assert wrong('{"a": 1,}', "x.json").startswith("x.json, line 1: not JSON")
    assert "duplicate key 'a'" in wrong('{"a": 1, "a": 2}', "x.json")
    assert "longer than 1000000 characters" in wrong(" " * 1_000_001, "x.json")
    assert "nested too deeply" in wrong("[" * 200_000, "x.json")


# --- YAML 1.2 --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("on", "on"),
        ("no", "no"),
        ("Yes", "Yes"),
        ("true", True),
        ("False", False),
        ("~", None),
        ("", None),
        ("12", 12),
        ("-3", -3),
        ("007", "007"),
        ("+49", "+49"),
        ("12:30", "12:30"),
        ("1_000", "1_000"),
        ("0x1f", "0x1f"),
        ("1.5", 1.5),
        ("-.5", -0.5),
        ("1e5", "1e5"),
        (".inf", ".inf"),
        ("1.0e999", "1.0e999"),
        ("12345678901234567890", "12345678901234567890"),
        ("2026-03-02", "2026-03-02"),
        ("2026-03-02T09:00:00", "2026-03-02T09:00:00"),
        ('"true"', "true"),
        ("'12'", "12"),
        ("=", "="),
    ],
)
def test_plain_words_are_read_as_yaml_1_2(text, value):
    read = read_yaml(f"a: {text}")["a"]
    assert read == value
    assert type(read) is type(value)


def test_the_key_null_is_the_word():
    assert read_yaml("{choice: [a], null: 0.1}") == {"choice": ["a"], "null": 0.1}


def test_merge_keys_are_ordinary_keys():
    assert read_yaml("a: &x {b: 1}\nc: {<<: *x}") == {"a": {"b": 1}, "c": {"<<": {"b": 1}}}


def test_aliases_repeat_a_value():
    assert read_yaml("a: &x [1, 2]\nb: *x\nc: &y t\nd: *y") == {
        "a": [1, 2],
        "b": [1, 2],
        "c": "t",
        "d": "t",
    }


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("a: 1\na: 2", "duplicate key 'a'"),
        ("a: {b: 1, b: 2}", "duplicate key 'b'"),
        ("a: 1\n---\nb: 2", "more than one document"),
        ("", "the file is empty"),
        ("a: !!python/object/apply:os.system [ls]", "tag .* is not allowed"),
        ("a: !!binary aGk=", "tag .* is not allowed"),
        ("a: !mine 1", "tag '!mine' is not allowed"),
        ("? [a, b]\n: 1", "a key must be a plain word"),
        ("? {a: b}\n: 1", "a key must be a plain word"),
        ("a: &x {b: *x}", "alias .x refers to nothing before it"),
        ("a: &x [1]\n*x : 2", "a key must be a plain word"),
        ("a: *nope", "nothing before it|undefined alias"),
        ("a: [1, 2", "not YAML"),
        ("a: b: c", "not YAML"),
        ("\ta: 1", "not YAML"),
        ("a: \x00", "not YAML"),
    ],
)
def test_yaml_that_surprises_is_refused(text, what):
    with pytest.raises(YamlError, match=what):
        read_yaml(text)


def test_a_bomb_of_aliases_is_refused():
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    with pytest.raises(YamlError, match="aliases expanded"):
        read_yaml("\n".join(lines))


def test_depth_is_bounded_without_recursion():
    assert read_yaml("[" * (MAX_DEPTH - 1) + "]" * (MAX_DEPTH - 1))
    with pytest.raises(YamlError, match=f"nested deeper than {MAX_DEPTH} levels"):
        read_yaml("a: " + "[" * MAX_DEPTH)
    with pytest.raises(YamlError, match="nest"):
        read_yaml("[" * 500_000)


def test_length_is_bounded():
    with pytest.raises(YamlError, match="longer than"):
        read_yaml("a: " + "x" * 1_000_001)


def test_the_place_of_an_error_is_told():
    with pytest.raises(YamlError) as caught:
        read_yaml("tools:\n  a:\n    steps:\n      - x: 1\n      - y: 1\n        y: 2\n")
    assert (caught.value.path, caught.value.line) == ("tools.a.steps[1]", 6)


# YAML, unlike JSON, has no pairs of surrogate escapes.
WORDS = st.text(st.characters(max_codepoint=0xD7FF), max_size=12)
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**15), 10**15) | WORDS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=150, deadline=None)
@given(PLAIN)
def test_json_text_reads_back_as_it_was(value):
    assert read_yaml(json.dumps({"v": value}, ensure_ascii=True)) == {"v": value}


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="ab:-[]{}&*!|>'\"#,?\n \t0~", max_size=60))
def test_any_text_is_read_or_refused_never_worse(text):
    try:
        mine = read_yaml(text)
    except YamlError:
        return
    plain = yaml.load(text, Loader=getattr(yaml, "CBaseLoader", yaml.BaseLoader))
    assert isinstance(mine, dict) == isinstance(plain, dict)
    assert isinstance(mine, list) == isinstance(plain, list)


# --- what is wrong, where, and what would be right ---------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "        error: unavailable",
            "        eror: unavailable",
            "tools.lend_book.steps[0].eror: unknown key 'eror'",
        ),
        ("        error: unavailable", "        eror: unavailable", "did you mean 'error'"),
        (
            "      - write: UPDATE books SET copies = copies - 1",
            "      - wrte: UPDATE books SET copies = copies - 1",
            "tools.lend_book.steps[3].wrte: unknown key 'wrte' (did you mean 'write'?",
        ),
        ("summary:", "sumary:", "x.yaml: sumary: unknown key 'sumary'"),
        ("category: public services\n", "", "key 'category' is missing"),
        ("effect: write", "effect: writes", "tools.lend_book.effect: input should be 'read'"),
        (
            "{type: string, entity: books.id, description",
            "{type: text, entity: books.id, description",
            "tools.lend_book.parameters.book_id.type: input should be 'string'",
        ),
        ("clock: 2026-03-02T09:00:00", "clock: 2026-03-02", "clock: string should match"),
        (
            "  lend_book:\n    description",
            "  LendBook:\n    description",
            "tools.LendBook: 'LendBook' is not a name",
        ),
        ("count: 40", "count: many", "seed.members.count: input should be"),
        (
            "name: {person: full}",
            "name: {persn: full}",
            "seed.members.columns.name: a generator has exactly one of",
        ),
        (
            'intent: "borrow {{ book_id.title }}"',
            "questions: {due: {en: [1]}}",
            "tools.lend_book.questions.due.en: input should be a valid string",
        ),
        (
            "tool: lend_book",
            "tool: lent_book",
            "policy_rules.no_loans_with_fees.tool: no tool 'lent_book'",
        ),
        (
            "        error: unavailable\n",
            "",
            "tools.lend_book.steps[0]: require needs error and message",
        ),
        ("        shape: object\n", "", "return needs shape"),
    ],
)
def test_an_error_names_its_place_and_what_would_be_right(old, new, message):
    assert message in wrong(swapped(old, new))


def test_a_file_that_is_no_mapping_is_told():
    assert (
        wrong("- a\n- b")
        == "x.yaml: the file must hold one mapping (start with `application: NAME`)"
    )


def test_a_duplicate_key_names_line_and_path():
    text = swapped("        error: unavailable\n", "        error: unavailable\n        error: x\n")
    assert "tools.lend_book.steps[0]: duplicate key 'error'" in wrong(text)


def test_further_errors_are_counted():
    text = TEXT.replace("effect: read", "effect: red").replace("category: public services\n", "")
    assert text.count("effect: red") == 3
    assert "(and 3 more)" in wrong(text)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_no_mutation_of_a_file_escapes_as_another_exception(data):
    lines = TEXT.split("\n")
    for _ in range(data.draw(st.integers(1, 3))):
        number = data.draw(st.integers(0, len(lines) - 1))
        kind = data.draw(st.sampled_from(["drop", "indent", "null", "list", "swap"]))
        if kind == "drop":
            lines[number] = ""
        elif kind == "indent":
            lines[number] = "  " + lines[number]
        elif kind == "null":
            lines[number] = lines[number].split(":")[0] + ":"
        elif kind == "list":
            lines[number] = lines[number].split(":")[0] + ": [1, {a: b}]"
        else:
            other = data.draw(st.integers(0, len(lines) - 1))
            lines[number], lines[other] = lines[other], lines[number]
    told = "x.yaml"
    try:
        parse_application("\n".join(lines), where="x.yaml")
    except BadApplication as error:
        told = str(error)
    assert told.startswith("x.yaml")
    assert "\n" not in told
