"""A twin as a world: an application behind the exact tools of a crawled server.

Agents see the crawled names, descriptions and schemas. A call is held to the crawled schema first;
then its names are exchanged for the application's, which answers. Tools of the server that have no
twin are shown too, and every call of one is refused with `out_of_service`.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from simulators.sql.engine import Engine
from simulators.sql.environment import SqlEnvironment
from simulators.sql.world import SqlWorld
from simulators.twin.derive import Derived
from synth.core import schemas
from synth.core.canonical import canonical, content_key
from synth.core.protocols import Edge
from synth.core.types import (
    Blueprint,
    CallError,
    Diff,
    Effect,
    PlannedCall,
    TaskKind,
    ToolResult,
    ToolSpec,
)

OUT_OF_SERVICE = "out_of_service"
"""Code of a call of a tool that has no twin."""
NOT_SUPPORTED = "not_supported"
"""Code of a call with an optional parameter that has no meaning here."""
_MOST_SAID = 300


class Names:
    """Crawled names and those of the application, both ways.

    Args:
        derived: the twin.
    """

    def __init__(self, derived: Derived) -> None:
        application = derived.application
        self.crawled = {inner: spec.name for inner, spec in derived.tools.items()}
        self.inner = {name: inner for inner, name in self.crawled.items()}
        self.parameters = derived.parameters
        self.inside = {i: {c: p for p, c in ps.items()} for i, ps in derived.parameters.items()}
        idle = {spec.name: spec for spec in derived.distractors}
        effects = {name: tool.effect for name, tool in application.tools.items()}
        self.specs = {
            spec.name: spec.model_copy(
                update={"effect": Effect(effects[inner]), "effect_source": "declared"}
            )
            for inner, spec in derived.tools.items()
        } | idle
        self.distractors = frozenset(idle)
        self.validators = {
            name: schemas.validator(spec.parameters) for name, spec in self.specs.items()
        }

    def within(self, tool: str, arguments: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """Return a crawled call as the application takes it."""
        inner = self.inner[tool]
        names = self.inside[inner]
        return inner, {names[name]: value for name, value in arguments.items()}

    def outside(self, call: PlannedCall) -> PlannedCall:
        """Return a call of the application as an agent makes it."""
        names = self.parameters[call.tool]
        arguments = {names[name]: value for name, value in call.arguments.items()}
        return call.model_copy(update={"tool": self.crawled[call.tool], "arguments": arguments})


class TwinEnvironment:
    """One episode on a twin.

    Args:
        inner: environment of the application.
        names: of both sides.
    """

    real = False

    def __init__(self, inner: SqlEnvironment, names: Names) -> None:
        self._inner, self._names = inner, names

    async def reset(self, seed: int) -> None:
        """Start over from the state that `seed` names."""
        await self._inner.reset(seed)

    def tools(self) -> tuple[ToolSpec, ...]:
        """Return the tools on offer."""
        return tuple(self._names.specs.values())

    async def call(self, name: str, arguments: Mapping[str, Any]) -> ToolResult:
        """Run one call. All of it happens or none of it."""
        names = self._names
        if name not in names.specs:
            return _failure("unknown_tool", f"There is no tool named {name!r}.")
        problem = self._problem(name, arguments)
        if problem is not None:
            return _failure("invalid_arguments", problem)
        if name in names.distractors:
            return _failure(OUT_OF_SERVICE, f"{name} is out of service. Other tools still work.")
        known = names.inside[names.inner[name]]
        odd = next((key for key in arguments if key not in known), None)
        if odd is not None and odd not in names.specs[name].parameters["properties"]:
            return _failure("invalid_arguments", f"There is no parameter {odd!r}.")
        if odd is not None:
            return _failure(NOT_SUPPORTED, f"{odd!r} is not supported here; leave it out.")
        return await self._inner.call(*names.within(name, arguments))

    def _problem(self, name: str, arguments: Any) -> str | None:
        if not isinstance(arguments, Mapping):
            return "The arguments are not a JSON object."
        try:
            canonical(dict(arguments))
            found = next(iter(self._names.validators[name].iter_errors(dict(arguments))), None)
        except (ValueError, RecursionError):
            return "The arguments cannot be read."
        return None if found is None else found.message[:_MOST_SAID]

    async def diff(self) -> Diff:
        """Return the net change since `reset`."""
        return await self._inner.diff()

    async def snapshot(self) -> bytes:
        """Return the whole state, counters included."""
        return await self._inner.snapshot()

    async def restore(self, state: bytes) -> None:
        """Go back to a snapshot; `diff` still counts from `reset`."""
        await self._inner.restore(state)

    async def fork(self) -> TwinEnvironment:
        """Return an independent copy of the current state; its `diff` counts from `reset` too."""
        return TwinEnvironment(await self._inner.fork(), self._names)

    async def close(self) -> None:
        """Give everything back. Harmless when called twice."""
        await self._inner.close()


class TwinWorld:
    """Implements `synth.core.protocols.World` for a twin.

    Args:
        derived: the twin.
        engine: runs its application.
    """

    real = False
    handoff: str | None = None

    def __init__(self, derived: Derived, engine: Engine) -> None:
        self.derived, self.inner = derived, SqlWorld(engine)
        self.names = Names(derived)
        self.name, self.category = self.inner.name, self.inner.category
        self.clock = self.inner.clock
        self.key = content_key(
            [self.inner.key, sorted(spec.key for spec in self.names.specs.values())]
        )
        self.distractors = self.names.distractors

    def tools(self) -> tuple[ToolSpec, ...]:
        """Return every crawled tool, those without a twin last."""
        return tuple(self.names.specs.values())

    def edges(self) -> tuple[Edge, ...]:
        """Return the tool dependency graph, in crawled names."""
        crawled, parameters = self.names.crawled, self.names.parameters
        return tuple(
            Edge(
                crawled[edge.source],
                edge.column,
                crawled[edge.target],
                parameters[edge.target].get(edge.parameter, edge.parameter),
            )
            for edge in self.inner.edges()
        )

    def kinds(self) -> tuple[TaskKind, ...]:
        """Return the kinds of task the twin has the makings of."""
        return self.inner.kinds()

    def policy(self) -> str:
        """Return the policy as the agent reads it."""
        return self.inner.policy()

    def environment(self) -> TwinEnvironment:
        """Return a new environment; call `reset` before use."""
        return TwinEnvironment(self.inner.environment(), self.names)

    async def blueprint(
        self, kind: TaskKind, tools: Sequence[str], state_seed: int, rng: random.Random
    ) -> Blueprint:
        """Sample a goal, execute it, keep the diff; see `SqlWorld.blueprint`."""
        inner = [self.names.inner[name] for name in tools if name in self.names.inner]
        found = await self.inner.blueprint(kind, inner, state_seed, rng)
        outside = self.names.outside
        return found.model_copy(
            update={
                "tools": tuple(tools),
                "solution": tuple(map(outside, found.solution)),
                "decoys": {n: tuple(map(outside, calls)) for n, calls in found.decoys.items()},
            }
        )

    async def close(self) -> None:
        """End warm environments. Harmless when called twice."""
        await self.inner.close()


def _failure(code: str, message: str) -> ToolResult:
    content = canonical({"error": code, "message": message})
    return ToolResult(ok=False, content=content, error=CallError(code=code, message=message))
