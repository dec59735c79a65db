import asyncio
import random
import re
from functools import cache

import pytest

from simulators.sql.engine import Engine
from simulators.sql.load import load_application
from simulators.sql.world import SqlWorld
from synth.agents import agents_for
from synth.core.errors import NotSuitable
from synth.core.types import (
    CallCheck,
    Criterion,
    Effect,
    OutputCheck,
    OutputValue,
    StateCheck,
    TaskKind,
)
from synth.gate import DECOYS, REASONS, admit
from synth.rubrics import rubric_for
from synth.tasks import sample_task

pytestmark = pytest.mark.claim("k2-rubrics")

NAMES = ("bank", "clinic", "hotel")
EACH = 8
"""Tasks of each kind in each application."""


@cache
def world(name):
    return SqlWorld(Engine(load_application(name)))


@cache
def sampled(name, kind):
    """Pairs of a task and its agent."""
    agents = agents_for(world(name), 20, 5, size=(6, 10))
    found = []
    for attempt in range(200):
        rng = random.Random(attempt)
        agent = rng.choice(agents)
        try:
            task = asyncio.run(sample_task(world(name), agent, kind, rng.randrange(3), rng))
        except NotSuitable:
            continue
        found.append((task, agent))
        if len(found) == EACH:
            break
    return found


def gate(task, agent, environment=None):
    where = world(task.blueprint.world)
    tools = {spec.name: spec for spec in where.tools()}

    async def go():
        place = environment or where.environment()
        try:
            return await admit(task, agent, place, tools)
        finally:
            await place.close()

    return asyncio.run(go())


def first_admitted(name, kind, wanted=lambda task: True):
    for task, agent in sampled(name, kind):
        if wanted(task) and gate(task, agent).accepted:
            return task, agent
    raise AssertionError(f"no {kind} task of {name} was admitted")


def with_blueprint(task, *, rubric=True, **changes):
    """Change the blueprint, and derive the rubric anew unless told otherwise."""
    blueprint = task.blueprint.model_copy(update=changes)
    fresh = rubric_for(blueprint) if rubric else task.rubric
    return task.model_copy(update={"blueprint": blueprint, "rubric": fresh})


def with_success(task, *checks):
    """Replace what decides by these musts."""
    success = tuple(
        Criterion(id=f"must{i}", text="It holds.", level="must", check=check)
        for i, check in enumerate(checks)
    )
    return task.model_copy(
        update={"rubric": task.rubric.model_copy(update={"success": success, "tool_use": ()})}
    )


def last_write(task):
    return [call for call in task.blueprint.solution if call.effect is not Effect.READ][-1]


# --- the paper's acceptance criterion: the oracle passes, doing nothing fails -------------------


@pytest.mark.parametrize(("name", "kind"), [(n, k) for n in NAMES for k in world(n).kinds()])
def test_the_solution_passes_and_idleness_fails_in_every_application_and_kind(name, kind):
    found = sampled(name, kind)
    assert len(found) == EACH
    accepted = 0
    for task, agent in found:
        admission = gate(task, agent)
        assert admission.reason in REASONS
        # Whatever else is wrong with a sampled task, its solution runs and repeats; only a value
        # that stands in no result under a name like its own may be refused by the judge.
        assert admission.reason not in {"gold_call_failed", "not_repeatable", "toolset"}
        assert admission.reason != "gold_fails" or admission.detail == "outputs"
        if "noop" in admission.killed:
            for decoy in ("noop", "canned", "false_claim"):
                assert admission.killed[decoy], (decoy, task.request)
        assert admission.accepted == (admission.reason == "admitted")
        if admission.accepted:
            accepted += 1
            assert admission.killed
            assert all(admission.killed.values())
    assert accepted >= EACH // 4


@pytest.mark.parametrize(
    ("kind", "decoys"),
    [
        (TaskKind.SINGLE_WRITE, {"dropped_call", "wrong_entity", "over_write"}),
        (TaskKind.CHAINED_WRITES, {"dropped_call", "wrong_order", "over_write"}),
        (TaskKind.LOOKUP, {"untold", "wrong_output", "over_write"}),
        (TaskKind.PARALLEL, {"dropped_call", "untold", "wrong_output"}),
        (TaskKind.MISSING_FACT, {"dropped_call", "wrong_entity", "over_write"}),
        (TaskKind.FORBIDDEN, {"dropped_call", "wrongful_compliance", "over_write"}),
        (TaskKind.UNSERVED, {"dropped_call", "wrongful_compliance", "over_write"}),
    ],
)
def test_the_decoys_of_a_kind_are_really_played(kind, decoys):
    played = {
        decoy
        for name in NAMES
        for task, agent in sampled(name, kind)
        for decoy in gate(task, agent).killed
    }
    assert decoys <= played
    assert played <= set(DECOYS)


