"""What a generation wants, how far it is, and when going on makes no sense."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from synth.core.types import Fault
from synth.run import Episode

if TYPE_CHECKING:
    from synth.core.llm.open import Waiting  # brings openai, which takes a second to import

BARREN = 300
"""Episodes in a row without an accepted one after which `accept` is given up."""
WINDOW = 50
"""Episodes whose share without a verdict is looked at."""


@dataclass(frozen=True, slots=True)
class Goal:
    """When a run is done: so many accepted episodes, or so many episodes at all."""

    accept: int | None = None
    episodes: int | None = None


@dataclass(frozen=True, slots=True)
class Stop:
    """Why a run ended before its goal; it can go on."""

    why: str
    remedy: str = "mend the cause; the same command goes on"


class Failures:
    """Stops a run whose episodes end without a verdict too often.

    Args:
        share: of the last `WINDOW` episodes, those that may. They are counted against the whole
            window also while it is not full: a bad start is not a bad run (DataDesigner #185
            stopped at 4 % where 50 % were allowed).
    """

    def __init__(self, share: float) -> None:
        self.share = share
        self._last: deque[bool] = deque(maxlen=WINDOW)

    def add(self, *, failed: bool) -> bool:
        """Note an episode; return whether there were too many failures."""
        self._last.append(failed)
        return self.too_many()

    def too_many(self, more: int = 0) -> bool:
        """Say whether these failures and `more` are too many."""
        return sum(self._last) + more > self.share * WINDOW


@dataclass(frozen=True, slots=True)
class Ended:
    """What the counting needs of a finished episode; the rest of it is in the run's files."""

    passed: bool
    reason: str
    broken_by: Fault | None
    error: str | None
    fresh: bool
    """It was played in this session."""


def ended(episode: Episode, *, fresh: bool) -> Ended:
    """Return what is counted of an episode; `fresh` if it was played in this session."""
    verdict = episode.verdict
    return Ended(
        passed=bool(verdict.passed),
        reason=verdict.reason,
        broken_by=verdict.broken_by,
        error=episode.trajectory.error,
        fresh=fresh,
    )


@dataclass(slots=True)
class Progress:
    """What a running generation can tell: shown live, and the yield funnel at its end."""

    candidates: int = 0
    planned: int = 0
    played: int = 0
    fresh: int = 0
    """Of those played, in this session."""
    accepted: int = 0
    not_needed: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    """Candidates given up while sampling or at the gate, by reason."""
    verdicts: Counter[str] = field(default_factory=Counter)
    """Judged episodes that did not pass, by the first stage that failed."""
    faults: Counter[str] = field(default_factory=Counter)
    """Episodes without a verdict, by who failed."""
    barren: int = 0
    """Episodes of this session since the last accepted one."""
    english: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Language that is wanted -> worlds that have no words in it; their users speak English."""
    ending: bool = False
    """It was interrupted, and waits for the replies that are under way."""
    spent: Mapping[str, Any] | None = None
    """What models cost so far, earlier sessions included; None where no model plays."""
    waiting: Sequence[Waiting] = ()
    """Endpoints that want to be left alone for now."""

    def count(self, done: Ended) -> None:
        """Count a finished episode."""
        self.played += 1
        self.fresh += done.fresh
        self.barren = 0 if done.passed else self.barren + done.fresh
        if done.passed:
            self.accepted += 1
        elif done.broken_by:
            self.faults[str(done.broken_by)] += 1
        else:
            self.verdicts[done.reason] += 1
