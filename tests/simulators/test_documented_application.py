"""The application printed in docs/extending.md is one that runs."""

import re
from pathlib import Path

from simulators.sql.engine import Engine
from simulators.sql.lint import lint
from simulators.sql.load import parse_application
from simulators.sql.world import SqlWorld
from synth.core.types import TaskKind

PAGE = Path(__file__).parents[2] / "docs" / "extending.md"


def documented():
    text = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)[0]
    return parse_application(text, where="extending.md")


def test_the_documented_application_lints_clean():
    assert lint(Engine(documented()), draws=40).findings == ()


def test_the_documented_application_can_make_tasks_of_every_kind():
    assert set(SqlWorld(Engine(documented())).kinds()) == set(TaskKind) - {TaskKind.USER_ACT}