def test_the_gate_says_the_same_twice():
    task, agent = sampled("hotel", TaskKind.CHAINED_WRITES)[0]
    assert gate(task, agent) == gate(task, agent)


# --- every planted weakness is found -----------------------------------------------------------


def test_a_rubric_that_checks_only_the_call_is_passed_by_the_superfluous_write():
    task, agent = first_admitted("hotel", TaskKind.SINGLE_WRITE)
    call = last_write(task)
    weak = with_success(task, CallCheck(tool=call.tool, arguments=call.arguments))
    assert gate(weak, agent).reason == "over_write_passes"


def test_a_rubric_that_ignores_arguments_is_passed_by_the_wrong_entity():
    def same_tool(task):
        decoys = task.blueprint.decoys
        wrong = decoys.get("wrong_entity", ())
        return wrong and wrong[-1].tool == last_write(task).tool

    task, agent = first_admitted("hotel", TaskKind.SINGLE_WRITE, same_tool)
    decoys = {"wrong_entity": task.blueprint.decoys["wrong_entity"]}
    weak = with_success(with_blueprint(task, decoys=decoys), CallCheck(tool=last_write(task).tool))
    assert gate(weak, agent).reason == "wrong_entity_passes"


def test_a_rubric_that_accepts_the_wrong_state_too_is_passed_by_the_wrong_entity():
    task, agent = first_admitted(
        "bank", TaskKind.SINGLE_WRITE, lambda t: "wrong_entity" in t.blueprint.decoys
    )
    wrong = task.blueprint.decoys["wrong_entity"]

    async def outcome():
        environment = world("bank").environment()
        await environment.reset(task.blueprint.state_seed)
        for call in wrong:
            await environment.call(call.tool, call.arguments)
        return await environment.diff()

    both = StateCheck(diffs=(*task.blueprint.diffs, asyncio.run(outcome())))
    assert gate(with_success(task, both), agent).reason == "wrong_entity_passes"


def test_a_rubric_that_only_forbids_change_is_no_rubric():
    task, agent = first_admitted("clinic", TaskKind.LOOKUP)
    weak = with_success(task, StateCheck(diffs=((),)))
    admission = gate(weak, agent)
    assert (admission.reason, admission.plays) == ("rubric", 0)
    assert admission.detail.startswith("holds_initially")


def test_an_answer_that_stands_in_the_question_is_passed_by_its_echo():
    task, agent = first_admitted("clinic", TaskKind.LOOKUP)
    name = task.persona.name
    named = task.model_copy(update={"request": f"{task.request}\nI am {name}."})
    value = OutputValue(label="name", type="text", value=name)
    nothing = StateCheck(diffs=((),))
    weak = with_blueprint(named, outputs=(value,))
    weak = with_success(weak, nothing, OutputCheck(values=(value,)))
    assert gate(weak, agent).reason == "echo_passes"


def test_a_rubric_without_the_output_is_passed_by_silence():
    task, agent = first_admitted("clinic", TaskKind.LOOKUP)
    read = task.blueprint.solution[-1]
    weak = with_success(task, StateCheck(diffs=((),)), CallCheck(tool=read.tool))
    assert gate(weak, agent).reason == "untold_passes"


def test_a_rubric_that_lets_compliance_pass_is_found():
    task, agent = first_admitted("bank", TaskKind.FORBIDDEN)
    forbidden = task.blueprint.decoys["wrongful_compliance"]
    handoff = last_write(task)
    both = (*forbidden, handoff)
    decoys = {"wrongful_compliance": both}
    weak = with_success(
        with_blueprint(task, decoys=decoys),
        CallCheck(tool=handoff.tool, arguments={"reason": "not_allowed"}),
    )
    assert gate(weak, agent).reason == "wrongful_compliance_passes"
    # With its own rubric the same decoy fails: the state is another, the tool forbidden.
    assert gate(with_blueprint(task, decoys=decoys), agent).accepted


def test_a_refusal_without_a_compliant_decoy_is_not_admitted():
    task, agent = first_admitted("bank", TaskKind.FORBIDDEN)
    assert gate(with_blueprint(task, decoys={}), agent).reason == "no_decoy"


