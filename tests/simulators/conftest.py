"""A small application whose rows the tests know by heart, and the desks of those that ship."""

import json
from functools import cache
from pathlib import Path

import pytest

from simulators.sql.engine import Engine
from simulators.sql.load import load_application
from simulators.sql.stage import Stage
from simulators.sql.yaml12 import read_yaml
from synth.core.application import Application

WORKSHOP = (Path(__file__).parent / "data" / "workshop.yaml").read_text(encoding="utf-8")


@pytest.fixture(name="workshop_file")
def _workshop_file():
    """The file as data, for tests that change it."""
    return read_yaml(WORKSHOP)


@pytest.fixture(name="workshop", scope="session")
def _workshop():
    return Engine(Application.model_validate(read_yaml(WORKSHOP)))


@pytest.fixture(name="stage")
def _stage(workshop):
    return Stage(workshop)


class Desk:
    """An application in some state, as whoever sits at its tools meets it."""

    def __init__(self, engine, seed):
        self._environment = engine.environment()
        self._never = engine.application.never
        self.reset(seed)

    def reset(self, seed):
        self._environment.reset_now(seed)

    def call(self, tool, arguments):
        return self._environment.call_now(tool, arguments)

    def done(self, tool, **arguments):
        """Return what a call gives that succeeds."""
        result = self.call(tool, arguments)
        assert result.ok, result.content
        return json.loads(result.content)

    def refused(self, tool, **arguments):
        """Return the code of the error of a call that fails."""
        result = self.call(tool, arguments)
        assert not result.ok
        return result.error.code

    def query(self, sql, values=None):
        return self._environment.query(sql, values or {})

    def one(self, sql, **values):
        return self.query(f"{sql} LIMIT 1", values)[0]

    def broken(self):
        """Return the promises of the application that its state breaks."""
        assert len(self._never) >= 5
        return [what for what, sql in self._never.items() if self.query(sql)]


@pytest.fixture(scope="session")
def desk_of():
    """Opens the desk of an application."""
    engine = cache(lambda name: Engine(load_application(name)))
    return lambda name, seed=0: Desk(engine(name), seed)
