"""Mistral tool-call text: three ways to write a call, one reader, nine-character identifiers."""

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synth.core.formats import (
    NineCharacters,
    Problem,
    Unwritable,
    get_format,
    in_nine_characters,
)

MISTRAL, V3, V11 = (get_format(name) for name in ("mistral", "mistral-v3", "mistral-v11"))


def call(name, arguments, identifier):
    return {"id": identifier, "function": {"name": name, "arguments": json.dumps(arguments)}}


def made(read):
    return [(call.id, call.name, call.arguments) for call in read.calls]


@pytest.mark.parametrize(
    ("text", "calls", "repairs"),
    [
        ('[TOOL_CALLS] [{"name": "f", "arguments": {"a": 1}}]', [("call_0", "f", '{"a": 1}')], ()),
        (
            '[TOOL_CALLS][{"arguments": {"name": "x"}, "name": "f", "id": "abcDEF123"},'
            '{"name": "g", "arguments": {}, "id": "call00007"}]',
            [("abcDEF123", "f", '{"name": "x"}'), ("call_7", "g", "{}")],
            (),
        ),
        ('[TOOL_CALLS]fs.read-it[ARGS]{"a": 1}', [("call_0", "fs.read-it", '{"a": 1}')], ()),
        (
            '[TOOL_CALLS]f[CALL_ID]abcDEF123[ARGS]{"a": 1}[TOOL_CALLS]g[ARGS]{}',
            [("abcDEF123", "f", '{"a": 1}'), ("call_1", "g", "{}")],
            (),
        ),
        ('[TOOL_CALLS]f{"a": 1}', [("call_0", "f", '{"a": 1}')], ("missing_mark",)),
        (
            "[TOOL_CALLS]f[ARGS][TOOL_CALLS]g[ARGS]{}",
            [("call_0", "f", "{}"), ("call_1", "g", "{}")],
            ("no_arguments",),
        ),
        (
            "[TOOL_CALLS]f[CALL_ID]abcDEF123[ARGS]{}[TOOL_CALLS]g[CALL_ID]abcDEF123[ARGS]{}",
            [("abcDEF123", "f", "{}"), ("call_1", "g", "{}")],
            ("repeated_id",),
        ),
        (
            "[TOOL_CALLS]g[ARGS]{}[TOOL_CALLS]f[CALL_ID]call00000[ARGS]{}",
            [("call_0_", "g", "{}"), ("call_0", "f", "{}")],
            (),
        ),
        (
            "[TOOL_CALLS]f[CALL_ID]functions.f:0[ARGS]{}",
            [("call_0", "f", "{}")],
            (),
        ),
    ],
)
def test_every_way_of_writing_calls_is_read(text, calls, repairs):
    read = MISTRAL.parse(text)
    assert (made(read), read.repairs) == (calls, repairs)
    assert V3.parse(text) == V11.parse(text) == read


@pytest.mark.parametrize(
    ("after", "problem"),
    [
        ("", Problem.UNCLOSED),
        ("f", Problem.UNCLOSED),
        ("f[ARGS]", Problem.UNCLOSED),
        ("f[CALL_ID]abcDEF123", Problem.UNCLOSED),
        ('f[ARGS]{"a": ', Problem.UNCLOSED),
        ('[{"name": "f", "arguments": {}}', Problem.UNCLOSED),
        ("f[ARGS]{a}", Problem.BROKEN_JSON),
        ("[ARGS]{}", Problem.BAD_NAME),
        ('junk [{"name": "f", "arguments": {}}]', Problem.BAD_NAME),
        ("\ud800[ARGS]{}", Problem.BAD_NAME),
        ("[]", Problem.NOT_A_CALL),
        ("f[ARGS]7", Problem.NOT_A_CALL),
        ("f[ARGS]{}" + "[TOOL_CALLS]f[ARGS]{}" * 1000, Problem.TOO_MANY),
        ("[" + ", ".join(['{"name": "f", "arguments": {}}'] * 1001) + "]", Problem.TOO_MANY),
    ],
)
def test_what_follows_the_mark_is_a_call_or_a_problem(after, problem):
    read = MISTRAL.parse(f"Hello[TOOL_CALLS]{after}")
    assert (read.problem, read.calls) == (problem, ())


TURNS = [
    {"role": "system", "content": "Be kind."},
    {"role": "user", "content": "Where?"},
    {"role": "assistant", "content": None, "tool_calls": [call("f", {"a": 1}, "call_0")]},
    {"role": "tool", "content": "here", "tool_call_id": "call_0"},
]