def superseded(task):
    """A chained task whose first write leaves no trace: the phone number is changed twice."""
    call = last_write(task)
    first = call.model_copy(update={"arguments": {**call.arguments, "phone": "+43 699 1234567"}})
    solution = (*task.blueprint.solution[:-1], first, call)
    return with_blueprint(task, kind=TaskKind.CHAINED_WRITES, solution=solution, decoys={})


def test_a_write_that_leaves_no_trace_can_be_dropped_and_the_task_is_rejected():
    def sets_phone(task):
        call = last_write(task)
        return call.tool == "update_contact_details" and "phone" in call.arguments

    pairs = [
        p
        for kind in (TaskKind.SINGLE_WRITE, TaskKind.MISSING_FACT)
        for p in sampled("clinic", kind)
    ]
    task, agent = next(pair for pair in pairs if sets_phone(pair[0]))
    assert gate(superseded(task), agent).reason == "dropped_call_passes"


def test_calls_that_are_called_independent_must_commute():
    ordered = [
        pair
        for name in NAMES
        for pair in sampled(name, TaskKind.CHAINED_WRITES)
        if (admission := gate(*pair)).accepted and "wrong_order" in admission.killed
    ]
    assert ordered
    for task, agent in ordered:
        merged = tuple(
            call if call.effect is Effect.READ else call.model_copy(update={"group": 99})
            for call in task.blueprint.solution
        )
        assert gate(with_blueprint(task, solution=merged), agent).reason == "variant_fails"


def test_a_wrong_reference_solution_is_named():
    task, agent = first_admitted("bank", TaskKind.SINGLE_WRITE)
    call = last_write(task)
    broken = call.model_copy(update={"arguments": {}})
    solution = (*task.blueprint.solution[:-1], broken)
    admission = gate(with_blueprint(task, solution=solution), agent)
    assert (admission.reason, admission.detail) == ("gold_call_failed", call.tool)
    lazy = with_blueprint(task, solution=task.blueprint.solution[:-1])
    admission = gate(lazy, agent)
    assert (admission.reason, admission.detail, admission.plays) == ("gold_fails", "state", 1)


class Drifting:
    """An environment whose clock shows in its results."""

    real = False

    def __init__(self, inner):
        self.inner, self.resets = inner, 0

    async def reset(self, seed):
        self.resets += 1
        await self.inner.reset(seed)

    async def call(self, name, arguments):
        result = await self.inner.call(name, arguments)
        content = f'{result.content[:-1]},"at":{self.resets}}}'
        return result.model_copy(update={"content": content})

    async def diff(self):
        return await self.inner.diff()

    async def close(self):
        await self.inner.close()


def test_results_that_do_not_repeat_are_found():
    task, agent = first_admitted("bank", TaskKind.SINGLE_WRITE)
    drifting = Drifting(world("bank").environment())
    admission = gate(task, agent, drifting)
    assert (admission.reason, admission.plays) == ("not_repeatable", 1)


def test_a_prompt_that_gives_the_task_away_is_found():
    task, agent = first_admitted("bank", TaskKind.SINGLE_WRITE)
    text = task.rubric.success[0].text
    telling = agent.model_copy(update={"system": f"{agent.system}\n{text}"})
    admission = gate(task, telling)
    assert (admission.reason, admission.detail, admission.plays) == ("leak", "rubric: state", 0)


def test_a_solution_beyond_the_toolset_is_found():
    task, agent = first_admitted("bank", TaskKind.SINGLE_WRITE)
    tool = task.blueprint.solution[0].tool
    lacking = agent.model_copy(update={"tools": tuple(t for t in agent.tools if t != tool)})
    admission = gate(task, lacking)
    assert (admission.reason, admission.detail) == ("toolset", tool)


# --- canaries -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_nothing_that_decides_reaches_the_agent_before_the_first_turn(name):
    """Independent of `leaks`: rubric texts, withheld facts, and keys that only tools can tell."""
    pairs = [pair for kind in TaskKind for pair in sampled(name, kind)]
    admitted = [(task, agent) for task, agent in pairs if gate(task, agent).accepted]
    assert len(admitted) > len(pairs) / 2
    for task, agent in admitted:
        told = (task.request, agent.system)
        for criterion in task.rubric.criteria():
            assert not any(criterion.text in text for text in told)
        for fact in task.blueprint.withheld:
            if len(fact.spoken) > 3:
                assert fact.spoken not in task.request
        for call in task.blueprint.solution:
            for parameter, value in call.arguments.items():
                if parameter.endswith("_id"):
                    assert not any(re.search(rf"\b{re.escape(value)}\b", text) for text in told)
