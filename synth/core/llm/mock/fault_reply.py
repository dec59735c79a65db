"""Faults of the answer: a 200 that is none, broken calls, odd reasons to end, odd characters."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from synth.core.llm.mock import http, render
from synth.core.llm.mock.faults import Act, Exchange, Fault
from synth.core.llm.mock.plan import Plan
from synth.core.llm.mock.said import told_usage

MANY = 60
"""Parallel calls of `many_calls`."""
MEGABYTE = 1 << 20
UNKNOWN_TOOL = "no_such_tool"
SURROGATE = "\ud83c"
"""Half of a character: JSON can escape it, UTF-8 cannot hold it."""
INVISIBLE = "\u200b\u202e\u2066\ufeff\u00ad"
"""Zero width, marks of writing direction, a byte order mark inside of the text."""


def _changed(change: Callable[[Exchange], None]) -> Act:
    """Return an act that changes the completion and then sends it as ever."""

    def act(exchange: Exchange) -> Plan:
        change(exchange)
        return render.reply(exchange.ask, exchange.body)

    return act


def _raw(body: bytes, kind: str = "application/json") -> Act:
    return lambda exchange: Plan(200, (http.whole(200, body, kind=kind),))


def _json(exchange: Exchange) -> bytes:
    return render.dumps(exchange.body)


def _cut_json(exchange: Exchange) -> Plan:
    body = _json(exchange)
    return Plan(200, (http.whole(200, body[: len(body) * 2 // 3]),))


def _bom(exchange: Exchange) -> Plan:
    body = http.whole(200, b"\xef\xbb\xbf" + _json(exchange))
    return Plan(200, (body,), told_usage(exchange.body))


def _set_choices(value: Any, exchange: Exchange) -> None:
    exchange.body["choices"] = value


def _message_null(exchange: Exchange) -> None:
    exchange.body["choices"][0]["message"] = None


def _nothing_said(exchange: Exchange) -> None:
    exchange.body["choices"][0]["message"] = {"role": "assistant", "content": None}
    exchange.body["choices"][0]["finish_reason"] = "stop"


def _content_null(exchange: Exchange) -> None:
    exchange.message["content"] = None


# --- calls -----------------------------------------------------------------------------------


def _id(value: str | None, exchange: Exchange) -> None:
    for call in exchange.calls:
        if value is None:
            del call["id"]
        else:
            call["id"] = value


def _twice(exchange: Exchange) -> None:
    """Two calls of one id."""
    exchange.message["tool_calls"] = [exchange.calls[0], dict(exchange.calls[0])]


def _arguments(change: Callable[[str], Any]) -> Act:
    def each(exchange: Exchange) -> None:
        for call in exchange.calls:
            call["function"]["arguments"] = change(call["function"]["arguments"])

    return _changed(each)


def _with_member(text: str, member: str) -> str:
    """Return the text of an object with one more member, first."""
    return "{" + member + ("," + text.strip()[1:] if _members(text) else "}")


def _members(text: str) -> dict[str, Any]:
    """Return the members of arguments; none where the answer's own text is no object."""
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _duplicate_keys(text: str) -> str:
    members = _members(text)
    name, value = next(iter(members.items()), ("x", 1))
    twice = f"{json.dumps(name)}:{json.dumps(value)}"
    return _with_member(text if members else f"{{{twice}}}", twice)


def _nan(text: str) -> str:
    name = next(iter(_members(text)), "x")
    return "{" + f"{json.dumps(name)}: NaN" + "}"


def _inner_text(text: str) -> str:
    """Values of the object as JSON texts of their own."""
    return json.dumps({name: json.dumps(value) for name, value in _members(text).items()})


def _unknown_tool(exchange: Exchange) -> None:
    exchange.calls[0]["function"]["name"] = UNKNOWN_TOOL


def _many(exchange: Exchange) -> None:
    first = exchange.calls[0]
    exchange.message["tool_calls"] = [{**first, "id": f"{first['id']}_{n}"} for n in range(MANY)]


# --- the end, the usage, the characters -------------------------------------------------------


def _finish(value: str | None, exchange: Exchange) -> None:
    exchange.body["choices"][0]["finish_reason"] = value


def _text(exchange: Exchange) -> str:
    return exchange.message.get("content") or "Let me look it up."


