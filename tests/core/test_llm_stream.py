"""Streams: whatever the network cuts and the server leaves out, the same reply comes of it."""

import asyncio
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synth.core.llm.reply import BadReply, read_reply
from synth.core.llm.stream import Calls, parse_stream

USAGE = {"usage": {"prompt_tokens": 3, "completion_tokens": 2}, "choices": []}


def event(data, end="\n\n"):
    return f"data: {data if isinstance(data, str) else json.dumps(data)}{end}".encode()


def chunk(delta=None, finish=None, **rest):
    choice = {"index": 0, "delta": delta or {}, "finish_reason": finish}
    return {"id": "c1", "model": "m", "choices": [choice], **rest}


def stream(*chunks, done=True):
    return b"".join(event(one) for one in chunks) + (event("[DONE]") if done else b"")


TWO = chunk({"content": "a"})


def read(data):
    return read_reply(parse_stream(data, "here"), "here")


def piece(index=None, identifier=None, name=None, arguments=None):
    function = {"name": name, "arguments": arguments}
    return {
        **({} if index is None else {"index": index}),
        **({} if identifier is None else {"id": identifier}),
        "function": {key: value for key, value in function.items() if value is not None},
    }


def merged(*pieces):
    calls = Calls()
    for one in pieces:
        calls.add(one)
    return [(c["id"], c["function"]["name"], c["function"]["arguments"]) for c in calls.whole()]


HELLO = stream(
    chunk({"role": "assistant"}), chunk({"content": "Hal"}), chunk({"content": "lo é🎉"}),
    chunk({}, "stop"), USAGE,
)  # fmt: skip


def test_pieces_are_joined_and_the_usage_behind_them_counts():
    reply = read(HELLO)
    assert (reply.message.content, reply.finish, reply.model) == ("Hallo é🎉", "stop", "m")
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens) == (3, 2)


@pytest.mark.claim("f-stream")
@pytest.mark.parametrize(
    "change",
    [
        lambda data: data.replace(b"\n", b"\r\n"),
        lambda data: data.replace(b"\n", b"\r"),
        lambda data: data.replace(b"data: ", b"data:"),
        lambda data: b": a comment\n\n" + data.replace(b"\n\n", b"\n: ping\n\n"),
        lambda data: data.replace(b"data: ", b"event: message\nid: 7\ndata: "),
        lambda data: data.replace(b"data: [DONE]\n\n", b""),
        lambda data: b"\xef\xbb\xbf" + data,
        lambda data: data.rstrip(b"\n"),
        lambda data: data + event(chunk({"content": "behind the end"})),
    ],
)
def test_every_way_to_write_events_is_read_alike(change):
    assert read(change(HELLO)) == read(HELLO)


@pytest.mark.claim("a04")
def test_a_character_in_two_halves_is_one_character_and_no_repair():
    data = stream(chunk({"content": "\ud83c"}), chunk({"content": "\udf89"}), chunk({}, "stop"))
    assert (read(data).message.content, read(data).repairs) == ("🎉", ())


@pytest.mark.claim("a17")
@pytest.mark.parametrize(
    ("data", "says", "outcome"),
    [
        (b"", "the reply is empty", "malformed"),
        (b"<html>", "not JSON", "malformed"),
        (stream(chunk({"content": "abc"}), done=False), "does not say why", "incomplete"),
        (stream({"error": {"message": "over"}}), "broke off with an error: over", "incomplete"),
        (stream("[1]"), "an event of the stream is not an object", "malformed"),
        (HELLO[:60], "not JSON", "malformed"),
        (stream(USAGE), "no choices", "malformed"),
        (stream(TWO, {**TWO, "id": "c2"}), "two replies", "malformed"),
        (stream(chunk({"tool_calls": ["x"]})), "a piece of a call", "malformed"),
        (stream(chunk({"tool_calls": 5})), "a piece of a call", "malformed"),
        (stream(chunk({"content": ["x"]})), "the content is not text", "malformed"),
        (
            stream(chunk({"tool_calls": [piece(0, "A", None, "{}")]}, "stop")),
            "call 0 has no name",
            "malformed",
        ),
    ],
)  # fmt: skip
def test_what_is_no_reply_is_named(data, says, outcome):
    with pytest.raises(BadReply) as caught:
        read(data)
    assert says in str(caught.value)
    assert caught.value.outcome == outcome


