"""Events are read alike however the network cut them, and none is longer than allowed."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from synth.core.mcp.events import EventBuffer
from synth.core.mcp.wire import LineTooLong

STREAM = (
    b"\xef\xbb\xbf: a comment\n\nevent: endpoint\rdata: /messages\r\rid: 7\r\nretry: 250\r\n"
    b'data: {"a":\r\ndata:1}\r\n\r\nevent: lost\nid: 8\n\ndata\n\ndata:  two blanks\nother: x\n\n'
    b"retry: soon\nid: \x00\ndata: \xff\n\ndata: never finished\n"
)
EVENTS = [
    ("endpoint", b"/messages", "", None),
    ("message", b'{"a":\n1}', "7", 0.25),
    ("message", b"", "8", 0.25),
    ("message", b" two blanks", "8", 0.25),
    ("message", b"\xff", "8", 0.25),
]


def read(chunks, limit=1000):
    found = EventBuffer(limit)
    events = [event for chunk in chunks for event in found.feed(chunk)]
    return [(event.kind, event.data, event.id, event.retry_s) for event in events]


def test_fields_line_ends_comments_and_ids_are_read_as_the_standard_has_them():
    assert read([STREAM]) == EVENTS


@given(st.lists(st.integers(0, len(STREAM)), max_size=30))
def test_any_chunking_gives_the_same_events(cuts):
    places = [0, *sorted(cuts), len(STREAM)]
    assert read([STREAM[a:b] for a, b in pairwise(places)]) == EVENTS


@given(st.binary(max_size=400), st.lists(st.integers(0, 400), max_size=10))
def test_any_bytes_cut_anywhere_are_read_alike_and_never_break_the_reader(data, cuts):
    places = [0, *sorted(cuts), 400]
    assert read([data[a:b] for a, b in pairwise(places)]) == read([data])


@pytest.mark.parametrize("data", [b"data: " + b"x" * 200, b"data: xxxx\n" * 30])
def test_an_event_longer_than_the_limit_is_refused(data):
    with pytest.raises(LineTooLong):
        read([data], limit=100)
