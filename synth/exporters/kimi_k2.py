"""Kimi K2's token text (K2 report, appendix B): calls as `functions.NAME:COUNTER`."""

from __future__ import annotations

import re
from typing import Any

import orjson

from synth.core.formats import KimiK2
from synth.exporters._text import text_exporter

_MARKS = re.compile(r"<\|[a-z_]+\|>|\[(?:BOS|EOS|EOT|PAD|UNK)\]")
_TURN = re.compile(r"<\|im_(\w+)\|>(.*?)<\|im_middle\|>(.*?)<\|im_end\|>", re.DOTALL)
_RETURN = re.compile(r"## Return of [^\n]*\n")


def _turns(text: str) -> tuple[list[tuple[str, str]], list[Any]]:
    turns, tools = [], []
    for role, title, body in _TURN.findall(text):
        if title == "tool_declare":
            tools = orjson.loads(body)
        elif role == "system" and title != "system":
            turns.append(("tool", _RETURN.sub("", body, count=1)))
        else:
            turns.append((role, body))
    return turns, tools


EXPORTER = text_exporter(".kimi-k2.jsonl", KimiK2(), _MARKS, _turns)
