"""Spaces of messages for Gymnasium, with neither shape nor bounds: its checker allows that.

This module needs the package. All spaces of a kind are equal, in every environment and process.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium

from synth.core.seeds import rng


class _Messages(gymnasium.Space[Any]):
    @property
    def is_np_flattenable(self) -> bool:
        """No: there are no numbers in it."""
        return False

    def _number(self) -> int:
        return int(self.np_random.integers(2**31))

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))


class Actions(_Messages):
    """Assistant messages; a sample is a question, which ends no episode."""

    def contains(self, x: Any) -> bool:
        """Say whether `x` has the form of a message."""
        return isinstance(x, (str, Mapping))

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        """Return a question; nothing can be masked."""
        return _question(self._number())


class Observations(_Messages):
    """What an agent may see: `messages` and `tools`."""

    def contains(self, x: Any) -> bool:
        """Say whether `x` has the form of an observation."""
        return (
            isinstance(x, dict)
            and x.keys() == {"messages", "tools"}
            and all(isinstance(one, dict) for one in (*x["messages"], *x["tools"]))
        )

    def sample(self, mask: Any = None, probability: Any = None) -> dict[str, Any]:
        """Return a conversation of one question; nothing can be masked."""
        question = {"role": "user", "content": _question(self._number())}
        return {"messages": [question], "tools": []}


def _question(number: int) -> str:
    words = ["name", "date", "time", "place", "number", "reason"]
    return f"What is the {rng('action', number).choice(words)}?"
