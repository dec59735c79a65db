"""Every application file must pass the lint, and be the same in every process."""

import subprocess
import sys

import pytest

from simulators.sql.engine import Engine
from simulators.sql.lint import lint, state_key
from simulators.sql.load import applications, load_application
from simulators.sql.world import SqlWorld
from synth.core.types import TaskKind

NAMES = sorted(applications())
_engines = {}


def engine_of(name):
    if name not in _engines:
        _engines[name] = Engine(load_application(name))
    return _engines[name]


@pytest.mark.parametrize("name", NAMES)
def test_an_application_is_sound(name):
    report = lint(engine_of(name), draws=20)
    assert report.errors == (), "\n".join(map(str, report.errors))


@pytest.mark.parametrize("name", NAMES)
def test_every_write_of_an_application_is_solvable(name):
    report = lint(engine_of(name), seeds=(7,), draws=12)
    goals = {tool: f for tool, f in report.figures.items() if f.goals["ok"]}
    assert len(goals) >= 8
    assert all(figures.solvable >= 0.8 for figures in goals.values())


def test_applications_are_seeded_alike_in_a_fresh_process():
    program = (
        "import sys\n"
        "from simulators.sql.engine import Engine\n"
        "from simulators.sql.lint import state_key\n"
        "from simulators.sql.load import load_application\n"
        "for name in sys.argv[1:]:\n"
        "    engine = Engine(load_application(name))\n"
        "    print(name, *(state_key(engine, seed) for seed in (3, 11)))\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", program, *NAMES], capture_output=True, text=True, check=True
    )
    here = [[n, *(state_key(engine_of(n), seed) for seed in (3, 11))] for n in NAMES]
    assert [line.split() for line in run.stdout.splitlines()] == here


@pytest.mark.parametrize("name", NAMES)
def test_an_application_can_make_tasks_of_every_kind(name):
    engine = engine_of(name)
    needs_users = set() if engine.application.user_specs else {TaskKind.USER_ACT}
    assert set(SqlWorld(engine).kinds()) == set(TaskKind) - needs_users
