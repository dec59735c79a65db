"""The embedded model as a tool agent: our own prompt, and replies held to a schema.

llama.cpp's own `tools` are not used: its templates leave the tools out of the prompt of small
models or its parser leaves their calls in the text, 0 of 20 calls arrived (measured). Held to a
schema of the tools and one pseudo-tool for words, the same models make 17 to 20 of 20.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from synth.core.llm.local.schema import MOST_NODES, OPEN, reduce_arguments
from synth.core.prompts import prompts
from synth.core.protocols import Finish
from synth.core.types import Message, ToolCall

PROMPTS = "synth.core.llm.local.prompts"
LONGEST_MESSAGE = 800
"""Characters of one message to the user."""
MOST_NODES_IN_ALL = 2000
"""Sub-schemas of all tools together; later tools take any object of scalars."""
_HEAD = re.compile(r'\s*\{\s*"name"\s*:\s*("(?:[^"\\]|\\.)*")\s*,\s*"arguments"\s*:\s*', re.S)
_TAIL = re.compile(r"\s*\}\s*", re.S)
_LONGEST_DESCRIPTION = 400

Turns = list[dict[str, Any]]


def respond_name(tools: Sequence[Mapping[str, Any]]) -> str:
    """Return a name for the pseudo-tool that no tool has."""
    taken, name = {tool["function"]["name"] for tool in tools}, "respond"
    while name in taken:
        name += "_to_user"
    return name


def stuck(messages: Sequence[Mapping[str, Any]]) -> frozenset[str]:
    """Return the tools that were called twice alike since the customer last spoke.

    Drawing greedily, a small model that has failed fails the same way until its calls are used up
    (13 of 13 episodes, measured); what is not offered a third time makes it do something else.
    """
    seen: set[tuple[str, str]] = set()
    twice: set[str] = set()
    for message in reversed(messages):
        if message["role"] == "user":
            break
        for call in message.get("tool_calls") or ():
            made = (call["function"]["name"], call["function"]["arguments"])
            (twice.add(made[0]) if made in seen else seen.add(made))
    return frozenset(twice)


def answer_schema(tools: Sequence[Mapping[str, Any]], respond: str) -> dict[str, Any]:
    """Return the schema of one answer: a call of one of the tools, or words.

    Args:
        tools: in the OpenAI shape, schemas as strangers wrote them.
        respond: name of the pseudo-tool.
    """
    left, choices = MOST_NODES_IN_ALL, []
    for tool in tools:
        function = tool["function"]
        share = min(left, MOST_NODES)
        arguments = reduce_arguments(function.get("parameters"), most_nodes=share)
        left = max(0, left - _size(arguments))
        choices.append(_call_schema(function["name"], arguments if share else OPEN))
    words = {
        "type": "object",
        "properties": {"message": {"type": "string", "minLength": 1, "maxLength": LONGEST_MESSAGE}},
        "required": ["message"],
        "additionalProperties": False,
    }
    return {"anyOf": [*choices, _call_schema(respond, words)]}


def _call_schema(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {"name": {"enum": [name]}, "arguments": arguments},
        "required": ["name", "arguments"],
        "additionalProperties": False,
    }


def _size(schema: Any) -> int:
    if isinstance(schema, dict):
        return 1 + sum(_size(value) for value in schema.values())
    return sum(_size(value) for value in schema) if isinstance(schema, list) else 0


# --- the prompt ------------------------------------------------------------------------------


def agent_turns(messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]) -> Turns:
    """Return the conversation as plain chat turns: calls as the JSON they were, results as words.

    Args:
        messages: in the OpenAI shape.
        tools: likewise.
    """
    respond = respond_name(tools)
    system = "\n\n".join(m["content"] or "" for m in messages if m["role"] == "system")
    text = prompts(PROMPTS).render(
        "tools", system=system, respond=respond, tools=[_described(tool) for tool in tools]
    )
    turns: Turns = [{"role": "system", "content": text}]
    names: dict[str, str] = {}
    for message in messages:
        if message["role"] == "tool":
            name = names.get(str(message.get("tool_call_id")), "the call")
            _add(turns, "user", f"Result of {name}: {message['content']}")
        elif message["role"] == "assistant":
            for call in message.get("tool_calls") or ():
                function = call["function"]
                names[call["id"]] = function["name"]
                _add(turns, "assistant", _answer(function["name"], function["arguments"]))
            if message.get("content"):
                said = json.dumps({"message": message["content"]}, ensure_ascii=False)
                _add(turns, "assistant", _answer(respond, said))
        elif message["role"] == "user":
            _add(turns, "user", message["content"] or "")
    return turns


def _add(turns: Turns, role: str, text: str) -> None:
    """Append a turn, or go on with the last one: templates want the roles to alternate."""
    if turns[-1]["role"] == role:
        turns[-1]["content"] += f"\n{text}"
    else:
        turns.append({"role": role, "content": text})


def _answer(name: str, arguments: str) -> str:
    return f'{{"name": {json.dumps(name, ensure_ascii=False)}, "arguments": {arguments}}}'


def _described(tool: Mapping[str, Any]) -> dict[str, Any]:
    function = tool["function"]
    raw = function.get("parameters")
    schema = reduce_arguments(raw)
    stated = raw.get("properties") if isinstance(raw, Mapping) else None
    about = stated if isinstance(stated, Mapping) else {}
    return {
        "name": function["name"],
        "description": _one_line(function.get("description")),
        "parameters": [
            {
                "name": name,
                "kind": _kind(reduced),
                "required": name in schema["required"],
                "description": _one_line(_description(about.get(name))),
            }
            for name, reduced in schema.get("properties", {}).items()
        ],
    }


def _description(schema: Any) -> Any:
    return schema.get("description") if isinstance(schema, Mapping) else None


def _one_line(text: Any) -> str:
    return " ".join(text.split())[:_LONGEST_DESCRIPTION] if isinstance(text, str) else ""


def _kind(schema: Mapping[str, Any]) -> str:
    """Return a reduced schema in a few words: `list of integer`, `"a" or "b"`, `{size: number}`."""
    if "enum" in schema:
        return " or ".join(json.dumps(value, ensure_ascii=False) for value in schema["enum"])
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_kind(choice) for choice in schema["anyOf"]))
    if schema["type"] == "array":
        return f"list of {_kind(schema['items'])}"
    if schema["type"] == "object":
        parts = schema.get("properties", {}).items()
        return "{" + ", ".join(f"{name}: {_kind(part)}" for name, part in parts) + "}"
    return str(schema.get("format") or schema["type"])


# --- the answer ------------------------------------------------------------------------------


def read_answer(text: str, finish: str, respond: str) -> tuple[Message, Finish]:
    """Return the message that an answer is, and why it ended.

    Args:
        text: what was generated, held to `answer_schema` unless the limit of tokens cut it.
        finish: the engine's word.
        respond: name of the pseudo-tool.
    """
    if finish == Finish.LENGTH:
        return Message(role="assistant", content=text), Finish.LENGTH
    found = _split(text)
    if found is None:
        return Message(role="assistant", content=text), Finish.UNREADABLE
    name, arguments = found
    call = ToolCall(id="call_0", name=name, arguments=arguments)
    if name != respond:
        return Message(role="assistant", tool_calls=(call,)), Finish.TOOL_CALLS
    said = (call.value or {}).get("message")
    if not isinstance(said, str):
        return Message(role="assistant", content=text), Finish.UNREADABLE
    return Message(role="assistant", content=said), Finish.STOP


def _split(text: str) -> tuple[str, str] | None:
    """Return the name and the exact text of the arguments."""
    head = _HEAD.match(text)
    if head is None:
        return None
    try:
        name = json.loads(head[1])
        value, end = json.JSONDecoder().raw_decode(text, head.end())
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or not _TAIL.fullmatch(text, end):
        return None
    return name, text[head.end() : end]
