"""Who speaks to the agent: a name and a voice, drawn independently.

K2 report 3.1.1: users with distinct communication styles. The voices themselves (how each opens,
answers and says goodbye) live in `synth.core.voices`.
"""

from __future__ import annotations

import random
from functools import cache
from importlib.resources import files

from synth.core import voices
from synth.core.types import Persona

_TRAITS = (
    "writes from a phone",
    "is at work",
    "is on the way",
    "has done this before",
    "does this for the first time",
    "likes short answers",
    "likes to know why",
    "is in a good mood",
    "is a little worried",
    "checks everything twice",
)


@cache
def _names() -> tuple[list[str], list[str]]:
    """First and last names: the two paragraphs of `prompts/persona_names.txt`."""
    text = (files("synth.prompts") / "persona_names.txt").read_text(encoding="utf-8")
    first, _, last = text.partition("\n\n")
    return first.split(), last.split()


def sample_persona(rng: random.Random, *, language: str = "en") -> Persona:
    """Draw a persona: one of some 14,000 names, a voice, and up to two traits.

    Args:
        rng: the only source of chance.
        language: language the persona speaks; the voices decide what they can.
    """
    first, last = _names()
    return Persona(
        name=f"{rng.choice(first)} {rng.choice(last)}",
        voice=rng.choice(voices.names(language)),
        language=language,
        traits=tuple(rng.sample(_TRAITS, rng.randint(0, 2))),
    )