def _length(exchange: Exchange) -> None:
    text = _text(exchange)
    exchange.message.pop("tool_calls", None)
    exchange.message["content"] = text[: len(text) // 2 + 1]
    _finish("length", exchange)


def _filtered(exchange: Exchange) -> None:
    exchange.message.pop("tool_calls", None)
    exchange.message["content"] = ""
    _finish("content_filter", exchange)


def _cut_call(exchange: Exchange) -> None:
    function = exchange.calls[-1]["function"]
    function["arguments"] = function["arguments"][: len(function["arguments"]) // 2 + 1]
    if function["arguments"] == "{}":
        function["arguments"] = "{"
    _finish("length", exchange)


def _no_usage(exchange: Exchange) -> None:
    del exchange.body["usage"]


def _odd(characters: str, exchange: Exchange) -> None:
    """Put characters into the text and into the arguments of all calls."""
    text = _text(exchange)
    exchange.message["content"] = text[:3] + characters + text[3:]
    member = f'"note":{json.dumps(characters)}'
    for call in exchange.calls:
        call["function"]["arguments"] = _with_member(call["function"]["arguments"], member)


def _surrogate(exchange: Exchange) -> None:
    _odd(SURROGATE, exchange)
    for call in exchange.calls:
        # Here the half character itself stands in the text, not its escape.
        text = call["function"]["arguments"]
        call["function"]["arguments"] = text.replace("\\ud83c", SURROGATE)


# --- what some servers want of the history ---------------------------------------------------


def _reasoning_rule(wanted: bool, exchange: Exchange) -> Plan:
    told = [m for m in exchange.ask.messages if m["role"] == "assistant"]
    wrong = [m for m in told if ("reasoning_content" in m) is not wanted]
    if wrong:
        what = "is missing in" if wanted else "is not allowed in"
        message = f"reasoning_content {what} {len(wrong)} assistant messages"
        return render.failure(400, message, "invalid_request_error")
    exchange.message["reasoning_content"] = "Let me think about what was asked."
    return replace(render.reply(exchange.ask, exchange.body), faulty=False)


def _calls(name: str, about: str, act: Act) -> Fault:
    return Fault(name, "calls", about, act, call=True)


FAULTS = (
    Fault(
        "error_in_200",
        "body",
        "an error body under status 200",
        _raw(render.failure_body("the provider returned an error", "provider_error", 502)),
    ),
    Fault(
        "html_in_200",
        "body",
        "an HTML page under status 200",
        _raw(b"<!doctype html><html><body>Please sign in.</body></html>\n", "text/html"),
    ),
    Fault("empty_body", "body", "200 with no body", _raw(b"")),
    Fault("cut_json", "body", "JSON cut off, under a length that says it is whole", _cut_json),
    Fault("bom", "body", "a byte order mark before the JSON", _bom),
    Fault("choices_null", "body", "choices: null", _changed(partial(_set_choices, None))),
    Fault("choices_empty", "body", "choices: []", _changed(lambda x: _set_choices([], x))),
    Fault("message_null", "body", "message: null", _changed(_message_null)),
    Fault("message_empty", "body", "neither text nor a call", _changed(_nothing_said)),
    _calls("content_null", "calls beside content: null (sound)", _changed(_content_null)),
    _calls("id_empty", "calls whose id is empty", _changed(partial(_id, ""))),
    _calls("id_missing", "calls without an id", _changed(partial(_id, None))),
    _calls("id_duplicate", "two calls of one id", _changed(_twice)),
    _calls("arguments_empty", 'arguments: ""', _arguments(lambda text: "")),
    _calls("arguments_null", "arguments: null", _arguments(lambda text: None)),
    _calls("arguments_object", "arguments as an object, not its text", _arguments(_members)),
    _calls("arguments_text", "arguments encoded twice", _arguments(json.dumps)),
    _calls("arguments_inner_text", "each argument encoded twice", _arguments(_inner_text)),
    _calls("arguments_cut", "arguments cut off", _arguments(lambda text: text[:-1])),
    _calls("arguments_comma", "a comma too many", _arguments(lambda text: text[:-1] + ",}")),
    _calls("arguments_nan", "NaN in the arguments", _arguments(_nan)),
    _calls("arguments_twice", "a key that occurs twice", _arguments(_duplicate_keys)),
    _calls(
        "arguments_1mb",
        "a megabyte of arguments",
        _arguments(lambda text: _with_member(text, f'"note":"{"x" * MEGABYTE}"')),
    ),
    _calls("unknown_tool", "a call of a tool that nobody offered", _changed(_unknown_tool)),
    _calls("many_calls", f"{MANY} parallel calls", _changed(_many)),
    Fault("finish_length", "finish", "text cut off at the limit of tokens", _changed(_length)),
    _calls("finish_length_in_call", "a call cut off at the limit of tokens", _changed(_cut_call)),
    Fault("finish_content_filter", "finish", "filtered, with empty text", _changed(_filtered)),
    Fault("finish_unknown", "finish", "a reason nobody knows", _changed(partial(_finish, "eos!"))),
    Fault("finish_null", "finish", "no reason to end", _changed(partial(_finish, None))),
    Fault("usage_missing", "finish", "a reply without usage", _changed(_no_usage)),
    Fault("surrogate", "text", "half a character in text and arguments", _changed(_surrogate)),
    Fault("nul", "text", "a NUL in text and arguments", _changed(partial(_odd, "\x00"))),
    Fault("invisible", "text", "invisible characters", _changed(partial(_odd, INVISIBLE))),
    Fault(
        "needs_reasoning",
        "special",
        "400 where an assistant message of the history lacks reasoning_content",
        partial(_reasoning_rule, True),
        drawn=False,
    ),
    Fault(
        "forbids_reasoning",
        "special",
        "400 where an assistant message of the history has reasoning_content",
        partial(_reasoning_rule, False),
        drawn=False,
    ),
)
