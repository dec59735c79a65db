"""Llama 3 tool-call text: bare JSON and the tag are both read, Python never is."""

import json

import pytest

from synth.core.formats import Problem, Unwritable, get_format

LLAMA, TAGGED = get_format("llama3"), get_format("llama3-tag")
CALL = '{"name": "find", "parameters": {"q": "x"}}'
SAME = [("find", '{"q": "x"}')]


def made(read):
    return [(call.name, call.arguments) for call in read.calls]


@pytest.mark.parametrize(
    ("text", "repairs"),
    [
        (CALL, ()),
        (f"<|python_tag|>{CALL}", ()),
        (f"<|python_tag|>{CALL}<|eom_id|>", ("stop_mark",)),
        ('{"type": "function", "name": "find", "parameters": {"q": "x"}}', ()),
        ('{"name": "find", "arguments": {"q": "x"}}', ("arguments_key",)),
        (
            '<|python_tag|>{"function": {"name": "find", "parameters": {"q": "x"}}}',
            ("openai_wrapper",),
        ),
    ],
)
def test_both_ways_of_writing_a_call_are_read(text, repairs):
    read = LLAMA.parse(text)
    assert (made(read), read.content, read.repairs) == (SAME, None, repairs)
    assert TAGGED.parse(text) == read


@pytest.mark.parametrize("tag", ["", "<|python_tag|>"])
@pytest.mark.parametrize("between", ["; ", ";\n", "\n", ""])
def test_several_calls_are_parted_by_a_semicolon_or_nothing(tag, between):
    read = LLAMA.parse(f"{tag}{CALL}{between}{CALL}", first_call=2)
    assert (made(read), read.content, read.repairs) == (SAME * 2, None, ())
    assert [call.id for call in read.calls] == ["call_2", "call_3"]


@pytest.mark.parametrize(
    ("after", "problem"),
    [
        ("print(1)", Problem.NOT_A_CALL),
        ('brave_search.call(query="x")', Problem.NOT_A_CALL),
        ("", Problem.NOT_A_CALL),
        ('{"name": "find", "parameters": {"q": 1}', Problem.UNCLOSED),
        ('{"name": "find", "parameters": {"q": x}}', Problem.BROKEN_JSON),
        ('{"q": 1}', Problem.BAD_NAME),
        (f"[{CALL}, 1]", Problem.NOT_A_CALL),
        ("[]", Problem.NOT_A_CALL),
    ],
)
def test_what_follows_the_tag_is_a_call_or_a_problem(after, problem):
    assert LLAMA.parse(f"<|python_tag|>{after}").problem is problem


def test_the_tag_inside_an_argument_opens_nothing():
    text = '{"name": "find", "parameters": {"q": "<|python_tag|>"}}'
    assert made(LLAMA.parse(text)) == [("find", '{"q": "<|python_tag|>"}')]


def test_a_declaration_said_again_is_no_call():
    declared = '{"name": "find", "description": "Find.", "parameters": {"type": "object"}}'
    assert LLAMA.parse(f"I have {declared}.").content == f"I have {declared}."
    assert LLAMA.parse(f"<|python_tag|>{declared}").problem is Problem.NOT_A_CALL


def test_a_conversation_is_written_with_headers_and_tools_in_the_system_turn():
    function = {"name": "find", "arguments": json.dumps({"q": "x"})}
    parameters = {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}
    tool = {"function": {"name": "find", "description": "Find it.", "parameters": parameters}}
    messages = [
        {"role": "user", "content": "Where?"},
        {"role": "assistant", "content": "", "tool_calls": [{"id": "c", "function": function}]},
        {"role": "tool", "content": '{"at": 1}', "tool_call_id": "c"},
    ]
    text = "".join(piece.text for piece in LLAMA.pieces(messages, [tool], cue=True))
    head = "<|start_header_id|>{}<|end_header_id|>\n\n"
    assert text == (
        "<|begin_of_text|>" + head.format("system") + "Tools:\nfind(q: string) - Find it.\n"
        'To use a tool, answer with {"name": tool, "parameters": {…}} alone; part several by "; ".'
        "<|eot_id|>" + head.format("user") + "Where?<|eot_id|>"
        + head.format("assistant") + CALL + "<|eot_id|>"
        + head.format("ipython") + '{"at": 1}<|eot_id|>' + head.format("assistant")
    )  # fmt: skip
    assert f"<|python_tag|>{CALL}<|eot_id|>" in "".join(p.text for p in TAGGED.pieces(messages, []))


@pytest.mark.parametrize(
    "content", [f"Say {CALL}", "a <|python_tag|> b", '{"name": "x", "parameters"']
)
def test_content_that_would_be_read_as_a_call_is_refused(content):
    with pytest.raises(Unwritable, match="message 0"):
        LLAMA.pieces([{"role": "assistant", "content": content}], [])
