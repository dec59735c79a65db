"""JSON Lines in the ShareGPT shape, as LLaMA-Factory reads it (`formatting: sharegpt`, 0.9.5).

Its reader drops a row whose turns do not alternate: `human` or `observation`, then `gpt` or
`function_call`, ending with one of the latter. So

- the results of one turn's calls are one observation, joined as LLaMA-Factory joins results;
- several calls are a JSON list, one call is an object; words beside a call have no place;
- what a user says last, which nobody answers, stands beside the conversation, in `closing`.

A row that this cannot hold is left out with a reason, never bent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from synth.conversation import arguments_of, call, opening, results_of
from synth.core.formats import Unwritable
from synth.exporters._lines import Lines, about

JOINT = "\n</tool_response>\n<tool_response>\n"
_OPENS = ("human", "observation")
_SAYS = {"user": "human", "assistant": "gpt"}
Wire = Mapping[str, Any]


def _encode(row: dict[str, Any]) -> dict[str, Any]:
    system, messages = opening(row["messages"])
    closing = ""
    if messages and messages[-1]["role"] == "user":
        closing = messages.pop()["content"]
        if not closing:
            raise Unwritable("an empty message at the end")
    turns: list[dict[str, str]] = []
    place = 0
    while place < len(messages):
        message = messages[place]
        if message.get("tool_calls"):
            results = results_of(messages, place)
            turns += [_calls(message), _observation(results)]
            place += len(results)
        elif message["role"] in _SAYS:
            turns.append({"from": _SAYS[message["role"]], "value": message["content"]})
        else:
            raise Unwritable(f"a message of the {message['role']} within the conversation")
        place += 1
    _check(turns)
    tools = [tool["function"] for tool in orjson.loads(row["tools"])]
    return {
        "conversations": turns,
        "system": system,
        "tools": orjson.dumps(tools).decode(),
        "closing": closing,
        **about(row),
    }


def _calls(message: Wire) -> dict[str, str]:
    if message["content"]:
        raise Unwritable("words beside a call")
    calls = [
        {"name": call["function"]["name"], "arguments": arguments_of(call)}
        for call in message["tool_calls"]
    ]
    value = orjson.dumps(calls if len(calls) > 1 else calls[0]).decode()
    return {"from": "function_call", "value": value}


def _observation(results: Sequence[Wire]) -> dict[str, str]:
    contents = [message["content"] for message in results]
    if any(JOINT in content for content in contents):
        raise Unwritable("a result that contains what results are joined with")
    return {"from": "observation", "value": JOINT.join(contents)}


def _check(turns: Sequence[Wire]) -> None:
    """Refuse what LLaMA-Factory's reader would drop."""
    for number, turn in enumerate(turns):
        if (turn["from"] in _OPENS) != (number % 2 == 0):
            raise Unwritable("turns do not alternate")
    if not turns or len(turns) % 2:
        raise Unwritable("the last turn is not the agent's")


def _decode(line: Mapping[str, Any]) -> dict[str, Any]:
    messages: list[dict[str, Any]] = []
    if line["system"]:
        messages.append({"role": "system", "content": line["system"]})
    waiting: list[str] = []
    count = 0
    for turn in line["conversations"]:
        kind, value = turn["from"], turn["value"]
        if kind == "function_call":
            found = orjson.loads(value)
            calls = [
                call(count + n, one["name"], orjson.dumps(one["arguments"]).decode())
                for n, one in enumerate(found if isinstance(found, list) else [found])
            ]
            count += len(calls)
            waiting = [one["id"] for one in calls]
            messages.append({"role": "assistant", "content": "", "tool_calls": calls})
        elif kind == "observation":
            parts = value.split(JOINT)
            for given, content in zip(waiting, parts, strict=True):
                messages.append({"role": "tool", "tool_call_id": given, "content": content})
        else:
            role = "user" if kind == "human" else "assistant"
            messages.append({"role": role, "content": value})
    if line["closing"]:
        messages.append({"role": "user", "content": line["closing"]})
    tools = [{"type": "function", "function": tool} for tool in orjson.loads(line["tools"])]
    return {"messages": messages, "tools": orjson.dumps(tools).decode()}


EXPORTER = Lines(".sharegpt.jsonl", _encode, _decode)
