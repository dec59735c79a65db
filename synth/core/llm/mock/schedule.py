"""Which request meets which fault: decided by seed, call and attempt, never by time or order."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence

from synth.core import seeds
from synth.core.llm.mock.ask import Ask
from synth.core.llm.mock.faults import Exchange, Fault

_REMEMBERED = 4096
"""Requests without an identity whose attempts are counted; the oldest are forgotten."""
_FINE = 1 << 53


class Schedule:
    """Draws faults.

    Args:
        seed: decides all draws.
        rate: share of the requests with a fault, 0 to 1.
        faults: what is drawn from, equally often where all fit.
    """

    def __init__(self, seed: int, rate: float, faults: Sequence[Fault]) -> None:
        self._seed, self._rate, self._faults = seed, rate, tuple(faults)

    def draw(self, exchange: Exchange, call: str, attempt: int) -> Fault | None:
        """Return the fault of this attempt of this call, or None."""
        if not self._rate:
            return None
        number = seeds.seed("mock fault", self._seed, call, attempt)
        if number % _FINE >= self._rate * _FINE:
            return None
        fitting = [fault for fault in self._faults if fault.fits(exchange)]
        if not fitting:
            return None
        return fitting[seeds.seed("mock fault", self._seed, call, attempt, 1) % len(fitting)]


class Attempts:
    """Says which attempt of which call a request is.

    Clients of ours say it in headers; the `openai` package counts its own retries in one; for all
    others equal requests are counted, which is the one thing here that depends on their order.
    """

    def __init__(self) -> None:
        self._seen: OrderedDict[str, int] = OrderedDict()

    def of(self, ask: Ask, headers: Mapping[str, str]) -> tuple[str, int]:
        """Return identity and number of the attempt, from 0."""
        call = ask.key if ask.call is None else ask.call
        if ask.attempt is not None:
            return call, ask.attempt
        retries = headers.get("x-stainless-retry-count", "")
        if retries.isascii() and retries.isdigit() and retries != "0":
            return call, int(retries)
        count = self._seen.pop(call, -1) + 1
        self._seen[call] = count
        if len(self._seen) > _REMEMBERED:
            self._seen.popitem(last=False)
        return call, count