def test_two_replies_in_one_stream_still_tell_what_they_cost():
    data = stream(chunk({"content": "a"}), chunk({"content": "b"}, id="c2"), USAGE)
    with pytest.raises(BadReply) as caught:
        read(data)
    assert caught.value.usage.prompt_tokens == 3


def test_a_server_that_cannot_stream_is_understood():
    whole = {"choices": [{"finish_reason": "stop", "message": {"content": "hello"}}]}
    assert read(json.dumps(whole).encode()).message.content == "hello"


F, G = '{"p": 1}', '{"p": {"q": "}"}}'


@pytest.mark.claim("a02")
@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        # one index for all calls, other ids (lmdeploy #3412)
        ([piece(0, "A", "f", F), piece(0, "B", "g", G)], [("A", "f", F), ("B", "g", G)]),
        ([piece(0, "A", "f", F), piece(0, "", "g", G)], [("A", "f", F), ("", "g", G)]),
        ([piece(0, None, "f", F), piece(0, None, "f", G)], [("", "f", F), ("", "f", G)]),
        # no ids at all (vllm #18412)
        (
            [piece(0, None, "f", ""), piece(1, None, "g", ""), piece(0, None, None, F),
             piece(1, None, None, G)],
            [("", "f", F), ("", "g", G)],
        ),
        # a new id with every piece of one call
        (
            [piece(0, "A", "f", '{"p"'), piece(0, "B", None, ": "), piece(0, "C", None, "1}")],
            [("A", "f", F)],
        ),
        ([piece(0, "A", "f", '{"p"'), piece(0, "B", "f", ": 1}")], [("A", "f", F)]),
        # id and name repeated with every piece
        ([piece(0, "A", "f", '{"p": '), piece(0, "A", "f", "1}")], [("A", "f", F)]),
        ([piece(0, "A", "f", F), piece(0, "A", "f", "")], [("A", "f", F)]),
        # one id for two calls
        (
            [piece(0, "A", "f", ""), piece(0, None, None, F), piece(1, "A", "f", ""),
             piece(1, None, None, G)],
            [("A", "f", F), ("A", "f", G)],
        ),
        # no index
        ([piece(None, "A", "f", '{"p": '), piece(None, None, None, "1}")], [("A", "f", F)]),
        ([piece(None, "A", "f", F), piece(None, "B", "f", G)], [("A", "f", F), ("B", "f", G)]),
        # a name in pieces
        (
            [piece(0, "A", "get_"), piece(0, None, "it"), piece(0, None, None, F)],
            [("A", "get_it", F)],
        ),
        # calls without arguments
        ([piece(0, "A", "f", ""), piece(0, "B", "g", "")], [("A", "f", ""), ("B", "g", "")]),
        # an object at once
        ([piece(0, "A", "f", {"p": 1})], [("A", "f", F)]),
    ],
)  # fmt: skip
def test_pieces_of_calls_are_neither_glued_nor_split(pieces, expected):
    assert merged(*pieces) == expected


NAMES = st.sampled_from(["f", "get-it.now", "größe"])
VALUES = st.recursive(
    st.text(max_size=5) | st.integers() | st.booleans() | st.none(),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2)
    ),
    max_leaves=5,
)
ARGUMENTS = st.dictionaries(st.text(max_size=4), VALUES, max_size=3)
CALLS = st.lists(st.tuples(NAMES, ARGUMENTS), min_size=1, max_size=4)
HABITS = st.sampled_from(["usual", "no ids", "index 0", "no index", "every piece", "one id"])


