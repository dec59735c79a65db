"""Planted faults on real applications: every harmful mutant is rejected, every original kept."""

import asyncio
from collections import Counter
from types import SimpleNamespace

import pytest

from simulators.sql.engine import Engine
from simulators.sql.load import load_application
from simulators.sql.world import SqlWorld
from simulators.users.scripted import ScriptedUser
from synth.agents import agents_for
from synth.core.errors import NotSuitable
from synth.core.seeds import rng
from synth.core.types import Effect
from synth.gate import admit
from synth.harmless import harmless
from synth.judge import judge
from synth.mutate import KINDS, mutants
from synth.play import Limits, play
from synth.reference import ErrorRates, ReferenceAgent
from synth.surgery import rebuilt, without
from synth.tasks import sample_task

APPLICATIONS = ("bank", "clinic", "hotel")
EACH = 24
"""Episodes an application: with nineteen kinds of mutants more than 1,000 in all."""


async def episode(task, agent, environment, number, errors=None):
    player = ReferenceAgent(task, agent, rng(number, "agent"), errors)
    trajectory = await play(
        task=task,
        agent=agent,
        environment=environment,
        agent_player=player,
        user_player=ScriptedUser(task.request, rng(number, "user")),
        limits=Limits(),
        episode=str(number),
        seed=number,
    )
    return player, trajectory


async def sampled(world, count):
    """Yield admitted tasks of all kinds with an agent each, as generation does."""
    agents = agents_for(world, 30, 3)
    environment, tools = world.environment(), {t.name: t for t in world.tools()}
    for number in range(count * 40):
        draw = rng("mutate", world.name, number)
        kind = draw.choice(world.kinds())
        agent = draw.choice(agents)
        try:
            task = await sample_task(world, agent, kind, draw.randrange(8), draw)
        except NotSuitable:
            continue
        if not (await admit(task, agent, environment, tools)).accepted:
            continue
        yield number, task, agent
        count -= 1
        if not count:
            return


async def audit(name):
    world = SqlWorld(Engine(load_application(name)))
    environment, tools = world.environment(), {t.name: t for t in world.tools()}
    counts, passed, missed, rejected = Counter(), [], [], []
    async for number, task, agent in sampled(world, EACH):
        _, trajectory = await episode(task, agent, environment, number)
        verdict = await judge(task, agent, trajectory, environment, tools)
        counts["originals"] += 1
        if not verdict.passed:
            rejected.append((verdict.reason, task.request, trajectory.messages[-2].content))
            continue
        passed.append((number, task, agent, trajectory))
        for kind, mutant in mutants(trajectory, task, rng(number, "mutant")):
            assert kind in KINDS
            if await harmless(mutant, task, environment):
                counts["harmless"] += 1
                continue
            counts[kind] += 1
            if (await judge(task, agent, mutant, environment, tools)).passed is not False:
                missed.append((kind, task.request, mutant.messages[-2].content))
        spoiled = await episode(task, agent, environment, number, ErrorRates.uniform(1.0))
        counts["mistakes"] += spoiled[0].mistake is not None
        verdict = await judge(task, agent, spoiled[1], environment, tools)
        if spoiled[0].mistake and verdict.passed is not False:
            missed.append((spoiled[0].mistake, task.request, spoiled[1].messages[-2].content))
    await environment.close()
    await world.close()
    return SimpleNamespace(counts=counts, passed=passed, missed=missed, rejected=rejected)


@pytest.fixture(scope="module")
def audited():
    return {name: asyncio.run(audit(name)) for name in APPLICATIONS}


def test_every_harmful_mutant_and_every_mistake_is_rejected(audited):
    assert [found.missed for found in audited.values()] == [[], [], []]
    totals = sum((found.counts for found in audited.values()), Counter())
    assert totals["mistakes"] > EACH
    made = sum(totals[kind] for kind in KINDS)
    assert len(KINDS) >= 12
    assert made >= 1000
    # Values are told in look-ups only.
    few = {"wrong_value": 8, "untold_value": 8}
    assert all(totals[kind] >= few.get(kind, 25) for kind in KINDS), totals
    assert totals["harmless"] <= 0.02 * (made + totals["harmless"])


def test_no_original_is_rejected(audited):
    assert [found.rejected for found in audited.values()] == [[], [], []]
    assert [found.counts["originals"] for found in audited.values()] == [EACH] * 3


SHORTER = {"dropped_call": -1, "call_in_words": -1, "superfluous_write": 1, "repeated_write": 1}
STOPPED = ("early_claim", "refusal", "verdict_in_words")


