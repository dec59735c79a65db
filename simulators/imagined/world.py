"""Worlds whose tools a model plays: an application's, whose tasks stay SQL's, or any others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from simulators.imagined.asking import Scene, prompt_key
from simulators.imagined.drift import Twin
from simulators.imagined.environment import ImaginedEnvironment, Stage
from simulators.imagined.json_state import JsonState, Kind
from simulators.imagined.patch import State, first_problem
from simulators.imagined.results import of_application
from simulators.imagined.sql_state import SqlState
from simulators.sql.engine import Engine
from simulators.sql.world import SqlWorld
from synth.core import schemas
from synth.core.canonical import content_key
from synth.core.protocols import LLM, Sampler
from synth.core.types import CallError, ToolSpec


def application_stage(engine: Engine, excerpt: int = 2_000) -> Stage:
    """Return the tools of an application, to be played by a model beside its executable twin.

    Args:
        engine: the compiled application.
        excerpt: tokens of rows that a model is shown.
    """

    def objection(state: State, name: str, arguments: Mapping[str, Any]) -> CallError | None:
        assert isinstance(state, SqlState)
        return state.objection(name, arguments)

    application = engine.application
    return Stage(
        name=application.application,
        scene=Scene(application.summary, application.clock, excerpt),
        specs=application.specs,
        user_specs=application.user_specs,
        state=lambda: SqlState(engine),
        objection=objection,
        results=of_application(engine),
        twin=lambda: Twin(engine),
    )


def tools_stage(name: str, specs: Sequence[ToolSpec], kind: Kind, scene: Scene) -> Stage:
    """Return tools that belong to no application, to be played over rows of JSON.

    Args:
        name: of the world.
        specs: the tools; their `returns` is held to where it is declared.
        kind: the types of the state, and where it starts.
        scene: what a model is told of it.
    """
    validators = {spec.name: schemas.validator(spec.parameters) for spec in specs}

    def objection(state: State, tool: str, arguments: Mapping[str, Any]) -> CallError | None:
        problem = first_problem(validators[tool], dict(arguments))
        return CallError(code="invalid_arguments", message=problem) if problem else None

    return Stage(
        name=name,
        scene=scene,
        specs={spec.name: spec for spec in specs},
        state=lambda: JsonState(kind),
        objection=objection,
    )


class ImaginedWorld(SqlWorld):
    """The same world: its agents, goals and gate are those of the application.

    Args:
        engine: runs the application.
        excerpt: tokens of rows that a model is shown.
    """

    def __init__(self, engine: Engine, excerpt: int = 2_000) -> None:
        super().__init__(engine)
        self.key = content_key([self.key, "imagined", prompt_key(), excerpt])
        self.played = application_stage(engine, excerpt)

    def imagined(self, llm: LLM | None, sampler: Sampler | None = None) -> ImaginedEnvironment:
        """Return an environment for one episode; `environment()` is the executable twin."""
        return ImaginedEnvironment(self.played, llm, sampler)