@pytest.mark.parametrize(
    ("tool_format", "text"),
    [
        (
            MISTRAL,
            "<s>[SYSTEM_PROMPT]Be kind.[/SYSTEM_PROMPT][INST]Where?[/INST]"
            '[TOOL_CALLS]f[ARGS]{"a": 1}</s>[TOOL_RESULTS]here[/TOOL_RESULTS]',
        ),
        (
            V11,
            "<s>[SYSTEM_PROMPT]Be kind.[/SYSTEM_PROMPT][INST]Where?[/INST]"
            '[TOOL_CALLS]f[CALL_ID]call00000[ARGS]{"a": 1}</s>'
            "[TOOL_RESULTS]call00000[TOOL_CONTENT]here[/TOOL_RESULTS]",
        ),
        (
            V3,
            "<s>[INST]Be kind.\n\nWhere?[/INST]"
            '[TOOL_CALLS][{"name": "f", "arguments": {"a": 1}, "id": "call00000"}]</s>'
            '[TOOL_RESULTS]{"content": "here", "call_id": "call00000"}[/TOOL_RESULTS]',
        ),
    ],
)
def test_a_conversation_is_written_as_each_version_has_it(tool_format, text):
    pieces = tool_format.pieces(TURNS, [])
    assert "".join(piece.text for piece in pieces) == text
    marks = {p.text for p in pieces if p.control}
    assert {"<s>", "</s>", "[INST]", "[/INST]", "[TOOL_CALLS]", "[TOOL_RESULTS]"} <= marks
    assert "[CALL_ID]" not in text or {"[CALL_ID]", "[ARGS]", "[TOOL_CONTENT]"} <= marks


def test_a_system_prompt_without_a_user_is_shown_before_the_assistant_speaks():
    text = "".join(p.text for p in V3.pieces(TURNS[:1], [{"function": {"name": "f"}}], cue=True))
    assert text.endswith("[/AVAILABLE_TOOLS][INST]Be kind.[/INST]")


@pytest.mark.claim("a15")
@pytest.mark.parametrize("tool_format", [V3, V11])
def test_random_identifiers_become_nine_characters_in_calls_and_results_alike(tool_format):
    given_ids = ["chatcmpl-tool-8f3a", "functions.f:0", "call_12", "abcDEF123", "call00012", ""]
    turns = []
    for identifier in given_ids:
        turns.append({"role": "assistant", "tool_calls": [call("f", {}, identifier)]})
        turns.append({"role": "tool", "content": "ok", "tool_call_id": identifier})
    text = "".join(piece.text for piece in tool_format.pieces(turns, []))
    in_calls = re.findall(r'(?:\[CALL_ID\]|"id": ")([^\["]*)', text)
    in_results = re.findall(r'(?:\[TOOL_RESULTS\]|"call_id": ")([A-Za-z0-9]{9})["\[]', text)
    assert all(re.fullmatch(r"[A-Za-z0-9]{9}", short) for short in in_calls)
    assert len(set(in_calls)) == len(given_ids)
    assert in_calls[:5] == in_results[:5]
    assert in_calls[2:4] == ["call00012", "abcDEF123"]


@settings(deadline=None)
@given(st.lists(st.text(max_size=12) | st.from_regex(r"call_\d{1,6}", fullmatch=True), max_size=9))
def test_nine_characters_stand_for_one_identifier_and_back(identifiers):
    table = NineCharacters()
    short = [table.short(identifier) for identifier in identifiers]
    assert all(re.fullmatch(r"[A-Za-z0-9]{9}", text) for text in short)
    assert [table.long(text) for text in short] == identifiers
    assert len(set(short)) == len(set(identifiers))


IDS = st.text(max_size=12) | st.from_regex(r"call_\d{1,6}|[A-Za-z0-9]{9}", fullmatch=True)


@pytest.mark.claim("a15")
@settings(deadline=None)
@given(st.lists(st.lists(IDS, max_size=3, unique=True), max_size=5))
def test_a_row_for_mistral_has_other_identifiers_and_nothing_else(turns):
    messages = []
    for ids in turns:
        messages.append({"role": "assistant", "tool_calls": [call("f", {}, one) for one in ids]})
        messages += [{"role": "tool", "content": "ok", "tool_call_id": one} for one in ids]
    row = in_nine_characters(messages)
    asked = [one["id"] for message in row for one in message.get("tool_calls", ())]
    answered = [message["tool_call_id"] for message in row if message["role"] == "tool"]
    assert asked == answered
    assert all(re.fullmatch(r"[A-Za-z0-9]{9}", one) for one in asked)
    original = [one for ids in turns for one in ids]
    back = dict(zip(asked, original, strict=True))  # one to one: an inverse puts all of it back
    assert dict(zip(original, asked, strict=True)) == {one: nine for nine, one in back.items()}
    assert in_nine_characters(messages) == row
    for message in row:
        if "tool_call_id" in message:
            message["tool_call_id"] = back[message["tool_call_id"]]
        for one in message.get("tool_calls", ()):
            one["id"] = back[one["id"]]
    assert row == messages


def test_ours_has_its_short_form_in_every_conversation():
    table = NineCharacters()
    assert table.short("call00017") != "call00017"
    assert table.short("call_17") == "call00017"


def test_an_identifier_that_is_taken_makes_way():
    table = NineCharacters()
    first = NineCharacters().short("x" * 20)
    assert table.short(first) == first
    assert table.short("x" * 20) != first
    assert table.long(table.short("x" * 20)) == "x" * 20


@pytest.mark.parametrize("name", ["[ARGS]", "a[TOOL_CALLS]", "[x", "{x", " edge "])
def test_a_name_that_would_be_read_as_another_is_refused(name):
    with pytest.raises(Unwritable, match="message 0 calls"):
        MISTRAL.pieces([{"role": "assistant", "tool_calls": [call(name, {}, "c")]}], [])
