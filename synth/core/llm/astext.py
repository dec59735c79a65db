"""Tool calls as text: for endpoints that know nothing of tools, or return calls unread.

Tools are declared in the system message, earlier calls are written as the family writes them, and
results come back in the user's name, one message for all of a turn: such endpoints refuse roles
they do not know, and two messages of one side in a row.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from synth.core.config import ModelConfig
from synth.core.formats import ToolFormat, declare, fit_parsed, get_format
from synth.core.protocols import Finish, Reply
from synth.core.types import Message

Wire = Mapping[str, Any]
_EXAMPLE = {
    "role": "assistant",
    "content": None,
    "tool_calls": [
        {"id": "call_0", "function": {"name": "TOOL", "arguments": '{"PARAMETER": "VALUE"}'}}
    ],
}


def format_of(config: ModelConfig) -> ToolFormat:
    """Return the family that `tool_calls` names.

    Raises:
        UnknownName: it is not registered.
    """
    return get_format(config.tool_calls)


def write(messages: Sequence[Wire], tools: Sequence[Wire], family: ToolFormat) -> list[Wire]:
    """Return a conversation without tools and calls in it, for a plain chat endpoint.

    Raises:
        Unwritable: an earlier call that the family has no text for.
    """
    names = {
        call["id"]: call["function"]["name"]
        for message in messages
        for call in message.get("tool_calls") or ()
    }
    out: list[dict[str, Any]] = []
    for index, message in enumerate(messages):
        role, content = message["role"], message.get("content") or ""
        if role == "tool":
            name = names.get(message.get("tool_call_id"), "the tool")
            content = f"Result of {name}:\n{content}"
            if out and out[-1].get("results"):
                out[-1]["content"] += f"\n\n{content}"
                continue
            out.append({"role": "user", "content": content, "results": True})
            continue
        if message.get("tool_calls"):
            content = _said(messages, index, family)
        plain = {key: value for key, value in message.items() if key != "tool_calls"}
        out.append({**plain, "content": content})
    for message in out:
        message.pop("results", None)
    return _with_tools(out, tools, family)


def _with_tools(
    messages: list[dict[str, Any]], tools: Sequence[Wire], family: ToolFormat
) -> list[Wire]:
    if not tools:
        return list(messages)
    how = f"Tools:\n{declare(tools)}\nTo use a tool, write:\n{_said([_EXAMPLE], 0, family)}"
    if messages and messages[0]["role"] == "system":
        first = {**messages[0], "content": f"{messages[0]['content']}\n\n{how}"}
        return [first, *messages[1:]]
    return [{"role": "system", "content": how}, *messages]


def _said(messages: Sequence[Wire], index: int, family: ToolFormat) -> str:
    """Return what the model of this family writes as message `index`."""
    written = family.pieces(messages[: index + 1], ())
    text = "".join(piece.text for piece in written if piece.message == index and piece.sampled)
    return text.removesuffix(family.stop)


def read(
    reply: Reply, messages: Sequence[Wire], tools: Sequence[Wire], family: ToolFormat
) -> Reply:
    """Return the reply with the calls that stand in its text.

    Args:
        reply: as the endpoint gave it.
        messages: the conversation so far: identifiers count the calls in it.
        tools: those on offer, whose schemas tell what arguments are meant to be.
        family: the family of the text.
    """
    text = reply.message.content
    if not text or reply.message.tool_calls or not reply.usable:
        return reply
    earlier = sum(len(message.get("tool_calls") or ()) for message in messages)
    parsed = family.parse(text.removesuffix(family.stop), first_call=earlier)
    if parsed.problem is not None:
        if reply.finish == Finish.LENGTH:  # it was cut off inside of the call
            return reply
        repairs = (*reply.repairs, f"unreadable:{parsed.problem}")
        return dataclasses.replace(reply, finish=Finish.UNREADABLE, repairs=repairs)
    parsed = fit_parsed(parsed, tools)
    message = Message(
        role="assistant",
        content=parsed.content,
        reasoning=reply.message.reasoning,
        tool_calls=parsed.calls,
    )
    finish = Finish.TOOL_CALLS if parsed.calls and reply.finish == Finish.STOP else reply.finish
    repairs = (*reply.repairs, *parsed.repairs)
    return dataclasses.replace(reply, message=message, finish=finish, repairs=repairs)
