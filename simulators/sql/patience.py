"""An engine for the lint whose patience ends: a tool that is stopped again and again is named.

A call that takes too long is stopped after some 50 ms and fails. Sampling would go on with the
next one, a thousand times over; here the `STOPS`th ends it, with the statement that never ends.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import apsw

from simulators.sql.engine import Engine
from simulators.sql.environment import SqlEnvironment
from simulators.sql.program import USER, failure
from synth.core.application import Tool
from synth.core.errors import BadApplication, ToolloomError
from synth.core.types import Scalar, ToolResult

_STOPPED = failure(apsw.InterruptError()).message
STOPS = 20
"""Stopped calls of one tool; a second or two."""


class PatientEngine(Engine):
    """An engine whose environments count together.

    Args:
        engine: the compiled application; what it remembers is shared.
    """

    def __init__(self, engine: Engine) -> None:
        self.__dict__.update(engine.__dict__)
        self.stopped: Counter[str] = Counter()
        """Stopped calls of each tool."""
        self.endless: dict[str, BadApplication] = {}
        """What to say of each of these tools."""

    def environment(self) -> SqlEnvironment:
        """Return a new environment whose calls are counted; `reset` comes first."""
        return _Counting(self)


class _Counting(SqlEnvironment):
    def __init__(self, engine: PatientEngine) -> None:
        super().__init__(engine)
        self._patience = engine

    def call_now(self, name: str, arguments: Mapping[str, Any]) -> ToolResult:
        """Run one call; see `SqlEnvironment.call_now`.

        Raises:
            BadApplication: the tool was stopped too often; names its endless statement.
        """
        return self._counted(name, arguments, super().call_now(name, arguments))

    def act_now(self, user: Scalar, name: str, arguments: Mapping[str, Any]) -> ToolResult:
        """Run one call of a user; raises as `call_now`."""
        return self._counted(name, arguments, super().act_now(user, name, arguments))

    def _counted(self, name: str, arguments: Mapping[str, Any], result: ToolResult) -> ToolResult:
        if result.error is not None and result.error.message == _STOPPED:
            engine = self._patience
            engine.stopped[name] += 1
            if name not in engine.endless:
                engine.endless[name] = self._endless(name, arguments)
            if engine.stopped[name] >= STOPS:
                raise engine.endless[name]
        return result

    def _endless(self, name: str, arguments: Mapping[str, Any]) -> BadApplication:
        application = self.engine.application
        place, sql = f"tools.{name}", ""
        for path, statement in _statements(application.tools[name]):
            if self._never_ends(name, statement, arguments):
                place, sql = f"{place}.{path}", f": {' '.join(statement.split())[:300]}"
                break
        return BadApplication(
            f"takes too long and is stopped{sql}",
            where=f"{application.application}: {place}",
            remedy="end every recursion, for instance with WHERE n < 100",
        )

    def _never_ends(self, name: str, sql: str, arguments: Mapping[str, Any]) -> bool:
        """Try one statement alone. A write, and one that needs the results of others, cannot be."""
        values = {USER: None, **self.engine.every[name].arguments.bind(dict(arguments))}
        try:
            self.query(sql, values)
        except ToolloomError as error:
            return error.what.startswith("interrupted")
        return False


def _statements(tool: Tool) -> Iterator[tuple[str, str]]:
    for number, step in enumerate(tool.steps):
        for verb, sql in (("require", step.require), ("return", step.returns)):
            if sql is not None:
                yield f"steps[{number}].{verb}", sql
        for name, sql in (step.let or {}).items():
            yield f"steps[{number}].let.{name}", sql
