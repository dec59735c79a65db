"""An environment whose clock moves, and in which things happen by themselves.

Design 4: `now()` is constant within an episode unless the environment is scheduled. Each call takes
a few seconds or minutes of the environment's own time, drawn from the schedule's seed and the
call's number. What is due by then happens before the call that comes after it, each thing in a
savepoint of its own; the result of that call says so, and so does that of its replay. Agents are
not told: they see what has changed, if they look.

A call that fails takes no time and leaves all as it was. What was due before it is due before the
next one, to which the same happens.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import orjson

from synth.core.errors import BadInput
from synth.core.happenings import Due, Schedule
from synth.core.protocols import Shared, Timed, run_call
from synth.core.seeds import rng
from synth.core.types import Diff, Scalar, ToolResult, ToolSpec

SECONDS = (20, 240)
"""Least and most that a call takes, and what is said until the next one."""
_REMEDY = "give one that an environment with this schedule made"


class Scheduled:
    """Another environment, with a schedule.

    Args:
        environment: where calls run and things happen; it is closed with this one.
        schedule: what happens, and when.
    """

    def __init__(self, environment: Timed, schedule: Schedule) -> None:
        self.real = environment.real
        self._environment = environment
        self._schedule = schedule
        self._mark = hashlib.sha256(schedule.model_dump_json().encode()).hexdigest()[:16]
        """Tells this schedule from others, in snapshots."""
        self._calls = 0
        """Calls that did not fail."""
        self._seconds = 0
        """Since the start."""
        self._gone = 0
        """How many of what is due have had their time."""

    async def reset(self, seed: int) -> None:
        """Start over: the state of `seed`, at the start of its clock."""
        await self._environment.reset(seed)
        self._calls = self._seconds = self._gone = 0

    def tools(self) -> tuple[ToolSpec, ...]:
        """Return the tools on offer."""
        return self._environment.tools()

    def user_tools(self) -> tuple[ToolSpec, ...]:
        """Return the tools that users hold."""
        inner = self._environment
        return inner.user_tools() if isinstance(inner, Shared) else ()

    async def call(self, name: str, arguments: Mapping[str, Any]) -> ToolResult:
        """Run one call, after what is due before it."""
        return await self._run(lambda: self._environment.call(name, arguments))

    async def act(self, user: Scalar, name: str, arguments: Mapping[str, Any]) -> ToolResult:
        """Run one call of a user, which takes time as any other."""
        inner = self._environment
        return await self._run(lambda: run_call(inner, "user", user, name, arguments))

    async def _run(self, call: Callable[[], Awaitable[ToolResult]]) -> ToolResult:
        environment, due = self._environment, self._due()
        state = await environment.snapshot() if due else b""
        found = [await environment.happen(one) for one in due]
        if due:
            environment.wind(self._seconds)
        result = await call()
        if not result.ok:
            if due:
                await environment.restore(state)
            return result
        self._gone += len(due)
        self._seconds += rng(self._schedule.seed, "call", self._calls).randint(*SECONDS)
        self._calls += 1
        environment.wind(self._seconds)
        happened = tuple(one for one in found if one is not None)
        return result.model_copy(update={"happened": happened}) if happened else result

    def _due(self) -> list[Due]:
        """Return what is to happen by now."""
        return [one for one in self._schedule.due[self._gone :] if one.second <= self._seconds]

    # --- the state ---------------------------------------------------------------------------

    async def diff(self) -> Diff:
        """Return the net change since `reset` that calls made; what happened is no part of it."""
        return await self._environment.diff()

    async def snapshot(self) -> bytes:
        """Return the whole state, and how far the schedule has come."""
        head = orjson.dumps([self._mark, self._calls, self._seconds, self._gone])
        return head + b"\n" + await self._environment.snapshot()

    async def restore(self, state: bytes) -> None:
        """Go back to a snapshot of an environment with this schedule.

        Raises:
            BadInput: it is none of this kind, or one with another schedule.
        """
        head, _, inner = state.partition(b"\n")
        try:
            mark, *numbers = orjson.loads(head)
            calls, seconds, gone = numbers
        except (ValueError, TypeError) as error:
            what = "not a snapshot of an environment with a schedule"
            raise BadInput(what, where="restore", remedy=_REMEDY) from error
        right = all(type(number) is int and number >= 0 for number in numbers)
        if mark != self._mark or not right or gone > len(self._schedule.due):
            raise BadInput("a snapshot with another schedule", where="restore", remedy=_REMEDY)
        await self._environment.restore(inner)
        self._calls, self._seconds, self._gone = calls, seconds, gone

    async def fork(self) -> Scheduled:
        """Return an independent copy, to which the same happens."""
        inner = await self._environment.fork()
        assert isinstance(inner, Timed)
        twin = Scheduled(inner, self._schedule)
        twin._calls, twin._seconds, twin._gone = self._calls, self._seconds, self._gone
        return twin

    async def close(self) -> None:
        """Close the environment. Harmless when called twice."""
        await self._environment.close()
