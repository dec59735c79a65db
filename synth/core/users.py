"""What users do beside answering: questions beside the point, and changes of mind.

The questions and what an agent says to them are data, `voices/LANGUAGE/asides.yaml`; how each voice
leads over to one is its symbol `aside`. They are a closed set, so that the reference agent and the
judge know one when they read it.
"""

from __future__ import annotations

import random
from functools import cache
from pathlib import Path
from typing import NamedTuple

import yaml

from synth.core.errors import UnknownName
from synth.core.messages import Frozen
from synth.core.outcomes import Probability

_FOLDER = Path(__file__).parent / "voices"
TWICE = 0.3
"""Share of the users who ask beside the point that do so a second time."""
LATEST = 3
"""Turn of the user after the request until which such a question is put off at most."""


class Users(Frozen):
    """How often scripted users do more than ask for one thing and answer."""

    asides: Probability = 0.0
    """Share of episodes in which the user asks something beside the point, once or twice."""
    changes: Probability = 0.0
    """Share of the tasks with a fact to ask for in which the user first wants something else, and
    takes it back in the next message: then no agent can have acted yet."""


class Aside(NamedTuple):
    """A question that has nothing to do with any request."""

    asks: str
    """As it follows "by the way,"."""
    answer: str


@cache
def asides(language: str = "en") -> tuple[Aside, ...]:
    """Return the questions beside the point that a language has.

    Raises:
        UnknownName: nobody here speaks it.
    """
    path = _FOLDER / language / "asides.yaml"
    if not path.is_file():
        known = sorted(found.parent.name for found in _FOLDER.glob("*/asides.yaml"))
        raise UnknownName("language", language, known)
    rows = yaml.safe_load(path.read_text(encoding="utf-8"))
    return tuple(Aside(row["asks"], row["answer"]) for row in rows)


def aside_in(text: str, language: str = "en") -> Aside | None:
    """Return the question beside the point that a user's message holds, if it does."""
    folded = text.casefold()
    return next((a for a in asides(language) if a.asks.casefold() in folded), None)


def draw_asides(share: float, rng: random.Random) -> tuple[int, ...]:
    """Draw at which turns after the request a user asks beside the point; none for most.

    Args:
        share: of the episodes, those with such a question.
        rng: the only source of chance; untouched where the share is 0.
    """
    if not share or rng.random() >= share:
        return ()
    count = 2 if rng.random() < TWICE else 1
    return tuple(sorted(rng.sample(range(1, LATEST + 1), count)))
