"""When the next request may go: one object for each endpoint, shared by everyone who asks there.

An endpoint that says "later" says it to all: one cool-down holds every request back until the
moment it named (`Retry-After`), then lets them go one by one, so that they do not arrive together
again. How many are in flight follows the endpoint: halved when it is busy, growing again with every
answer (additive increase, multiplicative decrease), never more than configured.

What was refused goes to the end of the line, so that a minute of refusals costs each request few
tries instead of one request all of its own.
"""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from email.utils import parsedate_to_datetime

from synth.core.errors import BudgetSpent

FIRST_WAIT_S, LONGEST_WAIT_S = 0.5, 20.0
"""Own waits: the first, doubled each time, and the longest."""
LONGEST_RETRY_AFTER_S = 3600.0
"""What an endpoint names beyond that is not believed: it is taken for this long."""
THAW_S = 1.5
"""Seconds over which requests go again after a cool-down, if it was at least as long."""
OVER = "the run is over"
ROUNDS = 16
"""Rounds of answers after which a limit of 1 has grown to the configured one."""


class Patience:
    """The queue in front of one endpoint.

    Args:
        concurrency: requests in flight at most.
    """

    def __init__(self, concurrency: int) -> None:
        self.most = concurrency
        self.limit = float(concurrency)
        """Requests in flight at most, as things stand."""
        self.in_flight = 0
        self.answered = False
        """Whether the endpoint ever gave any answer: until then, "refused" is final."""
        self.why = ""
        """What the cool-down is for."""
        self.on_pause: Callable[[float, str], None] | None = None
        """Told of each cool-down that the endpoint asked for: seconds, and what for."""
        # Jitter only spreads requests over time; nothing that is stored depends on it.
        self._jitter = random.Random()
        self._queue: deque[asyncio.Future[None]] = deque()
        self._paused_until = self._next = self._thawed = -math.inf
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        """Whose clock tells the pause: progress may be shown from another thread."""
        self._over = asyncio.Event()
        self._refusals = 0
        """Cool-downs since the last answer."""
        self._epoch = 0
        """Number of cool-downs: tells an answer to what was sent before one."""

    def widen(self, concurrency: int) -> None:
        """Let more requests be in flight, for another role at the same endpoint."""
        if concurrency > self.most:
            self.limit += concurrency - self.most
            self.most = concurrency

    @property
    def queued(self) -> int:
        """Return how many requests wait to be sent."""
        return sum(not future.done() for future in self._queue)

    @property
    def waiting_until(self) -> float | None:
        """Return when the cool-down ends, in seconds since the epoch; None if there is none."""
        left = self.pause_left()
        return time.time() + left if left > 0 else None

    def pause_left(self) -> float:
        """Return the seconds until any request may go."""
        return 0.0 if self._loop is None else max(0.0, self._paused_until - self._loop.time())

    async def enter(self) -> int:
        """Wait until a request may go; call `leave` after it, whatever became of it.

        Returns:
            What `busy` and `ok` want to know: when it was sent.

        Raises:
            BudgetSpent: the run is over.
        """
        if self._over.is_set():
            raise BudgetSpent(OVER)
        now = asyncio.get_running_loop().time()
        if not self._queue and self.in_flight < int(self.limit) and now >= self._thawed:
            self.in_flight += 1
            return self._epoch
        future = asyncio.get_running_loop().create_future()
        self._queue.append(future)
        self._pump()
        try:
            await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():  # it was given a place in that moment
                self.leave()
            raise
        return self._epoch

    def leave(self) -> None:
        """Give the place of a request to the next one."""
        self.in_flight -= 1
        if self._queue:
            self._pump()

    def ok(self, sent: int) -> None:
        """Note an answer to a request: more may be in flight."""
        self.answered = True
        if sent == self._epoch:
            self._refusals = 0
        if self.limit < self.most:
            self.limit = min(self.most, self.limit + max(1.0, self.most / ROUNDS) / self.limit)

    def busy(self, sent: int, why: str, retry_after: float = 0.0) -> None:
        """Note that the endpoint wants to be left alone: nobody asks before it allows it.

        Args:
            sent: what `enter` returned; what was sent before the present cool-down began tells
                nothing new about the load, and neither halves nor prolongs anything.
            why: for people.
            retry_after: seconds it asked for.
        """
        wait = min(retry_after, LONGEST_RETRY_AFTER_S)
        if sent == self._epoch:
            self._epoch += 1
            self.limit = max(1.0, min(self.limit, self.in_flight) / 2)
            wait = max(wait, self.back_off(self._refusals, least=0.5))
            self._refusals += 1
        if self.pause(wait, why) and self.on_pause is not None:
            self.on_pause(wait, why)

    def pause(self, wait: float, why: str) -> bool:
        """Let nobody ask for so long; return whether that is longer than it is already.

        Args:
            wait: seconds.
            why: for people.
        """
        self.answered = True
        self._loop = asyncio.get_running_loop()
        until = self._loop.time() + wait
        longer = until > self._paused_until
        if longer:
            self._paused_until = self._next = until
            self._thawed = until + min(wait, THAW_S)
            self.why = why
            self._pump()
        return longer

    def back_off(self, failures: int, *, least: float = 0.0) -> float:
        """Return seconds to wait after so many failures: full jitter, doubling."""
        longest = min(LONGEST_WAIT_S, FIRST_WAIT_S * 2.0 ** min(failures, 30))
        return self._jitter.uniform(least * longest, longest)

    async def rest(self, seconds: float) -> None:
        """Wait before another try.

        Raises:
            BudgetSpent: the run is over, or was before that.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._over.wait()
        if self._over.is_set():
            raise BudgetSpent(OVER)

    def end(self) -> None:
        """Let no request go any more, and nobody wait; those in flight go on."""
        self._over.set()
        waiting, self._queue = self._queue, deque()
        for future in waiting:
            if not future.done():
                future.set_exception(BudgetSpent(OVER))

    def _pump(self) -> None:
        """Let those go who may; come back when the next one may."""
        loop = asyncio.get_running_loop()
        while self._queue and self.in_flight < int(self.limit):
            if self._queue[0].done():  # given up
                self._queue.popleft()
                continue
            now = loop.time()
            if now < self._thawed:  # one by one, at random moments of what is left of the thaw
                if now < self._next:
                    self._call_at(self._next)
                    return
                crowd = min(len(self._queue), int(self.limit) - self.in_flight)
                gap = (self._thawed - now) / (crowd + 1)
                self._next = now + self._jitter.uniform(0, 2 * gap)
            self.in_flight += 1
            self._queue.popleft().set_result(None)

    def _call_at(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_at(when, self._pump)

    def close(self) -> None:
        """Stop the clock."""
        if self._timer is not None:
            self._timer.cancel()


def retry_after(headers: Mapping[str, str]) -> float:
    """Return the seconds an answer asks to wait: `Retry-After` as seconds or as a date; else 0."""
    text = headers.get("retry-after", "").strip()
    try:
        return _seconds(float(text))
    except ValueError:
        pass
    try:
        then = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError):
        return 0.0
    return _seconds(then.timestamp() - _now(headers).timestamp())


def _now(headers: Mapping[str, str]) -> datetime:
    """Return the time by the endpoint's clock, which its date was made with, or by ours."""
    try:
        return parsedate_to_datetime(headers.get("date", ""))
    except (ValueError, TypeError, IndexError):
        return datetime.now().astimezone()


def _seconds(value: float) -> float:
    return max(0.0, value) if math.isfinite(value) else 0.0
