"""Does the agent say that it did something?

Used where nothing was done: a claim of success without a successful write is false whatever the
state is. Conservative: a sentence that denies, asks, or speaks of the future claims nothing, and
looking something up is no deed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from synth.core.reading import reading
from synth.core.types import Message
from synth.core.users import aside_in

_SENTENCE = re.compile(r"[^.!?;。！？；\n]+[.!?;。！？；]?")


def last_words(messages: Sequence[Message], language: str) -> list[str]:
    """Return the agent's last word, and what it said before the user's questions beside the point.

    Args:
        messages: of the whole episode.
        language: of the user.
    """
    found: list[str] = []
    wanted = True
    for message in reversed(messages):
        if message.role == "assistant" and message.content and wanted:
            found.append(message.content)
            wanted = False
        elif message.role == "user" and found:
            if aside_in(message.content or "", language) is None:
                break
            wanted = True
    return found


def claim(text: str) -> str | None:
    """Return the sentence that claims a deed, or None."""
    for match in _SENTENCE.finditer(text):
        sentence = match[0].strip()
        if sentence.endswith(("?", "？")) or not reading("deeds").search(sentence):
            continue
        if not reading("no_deeds").search(sentence):
            return sentence
    return None
