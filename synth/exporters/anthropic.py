"""JSON Lines in the shape of Anthropic's Messages API: system prompt apart, content in blocks.

The results of one turn's calls are blocks of a single user message, before anything its user says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from synth.conversation import arguments_of, opening
from synth.core.formats import Unwritable
from synth.exporters._lines import Lines, about

_ID = re.compile(r"[A-Za-z0-9_-]+")
Wire = Mapping[str, Any]


def _encode(row: dict[str, Any]) -> dict[str, Any]:
    system, messages = opening(row["messages"])
    turns: list[dict[str, Any]] = []
    for message in messages:
        role, blocks = _blocks(message)
        last = turns[-1] if turns and turns[-1]["role"] == role else None
        if last is None:
            turns.append({"role": role, "content": blocks})
        elif role == "user" and last["content"][-1]["type"] == "tool_result":
            last["content"] += blocks
        else:
            raise Unwritable(f"two messages of the {role} in a row")
    tools = [_tool(tool["function"]) for tool in orjson.loads(row["tools"])]
    return {
        "system": system,
        "messages": turns,
        "tools": orjson.dumps(tools).decode(),
        **about(row),
    }


def _blocks(message: Wire) -> tuple[str, list[dict[str, Any]]]:
    """Return whose turn a message is and its blocks."""
    role, content = message["role"], message["content"]
    if role == "tool":
        given = _checked(message["tool_call_id"])
        return "user", [{"type": "tool_result", "tool_use_id": given, "content": content}]
    if role not in ("user", "assistant"):
        raise Unwritable(f"a message of the {role} within the conversation")
    blocks: list[dict[str, Any]] = [{"type": "text", "text": content}] if content else []
    for call in message.get("tool_calls") or ():
        name, given = call["function"]["name"], _checked(call["id"])
        use = {"type": "tool_use", "id": given, "name": name, "input": arguments_of(call)}
        blocks.append(use)
    if not blocks:
        raise Unwritable(f"an empty message of the {role}")
    return role, blocks


def _checked(given: str) -> str:
    if not _ID.fullmatch(given):
        raise Unwritable("an identifier with other than letters, digits, _ and -")
    return given


def _tool(function: Wire) -> dict[str, Any]:
    parts = dict(function)
    return {"input_schema": parts.pop("parameters"), **parts}


def _decode(line: Mapping[str, Any]) -> dict[str, Any]:
    messages = [{"role": "system", "content": line["system"]}] if line["system"] else []
    for turn in line["messages"]:
        messages += _messages(turn["role"], turn["content"])
    tools = []
    for tool in orjson.loads(line["tools"]):
        parts = dict(tool)
        tools.append(
            {"type": "function", "function": {"parameters": parts.pop("input_schema"), **parts}}
        )
    return {"messages": messages, "tools": orjson.dumps(tools).decode()}


def _messages(role: str, blocks: Sequence[Wire]) -> Iterator[dict[str, Any]]:
    said = "".join(block["text"] for block in blocks if block["type"] == "text")
    for block in blocks:
        if block["type"] == "tool_result":
            result = {"tool_call_id": block["tool_use_id"], "content": block["content"]}
            yield {"role": "tool", **result}
    calls = [
        {
            "id": block["id"],
            "type": "function",
            "function": {
                "name": block["name"],
                "arguments": orjson.dumps(block["input"]).decode(),
            },
        }
        for block in blocks
        if block["type"] == "tool_use"
    ]
    if said or calls:
        yield {"role": role, "content": said} | ({"tool_calls": calls} if calls else {})


EXPORTER = Lines(".anthropic.jsonl", _encode, _decode)
