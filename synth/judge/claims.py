"""Does the agent say that it did something?

Used where nothing was done: a claim of success without a successful write is false whatever the
state is. Conservative: a sentence that denies, asks, or speaks of the future claims nothing, and
looking something up is no deed.
"""

from __future__ import annotations

import re

from synth.core.reading import reading

_SENTENCE = re.compile(r"[^.!?;。！？；\n]+[.!?;。！？；]?")


def claim(text: str) -> str | None:
    """Return the sentence that claims a deed, or None."""
    for match in _SENTENCE.finditer(text):
        sentence = match[0].strip()
        if sentence.endswith(("?", "？")) or not reading("deeds").search(sentence):
            continue
        if not reading("no_deeds").search(sentence):
            return sentence
    return None
