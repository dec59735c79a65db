"""What may become of a call besides what the tool makes of it: settings of faulty environments."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import Field, model_validator

from synth.core.messages import Frozen

Probability: TypeAlias = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False, strict=True)]
_ROUNDING = 1e-9


class Outcomes(Frozen):
    """How often calls go wrong (K2 report 3.1.1: controlled stochasticity); by default, never."""

    transient: Probability = 0.0
    """Of a call that would succeed: it fails for a moment and changes nothing."""
    partial: Probability = 0.0
    """Of a reading call that gives a list: only its first rows come, which the result says."""
    edge: Probability = 0.0
    """Of a call that succeeds: the result is right, and says something besides."""
    permanent: Probability = 0.0
    """Of a tool that the task does not need: it is out of order for the whole episode."""

    @model_validator(mode="after")
    def _are_shares(self) -> Outcomes:
        if self.transient + self.partial + self.edge > 1 + _ROUNDING:
            raise ValueError("transient, partial and edge are more than 1 together")
        return self

    def __bool__(self) -> bool:
        """Say whether anything can go wrong."""
        return bool(self.transient or self.partial or self.edge or self.permanent)


class Regime(Frozen):
    """What decided over the calls of an episode until another one was forked from it."""

    outcomes: Outcomes
    seed: int
    """Of the episode whose chance it was."""
    until: int
    """Calls that did not fail of themselves before it ended, counted from the very first one."""
