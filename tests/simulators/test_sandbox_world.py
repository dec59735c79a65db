"""Coding chores made from a seed: hidden tests are the ground truth, whatever program passes."""

import asyncio
import random

import pytest

from simulators.sandbox.chores import MAKERS
from simulators.sandbox.run import why_not
from simulators.sandbox.world import README, SandboxWorld, chores, project
from synth.agents import agents_for
from synth.core.seeds import rng as seeded
from synth.core.types import TaskKind
from synth.gate import admit
from synth.tasks import sample_task

WHY_NOT = asyncio.run(why_not())
confined = pytest.mark.skipif(bool(WHY_NOT), reason=f"no confinement: {WHY_NOT}")


def admissions(kinds, seeds):
    async def run():
        world, found = SandboxWorld(), []
        agent = agents_for(world, 1, 0, size=(6, 6))[0]
        tools = {tool.name: tool for tool in world.tools()}
        environment = world.environment()
        for seed in seeds:
            for kind in kinds:
                task = await sample_task(world, agent, kind, 0, random.Random(seed))
                found.append(await admit(task, agent, environment, tools))
        return found

    return asyncio.run(run())


@confined
def test_every_kind_passes_the_gate_and_its_wrong_solutions_fail():
    kinds = SandboxWorld().kinds()
    for kind, admission in zip(2 * kinds, admissions(kinds, range(2)), strict=True):
        assert admission.accepted, admission
        wrong = "wrong_output" if kind is TaskKind.LOOKUP else "wrong_entity"
        assert admission.killed[wrong]
        assert admission.killed["noop"]


@confined
@pytest.mark.parametrize("maker", MAKERS, ids=lambda maker: maker.__name__)
def test_the_solution_of_every_chore_passes_its_tests_and_the_near_miss_does_not(maker):
    seed = next(s for s in range(999) if chores(s)[0].look == maker_of(s, maker))

    async def run(calls):
        environment = SandboxWorld().environment()
        await environment.reset(seed)
        for tool, arguments in calls:
            assert (await environment.call(tool, arguments)).ok
        return await environment.diff()

    chore = chores(seed)[0]
    right, wrong = asyncio.run(run(chore.calls)), asyncio.run(run(chore.wrong))
    assert len(right) == 1
    assert '"holds":true' in right[0]
    assert wrong == ()


def maker_of(seed, maker):
    """Return the file that the maker's chore would read first, if it is the first of that seed."""
    rng = seeded(seed, "chores")
    places = rng.sample(("billing", "tools", "imports", "ops", "stats", "shop"), 2)
    first = rng.sample(MAKERS, 2)[0]
    return maker(random.Random(seed), places[0]).look if first is maker else ""


@confined
def test_another_program_that_does_the_same_is_as_good_and_other_files_count():
    seed = next(s for s in range(999) if chores(s)[0].look.endswith("windows.py"))
    chore = chores(seed)[0]

    async def run(*calls):
        environment = SandboxWorld().environment()
        await environment.reset(seed)
        for tool, arguments in calls:
            assert (await environment.call(tool, arguments)).ok
        return await environment.diff()

    (tool, arguments) = chore.calls[0]
    name = next(w for w in arguments["content"].split() if w.startswith("moving_")).split("(")[0]
    code = arguments["content"].replace(f"def {name}(numbers)", f"def {name}(xs)")
    other = code.replace("len(numbers)", "len(xs)").replace("numbers[i", "xs[i")
    assert other != arguments["content"]
    right = asyncio.run(run((tool, arguments)))
    assert asyncio.run(run((tool, {**arguments, "content": other}))) == right
    spoilt = asyncio.run(run((tool, arguments), (tool, {"path": README, "content": "x"})))
    assert spoilt != right
    assert spoilt[: len(right)] == right
    scratch = asyncio.run(run((tool, arguments), (tool, {"path": "scratch.py", "content": "1"})))
    assert scratch == right


def test_projects_of_different_seeds_are_different_and_of_one_seed_the_same():
    made = {repr(sorted(project(seed).files.items())) for seed in range(300)}
    assert len(made) == 300
    assert project(7) == project(7)
    clauses = [chore.clause for seed in range(300) for chore in chores(seed)]
    assert len(set(clauses)) > 400


@confined
@pytest.mark.soak
def test_two_hundred_coding_tasks_pass_the_gate():
    found = admissions((TaskKind.SINGLE_WRITE, TaskKind.PARALLEL), range(100))
    assert [admission.reason for admission in found] == ["admitted"] * 200
