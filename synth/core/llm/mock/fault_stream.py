"""Faults of server-sent events."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from synth.core.llm.mock import http, render
from synth.core.llm.mock.fault_transport import SETTLE_S
from synth.core.llm.mock.faults import Act, Exchange, Fault
from synth.core.llm.mock.plan import End, Plan, Step

COMMENT = b": keep-alive\n\n"
WIDE = "Größe: 5 µm, naïve – 東京 🙂"
"""Text of characters of two, three and four bytes."""


def _events(exchange: Exchange) -> list[bytes]:
    return [render.event(chunk) for chunk in render.chunks(exchange.ask, exchange.body)]


def _sent(change: Callable[[list[bytes]], Iterable[bytes]], end: bytes = render.DONE) -> Act:
    """Return an act that changes the events and then sends them as ever."""

    def act(exchange: Exchange) -> Plan:
        events = change(_events(exchange))
        return render.stream(exchange.ask, exchange.body, events, end=end)

    return act


def _has_finish(event: bytes) -> bool:
    return b'"finish_reason":"' in event


def _no_finish(exchange: Exchange) -> Plan:
    """Everything up to the reason to end: neither it, nor usage, nor `[DONE]`."""
    events = _events(exchange)
    last = next(i for i, event in enumerate(events) if _has_finish(event))
    plan = render.stream(exchange.ask, exchange.body, events[:last], end=b"")
    return Plan(200, plan.steps)


def _error_event(exchange: Exchange) -> Plan:
    events = _events(exchange)[:2]
    error = render.failure_body("the server had an error", "server_error")
    events.append(b"event: error\ndata: " + error + b"\n\n")
    plan = render.stream(exchange.ask, exchange.body, events, end=b"")
    return Plan(200, plan.steps)


def _reset(exchange: Exchange) -> Plan:
    parts = [render.stream_head(exchange.ask), *map(http.chunk, _events(exchange)[:2])]
    return Plan(200, (b"".join(parts), SETTLE_S, End.RESET), finished=False)


def _usage_only(exchange: Exchange) -> Plan:
    """The usage in an event without choices, also to who did not ask for it."""
    exchange.ask.body["stream_options"] = {"include_usage": True}
    return render.stream(exchange.ask, exchange.body, _events(exchange))


def _comments(events: list[bytes]) -> Iterator[bytes]:
    yield COMMENT
    for event in events:
        yield event
        yield COMMENT


def _split(exchange: Exchange) -> Plan:
    """Each piece on the way ends inside a character, wherever there is one to be split."""
    exchange.message["content"] = WIDE
    plan = render.stream(exchange.ask, exchange.body, _events(exchange))
    events = b"".join([*_events(exchange), render.DONE])
    parts = [render.stream_head(exchange.ask), *map(http.chunk, _inside(events)), http.CHUNKS_END]
    return Plan(200, render.paced(parts, SETTLE_S / 5), plan.usage)


def _inside(data: bytes) -> Iterator[bytes]:
    start = 0
    for place, byte in enumerate(data):
        if byte & 0xC0 == 0x80 and data[place - 1] & 0xC0 == 0xC0:
            yield data[start:place]
            start = place
    yield data[start:]


def _bytewise(exchange: Exchange) -> Plan:
    plan = render.stream(exchange.ask, exchange.body, _events(exchange))
    data = b"".join([*_events(exchange), render.DONE])
    parts = [render.stream_head(exchange.ask)]
    parts += [http.chunk(data[i : i + 1]) for i in range(len(data))]
    return Plan(200, (b"".join([*parts, http.CHUNKS_END]),), plan.usage)


def _index_reuse(exchange: Exchange) -> Plan:
    """A second call under the first one's index: only its new id tells them apart."""
    first = exchange.calls[0]
    exchange.message["tool_calls"] = [first, {**first, "id": f"{first['id']}_b"}]
    events = [event.replace(b'"index":1', b'"index":0') for event in _events(exchange)]
    return render.stream(exchange.ask, exchange.body, events)


def _no_ids(exchange: Exchange) -> Plan:
    """Two parallel calls, told apart by their index alone."""
    first = {name: value for name, value in exchange.calls[0].items() if name != "id"}
    exchange.message["tool_calls"] = [first, first]
    return render.stream(exchange.ask, exchange.body, _events(exchange))


def _interleaved(exchange: Exchange) -> Plan:
    """The events of two replies in turn; ids tell them apart, the first is the answer."""
    other: dict[str, Any] = {**exchange.body, "id": f"{exchange.body['id']}-other"}
    stray = {"role": "assistant", "content": "This belongs to somebody else."}
    other["choices"] = [{"index": 0, "message": stray, "finish_reason": "stop"}]
    mine = _events(exchange)
    theirs = [render.event(chunk) for chunk in render.chunks(exchange.ask, other)]
    theirs = [event for event in theirs if b'"usage"' not in event]
    mixed = [event for pair in zip(mine, theirs, strict=False) for event in pair]
    rest = mine[len(theirs) :] + theirs[len(mine) :]
    return render.stream(exchange.ask, exchange.body, mixed + rest)


def _slow(exchange: Exchange) -> Plan:
    events = _events(exchange)
    return render.stream(exchange.ask, exchange.body, events, pause_s=exchange.pace.pace_s)


def _stall(exchange: Exchange) -> Plan:
    def steps() -> Iterator[Step]:
        yield b"".join([render.stream_head(exchange.ask), *map(http.chunk, _events(exchange)[:2])])
        yield exchange.pace.stall_s
        yield End.CLOSE

    return Plan(200, steps(), finished=False)


def _stream(name: str, about: str, act: Act, *, call: bool = False) -> Fault:
    return Fault(name, "stream", about, act, call=call, stream=True)


FAULTS = (
    _stream("sse_no_done", "all events but [DONE]", _sent(list, end=b"")),
    _stream("sse_no_finish", "the end without a reason to end", _no_finish),
    _stream("sse_error_event", "an error event in the middle", _error_event),
    _stream("sse_reset", "a reset in the middle", _reset),
    _stream("sse_stall", "silence in the middle, then the end", _stall),
    _stream("sse_usage_only", "an event with usage and no choices, unasked", _usage_only),
    _stream("sse_comments", "comment lines between the events", _sent(_comments)),
    _stream(
        "sse_crlf",
        "lines that end with CR LF",
        _sent(
            lambda events: [event.replace(b"\n", b"\r\n") for event in events],
            end=render.DONE.replace(b"\n", b"\r\n"),
        ),
    ),
    _stream(
        "sse_no_space",
        "no space after `data:`",
        _sent(lambda events: [event.replace(b"data: ", b"data:", 1) for event in events]),
    ),
    _stream("sse_split_character", "pieces that end inside a character", _split),
    _stream("sse_bytewise", "one byte a piece", _bytewise),
    _stream("sse_index_reuse", "two calls of one index", _index_reuse, call=True),
    _stream("sse_no_ids", "two calls without ids", _no_ids, call=True),
    _stream("sse_interleaved", "two replies, event by event in turn", _interleaved),
    _stream("sse_slow", "a pause after each event", _slow),
)
