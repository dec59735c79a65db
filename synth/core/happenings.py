"""What happens by itself in an episode, and when: settings of scheduled environments."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import BeforeValidator

from synth.core.messages import Frozen
from synth.core.outcomes import Probability

Events: TypeAlias = Annotated[
    Probability, BeforeValidator(lambda value: float(value) if isinstance(value, bool) else value)
]
"""Share of the events of an application that happen in an episode; true is all of them."""


class Due(Frozen):
    """One event that is to happen."""

    event: str
    second: int
    """When, counted from the start of the episode on the environment's own clock."""
    chance: int
    """What its SQL sees as `:chance`: which row, how many."""


class Schedule(Frozen):
    """What happens by itself in one episode.

    Each event is one that changes neither what the task's solution reads nor what it writes.
    """

    seed: int
    """Decides how long each call takes."""
    due: tuple[Due, ...] = ()
    """The earliest first."""