def spread(data, habit, number, name, text):
    """Return the pieces of one call, as a server with such a habit sends them."""
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=4)))
    parts = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    identifier = {"no ids": None, "one id": "same"}.get(habit, f"id{number}")
    index = {"index 0": 0, "no index": None}.get(habit, number)
    head = data.draw(st.booleans()) and habit != "index 0"
    pieces = [piece(index, identifier, name, "" if head else parts.pop(0))]
    for part in parts:
        again = habit == "every piece"
        pieces.append(piece(index, identifier if again else None, name if again else None, part))
    return pieces


@pytest.mark.claim("a01")
@pytest.mark.claim("a04")
@given(st.data(), CALLS, HABITS)
@settings(max_examples=300, deadline=None)
def test_any_chunking_by_any_habit_gives_the_same_calls(data, calls, habit):
    wanted = [(name, json.dumps(value, ensure_ascii=False)) for name, value in calls]
    pieces = [
        one
        for number, (name, text) in enumerate(wanted)
        for one in spread(data, habit, number, name, text)
    ]
    chunks = [chunk({"tool_calls": [one]}) for one in pieces]
    reply = read(stream(*chunks, chunk({}, "tool_calls")))
    assert [(call.name, call.arguments) for call in reply.message.tool_calls] == wanted
    ids = [call.id for call in reply.message.tool_calls]
    assert len(set(ids)) == len(ids)


ODD = st.none() | st.integers() | st.text(alphabet='f{}"1,: ', max_size=6)
FUNCTIONS = st.dictionaries(st.sampled_from(["name", "arguments"]), ODD, max_size=2)
MEMBERS = st.none() | st.integers(-1, 3) | st.text(max_size=2) | st.booleans() | FUNCTIONS
PIECES = st.dictionaries(st.sampled_from(["index", "id", "function", "type"]), MEMBERS, max_size=4)


@given(st.lists(PIECES, max_size=8))
@settings(max_examples=200, deadline=None)
def test_no_pieces_of_any_shape_raise_or_lose_text(pieces):
    functions = [one["function"] for one in pieces if isinstance(one.get("function"), dict)]
    texts = [one.get("arguments") for one in functions]
    said = "".join(text for text in texts if isinstance(text, str))
    assert sorted("".join(arguments for _, _, arguments in merged(*pieces))) == sorted(said)


BITS = [b"data: ", b"\n\n", b"{", b"}", b'"choices":[', b"]", b"[DONE]", b"\r", b'"a":1', b":"]


@given(st.binary(max_size=200) | st.lists(st.sampled_from(BITS), max_size=20).map(b"".join))
@settings(max_examples=300, deadline=None)
def test_no_bytes_are_a_reply_or_raise_anything_but_a_named_fault(data):
    with pytest.raises(BadReply) as caught:
        read(data)
    assert caught.value.outcome in {"malformed", "incomplete", "empty"}


@pytest.mark.claim("a04")
@given(st.lists(st.integers(0, len(HELLO)), max_size=6))
@settings(max_examples=50, deadline=None)
def test_reading_ends_at_the_mark_however_the_network_cut_it(cuts):
    from synth.core.llm.endpoint import _pieces

    tail = HELLO + b"never read"
    places = sorted({*cuts, len(HELLO)})
    parts = [tail[a:b] for a, b in zip([0, *places], [*places, len(tail)], strict=True)]

    class Response:
        closed = False

        async def aiter_bytes(self):
            for part in parts:
                yield part
            raise AssertionError("read beyond the mark")

        async def aclose(self):
            self.closed = True

    response = Response()
    # The blank line behind the mark says nothing: it may have come with it or not.
    assert asyncio.run(_pieces(response)).rstrip(b"\n") == HELLO.rstrip(b"\n")
    assert response.closed
