"""A small application whose rows the tests know by heart, whole or bent."""

from pathlib import Path

import pytest

from simulators.sql.engine import Engine
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
