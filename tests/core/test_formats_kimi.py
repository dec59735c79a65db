"""Kimi K2 tool-call text: names and counters survive where the published code loses them."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synth.core.formats import Problem, Unwritable, get_format

pytestmark = pytest.mark.claim("k2-format")

KIMI = get_format("kimi-k2")
NAMES = ["list-files", "fs.read", "repo/get_file", "get_weather", "a:b"]


def call(name, arguments, identifier):
    return {
        "id": identifier,
        "type": "function",
        "function": {"name": name, "arguments": json.dumps(arguments)},
    }


def body(message, before=()):
    pieces = KIMI.pieces([*before, message], [])
    mine = [p.text for p in pieces if p.sampled and p.message == len(before)]
    return "".join(mine).removesuffix(KIMI.stop)


@settings(deadline=None)
@given(
    st.text(st.characters(codec="utf-8")).filter(lambda text: "<|tool_calls_section" not in text),
    st.lists(
        st.tuples(
            st.sampled_from(NAMES), st.dictionaries(st.text(max_size=5), st.text(max_size=9))
        ),
        max_size=3,
    ),
)
def test_what_is_written_is_read_back_unchanged(content, made):
    calls = [call(name, value, f"c{n}") for n, (name, value) in enumerate(made)]
    read = KIMI.parse(body({"role": "assistant", "content": content, "tool_calls": calls}))
    assert not read.repairs
    assert [(c.name, c.value) for c in read.calls] == made
    assert [c.id for c in read.calls] == [f"functions.{n}:{i}" for i, (n, _) in enumerate(made)]
    blank = not content.replace("\ufeff", "").strip()
    assert read.content == (None if blank else content)
    assert read.problem is (None if made or read.content else Problem.EMPTY)


def test_the_counter_runs_through_the_dialogue_and_results_name_their_call():
    messages = [
        {"role": "assistant", "content": "", "tool_calls": [call("f", {}, "x")]},
        {"role": "tool", "content": "one", "tool_call_id": "x"},
        {"role": "assistant", "content": "", "tool_calls": [call("g-h", {}, "y")]},
        {"role": "tool", "content": "two", "tool_call_id": "y"},
    ]
    text = "".join(piece.text for piece in KIMI.pieces(messages, []))
    assert "functions.g-h:1<|tool_call_argument_begin|>{}" in text
    assert "<|im_system|>g-h<|im_middle|>## Return of functions.g-h:1\ntwo<|im_end|>" in text


@pytest.mark.parametrize("identifier", ["functions.f:17", "f:0", " functions.f:2 "])
def test_any_counter_is_read(identifier):
    text = (
        f"<|tool_calls_section_begin|><|tool_call_begin|>{identifier}"
        "<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>"
    )
    read = KIMI.parse(text)
    assert [c.name for c in read.calls] == ["f"]
    assert read.repairs == (() if "functions" in identifier else ("no_prefix",))


SECTION, CALL, ARGUMENT, END = (
    "<|tool_calls_section_begin|>",
    "<|tool_call_begin|>",
    "<|tool_call_argument_begin|>",
    "<|tool_call_end|>",
)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (SECTION, Problem.UNCLOSED),
        (SECTION + "<|tool_calls_section_end|>", Problem.NOT_A_CALL),
        (SECTION + CALL + "functions.f:0", Problem.UNCLOSED),
        (SECTION + CALL + "functions.f" + ARGUMENT + "{}", Problem.BAD_NAME),
        (SECTION + CALL + "functions.:0" + ARGUMENT + "{}", Problem.BAD_NAME),
        (SECTION + CALL + "functions.f:0" + ARGUMENT + '{"a": 1', Problem.UNCLOSED),
        (SECTION + CALL + "functions.f:0" + ARGUMENT + '{"a": 1' + END, Problem.BROKEN_JSON),
        (SECTION + CALL + "functions.f:0" + ARGUMENT + "[1]", Problem.NOT_A_CALL),
        (SECTION + CALL + "functions.f:0" + ARGUMENT + "{} x", Problem.BROKEN_JSON),
        (SECTION + "so", Problem.UNCLOSED),
    ],
)
def test_what_is_broken_is_named_and_never_guessed(text, problem):
    read = KIMI.parse(text)
    assert read.problem is problem
    assert read.calls == ()


@settings(deadline=None)
@given(st.text(alphabet='functions.ab:019 {}"', max_size=40))
def test_nothing_near_the_format_crashes_the_reader(text):
    read = KIMI.parse(SECTION + CALL + text)
    assert read.calls or read.problem is not None


def test_a_name_that_would_break_the_markup_is_refused():
    with pytest.raises(Unwritable, match="cannot hold"):
        body({"role": "assistant", "content": "", "tool_calls": [call("a<b", {}, "x")]})


@pytest.mark.claim("a12")
def test_random_identifiers_are_rewritten_alike_in_calls_and_results():
    messages = [
        {"role": "assistant", "content": "", "tool_calls": [call("f", {}, "chatcmpl-8f3a")]},
        {"role": "tool", "content": "one", "tool_call_id": "chatcmpl-8f3a"},
        {"role": "assistant", "content": "", "tool_calls": [call("f", {}, "functions.f:0")]},
        {"role": "tool", "content": "two", "tool_call_id": "functions.f:0"},
    ]
    text = "".join(piece.text for piece in KIMI.pieces(messages, []))
    assert "functions.f:0<|tool_call_argument_begin|>" in text
    assert "## Return of functions.f:0\none" in text
    assert "functions.f:1<|tool_call_argument_begin|>" in text
    assert "## Return of functions.f:1\ntwo" in text
    assert "chatcmpl" not in text


def test_two_calls_under_one_identifier_get_two():
    one = CALL + "functions.f:0" + ARGUMENT + "{}" + END
    read = KIMI.parse(SECTION + one + one, first_call=5)
    assert [c.id for c in read.calls] == ["functions.f:0", "call_6"]
    assert read.repairs == ("missing_close", "repeated_id")


def test_no_arguments_at_all_are_an_empty_object():
    read = KIMI.parse(SECTION + CALL + "functions.f:0" + ARGUMENT + " " + END)
    assert [(c.name, c.arguments) for c in read.calls] == [("f", "{}")]
    assert "no_arguments" in read.repairs
