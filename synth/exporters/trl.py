"""JSON Lines for TRL's trainers and `tokenizer.apply_chat_template`: arguments as objects.

Several chat templates write arguments with `tojson`, which would quote a text once more. The
package `datasets` from 5.0 gives objects of different shapes the type `Json` by itself and pads
nothing; the tools stay JSON text, which TRL's SFTTrainer reads (tried with trl 1.16.0).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import orjson

from synth.conversation import arguments_of
from synth.exporters._lines import Lines


def _encode(row: dict[str, Any]) -> dict[str, Any]:
    return row | {"messages": _with(row["messages"], arguments_of)}


def _decode(line: Mapping[str, Any]) -> dict[str, Any]:
    def text(call: Mapping[str, Any]) -> str:
        return orjson.dumps(call["function"]["arguments"]).decode()

    return dict(line) | {"messages": _with(line["messages"], text)}


def _with(
    messages: list[dict[str, Any]], arguments: Callable[[Mapping[str, Any]], Any]
) -> list[dict[str, Any]]:
    """Return the messages with other arguments in their calls."""
    return [
        message
        | {
            "tool_calls": [
                call | {"function": call["function"] | {"arguments": arguments(call)}}
                for call in message["tool_calls"]
            ]
        }
        if message.get("tool_calls")
        else message
        for message in messages
    ]


EXPORTER = Lines(".trl.jsonl", _encode, _decode)
