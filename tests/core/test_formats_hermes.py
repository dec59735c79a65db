"""Hermes tool-call text: what is written reads back, nothing broken is guessed."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synth.core.errors import UnknownName
from synth.core.formats import Problem, Unwritable, get_format

HERMES = get_format("hermes")

names = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cs"]), min_size=1, max_size=30
).filter(str.strip)
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)  # those that all readers of JSON take
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8"))
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)
arguments = st.dictionaries(st.text(max_size=8), values, max_size=4)
contents = st.text(st.characters(codec="utf-8")).filter(lambda text: "<tool_call>" not in text)


def is_blank(text):
    return not text.replace("\ufeff", "").strip()


def call(name, arguments, identifier="c"):
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {"id": identifier, "type": "function", "function": {"name": name, "arguments": text}}


def body(message):
    """What an assistant message is written as, without its stop mark."""
    messages = [{"role": "user", "content": "hi"}, message]
    pieces = HERMES.pieces(messages, [])
    return "".join(p.text for p in pieces if p.sampled).removesuffix(HERMES.stop)


@settings(deadline=None)
@given(contents, st.lists(st.tuples(names, arguments), max_size=3))
def test_what_is_written_is_read_back_unchanged(content, made):
    message = {
        "role": "assistant",
        "content": content,
        "tool_calls": [call(name, value) for name, value in made],
    }
    read = HERMES.parse(body(message))
    assert not read.repairs
    assert [(c.name, json.loads(c.arguments)) for c in read.calls] == made
    assert read.content == (None if is_blank(content) else content)
    assert read.problem is (None if made or read.content else Problem.EMPTY)


@settings(deadline=None)
@given(st.text())
def test_any_text_reads_as_calls_or_as_text_or_as_a_named_problem(text):
    read = HERMES.parse(text)
    if read.problem is not None:
        assert read.content is None
        assert read.calls == ()
        assert read.detail


@settings(deadline=None)
@given(st.text(alphabet='<>/tool_call{}[]":,\\ name arguments1.', max_size=60))
def test_nothing_near_the_format_crashes_the_reader(text):
    read = HERMES.parse("<tool_call>" + text)
    assert read.calls or read.problem is not None


@pytest.mark.parametrize("name", ["list-files", "fs.read", "repo/get_file", "a_b", "名前"])
def test_names_of_real_tools_survive(name):
    read = HERMES.parse(f'<tool_call>{{"name": "{name}", "arguments": {{}}}}</tool_call>')
    assert [c.name for c in read.calls] == [name]


def test_arguments_keep_the_exact_text_that_was_written():
    text = '<tool_call>{"arguments": { "a" : 1.50, "b":[ ] } , "name": "f"}</tool_call>'
    (read,) = HERMES.parse(text).calls
    assert read.arguments == '{ "a" : 1.50, "b":[ ] }'


def test_a_closing_tag_inside_a_string_ends_nothing():
    text = '<tool_call>{"name": "f", "arguments": {"a": "</tool_call>"}}</tool_call>'
    (read,) = HERMES.parse(text).calls
    assert read.value == {"a": "</tool_call>"}


def test_several_calls_are_numbered_through_the_dialogue():
    one = '<tool_call>{"name": "f", "arguments": {}}</tool_call>'
    read = HERMES.parse(f"Looking.\n{one}\n{one}", first_call=3)
    assert read.content == "Looking."
    assert [c.id for c in read.calls] == ["call_3", "call_4"]
    assert read.repairs == ()


@pytest.mark.parametrize(
    ("inside", "repair", "arguments"),
    [
        ('\n```json\n{"name": "f", "arguments": {"a": 1}}\n```\n', "code_fence", '{"a": 1}'),
        ('{"name": "f", "parameters": {"a": 1}}', "parameters_key", '{"a": 1}'),
        ('{"name": "f", "arguments": "{\\"a\\": 1}"}', "arguments_as_text", '{"a": 1}'),
        ('{"name": "f"}', "no_arguments", "{}"),
        (
            '{"type": "function", "function": {"name": "f", "arguments": {"a": 1}}}',
            "openai_wrapper",
            '{"a": 1}',
        ),
        ('[{"name": "f", "arguments": {"a": 1}}]', "list_of_calls", '{"a": 1}'),
    ],
)
def test_a_deviation_with_one_meaning_is_read_and_noted(inside, repair, arguments):
    read = HERMES.parse(f"<tool_call>{inside}</tool_call>")
    assert read.repairs == (repair,)
    assert [(c.name, c.arguments) for c in read.calls] == [("f", arguments)]


def test_a_list_of_two_calls_is_two_calls():
    read = HERMES.parse(
        '<tool_call>[{"name": "f", "arguments": {"a": 1}}, {"name": "g", "arguments": {}}]'
        "</tool_call>"
    )
    assert [(c.name, c.arguments) for c in read.calls] == [("f", '{"a": 1}'), ("g", "{}")]


def test_a_missing_last_tag_and_text_after_a_call_are_noted():
    one = '<tool_call>{"name": "f", "arguments": {}}'
    assert HERMES.parse(one).repairs == ("missing_close",)
    read = HERMES.parse(f"{one}</tool_call> and so on")
    assert read.repairs == ("text_after_call",)
    assert read.content == " and so on"


@pytest.mark.parametrize(
    ("inside", "problem"),
    [
        ('{"name": "f", "arguments": {"a": 1}', Problem.UNCLOSED),
        ("", Problem.UNCLOSED),
        ('{"name": "f", "arguments": {"a": 1}</tool_call>', Problem.BROKEN_JSON),
        ("{'name': 'f', 'arguments': {}}</tool_call>", Problem.BROKEN_JSON),
        ('{"name": "f", "arguments": {"a": NaN}}</tool_call>', Problem.BROKEN_JSON),
        ('{"name": "f", "arguments": {"a": 1, "a": 2}}</tool_call>', Problem.BROKEN_JSON),
        ('{"name": "f", "name": "g", "arguments": {}}</tool_call>', Problem.BROKEN_JSON),
        ('{"name": "f", "arguments": {"a": "\\ud800"}}</tool_call>', Problem.BROKEN_JSON),
        ('{"name": "f", "arguments": "{a: 1}"}</tool_call>', Problem.BROKEN_JSON),
        ('{"name": "f", "arguments": {}} or so</tool_call>', Problem.BROKEN_JSON),
        ("[" * 100_000, Problem.UNCLOSED),
        ('{"name": "f", "arguments": [1]}</tool_call>', Problem.NOT_A_CALL),
        ('"f"</tool_call>', Problem.NOT_A_CALL),
        ("[]</tool_call>", Problem.NOT_A_CALL),
        ('{"name": "", "arguments": {}}</tool_call>', Problem.BAD_NAME),
        ('{"name": 7, "arguments": {}}</tool_call>', Problem.BAD_NAME),
        ('{"arguments": {}}</tool_call>', Problem.BAD_NAME),
    ],
)
def test_what_is_broken_is_named_and_never_guessed(inside, problem):
    read = HERMES.parse(f"<tool_call>{inside}")
    assert read.problem is problem
    assert read.calls == ()


def test_one_broken_call_spoils_the_whole_reply():
    good = '<tool_call>{"name": "f", "arguments": {}}</tool_call>'
    assert HERMES.parse(f"{good}<tool_call>{{</tool_call>").calls == ()


@pytest.mark.parametrize(
    "message",
    [
        {"role": "assistant", "content": "I would say <tool_call> here"},
        {"role": "assistant", "content": "", "tool_calls": [call("f", "[1]")]},
        {"role": "assistant", "content": "", "tool_calls": [call("f", "{} {}")]},
        {"role": "assistant", "content": "", "tool_calls": [call("", "{}")]},
    ],
)
def test_a_message_without_a_text_of_its_own_is_refused(message):
    with pytest.raises(Unwritable, match="message 1"):
        body(message)


def test_a_conversation_is_written_in_chatml_with_tools_in_the_system_turn():
    tool = {
        "type": "function",
        "function": {
            "name": "find",
            "description": "Find it.",
            "parameters": {
                "type": "object",
                "properties": {"q": {"type": "string"}},
                "required": ["q"],
            },
        },
    }
    messages = [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "Where?"},
        {"role": "assistant", "content": "", "tool_calls": [call("find", {"q": "x"})]},
        {"role": "tool", "content": '{"at": 1}', "tool_call_id": "c"},
    ]
    text = "".join(piece.text for piece in HERMES.pieces(messages, [tool], cue=True))
    how = 'To use a tool, write <tool_call>{"name": tool, "arguments": {…}}</tool_call>'
    assert text == (
        "<|im_start|>system\nBe kind.\n\nTools:\nfind(q: string) - Find it.\n"
        f"{how}<|im_end|>\n"
        "<|im_start|>user\nWhere?<|im_end|>\n"
        '<|im_start|>assistant\n<tool_call>{"name": "find", "arguments": {"q": "x"}}</tool_call>'
        "<|im_end|>\n"
        '<|im_start|>tool\n{"at": 1}<|im_end|>\n'
        "<|im_start|>assistant\n"
    )
    assert "<tools>\n{" in "".join(
        piece.text for piece in get_format("hermes-json").pieces(messages, [tool])
    )


def test_the_assistant_writes_its_body_and_its_stop_mark_and_nothing_else():
    messages = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "Yes."},
        {"role": "user", "content": "bye"},
    ]
    pieces = HERMES.pieces(messages, [])
    assert [p.text for p in pieces if p.sampled] == ["Yes.", "<|im_end|>"]
    assert {p.message for p in pieces if p.sampled} == {1}


def test_an_unknown_format_suggests_close_names():
    with pytest.raises(UnknownName, match="hermes"):
        get_format("hermees")


def test_words_between_two_calls_are_kept():
    one = '<tool_call>{"name": "f", "arguments": {}}</tool_call>'
    read = HERMES.parse(f"First. {one} Then. {one}\n")
    assert read.content == "First.  Then. "
    assert (len(read.calls), read.repairs) == (2, ("text_after_call",))


@pytest.mark.parametrize(
    ("text", "repair"),
    [
        ('<tool_call>{"name": "f"}{"name": "g"}</tool_call>', "calls_in_one_tag"),
        ('<tool_call>{"name": "f"}\n<tool_call>{"name": "g"}</tool_call>', "missing_close"),
    ],
)
def test_two_calls_that_share_their_tags_are_two(text, repair):
    read = HERMES.parse(text)
    assert [c.name for c in read.calls] == ["f", "g"]
    assert repair in read.repairs
