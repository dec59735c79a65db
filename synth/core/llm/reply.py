"""The validator of every model reply: a 200 is not yet an answer.

Endpoints return 200 with no choices, with an error body, with HTML, with arguments as objects, with
empty call ids, with lone surrogates. Each is a `ModelFailed` here or is repaired where the meaning
is beyond doubt (a missing id); what the *agent* got wrong (broken argument text) is left as it is.
"""

from __future__ import annotations

from typing import Any

import orjson

from synth.core.errors import ModelFailed
from synth.core.protocols import Reply
from synth.core.types import Message, ToolCall, Usage


def parse_reply(body: bytes, where: str) -> Reply:
    """Parse a chat-completions response.

    Raises:
        ModelFailed: it is not a usable reply; says why.
    """
    try:
        data = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise ModelFailed(f"the reply is not JSON: {body[:80]!r}", where=where) from error
    if not isinstance(data, dict):
        raise ModelFailed("the reply is not an object", where=where)
    if data.get("error"):
        raise ModelFailed(f"a 200 with an error: {str(data['error'])[:200]}", where=where)
    choices = data.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise ModelFailed("the reply has no choices", where=where)
    choice = choices[0]
    finish = choice.get("finish_reason")
    if not isinstance(finish, str):
        raise ModelFailed("the reply does not say why it ended: it may be cut off", where=where)
    # A model that thought until its tokens were used up failed; its endpoint did not.
    message = _message(choice.get("message"), where, may_be_empty=finish == "length")
    return Reply(
        message=message,
        finish=finish,
        model=str(data.get("model") or ""),
        usage=_usage(data.get("usage")),
    )


def _message(raw: Any, where: str, *, may_be_empty: bool) -> Message:
    if not isinstance(raw, dict):
        raise ModelFailed("the reply has no message", where=where)
    content, reasoning = raw.get("content"), raw.get("reasoning_content") or raw.get("reasoning")
    if content is not None and not isinstance(content, str):
        raise ModelFailed("the content is not text", where=where)
    calls = raw.get("tool_calls") or []
    if not isinstance(calls, list):
        raise ModelFailed("tool_calls is not a list", where=where)
    message = Message(
        role="assistant",
        content=content,
        reasoning=reasoning if isinstance(reasoning, str) else None,
        tool_calls=tuple(_call(call, index, where) for index, call in enumerate(calls)),
    )
    if not (message.content or message.tool_calls or may_be_empty):
        raise ModelFailed("the reply has neither text nor a call", where=where)
    return message


def _call(raw: Any, index: int, where: str) -> ToolCall:
    function = raw.get("function") if isinstance(raw, dict) else None
    if not isinstance(function, dict):
        raise ModelFailed(f"tool call {index} has no function", where=where)
    name, arguments = function.get("name"), function.get("arguments")
    if isinstance(arguments, dict):
        arguments = orjson.dumps(arguments).decode()
    if not isinstance(name, str) or not name or not isinstance(arguments, (str, type(None))):
        raise ModelFailed(f"tool call {index} has no name or no argument text", where=where)
    return ToolCall(
        id=str(raw.get("id") or f"call_{index}"), name=name, arguments=arguments or "{}"
    )


def _usage(raw: Any) -> Usage:
    if not isinstance(raw, dict):
        return Usage()
    details = raw.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else None
    values = (raw.get("prompt_tokens"), raw.get("completion_tokens"), cached)
    prompt, completion, hits = (v if isinstance(v, int) else None for v in values)
    return Usage(prompt_tokens=prompt, completion_tokens=completion, cached_tokens=hits)
