"""A chat-completions request, read and checked as endpoints check it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

_FAULT = re.compile(r"fault:([a-z0-9_]+)(?:@(\d{1,6}))?")
_NOT_CONTENT = frozenset({"model", "stream", "stream_options", "user", "messages", "tools"})
ROLES = frozenset({"system", "developer", "user", "assistant", "tool", "function"})


class Refused(Exception):
    """A request that an endpoint answers with 400.

    Args:
        message: one line.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


@dataclass(slots=True)
class Ask:
    """One request to `/v1/chat/completions`."""

    body: dict[str, Any]
    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]]
    model: str
    stream: bool
    key: str
    """Hash of the seed and the content: not of the model's name, nor of whether it streams."""
    prompt_tokens: int
    call: str | None = None
    """Identity of the call, from its header."""
    attempt: int | None = None

    @property
    def include_usage(self) -> bool:
        """Say whether a stream shall end with the usage."""
        return member(self.body, "stream_options").get("include_usage") is True

    @property
    def fault(self) -> tuple[str, int | None] | None:
        """Return the fault that the model's name asks for, and of how many attempts."""
        found = _FAULT.fullmatch(self.model) if self.model.startswith("fault:") else None
        return (found[1], int(found[2]) if found[2] else None) if found else None


def read_ask(raw: bytes, headers: Mapping[str, str], seed: int) -> Ask:
    """Read and check one request; `seed` is the server's.

    Raises:
        Refused: no endpoint would take it.
    """
    try:
        body = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise Refused(f"the body is not JSON: {error}") from error
    try:
        return _ask(body, headers, seed)
    except orjson.JSONEncodeError as error:  # nested deeper than can be written
        raise Refused(f"the body cannot be read: {error}") from error


def _ask(body: Any, headers: Mapping[str, str], seed: int) -> Ask:
    if not isinstance(body, dict) or not isinstance(body.get("model"), str):
        raise Refused("the body is not an object with a model")
    messages, tools = _checked(body.get("messages")), body.get("tools") or []
    _check_tools(tools)
    if body.get("n", 1) != 1:
        raise Refused("n must be 1")
    content = orjson.dumps([messages, tools], option=orjson.OPT_SORT_KEYS)
    rest = {name: value for name, value in body.items() if name not in _NOT_CONTENT}
    digest = hashlib.sha256(b"%d:" % seed)
    digest.update(content)
    digest.update(orjson.dumps(rest, option=orjson.OPT_SORT_KEYS))
    call, attempt = headers.get("x-toolloom-call"), headers.get("x-toolloom-attempt", "")
    return Ask(
        body=body,
        messages=messages,
        tools=tools,
        model=body["model"],
        stream=body.get("stream") is True,
        key=digest.hexdigest()[:32],
        prompt_tokens=len(content) // 4 + 1,
        call=call,
        attempt=int(attempt) if attempt.isascii() and attempt.isdigit() else None,
    )


def member(value: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return a member that is an object; an empty one where it is none."""
    found = value.get(name)
    return found if isinstance(found, dict) else {}


def _check_tools(tools: Any) -> None:
    try:
        named = all(type(tool["function"]["name"]) is str for tool in tools)
    except (KeyError, TypeError):
        named = False
    if not named or not isinstance(tools, list):
        raise Refused("tools is not a list of functions")


def _checked(messages: Any) -> list[dict[str, Any]]:
    """Return the messages; each tool call must have one result, right after it."""
    if not isinstance(messages, list) or not messages:
        raise Refused("messages is not a list of at least one message")
    open_calls: set[Any] = set()
    for index, message in enumerate(messages):
        role = message.get("role") if isinstance(message, dict) else None
        if role == "tool":
            answered = message.get("tool_call_id")
            if not isinstance(answered, str) or answered not in open_calls:
                raise Refused(f"messages[{index}] answers no open tool call")
            open_calls.remove(answered)
        elif open_calls:
            raise Refused(f"tool calls without a result before messages[{index}]")
        elif role == "assistant":
            if message.get("tool_calls"):
                open_calls = _call_ids(message["tool_calls"], index)
        elif not isinstance(role, str) or role not in ROLES:
            raise Refused(f"messages[{index}] has no known role")
    if open_calls:
        raise Refused("tool calls without a result at the end of messages")
    return messages


def _call_ids(calls: Any, index: int) -> set[Any]:
    try:
        ids = {call["id"] for call in calls}
        own = len(ids) == len(calls) and all(ids)
    except (KeyError, TypeError):
        own = False
    if not own:
        raise Refused(f"messages[{index}] has tool calls without an id of their own")
    return ids
