"""Calls as nobody sensible makes them: any row, values at the edges, one call after another.

Goals are drawn to succeed; these are drawn so that every condition of a tool is broken at least
once. What nothing breaks is either not needed or not covered by the seed.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from simulators.sql.attempt import Attempt
from simulators.sql.facts import Scene
from simulators.sql.goals import shaped
from simulators.sql.owners import owned
from simulators.sql.stage import Stage
from synth.core.application import Parameter, Step
from synth.core.errors import NotSuitable
from synth.core.types import Scalar

WALK = 12
"""Calls in a row before the state starts over: some limits are reached only by repetition."""
FAULTS = 3
"""Calls that fail for the tool's own fault before the others are not made: each may be slow."""
EXAMPLES = 6
MOST = 900
"""Calls after which a condition counts as unbroken."""


class Wild:
    """Plays one tool and counts what comes of it.

    Args:
        stage: the application.
        tool: name of the tool.
        rng: the only source of chance.
        breaks: whether calls go on until each condition was broken.
    """

    def __init__(self, stage: Stage, tool: str, rng: random.Random, *, breaks: bool = True) -> None:
        self.stage, self.tool, self.rng = stage, tool, rng
        self.steps = stage.application.tools[tool].steps
        self.outcomes: Counter[str] = Counter()
        self.examples: dict[str, list[dict[str, Any]]] = {}
        """Arguments of the first `EXAMPLES` calls of each outcome."""
        self.owner: Scalar = None
        """Who the calls are about, mostly; the user's tools are called by them."""
        self.fault = ""
        """Message of a call that failed for the tool's own fault."""
        self._open = {
            number: (step, _pattern(step.message or ""))
            for number, step in enumerate(self.steps)
            if breaks and step.require is not None
        }

    def unbroken(self) -> list[tuple[int, Step]]:
        """Return the conditions that no call has broken, with their step numbers."""
        return [(number, step) for number, (step, _) in sorted(self._open.items())]

    def play(self, seeds: Sequence[int], draws: int) -> None:
        """Make at least `draws` calls, and more (`MOST`) until every condition was broken."""
        for number in range(max(draws, MOST)):
            seed = seeds[number // WALK % len(seeds)]
            if number % WALK == 0:
                self.stage.start(seed)
            self._call(seed, number)
            done = number >= draws and not self._open and self.outcomes["ok"]
            if done or self.outcomes["tool_fault"] >= FAULTS:
                break

    def draw(self, seed: int, number: int) -> dict[str, Any] | None:
        """Return the arguments of one call, each third one sensible; None if there are none."""
        try:
            return (self._sensible, self._wild, self._bent)[number % 3](seed)
        except NotSuitable:
            return None

    def _call(self, seed: int, number: int) -> None:
        arguments = self.draw(seed, number)
        if arguments is None:
            self.outcomes["no_goal"] += 1
            return
        result = self.stage.call(self.tool, arguments, self.owner)
        error = result.error
        outcome = error.code if error else "ok"
        self.outcomes[outcome] += 1
        if self.outcomes[outcome] <= EXAMPLES:
            self.examples.setdefault(outcome, []).append(arguments)
        if error is None:
            return
        if error.code == "tool_fault":
            self.fault = error.message
        for step_number, (step, pattern) in list(self._open.items()):
            if step.error == error.code and pattern.fullmatch(error.message):
                del self._open[step_number]
                break

    def _sensible(self, seed: int) -> dict[str, Any]:
        attempt = Attempt(self.stage, (self.tool,), seed, self.rng)
        attempt.meet(self.tool)
        self.owner = attempt.user
        return attempt.draw(self.tool)

    def _bent(self, seed: int) -> dict[str, Any]:
        """A sensible call with one argument that is not: conditions behind others are reached.

        Half of the time it is a row of the same user, though not one that `sample` would give.
        """
        arguments = self._sensible(seed)
        wild = self._wild(seed, self.owner if self.rng.random() < 0.5 else None)
        if wild:
            name = self.rng.choice(list(wild))
            arguments[name] = wild[name]
        return arguments

    def _wild(self, seed: int, owner: Scalar = None) -> dict[str, Any]:
        scene = self.stage.scene(seed)
        parameters = self.stage.application.tools[self.tool].parameters
        return {
            name: self._value(scene, parameter, owner)
            for name, parameter in parameters.items()
            if not parameter.optional or self.rng.random() < 0.5
        }

    def _value(self, scene: Scene, parameter: Parameter, owner: Scalar) -> Any:
        if parameter.items is not None:
            low, high = parameter.minItems or 0, parameter.maxItems
            count = self.rng.randint(low, low + 3 if high is None else high)
            values = [self._value(scene, parameter.items, owner) for _ in range(count * 2)]
            distinct = [v for i, v in enumerate(values) if v not in values[:i]]
            return distinct[: max(count, low)]
        if parameter.properties is not None:
            inner = parameter.properties.items()
            return {name: self._value(scene, p, owner) for name, p in inner}
        column = parameter.entity or parameter.match or parameter.sets
        existing = parameter.enum is None and column is not None
        if column is not None and existing and (parameter.entity or self.rng.random() < 0.5):
            return shaped(parameter, self._existing(scene, column, owner))
        return self._made(parameter)

    def _existing(self, scene: Scene, column: str, owner: Scalar) -> Scalar:
        table, name = column.split(".")
        values = [row[name] for row in owned(scene, table, owner) if row[name] is not None]
        if not values:
            raise NotSuitable("no_goal")
        return values[int(self.rng.random() * len(values))]

    def _made(self, parameter: Parameter) -> Any:
        if parameter.enum is not None:
            return self.rng.choice(parameter.enum)
        if parameter.type == "boolean":
            return self.rng.random() < 0.5
        if parameter.type in {"integer", "number"}:
            low = 0 if parameter.minimum is None else parameter.minimum
            high = low + 1_000_000 if parameter.maximum is None else parameter.maximum
            value = self.rng.choice((low, high, self.rng.uniform(low, high), low + 1))
            return int(value) if parameter.type == "integer" else value
        if parameter.format in {"date", "date-time"}:
            clock = datetime.fromisoformat(self.stage.application.clock)
            day = clock + timedelta(days=self.rng.choice((-400, -30, -1, 0, 1, 30, 400)))
            return day.date().isoformat() if parameter.format == "date" else day.isoformat()
        if parameter.generate is not None:
            return self.stage.engine.generate(parameter.generate, self.rng)
        return "x" * max(1, parameter.minLength or 1)


def _pattern(message: str) -> re.Pattern[str]:
    """Return what matches every rendering of a message, so that steps of one code differ."""
    parts = re.split(r"\{\w+(?:!r)?\}", message)
    literal = (re.escape(part.replace("{{", "{").replace("}}", "}")) for part in parts)
    return re.compile(".*".join(literal), re.DOTALL)
