"""The audit that every run gets: spoilt copies fail, right episodes pass, also in other orders."""

import asyncio
import json
import random

import pytest

from simulators.users.scripted import ScriptedUser
from synth.audit_runs import Audited, Case, audit, other_order
from synth.calibration import Share
from synth.core.config import Limits, load_config
from synth.core.types import JudgedCheck
from synth.mutate import KINDS
from synth.pipeline.auditing import MOST, audited
from synth.pipeline.generate import Goal
from synth.pipeline.job import generate
from synth.pipeline.worlds import open_worlds
from synth.play import play
from synth.reference import ReferenceAgent
from synth.report import funnel_lines
from synth.run import Written

pytestmark = pytest.mark.claim("k2-filter")


def played(library, task, *, confirms=False):
    agent = library.agent(confirms=confirms)
    trajectory = asyncio.run(
        play(
            task=task,
            agent=agent,
            environment=library.Shelf(),
            agent_player=ReferenceAgent(task, agent, random.Random(1)),
            user_player=ScriptedUser(task.request, random.Random(1)),
            limits=Limits(),
            episode="e",
            seed=1,
        )
    )
    return Case(task, agent, trajectory, library.Shelf(), library.tools)


def found_of(case):
    found = Audited()
    asyncio.run(audit(case, random.Random(1), found))
    return found


def test_every_spoilt_copy_fails_and_the_original_passes(library):
    row = found_of(played(library, library.task())).row()
    assert row["originals"] | {"interval": 0} == {"count": 0, "of": 1, "share": 0.0, "interval": 0}
    assert (row["mutants"]["count"], row["missed"]) == (0, [])
    assert row["mutants"]["of"] + row["harmless"] >= 12
    assert row["mutants"]["of"] == sum(kind["of"] for kind in row["kinds"].values())
    assert set(row["kinds"]) <= set(KINDS)
    assert row["left_out"] == {}


def test_an_original_that_is_judged_otherwise_now_is_named_and_not_spoilt(library):
    case = played(library, library.task())
    must = case.task.rubric.success[0]
    blind = must.model_copy(update={"check": JudgedCheck(question="Was it lent?")})
    rubric = case.task.rubric.model_copy(update={"success": (blind,)})
    task = case.task.model_copy(update={"rubric": rubric})
    weak = Case(task, case.agent, case.trajectory, case.environment, case.tools)
    row = found_of(weak).row()
    assert row["rejected"] == {"e": "not_judged:state"}
    assert row["mutants"]["of"] == 0


def test_a_rubric_that_accepts_the_untouched_state_lets_dropped_calls_pass_by_name(library):
    case = played(library, library.task())
    must = case.task.rubric.success[0]
    both = must.check.model_copy(update={"diffs": (*must.check.diffs, ())})
    success = (must.model_copy(update={"check": both}),)
    rubric = case.task.rubric.model_copy(update={"success": success})
    task = case.task.model_copy(update={"rubric": rubric})
    row = found_of(Case(task, case.agent, case.trajectory, case.environment, case.tools)).row()
    assert row["kinds"]["refusal"] == Share(1, 1).row()
    assert "e~refusal" in row["missed"]
    assert row["kinds"]["superfluous_write"]["count"] == 0


def test_look_ups_may_come_in_any_order_and_what_needs_them_may_not(library):
    assert asyncio.run(other_order(played(library, library.task()))) is True
    # Who is found first is the only way to know whose loans are listed.
    assert asyncio.run(other_order(played(library, library.lookup()))) is False


def test_one_call_has_no_order(library):
    find = library.planned("find_member", 0, email="ann@example.org")
    task = library.lookup()
    outputs = task.blueprint.outputs[1:]
    blueprint = task.blueprint.model_copy(update={"solution": (find,), "outputs": outputs})
    alone = task.model_copy(update={"blueprint": blueprint})
    case = played(library, alone)
    assert len(case.trajectory.steps) == 1
    assert asyncio.run(other_order(case)) is None


# --- a whole run -----------------------------------------------------------------------------

SIZES = [(150, 40), pytest.param((5200, 400), marks=pytest.mark.soak)]
"""Episodes of a run, and those of them that are audited: 650 mutants, in a soak 6,500."""


@pytest.mark.parametrize("size", SIZES)
def test_no_right_episode_is_rejected_and_no_spoilt_one_passes(tmp_path, size):
    """The reference agent makes no mistake here: whatever is rejected is rejected wrongly."""
    episodes, most = size
    config = load_config(None, ["generate.errors.rate=0"])
    folder = tmp_path / "runs" / "right"
    asyncio.run(generate(config, folder, tmp_path, Goal(episodes=episodes)))
    report = json.loads((folder / "report.json").read_bytes())
    assert report["episodes"] == episodes
    assert sum(report["rejected_by_reason"].values()) <= 0.001 * episodes, report
    assert report["audit"]["originals"]["of"] == MOST
    assert any("spoilt copies" in line for line in funnel_lines(report))

    run, worlds = Written(folder), open_worlds(config, tmp_path)
    row = asyncio.run(audited(run, episodes, worlds, config, most))
    assert row["originals"]["of"] == most
    assert row["originals"]["count"] == 0
    assert row["mutants"]["of"] >= 12.5 * most
    assert row["mutants"]["count"] <= 0.005 * row["mutants"]["of"], row["missed"]
    assert len(row["kinds"]) == len(KINDS)
    assert row["harmless"] <= 0.05 * row["mutants"]["of"]
    # Where several calls are needed, often another order is as good.
    assert row["orders"]["of"] >= most // 2
    assert row["orders"]["share"] >= 0.3
