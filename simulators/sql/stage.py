"""Where goals are tried out: one engine, its derived structure, its templates, two environments.

One environment stays as seeded and is only read; the other is written to and started over.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from simulators.sql.aids import aids
from simulators.sql.engine import Engine
from simulators.sql.facts import Scene
from simulators.sql.fitting import Conditions
from simulators.sql.goals import forbidden
from simulators.sql.graph import Graph
from simulators.sql.owners import speakers
from simulators.sql.words import Words
from synth.core.errors import NotSuitable
from synth.core.types import Diff, Effect, PlannedCall, Scalar, ToolResult

MOST_TOOLSETS = 2_000
"""Pairs of toolset and tool of which it is remembered what cannot be found."""

Call: TypeAlias = tuple[str, Mapping[str, Any]]


class Stage:
    """Everything a sampler of tasks needs of one application.

    Args:
        engine: runs the application.

    Raises:
        BadApplication: a statement or template of the application is wrong.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine, self.application = engine, engine.application
        self.graph = Graph(engine)
        tools = self.application.tools
        self.effects = {name: Effect(tool.effect) for name, tool in tools.items()}
        words = {
            name: Words(_words(tool.intent), where=f"{self.where}: tools.{name}.intent")
            for name, tool in tools.items()
            if tool.intent
        }
        self.intents = {n: w for n, w in words.items() if tools[n].by == "agent"}
        """What users ask for, by the agent's tool."""
        self.requests = {n: w for n, w in words.items() if tools[n].by == "user"}
        """What agents ask users to do, by the user's tool."""
        self.questions = {
            name: {
                column: Words(_words(words), where=f"{self.where}: tools.{name}.questions.{column}")
                for column, words in tool.questions.items()
            }
            for name, tool in tools.items()
            if tool.by == "agent"
        }
        self.aids = aids(self.application, self.graph, self.requests)
        """What users have to do before an agent can."""
        self.conditions = Conditions(self.application)
        self._still = engine.environment()
        self._live = engine.environment()
        self._scene: Scene | None = None
        self._lacks: dict[tuple[tuple[str, ...], str], tuple[str, ...]] = {}

    @property
    def where(self) -> str:
        """Name of the application, for messages."""
        return self.application.application

    def scene(self, seed: int) -> Scene:
        """Return the seeded state of `seed`, read only; what it remembers is gone after `rest`."""
        if self._scene is None or self._scene.seed != seed:
            self._scene = Scene(self.graph, self._still, seed)
        return self._scene

    def speaker(self, scene: Scene, tool: str | None, rng: random.Random) -> Scalar:
        """Draw who speaks: somebody for whom `tool` can make sense; None for an operator.

        Raises:
            NotSuitable: nobody may speak (`no_goal`).
        """
        users = speakers(scene, self.graph, self.graph.leaves[tool] if tool else ())
        if not users:
            raise NotSuitable("no_goal")
        return users[int(rng.random() * len(users))]

    def can_find(self, tools: tuple[str, ...], tool: str, made: str | None) -> bool:
        """Return whether a toolset can find the keys that `tool` needs, but for `made`."""
        key = (tools, tool)
        lacks = self._lacks.get(key)
        if lacks is None:
            if len(self._lacks) > MOST_TOOLSETS:
                self._lacks.clear()
            lacks = self.graph.lacks(tool, self.graph.findable(frozenset(tools)))
            self._lacks[key] = lacks
        return not lacks or all(key == made for key in lacks)

    # --- execution -----------------------------------------------------------------------

    def start(self, seed: int) -> None:
        """Start over from a seeded state."""
        self._live.reset_now(seed)

    def call(self, tool: str, arguments: Mapping[str, Any], user: Scalar = None) -> ToolResult:
        """Run a call on the current state; one of a user's tool by that user."""
        if self.application.tools[tool].by == "user":
            return self._live.act_now(user, tool, arguments)
        return self._live.call_now(tool, arguments)

    def diff(self) -> Diff:
        """Return the net change since `start`."""
        return self._live.diff_now()

    def changed(self) -> dict[tuple[str, Scalar], dict[str, Scalar] | None]:
        """Return the rows that changed since `start`, by table and key; None where one is gone."""
        return self._live.changed_now()

    def query(self, sql: str, parameters: Mapping[str, Scalar]) -> list[dict[str, Scalar]]:
        """Return the rows of a SELECT on the current state."""
        return self._live.query(sql, parameters)

    def play(self, seed: int, calls: Iterable[Call], user: Scalar = None) -> Diff | None:
        """Run calls from a seeded state; None as soon as one fails."""
        return self.diff() if self.replay(seed, calls, user) else None

    def replay(self, seed: int, calls: Iterable[Call], user: Scalar = None) -> bool:
        """Run calls from a seeded state, some perhaps by the user; say whether all succeeded."""
        self.start(seed)
        return all(self.call(tool, arguments, user).ok for tool, arguments in calls)

    def forbidden(
        self, tool: str, arguments: Mapping[str, Any], user: Scalar, *, rule: str | None = None
    ) -> str | None:
        """Return the text of the first policy rule that forbids a call in the current state.

        Args:
            tool: the tool to be called.
            arguments: the arguments of the call.
            user: key of who speaks.
            rule: look at the rule of this name only.
        """
        application, query = self.application, self.query
        return forbidden(application, tool, arguments, user, query=query, rule=rule)

    def rest(self) -> None:
        """Give databases and memory back until the next sample."""
        self._scene = None
        self._still.rest()
        self._live.rest()

    async def close(self) -> None:
        """Close both environments. Harmless when called twice."""
        await self._still.close()
        await self._live.close()

    def planned(self, tool: str, arguments: Mapping[str, Any], group: int) -> PlannedCall:
        """Return a call as part of a solution."""
        return PlannedCall(
            tool=tool,
            arguments=dict(arguments),
            group=group,
            effect=self.effects[tool],
            by=self.application.tools[tool].by,
        )

    def writes(self, tools: Sequence[str]) -> list[str]:
        """Return the tools of a set that change the state, the hand-off left out."""
        read, handoff = Effect.READ, self.application.handoff
        return [tool for tool in tools if self.effects[tool] is not read and tool != handoff]


def _words(words: Mapping[str, str]) -> str:
    return words.get("en") or next(iter(words.values()))
