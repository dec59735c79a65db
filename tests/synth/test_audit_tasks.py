"""Tasks proved again without the gate: solutions pass, idleness fails, faults are named."""

import asyncio
import json
import subprocess
import sys

import pytest

from synth.app import main
from synth.audit_tasks import Proof, prove_task
from synth.core.config import load_config
from synth.core.jsonl import write_atomic
from synth.core.types import Fact, StateCheck
from synth.pipeline.generate import Goal
from synth.pipeline.job import generate
from synth.rowfile import sealed
from synth.run import read_plan

pytestmark = pytest.mark.claim("k2-solvable")
ACCEPTED = 60


def proof(library, task):
    return asyncio.run(prove_task(task, library.agent(), library.Shelf()))


def with_blueprint(task, **changes):
    return task.model_copy(update={"blueprint": task.blueprint.model_copy(update=changes)})


def test_a_sound_task_holds(library):
    assert proof(library, library.task()) == Proof(None, None)
    assert proof(library, library.lookup()) == Proof(None, None)


def test_what_the_user_tells_when_asked_is_no_key_out_of_nowhere(library):
    """The written row shows the key again: it was known before, from the user."""

    class Told(library.Shelf):
        def lend_book(self, book_id, member_id, days):
            return super().lend_book(book_id, member_id, days) | {"book": book_id}

    fact = Fact(name="book_id", label="number of the book", value="B11", spoken="B11")
    calls = tuple(c for c in library.task().blueprint.solution if c.tool != "find_books")
    for withheld, why in (((fact,), None), ((), "what was executed is not what the task wants")):
        task = with_blueprint(library.task(), solution=calls, withheld=withheld)
        found = asyncio.run(prove_task(task, library.agent(), Told()))
        assert found == Proof(why, None)


def test_a_solution_that_lacks_a_call_or_cannot_make_one_is_named(library):
    task = library.task()
    calls = task.blueprint.solution
    short = proof(library, with_blueprint(task, solution=calls[:-1]))
    assert short.gold.startswith("state: missing")
    wrong = calls[-1].model_copy(update={"arguments": {"book_id": "B13"}})
    assert proof(library, with_blueprint(task, solution=(*calls[:-1], wrong))) == Proof(
        "lend_book fails", None
    )


def test_a_state_that_already_satisfies_the_goal_is_passed_by_doing_nothing(library):
    task = library.task()
    must = task.rubric.success[0]
    check = StateCheck(diffs=(*task.blueprint.diffs, ()))
    rubric = task.rubric.model_copy(update={"success": (must.model_copy(update={"check": check}),)})
    assert proof(library, task.model_copy(update={"rubric": rubric})) == Proof(None, "")


def test_a_rubric_that_says_less_than_the_task_is_no_proof_of_its_solution(library):
    """The criteria are met; executed, the change is not the one that the task wants."""
    task = library.task()
    asked = next(c for c in task.rubric.criteria() if c.level == "should")
    only = asked.model_copy(update={"level": "must"})
    rubric = task.rubric.model_copy(update={"success": (only,), "tool_use": (), "checkpoints": ()})
    weak = with_blueprint(task.model_copy(update={"rubric": rubric}), diffs=((),))
    assert proof(library, weak).gold == "what was executed is not what the task wants"


# --- a whole run, in a fresh process -----------------------------------------------------------


@pytest.fixture(scope="module", name="workspace")
def _workspace(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rechecked")
    config = load_config(None, ["generate.errors.rate=0.2"])
    asyncio.run(generate(config, folder / "runs" / "r", folder, Goal(accept=ACCEPTED)))
    return folder


ASK = """
import sys
from synth.app import main
code = main(["--workspace", sys.argv[1], "--json", "gate", "--run", "r"])
sys.exit(9 if {"synth.gate", "synth.mistakes"} & sys.modules.keys() else code)
"""


def test_every_accepted_task_holds_in_a_fresh_process_without_the_gates_code(workspace):
    done = subprocess.run(
        [sys.executable, "-c", ASK, str(workspace)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["gold"], found["idle"], found["left_out"]) == ({}, {}, {})
    assert found["tasks"] == ACCEPTED


def test_a_task_that_was_spoilt_on_disk_is_named_and_the_command_fails(workspace, capsys):
    path = workspace / "runs" / "r" / "plan.jsonl"
    kept, plan = path.read_bytes(), list(read_plan(workspace / "runs" / "r"))
    spoilt = []
    for planned in plan:
        task = planned.task
        if task.blueprint.solution:
            task = with_blueprint(task, solution=())
        spoilt.append(planned.model_copy(update={"task": task}))
    write_atomic(path, b"".join(sealed(planned) + b"\n" for planned in spoilt))
    try:
        assert main(["--workspace", str(workspace), "gate", "--run", "r"]) == 3
    finally:
        write_atomic(path, kept)
    out, err = capsys.readouterr()
    assert "the solution passes 0, an idle agent passes 0" in out
    assert "do not hold, the first: " in err


def test_files_and_a_run_are_not_looked_at_together(workspace, tmp_path, capsys):
    assert main(["--workspace", str(workspace), "gate"]) == 2
    assert main(["--workspace", str(workspace), "gate", "x.json", "--run", "r"]) == 2
    assert "name task files, or a run" in capsys.readouterr().err