def test_mutants_keep_their_form_and_differ_in_the_planted_fault_only(audited):
    for found in audited.values():
        for number, task, _, trajectory in found.passed:
            for kind, mutant in mutants(trajectory, task, rng(number, "mutant")):
                assert mutant != trajectory
                ids = [c.id for m in mutant.messages for c in m.tool_calls]
                results = [m.tool_call_id for m in mutant.messages if m.role == "tool"]
                own = [step for step in mutant.steps if step.by == "agent"]
                assert ids == [step.call.id for step in own]
                lost = kind == "unanswered_call"
                assert len(ids) - len(results) == lost
                assert lost or ids == results
                assert len(set(ids)) == len(ids)
                for step in own:
                    assert step.call in mutant.messages[step.message].tool_calls
                    told = [m for m in mutant.messages if m.tool_call_id == step.call.id]
                    assert [m.content for m in told] == [step.result.content] * len(told)
                difference = len(mutant.steps) - len(trajectory.steps)
                assert difference < 0 if kind in STOPPED else difference == SHORTER.get(kind, 0)


def test_the_same_seed_plants_the_same_faults(audited):
    number, task, _, trajectory = audited["bank"].passed[0]
    assert mutants(trajectory, task, rng(number)) == mutants(trajectory, task, rng(number))


def test_without_a_replay_the_record_still_betrays_lost_and_early_writes(audited):
    async def verdicts():
        found = Counter()
        for name in APPLICATIONS:
            tools = {t.name: t for t in SqlWorld(Engine(load_application(name))).tools()}
            for number, task, agent, trajectory in audited[name].passed:
                writes = [s for s in trajectory.steps if s.effect is not Effect.READ]
                if len(writes) != 1:
                    continue
                for kind, mutant in mutants(trajectory, task, rng(number, "mutant")):
                    if kind in ("dropped_call", "early_claim"):
                        found[(await judge(task, agent, mutant, None, tools)).passed] += 1
        return found

    found = asyncio.run(verdicts())
    assert found[False] > 30
    assert set(found) == {False}


# --- harmlessness, on a small library --------------------------------------------------------


@pytest.fixture
def lent(library):
    task, agent = library.task(), library.agent()
    _, trajectory = asyncio.run(episode(task, agent, library.Shelf(), 1))
    return task, trajectory


def test_what_the_dialogue_lacks_and_what_is_known_too_early_is_not_harmless(library):
    solution = (
        library.planned("find_member", 0, email="ann@example.org"),
        library.planned("find_books", 1, title="Dune"),
        library.planned("lend_book", 2, book_id="B11", member_id="M1", days=14),
    )
    task, agent = library.task(solution=solution), library.agent()
    _, trajectory = asyncio.run(episode(task, agent, library.Shelf(), 1))
    kinds = dict(mutants(trajectory, task, rng(1)))
    for kind in ("unanswered_call", "reordered_calls"):
        assert asyncio.run(harmless(kinds[kind], task, library.Shelf())) is False
    names = [step.call.name for step in kinds["reordered_calls"].steps]
    assert names == ["find_member", "lend_book", "find_books"]
    # Whoever was told the key may use it before a look-up shows it.
    told = trajectory.messages[1].model_copy(update={"content": f"{task.request} It is B11."})
    messages = (trajectory.messages[0], told, *trajectory.messages[2:])
    known = trajectory.model_copy(update={"messages": messages})
    assert "reordered_calls" not in dict(mutants(known, task, rng(1)))


def test_an_untouched_trajectory_is_harmless(lent, library):
    task, trajectory = lent
    assert asyncio.run(harmless(trajectory, task, library.Shelf())) is True


def test_a_dropped_look_up_is_harmless_and_a_dropped_write_is_not(lent, library):
    task, trajectory = lent
    for name, free in (("find_books", True), ("lend_book", False)):
        gone = next(s.call.id for s in trajectory.steps if s.call.name == name)
        kept = rebuilt(trajectory, without(trajectory.messages, gone), trajectory.steps)
        assert asyncio.run(harmless(kept, task, library.Shelf())) is free


def test_a_value_that_was_told_but_never_read_is_not_harmless(library):
    task, agent = library.lookup(), library.agent()
    _, trajectory = asyncio.run(episode(task, agent, library.Shelf(), 1))
    assert asyncio.run(harmless(trajectory, task, library.Shelf())) is True
    silent = trajectory.model_copy(update={"messages": trajectory.messages[:-2]})
    assert asyncio.run(harmless(silent, task, library.Shelf())) is False
    kinds = dict(mutants(trajectory, task, rng(1)))
    assert asyncio.run(harmless(kinds["dropped_call"], task, library.Shelf())) is False
