"""What the server does with one request: bytes to send, seconds to wait, and how it ends."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias


class End(Enum):
    """How a connection ends that is not kept."""

    CLOSE = "close"
    """After what was sent, in order (FIN)."""
    RESET = "reset"
    """At once (RST)."""
    REFUSE = "refuse"
    """As `RESET`; new connections are refused for a moment."""


Step: TypeAlias = bytes | float | End


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens, as a reply tells them."""

    prompt: int
    completion: int


@dataclass(frozen=True, slots=True)
class Plan:
    """How one request is answered."""

    status: int
    """Of the reply; 0 where none is sent."""
    steps: Iterable[Step]
    usage: Usage | None = None
    """What the reply tells; None if a client cannot learn it from the reply."""
    finished: bool = True
    """Whether all of the reply is sent that its framing promises."""
    faulty: bool = True
    """False where a fault only sets a rule, and this request keeps it."""


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds of the slow faults."""

    pace_s: float = 0.25
    """Between the pieces of a trickle, of an endless body, of a slow stream."""
    stall_s: float = 20.0
    """Before the first byte of slow headers."""
    retry_after_s: int = 1
    """What the status 429 asks for where it names seconds."""
