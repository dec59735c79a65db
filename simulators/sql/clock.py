"""The time of one environment: what `now()` and `today()` read. Wall time is never looked at."""

from __future__ import annotations

import datetime

_DAY = 86_400
"""Seconds; more of them make no difference."""


class Clock:
    """Stands still until it is wound, and never leaves the day on which it started.

    Args:
        start: a date-time, `2026-03-02T09:00:00`.
    """

    __slots__ = ("_start", "now", "seconds")

    def __init__(self, start: str) -> None:
        self._start = start
        self.now = start
        self.seconds = 0
        """Since the start."""

    def wind(self, seconds: int) -> None:
        """Let it be so many seconds after the start, or the last second of that day if sooner."""
        if seconds == self.seconds:
            return
        self.seconds = seconds
        start = datetime.datetime.fromisoformat(self._start)
        left = start.replace(hour=23, minute=59, second=59) - start
        moved = start + min(datetime.timedelta(seconds=min(seconds, _DAY)), left)
        self.now = moved.isoformat(timespec="seconds")
