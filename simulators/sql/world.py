"""An application as a world: environments, edges, policy, and tasks sampled on its states."""

from __future__ import annotations

import random
from collections.abc import Sequence

from simulators.sql.blueprint import blueprint, kinds
from simulators.sql.engine import Engine
from simulators.sql.environment import SqlEnvironment
from simulators.sql.schedule import schedule
from simulators.sql.stage import Stage
from simulators.sql.wavering import wavering
from simulators.sql.words import MAX_POLICY, Words, singular, spoken
from synth.core.errors import BadApplication, UnknownName
from synth.core.happenings import Schedule
from synth.core.protocols import Edge, World
from synth.core.types import Blueprint, TaskKind, ToolSpec

MAX_RULES = 100
"""Policy rules of one application; a template may loop over them twice."""


class SqlWorld:
    """Implements `synth.core.protocols.World` for an application.

    Args:
        engine: runs the application.

    Raises:
        BadApplication: a template or statement of the application is wrong.
    """

    real = False

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        application = engine.application
        self.name, self.category = application.application, application.category
        self.key = application.key
        self.handoff: str | None = application.handoff
        self.clock: str | None = application.clock
        self.stage = Stage(engine)
        self._policy = policy_text(engine)
        self.languages: tuple[str, ...] = ("en", *sorted(application.languages))
        self._speaking: dict[str, SqlWorld] = {}
        self._edges = self.stage.graph.edges()
        self._kinds = kinds(self.stage)

    def speaking(self, language: str) -> World:
        """Return the world whose users speak `language`: this one, or one that shares its engine.

        Raises:
            UnknownName: the application has no words in it.
        """
        if language not in self.languages:
            raise UnknownName("language", language, self.languages)
        if language == self.languages[0]:
            return self
        if language not in self._speaking:
            self._speaking[language] = _Speaking(self.engine, language)
        return self._speaking[language]

    def tools(self) -> tuple[ToolSpec, ...]:
        """Return every tool that agents hold."""
        return tuple(self.engine.application.specs.values())

    def edges(self) -> tuple[Edge, ...]:
        """Return the tool dependency graph."""
        return self._edges

    def kinds(self) -> tuple[TaskKind, ...]:
        """Return the kinds of task this application has the makings of."""
        return self._kinds

    def policy(self) -> str:
        """Return the policy as the agent reads it."""
        return self._policy

    def environment(self) -> SqlEnvironment:
        """Return a new environment; call `reset` before use."""
        return self.engine.environment()

    async def blueprint(
        self, kind: TaskKind, tools: Sequence[str], state_seed: int, rng: random.Random
    ) -> Blueprint:
        """Sample a goal of `kind` that the toolset `tools` can reach, execute it, keep the diff.

        Raises:
            NotSuitable: nothing of that kind here; the reason is a key of
                `simulators.sql.blueprint.REASONS`.
            UnknownName: a tool of the set does not exist.
        """
        for tool in tools:
            if tool not in self.engine.application.specs:
                raise UnknownName("tool", tool, self.engine.application.specs)
        try:
            return blueprint(self.stage, kind, tools, state_seed, rng)
        finally:
            self.stage.rest()

    async def wavering(
        self, tools: Sequence[str], state_seed: int, rng: random.Random
    ) -> Blueprint:
        """Sample a goal that the user first names otherwise; see `simulators.sql.wavering`."""
        try:
            return wavering(self.stage, tools, state_seed, rng)
        finally:
            self.stage.rest()

    def schedule(self, blueprint: Blueprint, share: float, seed: int) -> Schedule | None:
        """Draw what happens by itself in an episode; see `simulators.sql.schedule`."""
        return schedule(self.engine, blueprint, share, seed)

    async def close(self) -> None:
        """End the environments that goals are tried out in. Harmless when called twice."""
        for other in self._speaking.values():
            await other.close()
        await self.stage.close()


class _Speaking(SqlWorld):
    """The same world with users of another language; its agents keep their English policy."""

    def __init__(self, engine: Engine, language: str) -> None:
        super().__init__(engine)
        self.stage = Stage(engine.speaking(language))
        self._kinds = kinds(self.stage)


def policy_text(engine: Engine) -> str:
    """Render the policy of an application.

    Templates see `user` (the noun of who speaks), `clock` (the environment's time in words) and
    `rules` (the sentences of the policy rules).

    Raises:
        BadApplication: the template is wrong, or names anything else.
    """
    application = engine.application
    table, where = application.user.table, f"{application.application}: policy"
    if len(application.policy_rules) > MAX_RULES:
        raise BadApplication(
            f"{len(application.policy_rules)} rules", where=where, remedy=f"at most {MAX_RULES}"
        )
    words = Words(application.policy, where=where, limit=MAX_POLICY)
    return words.render_page(
        {
            "user": singular(table) if table else "operator",
            "clock": spoken(application.clock),
            "rules": [rule.text for rule in application.policy_rules],
        }
    )
