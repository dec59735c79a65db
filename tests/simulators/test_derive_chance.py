"""Tasks are drawn alike everywhere, and where none can be drawn the reason is named."""

import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from simulators.sql.blueprint import sample
from simulators.sql.engine import Engine
from simulators.sql.stage import Stage
from synth.core.application import Application
from synth.core.errors import NotSuitable
from synth.core.types import TaskKind

WORKSHOP = Path(__file__).parent / "data" / "workshop.yaml"


# --- chance ----------------------------------------------------------------------------------


def sampled(stage, kind, seed):
    try:
        return sample(stage, kind, tuple(stage.application.specs), 1, random.Random(seed)).key
    except NotSuitable as reason:
        return reason.what


KINDS = [kind for kind in TaskKind if kind is not TaskKind.USER_ACT]
"""Those of an application whose users hold no tools."""


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_chance_gives_the_same_task(workshop, kind):
    first, second = Stage(workshop), Stage(workshop)
    # One of the two has a past.
    for seed in range(5):
        sampled(second, TaskKind.PARALLEL, f"before {seed}")
    found = [sampled(first, kind, seed) for seed in range(12)]
    assert [sampled(second, kind, seed) for seed in range(12)] == found
    assert len(set(found)) > 3


def test_the_same_chance_gives_the_same_task_in_another_process():
    program = (
        "import random, sys\n"
        "from simulators.sql.blueprint import blueprint\n"
        "from simulators.sql.engine import Engine\n"
        "from simulators.sql.load import load_application\n"
        "from simulators.sql.stage import Stage\n"
        "from synth.core.types import TaskKind\n"
        "stage = Stage(Engine(load_application(sys.argv[1])))\n"
        "tools = tuple(stage.application.specs)\n"
        "for kind in sys.argv[2:]:\n"
        "    print(blueprint(stage, TaskKind(kind), tools, 2, random.Random(5)).key)\n"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-c", program, str(WORKSHOP), *KINDS],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
        ).stdout
        for seed in ("1", "2")
    ]
    assert runs[0] == runs[1]
    assert len(set(runs[0].split())) == len(KINDS)


# --- when nothing suits ----------------------------------------------------------------------


def reason_for(stage, kind, tools):
    reasons = Counter()
    for seed in range(30):
        try:
            sample(stage, kind, tools, 0, random.Random(seed))
            reasons["ok"] += 1
        except NotSuitable as reason:
            reasons[reason.what] += 1
    return set(reasons)


def test_reasons_name_what_is_missing(stage):
    everything = tuple(stage.application.specs)
    assert reason_for(stage, TaskKind.SINGLE_WRITE, ("find_person", "refer")) == {"no_tools"}
    assert reason_for(stage, TaskKind.LOOKUP, ("list_jobs", "open_job")) == {"no_goal"}
    assert reason_for(stage, TaskKind.FORBIDDEN, ("find_person", "refer")) == {"no_rule"}
    without = tuple(tool for tool in everything if tool != "refer")
    assert reason_for(stage, TaskKind.UNSERVED, without) == {"no_handoff"}
    assert reason_for(stage, TaskKind.FORBIDDEN, without) == {"no_handoff"}
    assert reason_for(stage, TaskKind.SINGLE_WRITE, ("swap_tyres",)) == {"no_tools"}
    assert reason_for(stage, TaskKind.UNSERVED, ("list_jobs", "refer")) == {"no_tools"}


def test_a_write_that_changes_nothing_is_no_goal(workshop_file):
    workshop_file["tools"]["move_job"]["steps"] = [
        {"write": "UPDATE jobs SET due = due WHERE id = :job_id"}
    ]
    stage = Stage(Engine(Application.model_validate(workshop_file)))
    tools = ("find_person", "list_bikes", "list_jobs", "move_job")
    assert reason_for(stage, TaskKind.SINGLE_WRITE, tools) == {"empty_diff"}


def test_a_write_that_a_later_one_undoes_is_not_asked_for(stage):
    tools = ("find_person", "list_bikes", "list_jobs", "move_job", "cancel_jobs")
    assert "superseded" in reason_for(stage, TaskKind.CHAINED_WRITES, tools)


def test_writes_that_do_not_commute_are_not_parallel(workshop_file):
    # Each job is numbered after those before it, so the order can be seen in the result.
    tool = workshop_file["tools"]["move_job"]
    del workshop_file["tools"]["find_person"]["questions"]
    tool["steps"] = [
        {
            "write": "UPDATE jobs SET due = :due, price = (SELECT max(price) FROM jobs) * 2 "
            "WHERE id = :job_id"
        }
    ]
    stage = Stage(Engine(Application.model_validate(workshop_file)))
    tools = ("find_person", "list_bikes", "list_jobs", "move_job")
    reasons = reason_for(stage, TaskKind.PARALLEL, tools)
    assert "dependent" in reasons
    assert "ok" not in reasons


# --- a world without a user ------------------------------------------------------------------


def test_an_operator_owns_every_row(workshop_file):
    workshop_file.update(user={}, identify=[], policy_rules=[], out_of_scope=[])
    del workshop_file["handoff"]
    workshop_file["known"]["bikes"].append("owner_id")
    for name in ("find_person", "rename_me", "refer"):
        del workshop_file["tools"][name]
    workshop_file["tools"]["list_bikes"]["parameters"] = {}
    workshop_file["tools"]["list_bikes"]["steps"][0]["return"] = (
        "SELECT b.id, p.name AS owner, b.model, b.colour FROM bikes b "
        "JOIN people p ON p.id = b.owner_id ORDER BY b.id"
    )
    stage = Stage(Engine(Application.model_validate(workshop_file)))
    owners = set()
    for seed in range(60):
        try:
            task = sample(
                stage,
                TaskKind.SINGLE_WRITE,
                tuple(stage.application.specs),
                0,
                random.Random(seed),
            )
        except NotSuitable:
            continue
        environment = stage.engine.environment()
        environment.reset_now(task.state_seed)
        assert all(environment.call_now(call.tool, call.arguments).ok for call in task.solution)
        assert environment.diff_now() in task.diffs
        assert not [f for f in task.opening if f.name.startswith("user.")]
        facts = (*task.opening, *task.background)
        owners |= {f.value for f in facts if f.name.endswith("owner.name")}
    assert owners == {"Ann Reed", "Ben Cole", "Cleo Moss"}
