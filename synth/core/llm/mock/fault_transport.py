"""Faults of status and transport: the reply is an error, late, cut, or none at all."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import replace
from email.utils import formatdate
from functools import partial

from synth.core.llm.mock import http, render
from synth.core.llm.mock.ask import Ask
from synth.core.llm.mock.faults import Exchange, Fault
from synth.core.llm.mock.plan import End, Plan, Step

_HTML = b"<html><head><title>%d</title></head><body><h1>upstream failed</h1></body></html>\n"
_MESSAGES = {
    400: ("invalid_request_error", "the request is not valid"),
    401: ("authentication_error", "incorrect API key"),
    403: ("permission_error", "this key may not use the model"),
    404: ("not_found_error", "the model does not exist"),
    408: ("timeout_error", "the request timed out"),
    409: ("conflict_error", "the request conflicts with another"),
    413: ("invalid_request_error", "the request is too large"),
    422: ("invalid_request_error", "the request cannot be processed"),
    429: ("rate_limit_error", "too many requests"),
    500: ("server_error", "the server had an error"),
    503: ("server_error", "the server is overloaded"),
    529: ("overloaded_error", "overloaded"),
}
SETTLE_S = 0.05
"""Between the last bytes and a reset, which could overtake them."""
LONG_WAIT_S = 300
"""A Retry-After that no client should wait for."""


def _status(status: int, exchange: Exchange) -> Plan:
    kind, message = _MESSAGES[status]
    return render.failure(status, message, kind)


def _html_status(status: int, exchange: Exchange) -> Plan:
    body = _HTML % status
    return Plan(status, (http.whole(status, body, kind="text/html"),))


def _too_many(retry_after: str) -> Plan:
    kind, message = _MESSAGES[429]
    return render.failure(429, message, kind, {"retry-after": retry_after})


def _seconds(exchange: Exchange) -> Plan:
    return _too_many(str(exchange.pace.retry_after_s))


def _date(exchange: Exchange) -> Plan:
    # A date has whole seconds: rounded up, so that it is never sooner than the seconds say.
    then = math.ceil(time.time()) + exchange.pace.retry_after_s
    return _too_many(formatdate(then, usegmt=True))


def _throttle(seconds: int, exchange: Exchange) -> Plan:
    start = exchange.windows.setdefault(exchange.ask.model, exchange.now)
    left = start + seconds - exchange.now
    if left > 0:
        return _too_many(str(math.ceil(left)))
    return replace(render.reply(exchange.ask, exchange.body), faulty=False)


def _refused(exchange: Exchange) -> Plan:
    return Plan(0, (End.REFUSE,), finished=False)


def _reset(exchange: Exchange) -> Plan:
    return Plan(0, (End.RESET,), finished=False)


def _hang_up(exchange: Exchange) -> Plan:
    return Plan(0, (End.CLOSE,), finished=False)


def _parts(exchange: Exchange) -> tuple[bytes, bytes]:
    """Return head and body of the fault-free reply, framed as asked for."""
    data = _all(render.reply(exchange.ask, exchange.body))
    end = data.index(b"\r\n\r\n") + 4
    return data[:end], data[end:]


def _all(plan: Plan) -> bytes:
    return b"".join(step for step in plan.steps if isinstance(step, bytes))


def _cut_off(end: End, exchange: Exchange) -> Plan:
    head, body = _parts(exchange)
    return Plan(200, (head + body[: len(body) // 2], SETTLE_S, end), finished=False)


def _slow_headers(exchange: Exchange) -> Plan:
    plan = render.reply(exchange.ask, exchange.body)
    return Plan(200, (exchange.pace.stall_s, *plan.steps), plan.usage)


def _trickle(exchange: Exchange) -> Plan:
    plan = render.reply(exchange.ask, exchange.body)
    head, body = _parts(exchange)
    size = len(body) // 40 + 1
    pieces = [head, *(body[i : i + size] for i in range(0, len(body), size))]
    return Plan(200, render.paced(pieces, exchange.pace.pace_s), plan.usage)


def _endless(exchange: Exchange) -> Plan:
    def spaces(ask: Ask) -> Iterator[Step]:
        # Space before a value is valid JSON, a comment is a valid event: no parser ever objects.
        head = render.stream_head(ask)
        yield head if ask.stream else head.replace(b"text/event-stream", b"application/json")
        while True:
            yield http.chunk(b": wait\n\n" if ask.stream else b" " * 16)
            yield exchange.pace.pace_s

    return Plan(200, spaces(exchange.ask), finished=False)


_STATUS = [
    Fault(f"http_{status}", "status", f"status {status}: {message}", partial(_status, status))
    for status, (_, message) in _MESSAGES.items()
]
_THROTTLE = [
    Fault(
        f"throttle_{seconds}s",
        "special",
        f"429 with Retry-After to everybody who asks this model, for its first {seconds} s",
        partial(_throttle, seconds),
        drawn=False,
    )
    for seconds in (1, 5, 30)
]
FAULTS = (
    *_STATUS,
    Fault("http_502", "status", "a proxy's HTML page, 502", partial(_html_status, 502)),
    Fault("http_504", "status", "a proxy's HTML page, 504", partial(_html_status, 504)),
    Fault("http_429_seconds", "status", "429 with Retry-After in seconds", _seconds),
    Fault("http_429_date", "status", "429 with Retry-After as a date", _date),
    Fault(
        "http_429_300",
        "status",
        f"429 with Retry-After: {LONG_WAIT_S}",
        lambda exchange: _too_many(str(LONG_WAIT_S)),
    ),
    *_THROTTLE,
    Fault(
        "refused",
        "special",
        "the connection is reset, and new ones are refused for a moment",
        _refused,
        drawn=False,
    ),
    Fault("reset_before_headers", "transport", "a reset instead of a reply", _reset),
    Fault("closed_before_headers", "transport", "the connection ends without a reply", _hang_up),
    Fault("reset_mid_body", "transport", "a reset after half of it", partial(_cut_off, End.RESET)),
    Fault("closed_mid_body", "transport", "the end after half of it", partial(_cut_off, End.CLOSE)),
    Fault("slow_headers", "transport", "nothing for a while, then the reply", _slow_headers),
    Fault("trickle", "transport", "the reply, in forty pieces with pauses", _trickle),
    Fault("endless_body", "transport", "a body that never ends and is never wrong", _endless),
)
