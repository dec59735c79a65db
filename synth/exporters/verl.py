"""Parquet for verl's `MultiTurnSFTDataset` (0.9.1): every message is a role and a text, no more.

That reader takes calls and tools from columns of structs, which pad objects of different shapes
with nulls that a chat template then writes into the prompt. Here a message has two strings, so
there is nothing to pad: tools are declared in the system prompt and calls stand in the assistant's
words, in Hermes text. Results of one turn are one user message, as Qwen's templates write them:
the reader renders message by message and compares that with the whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

from synth.conversation import told
from synth.core.formats import Unwritable
from synth.dataset import COLUMNS
from synth.exporters._lines import about
from synth.exporters.hermes import EXPORTER as HERMES
from synth.exporters.hermes import TURN
from synth.exporters.parquet import ParquetExporter

OPEN, CLOSE = "<tool_response>\n", "\n</tool_response>"
_BETWEEN = f"{CLOSE}\n{OPEN}"
_STRINGS = "STRUCT(role VARCHAR, content VARCHAR)[]"


def _encode(row: dict[str, Any]) -> dict[str, Any]:
    messages = []
    turns = TURN.findall(HERMES.encode(row)["text"])
    for is_result, group in groupby(turns, key=lambda turn: turn[0] == "tool"):
        if is_result:
            content = OPEN + _BETWEEN.join(body for _, body in group) + CLOSE
            messages.append({"role": "user", "content": content})
        else:
            messages += [{"role": role, "content": body} for role, body in group]
    line = {"messages": messages, **about(row)}
    if told(_decode(line)) != told(row):
        raise Unwritable("words that read as a result")
    return line


def _decode(line: Mapping[str, Any]) -> dict[str, Any]:
    text = "".join(
        f"<|im_start|>{role}\n{body}<|im_end|>\n"
        for message in line["messages"]
        for role, body in _turns(message["role"], message["content"])
    )
    return HERMES.decode({"text": text})


def _turns(role: str, content: str) -> Iterator[tuple[str, str]]:
    if role == "user" and content.startswith(OPEN) and content.endswith(CLOSE):
        for body in content[len(OPEN) : -len(CLOSE)].split(_BETWEEN):
            yield "tool", body
    else:
        yield role, content


EXPORTER = ParquetExporter(
    ".verl.parquet",
    {n: kind for n, kind in COLUMNS.items() if n != "tools"} | {"messages": _STRINGS},
    _encode,
    _decode,
)
