"""Plain JSON calls: found by their shape in prose, fences and lists; other JSON is text."""

import pytest

from synth.core.formats import Problem, Unwritable, get_format

PLAIN = get_format("json")
F, G = '{"name": "f", "arguments": {"a": 1}}', '{"name": "g", "arguments": {}}'
ONE, TWO = [("f", '{"a": 1}')], [("f", '{"a": 1}'), ("g", "{}")]


def made(read):
    return [(call.name, call.arguments) for call in read.calls]


@pytest.mark.parametrize(
    ("text", "calls", "content", "repairs"),
    [
        (F, ONE, None, ()),
        (f"Let me look.\n{F}", ONE, "Let me look.", ()),
        (f"Let me look: {F}", ONE, "Let me look: ", ()),
        (f"{F}\n{G}", TWO, None, ()),
        (F + G, TWO, None, ()),
        (f"[{F}, {G}]", TWO, None, ()),
        (f"{F}, {G}", TWO, None, ("separator",)),
        (f"{F}\nThat is all.", ONE, "\nThat is all.", ("text_after_call",)),
        (f"```json\n{F}\n```", ONE, None, ("code_fence",)),
        (f"So:\n```\n{F}\n{G}\n```\nDone.", TWO, "So:\nDone.", ("code_fence", "text_after_call")),
        (f"```json\n{F}\n```\n```json\n{G}\n```", TWO, None, ("code_fence",)),
        (f"```json\n{F}", ONE, None, ("missing_close", "code_fence")),
        (f"```python\nx\n```\n{F}", ONE, "```python\nx\n```", ()),
        (f"```python\nx\n```\n{F}\n```", ONE, "```python\nx\n```\n```", ("text_after_call",)),
        (f"```\n{F}\nwhat", ONE, "```\nwhat", ("text_after_call",)),
        ('{"name": "f", "parameters": {"a": 1}}', ONE, None, ("parameters_key",)),
        (f'{{"tool_calls": [{F}, {G}]}}', TWO, None, ("openai_wrapper",)),
        (f'{{"type": "function", "function": {F}}}', ONE, None, ("openai_wrapper",)),
        ('{"name": "f", "arguments": {"a": 1}, "why": "x"}', ONE, None, ("extra_members",)),
        (f"{{{{x}}}} [0, 1) [link](to) [1, 2] {F}", ONE, "{{x}} [0, 1) [link](to) [1, 2] ", ()),
        (f'{{"id": x}} {{"id": 1}} {F}', ONE, '{"id": x} {"id": 1} ', ()),
    ],
)  # fmt: skip
def test_calls_are_found_by_their_shape(text, calls, content, repairs):
    read = PLAIN.parse(text)
    assert (read.problem, made(read), read.content, read.repairs) == (None, calls, content, repairs)


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "Ada", "age": 36}',
        '[{"name": "Ada"}, {"name": "Bob"}]',
        f'The log says {{"result": {F}}}.',
        f"[[{F}]]",
        '{"name": "f", "description": "Does f.", "parameters": {"type": "object"}}',
        '{"tool_calls": []}',
        '{"id": 1, "id": 2}',
        '{"type": NaN}',
        "[1, 2, {",
        "x = {'name': 'f', 'arguments': {}}",
    ],
)
def test_json_that_is_no_call_is_text(text):
    read = PLAIN.parse(text)
    assert (read.problem, read.calls, read.content) == (None, (), text)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"name": "f", "arguments": {"a": }}', Problem.BROKEN_JSON),
        ('{"name": "f", "arguments": {"a": 1}', Problem.UNCLOSED),
        ('{"name": "f', Problem.UNCLOSED),
        ('{"name": "f", "arguments": {}, "arguments": {}}', Problem.BROKEN_JSON),
        ('{"name": "f", "arguments": {}, "parameters": {}}', Problem.NOT_A_CALL),
        ('{"name": "f", "arguments": [1]}', Problem.NOT_A_CALL),
        ('{"name": "", "arguments": {}}', Problem.BAD_NAME),
        (f'[{F}, {{"name": "x"}}]', Problem.NOT_A_CALL),
        (f"{F} {F[:-1]}", Problem.UNCLOSED),
        ("[1" * 100_000 + F, Problem.BROKEN_JSON),
        ("[" * 100_000 + F, Problem.BROKEN_JSON),
        ('{"id": x' * 100_000 + F, Problem.UNCLOSED),
        ('{"id": x' * 100_000 + '{"id":', Problem.BROKEN_JSON),
        (F * 1001, Problem.TOO_MANY),
    ],
)
def test_what_is_meant_as_a_call_and_broken_is_named(text, problem):
    read = PLAIN.parse(text)
    assert (read.problem, read.calls) == (problem, ())


def test_values_longer_than_a_window_are_read_like_short_ones():
    # Cut at any place by a window of 4,096 characters: in text, number, literal, between members.
    for length in range(4040, 4100):
        arguments = f'{{"a": "{"x" * length}\\u00e9", "b": [true, -12.5e3, null], "c": 12345678}}'
        text = f'[1, {{"x": {arguments}}}] {{"name": "f", "arguments": {arguments}}}'
        assert made(PLAIN.parse(text)) == [("f", arguments)]


@pytest.mark.parametrize("content", [f"Say {F}", '{"name": "f", "arguments"', f"```json\n{F}\n```"])
def test_content_that_would_be_read_as_a_call_is_refused(content):
    with pytest.raises(Unwritable, match="message 0"):
        PLAIN.pieces([{"role": "assistant", "content": content}], [])
