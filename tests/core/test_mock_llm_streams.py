"""Each fault of a stream sends the events that it names: read from plain sockets."""

import pytest

from synth.core.llm.mock.plan import Pace
from synth.core.llm.mock.threads import serving


@pytest.fixture(scope="module")
def mock():
    with serving(pace=Pace(pace_s=0.02, stall_s=0.3)) as server:
        yield server


def test_a_stream_without_done(wire, mock):
    text = b"".join(wire.streamed(mock, "sse_no_done"))
    assert b'"finish_reason":"tool_calls"' in text
    assert b"[DONE]" not in text


def test_a_stream_without_a_reason_to_end(wire, mock):
    pieces = wire.streamed(mock, "sse_no_finish")
    assert b"[DONE]" not in b"".join(pieces)
    assert {choice["finish_reason"] for choice in wire.choices(pieces)} == {None}


def test_an_error_in_the_middle_of_a_stream(wire, mock):
    pieces = wire.streamed(mock, "sse_error_event")
    assert pieces[2].startswith(b'event: error\ndata: {"error":{')
    assert pieces[3:] == [b""]


def test_a_reset_in_the_middle_of_a_stream(wire, mock):
    raw, end, _ = wire.exchange(mock, {**wire.ask, **wire.stream, "model": "fault:sse_reset"})
    assert end == "reset"
    assert raw.count(b"data: ") == 2


def test_silence_in_the_middle_of_a_stream(wire, mock):
    raw, end, times = wire.exchange(mock, {**wire.ask, **wire.stream, "model": "fault:sse_stall"})
    assert end == "end"
    assert times[-1] >= 0.3
    assert raw.count(b"data: ") == 2


def test_usage_in_an_event_of_its_own_unasked(wire, mock):
    pieces = wire.streamed(mock, "sse_usage_only", stream_options={})
    last = wire.events(pieces)[-1]
    assert last["choices"] == []
    assert last["usage"]["total_tokens"] > 0


def test_comments_between_events(wire, mock):
    text = b"".join(wire.streamed(mock, "sse_comments"))
    assert text.startswith(b": keep-alive\n\ndata: ")
    assert text.count(b": keep-alive\n\n") > 3


def test_lines_that_end_with_cr_lf(wire, mock):
    text = b"".join(wire.streamed(mock, "sse_crlf"))
    assert text.count(b"\n") == text.count(b"\r\n") > 6
    assert text.endswith(b"data: [DONE]\r\n\r\n")


def test_no_space_after_data(wire, mock):
    pieces = wire.streamed(mock, "sse_no_space")
    assert all(piece.startswith(b"data:{") for piece in pieces[:-2])


def test_pieces_end_inside_of_characters(wire, mock):
    pieces = wire.streamed(mock, "sse_split_character")
    split_ones = 0
    for piece in pieces:
        try:
            piece.decode()
        except UnicodeDecodeError:
            split_ones += 1
    assert split_ones >= 8
    said = "".join(choice["delta"].get("content") or "" for choice in wire.choices(pieces))
    assert said == "Größe: 5 µm, naïve – 東京 🙂"


def test_one_byte_a_piece(wire, mock):
    pieces = wire.streamed(mock, "sse_bytewise")
    assert {len(piece) for piece in pieces} == {0, 1}
    assert wire.choices(pieces)[-1]["finish_reason"] == "tool_calls"


@pytest.mark.parametrize(("name", "indices"), [("sse_index_reuse", {0}), ("sse_no_ids", {0, 1})])
def test_parallel_calls_are_hard_to_tell_apart(wire, mock, name, indices):
    pieces = wire.streamed(mock, name)
    calls = [
        call for choice in wire.choices(pieces) for call in choice["delta"].get("tool_calls", ())
    ]
    assert {call["index"] for call in calls} == indices
    ids = [call["id"] for call in calls if "id" in call]
    assert len(set(ids)) == (2 if indices == {0} else 0)
    assert "".join(call["function"]["arguments"] for call in calls) == wire.arguments(mock) * 2


def test_two_replies_take_turns(wire, mock):
    found = wire.events(wire.streamed(mock, "sse_interleaved"))
    ids = [event["id"] for event in found]
    assert ids[1] == f"{ids[0]}-other"
    assert len(set(ids)) == 2
    assert ids[:4] == ids[:2] * 2


def test_a_slow_stream_pauses_after_each_event(wire, mock):
    _, end, times = wire.exchange(mock, {**wire.ask, **wire.stream, "model": "fault:sse_slow"})
    assert end == "end"
    assert len(times) > 5
