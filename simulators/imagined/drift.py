"""The executable twin of an application that a model plays: makes the same calls, for comparison.

papers 2.4: contradiction rate on the same calls. Each call is compared from the state that the
model has brought about, so that one difference is counted once; the end is compared with that of
the twin's own course from the start.
"""

from __future__ import annotations

from collections.abc import Iterable

import orjson

from simulators.imagined.patch import Call
from simulators.sql.engine import Engine
from simulators.sql.environment import SqlEnvironment
from synth.core.types import Diff, ToolResult


class Twin:
    """Makes calls as the application's own semantics do.

    Args:
        engine: the compiled application.
    """

    def __init__(self, engine: Engine) -> None:
        self._environment = engine.environment()

    def call(self, state: bytes, call: Call) -> ToolResult:
        """Make one call from a snapshot of the application."""
        self._environment.restore_now(state)
        return run(self._environment, call)

    def course(self, seed: int, calls: Iterable[Call]) -> Diff:
        """Make calls from a seeded state, and return what they come to."""
        self._environment.reset_now(seed)
        for call in calls:
            run(self._environment, call)
        return self._environment.diff_now()

    def diff(self) -> Diff:
        """Return the net change after the last call."""
        return self._environment.diff_now()

    def close(self) -> None:
        """Give everything back. Harmless when called twice."""
        self._environment.close_now()


def run(environment: SqlEnvironment, call: Call) -> ToolResult:
    """Make a call with the tools of whoever makes it."""
    if call.by_user:
        return environment.act_now(call.user, call.name, call.arguments)
    return environment.call_now(call.name, call.arguments)


def same(one: ToolResult, two: ToolResult) -> bool:
    """Say whether two results tell an agent the same: the same value, or the same error."""
    if one.error is not None and two.error is not None:
        return one.error.code == two.error.code
    if one.ok != two.ok:
        return False
    try:
        return bool(orjson.loads(one.content) == orjson.loads(two.content))
    except orjson.JSONDecodeError:
        return one.content == two.content
