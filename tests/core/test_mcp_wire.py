"""Bytes to messages: any split, any bytes, linear time."""

import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synth.core.mcp.wire import (
    MAX_DEPTH,
    TOO_DEEP,
    LineBuffer,
    LineTooLong,
    messages,
    parse,
    prune,
)

FEW = settings(max_examples=40, deadline=None)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@FEW
@given(st.binary(), st.lists(st.integers(min_value=1, max_value=7)))
def test_lines_do_not_depend_on_how_the_stream_is_split(data, sizes):
    buffer = LineBuffer(1 << 20)
    lines, rest = [], data
    for size in [*sizes, len(data) + 1]:
        lines += buffer.feed(rest[:size])
        rest = rest[size:]
    assert lines == data.split(b"\n")[:-1]


def test_a_line_may_be_as_long_as_the_limit_and_no_longer():
    assert list(LineBuffer(4).feed(b"abcd\nx\n")) == [b"abcd", b"x"]
    buffer = LineBuffer(4)
    assert list(buffer.feed(b"ab")) == []
    with pytest.raises(LineTooLong):
        list(buffer.feed(b"cde"))


@FEW
@given(st.binary())
def test_any_bytes_are_messages_or_noise(data):
    found = messages(data)
    assert found is None or all(isinstance(message, dict) for message in found)


@FEW
@given(JSON)
def test_json_is_read_as_the_standard_library_reads_it(value):
    text = json.dumps(value).encode()
    assert parse(text) == json.loads(text)
    assert prune(text) == text


@FEW
@given(st.integers(min_value=1, max_value=3000), JSON, JSON)
def test_what_is_nested_too_deep_is_cut_and_its_neighbours_stay(depth, before, after):
    text = f"[{json.dumps(before)},{'[' * depth + ']' * depth},{json.dumps(after)}]"
    found = json.loads(prune(text.encode()))
    assert (found[0], found[2]) == (before, after)
    assert (TOO_DEEP in json.dumps(found[1], ensure_ascii=False).replace("\\u0000", "\0")) is (
        depth + 1 > MAX_DEPTH
    )


def test_brackets_in_strings_are_no_nesting():
    text = json.dumps({"a": "[" * 500 + '"\\{' * 500, "b": [1]}).encode()
    assert prune(text) == text


@pytest.mark.parametrize("unit", [b"[", b'"', b'\\"', b'{"a":', b"]", b"[]"])
def test_hostile_lines_cost_linear_time(unit):
    text = b'{"a":' + unit * (900_000 // len(unit))
    begun = time.process_time()
    assert parse(text) is None
    assert time.process_time() - begun < 3


def test_an_unfinished_document_is_no_document():
    assert parse(b"[" * 10_000) is None
    assert parse(b'{"a": "' + b"\\" * 9999) is None


@pytest.mark.parametrize(
    ("line", "count"),
    [
        (b'{"jsonrpc":"2.0","id":1,"result":{}}', 1),
        (b'[{"method":"a"},{"id":1,"result":{}},7]', 2),
        (b"{}", None),
        (b"[]", None),
        (b"hello", None),
        (b'"text"', None),
        (b"", None),
        (b"\xff{}", None),
    ],
)
def test_a_line_is_one_message_a_batch_or_noise(line, count):
    found = messages(line)
    assert (None if found is None else len(found)) == count
