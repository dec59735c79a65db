"""The assistant's side of a chat, written on as a script instead of answered.

Small models asked to play a customer speak as the agent; given the record of a chat to continue
they keep to the facts (measured). Any chat can be asked for in this way: whoever asks has the
assistant's lines, here called the customer's, and need not know.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from synth.core.llm.local.agent import PROMPTS
from synth.core.prompts import prompts

STOP = "\n"
"""A line ends a message."""
_WHO = {"assistant": "Customer", "user": "Agent"}


def script_prompt(messages: Sequence[Mapping[str, Any]]) -> str:
    """Return the record of the chat so far, up to where the customer's next line begins.

    Args:
        messages: in the OpenAI shape; the assistant's are the customer's lines.
    """
    system = "\n\n".join(m["content"] or "" for m in messages if m["role"] == "system")
    lines = [
        {"who": _WHO[message["role"]], "text": " ".join((message["content"] or "").split())}
        for message in messages
        if message["role"] in _WHO
    ]
    return prompts(PROMPTS).render("script", system=system, lines=lines)


def read_line(text: str) -> str:
    """Return what the customer says: one line, without a name in front of it."""
    line = text.strip().partition(STOP)[0].strip()
    return line.removeprefix(f"{_WHO['assistant']}:").strip()
