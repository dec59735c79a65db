"""What a conversation says, whatever the format of its file: the measure of a faithful export.

Formats disagree on identifiers, on where the system prompt stands and on how arguments are written.
`told` leaves just that out, so that a row and what was read back from its file can be compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from synth.core.canonical import canonical
from synth.core.formats import Unwritable

Conversation = Mapping[str, Any]
"""`messages` in the OpenAI shape and `tools`, a list as JSON text."""


def told(conversation: Conversation) -> list[Any]:
    """Return the tools and the turns of a conversation in a form that can be compared.

    Identifiers of calls become their numbers; arguments, which are text, become canonical JSON.

    Raises:
        Unwritable: arguments are no JSON, or a result answers no call.
    """
    numbers: dict[str, int] = {}
    count = 0
    turns: list[Any] = [canonical(orjson.loads(conversation["tools"]))]
    for message in conversation["messages"]:
        turn = [message["role"], message.get("content") or ""]
        for call in message.get("tool_calls") or ():
            numbers[call["id"]] = count
            count += 1
            turn += [call["function"]["name"], canonical(arguments_of(call))]
        if message["role"] == "tool":
            given = message["tool_call_id"]
            if given not in numbers:
                raise Unwritable(f"a result answers no call: {given!r}")
            turn.append(numbers[given])
        turns.append(turn)
    return turns


def first_difference(one: Sequence[Any], other: Sequence[Any]) -> int | None:
    """Return the first place where two told conversations differ; None where they are equal."""
    if one == other:
        return None
    pairs = zip(one, other, strict=False)
    return next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def arguments_of(call: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call of an OpenAI-shape message.

    Raises:
        Unwritable: they are no JSON object.
    """
    text = call["function"]["arguments"]
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise Unwritable(f"arguments are no JSON: {error}") from None
    if not isinstance(value, dict):
        raise Unwritable(f"arguments are no object: {text[:40]}")
    return value


def opening(messages: Sequence[Mapping[str, Any]]) -> tuple[str, list[Mapping[str, Any]]]:
    """Return the system prompt, empty where there is none, and the other messages.

    Raises:
        Unwritable: there is one, and it is empty.
    """
    if not messages or messages[0]["role"] != "system":
        return "", list(messages)
    if not messages[0]["content"]:
        raise Unwritable("an empty system prompt")
    return messages[0]["content"], list(messages[1:])


def results_of(messages: Sequence[Mapping[str, Any]], at: int) -> list[Mapping[str, Any]]:
    """Return the results that follow the calls of message `at`, in the order of the calls.

    Raises:
        Unwritable: a call has no result, or one has two, or another message comes between.
    """
    wanted = [call["id"] for call in messages[at]["tool_calls"]]
    found = messages[at + 1 : at + 1 + len(wanted)]
    if [message.get("tool_call_id") for message in found] != wanted:
        raise Unwritable("results are not in the order of their calls")
    return list(found)


def call(number: int, name: str, arguments: str) -> dict[str, Any]:
    """Return a call in the OpenAI shape; its identifier is its number in the conversation."""
    function = {"name": name, "arguments": arguments}
    return {"id": f"call_{number}", "type": "function", "function": function}
