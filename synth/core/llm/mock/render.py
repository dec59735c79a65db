"""A completion on the wire: one JSON body, or server-sent events."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import orjson

from synth.core.llm.mock import http
from synth.core.llm.mock.ask import Ask
from synth.core.llm.mock.plan import Plan, Step
from synth.core.llm.mock.said import told_usage

DONE = b"data: [DONE]\n\n"
_STREAM = {"content-type": "text/event-stream", "transfer-encoding": "chunked"}


def dumps(value: Any) -> bytes:
    """Return JSON; what UTF-8 cannot hold (lone surrogates) becomes an escape."""
    try:
        return orjson.dumps(value)
    except TypeError:
        return json.dumps(value, separators=(",", ":")).encode()


def reply(ask: Ask, body: dict[str, Any]) -> Plan:
    """Return how a completion is sent, in the way that was asked for."""
    if ask.stream:
        return stream(ask, body, map(event, chunks(ask, body)))
    return Plan(200, (http.whole(200, dumps(body), _request_id(ask)),), told_usage(body))


def stream(
    ask: Ask,
    body: dict[str, Any],
    events: Iterable[bytes],
    *,
    pause_s: float = 0.0,
    end: bytes = DONE,
) -> Plan:
    """Return how events are sent: at once, or with a pause after each.

    Args:
        ask: the request.
        body: the completion that is told.
        events: ready events.
        pause_s: seconds.
        end: what is sent after them.
    """
    usage = told_usage(body) if ask.include_usage else None
    parts = [stream_head(ask), *map(http.chunk, events)]
    parts += [http.chunk(end)] if end else []
    parts.append(http.CHUNKS_END)
    if not pause_s:
        return Plan(200, (b"".join(parts),), usage)
    return Plan(200, paced(parts, pause_s), usage)


def paced(parts: Iterable[bytes], pause_s: float) -> Iterator[Step]:
    """Yield the parts with a pause after each."""
    for part in parts:
        yield part
        yield pause_s


def stream_head(ask: Ask) -> bytes:
    """Return the head of a stream of events."""
    return http.head(200, _STREAM | _request_id(ask))


def _request_id(ask: Ask) -> dict[str, str]:
    return {"x-request-id": f"req_{ask.key[:24]}"}


def event(data: Any) -> bytes:
    """Return one event."""
    return b"data: " + dumps(data) + b"\n\n"


def chunks(ask: Ask, body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a completion as `chat.completion.chunk` objects.

    A completion that a fault has broken gives a broken chunk with the same fault.
    """
    frame = {"id": body.get("id"), "object": "chat.completion.chunk"}
    frame |= {"created": body.get("created"), "model": body.get("model")}
    for choice in _choices(body.get("choices")):
        yield frame | {"choices": choice}
    if ask.include_usage and "usage" in body:
        yield frame | {"choices": [], "usage": body["usage"]}


def _choices(choices: Any) -> Iterator[Any]:
    choice = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(choice, dict):
        yield choices
        return
    finish = choice.get("finish_reason")
    if not isinstance(choice.get("message"), dict):
        yield [{"index": 0, "delta": None, "finish_reason": finish}]
        return
    logprobs = choice.get("logprobs")
    for delta in deltas(choice["message"]):
        one: dict[str, Any] = {"index": 0, "delta": delta, "finish_reason": None}
        if logprobs and delta.get("content"):
            one["logprobs"], logprobs = logprobs, None
        yield [one]
    yield [{"index": 0, "delta": {}, "finish_reason": finish}]


def deltas(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a message bit by bit: role, text in two pieces, each call's name, then arguments."""
    text = message.get("content")
    yield {"role": "assistant", "content": "" if text else None}
    if message.get("reasoning_content"):
        yield {"reasoning_content": message["reasoning_content"]}
    if text:
        middle = len(text) // 2
        yield from ({"content": piece} for piece in (text[:middle], text[middle:]) if piece)
    for index, call in enumerate(message.get("tool_calls") or ()):
        function = call["function"]
        arguments = function.get("arguments")
        first = {"name": function.get("name"), "arguments": "" if arguments else arguments}
        start = {"index": index, **call, "function": first}
        yield {"tool_calls": [start]}
        for piece in _halves(arguments):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def _halves(arguments: Any) -> list[Any]:
    if not isinstance(arguments, str):
        return [arguments] if arguments else []
    middle = len(arguments) // 2
    return [piece for piece in (arguments[:middle], arguments[middle:]) if piece]


def failure(status: int, message: str, kind: str, extra: dict[str, str] | None = None) -> Plan:
    """Return an error as endpoints tell it."""
    return Plan(status, (http.whole(status, failure_body(message, kind), extra),))


def failure_body(message: str, kind: str, code: str | int | None = None) -> bytes:
    """Return the JSON of an error."""
    error = {"message": message, "type": kind, "param": None, "code": code}
    return dumps({"error": error})
