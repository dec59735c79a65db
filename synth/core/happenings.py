"""What happens by itself in an application, and when it does in an episode."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from pydantic import BeforeValidator, Field, field_validator, model_validator

from synth.core.messages import Frozen
from synth.core.outcomes import Probability

MOST_MINUTES = 240
"""After the start of an episode: later than any event."""
Events: TypeAlias = Annotated[
    Probability, BeforeValidator(lambda value: float(value) if isinstance(value, bool) else value)
]
"""Share of the events of an application that happen in an episode; true is all of them."""


class Event(Frozen):
    """Something that happens by itself, in episodes whose clock moves.

    Its SQL sees `:chance`, a whole number from 0 that is drawn for the episode, and what `let`
    binds. It happens wholly or not at all.
    """

    minutes: tuple[float, float]
    """When, in minutes after the start: the earliest and the latest."""
    let: dict[str, str] = {}
    """Names bound in this order, each by a SELECT of one value: to whom it happens."""
    when: str = "SELECT 1"
    """SELECT of one value; it happens if that is true."""
    write: tuple[str, ...]
    """Statements, of which each must change a row."""
    says: str
    """What happened, in a sentence with plain `{name}` fields of `let`."""

    @field_validator("minutes", mode="before")
    @classmethod
    def _one_is_both(cls, value: Any) -> Any:
        return (value, value) if isinstance(value, int | float) else value

    @model_validator(mode="after")
    def _can_happen(self) -> Event:
        if not 0 <= self.minutes[0] <= self.minutes[1] <= MOST_MINUTES:
            raise ValueError(f"minutes are two numbers from 0 to {MOST_MINUTES}, smallest first")
        if not self.write:
            raise ValueError("an event writes something")
        return self


class Due(Frozen):
    """One event that is to happen."""

    event: str
    second: int = Field(ge=0, le=60 * MOST_MINUTES)
    """When, counted from the start of the episode on the environment's own clock."""
    chance: int = Field(ge=0)
    """What its SQL sees as `:chance`: which row, how many."""


class Schedule(Frozen):
    """What happens by itself in one episode.

    Each event is one that changes neither what the task's solution reads nor what it writes.
    """

    seed: int
    """Decides how long each call takes."""
    due: tuple[Due, ...] = ()
    """The earliest first."""

    @field_validator("due")
    @classmethod
    def _in_order(cls, due: tuple[Due, ...]) -> tuple[Due, ...]:
        seconds = [one.second for one in due]
        if seconds != sorted(seconds):
            raise ValueError("what is due later stands before what is due earlier")
        return due
