"""Whole conversations as the text that a family's tokenizer takes, and what of it is trained.

A row has the text and its segments: `label` says whether the model itself wrote one (axolotl's
`type: input_output` reads them as they are). Words that look like the family's marks would become
control tokens, so a row that has any outside of markup is left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from itertools import groupby
from typing import Any

import orjson

from synth.conversation import told
from synth.core.formats import ToolFormat, Unwritable
from synth.exporters._lines import Lines, about

Turns = Callable[[str], tuple[list[tuple[str, str]], list[Any]]]
"""A text -> role and body of each turn, and the tools declared in it."""


def text_exporter(suffix: str, family: ToolFormat, marks: re.Pattern[str], turns: Turns) -> Lines:
    """Return an exporter of a family's text.

    Args:
        suffix: of the file.
        family: how conversations are written.
        marks: what content must not contain.
        turns: takes a text apart again.
    """

    def encode(row: dict[str, Any]) -> dict[str, Any]:
        for words in _words(row):
            if found := marks.search(words):
                raise Unwritable(f"words that would become a control token: {found[0]}")
        pieces = family.pieces(row["messages"], orjson.loads(row["tools"]))
        segments = [
            {"label": label, "text": "".join(piece.text for piece in group)}
            for label, group in groupby(pieces, key=lambda piece: piece.sampled)
        ]
        text = "".join(segment["text"] for segment in segments)
        line = {"text": text, "segments": segments, **about(row)}
        if told(decode(line)) != told(row):
            raise Unwritable("words that this family reads as something else")
        return line

    def decode(line: Mapping[str, Any]) -> dict[str, Any]:
        found, tools = turns(line["text"])
        messages: list[dict[str, Any]] = []
        count, waiting = 0, []
        for role, body in found:
            message: dict[str, Any] = {"role": role, "content": body}
            if role == "assistant":
                parsed = family.parse(body, first_call=count)
                message["content"] = parsed.content or ""
                waiting = [f"call_{count + n}" for n in range(len(parsed.calls))]
                count += len(waiting)
                calls = [
                    {"id": given, "function": {"name": call.name, "arguments": call.arguments}}
                    for given, call in zip(waiting, parsed.calls, strict=True)
                ]
                message |= {"tool_calls": calls} if calls else {}
            elif role == "tool":
                if not waiting:
                    raise Unwritable("more results than calls")
                message["tool_call_id"] = waiting.pop(0)
            messages.append(message)
        return {"messages": messages, "tools": orjson.dumps(tools).decode()}

    return Lines(suffix, encode, decode)


def _words(row: dict[str, Any]) -> Iterator[str]:
    """Yield all that somebody else wrote: nothing of it may be markup."""
    yield row["tools"]
    for message in row["messages"]:
        yield message["content"]
        for call in message.get("tool_calls") or ():
            yield from (call["function"]["name"], call["function"]["arguments"])
