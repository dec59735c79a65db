"""Hermes text (ChatML with `<tool_call>`), the format of the Hermes and Qwen 2.5 families."""

from __future__ import annotations

import re
from typing import Any

import orjson

from synth.core.formats import Hermes
from synth.exporters._text import text_exporter

_MARKS = re.compile(r"<\|im_(?:start|end)\|>|<\|endoftext\|>|</?tool_call>|</?tools>")
TURN = re.compile(r"<\|im_start\|>(\w+)\n(.*?)<\|im_end\|>\n", re.DOTALL)
_TOOLS = re.compile(r"(?:\A|\n\n)<tools>\n(.*?)\n</tools>\n[^\n]*\Z", re.DOTALL)


def _turns(text: str) -> tuple[list[tuple[str, str]], list[Any]]:
    turns = [(role, body) for role, body in TURN.findall(text)]
    declared = _TOOLS.search(turns[0][1]) if turns and turns[0][0] == "system" else None
    if declared is None:
        return turns, []
    system = turns[0][1][: declared.start()]
    kept = [("system", system)] if system else []
    return kept + turns[1:], [orjson.loads(line) for line in declared[1].split("\n")]


EXPORTER = text_exporter(".hermes.jsonl", Hermes(declarations="json"), _MARKS, _turns)
