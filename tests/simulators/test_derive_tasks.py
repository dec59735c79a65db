"""Tasks of every kind: checked by executing them again, without the code that made them."""

import json
import random
from collections import Counter

import pytest

from simulators.sql.blueprint import REASONS, kinds, sample
from simulators.sql.engine import Engine
from simulators.sql.load import applications, load_application
from simulators.sql.stage import Stage
from synth.core.errors import NotSuitable
from synth.core.types import Effect, TaskKind

APPLICATIONS = (*sorted(applications()), "workshop")
WRITES = {
    TaskKind.SINGLE_WRITE,
    TaskKind.CHAINED_WRITES,
    TaskKind.MISSING_FACT,
    TaskKind.FORBIDDEN,
    TaskKind.UNSERVED,
}
REFUSALS = {TaskKind.FORBIDDEN, TaskKind.UNSERVED}
SAMPLES = 24
_made = {}


@pytest.fixture(name="made", scope="module", params=APPLICATIONS)
def _made_for(request, workshop):
    """Stage, tasks by kind and rejections of one application, sampled once."""
    name = request.param
    if name not in _made:
        engine = workshop if name == "workshop" else Engine(load_application(name))
        stage = Stage(engine)
        tasks, rejected = [], Counter()
        for kind in kinds(stage):
            for number in range(SAMPLES):
                tools = toolset(stage, random.Random(f"tools {kind} {number}"))
                try:
                    rng = random.Random(f"{kind} {number}")
                    tasks.append(sample(stage, kind, tools, number % 3, rng))
                except NotSuitable as reason:
                    rejected[reason.what] += 1
        _made[name] = stage, tasks, rejected
    return _made[name]


def toolset(stage, rng):
    """All tools but a few; the hand-off is always there."""
    tools = list(stage.application.specs)
    missing = set(rng.sample(tools, 2)) - {stage.application.handoff}
    return tuple(tool for tool in tools if tool not in missing)


LINKS, FEW_LINKS = 0.35, {"hr": 0.1}
"""Share of chains that go on with a row; of applications whose writes give little to go on with."""


def of_kind(tasks, *kinds):
    return [task for task in tasks if task.kind in kinds]


def fresh(stage, task):
    environment = stage.engine.environment()
    environment.reset_now(task.state_seed)
    return environment


def play(stage, task, calls):
    """Execute calls in order; return the diff and the results."""
    environment = fresh(stage, task)
    results = []
    for call in calls:
        result = made_by(environment, task, call)
        assert result.ok, (task.clauses, call, result.content)
        results.append(json.loads(result.content))
    return environment.diff_now(), results


def made_by(environment, task, call):
    """Execute a call with the tools of whoever makes it."""
    if call.by == "user":
        return environment.act_now(task.user, call.tool, call.arguments)
    return environment.call_now(call.tool, call.arguments)


def values_in(data):
    if isinstance(data, dict):
        for item in data.values():
            yield from values_in(item)
    elif isinstance(data, list):
        for item in data:
            yield from values_in(item)
    else:
        yield data


def meanings(parameters, arguments):
    """Yield (parameter, value) of every plain value in arguments."""
    for name, value in arguments.items():
        yield from _meanings(parameters[name], value)


def _meanings(parameter, value):
    if isinstance(value, list):
        for item in value:
            yield from _meanings(parameter.items, item)
    elif isinstance(value, dict):
        yield from meanings(parameter.properties, value)
    else:
        yield parameter, value


# --- all kinds -------------------------------------------------------------------------------


def test_every_kind_can_be_sampled(made):
    stage, tasks, rejected = made
    assert set(TaskKind) - set(kinds(stage)) <= {TaskKind.USER_ACT}
    counts = Counter(task.kind for task in tasks)
    assert {kind for kind in kinds(stage) if counts[kind] < SAMPLES // 10} == set(), counts
    assert set(rejected) <= set(REASONS)


def test_the_solution_executes_and_ends_in_the_wanted_state(made):
    stage, tasks, _ = made
    for task in tasks:
        diff, _ = play(stage, task, task.solution)
        assert diff in task.diffs, task.clauses


def test_a_write_changes_something_and_a_question_nothing(made):
    _, tasks, _ = made
    for task in tasks:
        if task.kind in WRITES:
            assert all(task.diffs)
        if task.kind is TaskKind.LOOKUP or task.outputs:
            assert task.diffs == ((),)
            assert task.outputs


def test_solutions_use_the_tools_of_the_agent_only(made):
    stage, tasks, _ = made
    for task in tasks:
        assert {call.tool for call in task.solution if call.by == "agent"} <= set(task.tools)
        acts = [(act.tool, act.arguments) for act in task.acts]
        assert all((c.tool, c.arguments) in acts for c in task.solution if c.by == "user")
        for call in task.solution:
            assert call.effect == Effect(stage.application.tools[call.tool].effect)


def test_keys_and_searches_come_from_what_the_user_says_or_a_result_showed(made):
    stage, tasks, _ = made
    for task in tasks:
        seen = [fact.value for fact in (*task.opening, *task.withheld)]
        # What a clause says is known too, though never a key: only spoken forms stand in it.
        text = " ".join(task.clauses).lower()
        seen += [f.value for f in task.background if f.spoken.lower() in text]
        _, results = play(stage, task, task.solution)
        for call, result in zip(task.solution, results, strict=True):
            parameters = stage.application.tools[call.tool].parameters
            for parameter, value in meanings(parameters, call.arguments):
                if parameter.entity or (parameter.match and parameter.enum is None):
                    assert value in seen, (task.clauses, call, value)
            seen.extend(values_in(result))


def test_calls_of_one_group_can_be_made_in_any_order(made):
    stage, tasks, _ = made
    for task in tasks:
        groups = [call.group for call in task.solution]
        assert groups == sorted(groups)
        assert groups[0] == 0
        indexed = list(enumerate(task.solution))
        backwards = [call for _, call in sorted(indexed, key=lambda x: (x[1].group, -x[0]))]
        diff, _ = play(stage, task, backwards)
        assert diff in task.diffs


def test_look_ups_come_before_writes(made):
    _, tasks, _ = made
    for task in tasks:
        effects = [call.effect is Effect.READ for call in task.solution]
        if task.kind is not TaskKind.LOOKUP:
            assert effects == sorted(effects, reverse=True)


def test_every_write_counts(made):
    stage, tasks, _ = made
    for task in tasks:
        for dropped, call in enumerate(task.solution):
            if call.effect is Effect.READ:
                continue
            environment = fresh(stage, task)
            for other in task.solution[:dropped] + task.solution[dropped + 1 :]:
                made_by(environment, task, other)
            assert environment.diff_now() not in task.diffs, (task.clauses, call)


def test_decoys_run_and_end_elsewhere(made):
    stage, tasks, _ = made
    counts = Counter()
    for task in tasks:
        for name, calls in task.decoys.items():
            diff, results = play(stage, task, calls)
            counts[task.kind, name] += 1
            if name == "wrong_entity" and task.outputs:
                assert results[-1] != play(stage, task, task.solution)[1][-1]
            else:
                assert diff not in task.diffs, (task.clauses, name)
    for kind in kinds(stage):
        # What waits for a user is often the only one of its kind that they have.
        other = set() if kind is TaskKind.USER_ACT else {"wrong_entity"}
        wanted = {"wrongful_compliance"} if kind in REFUSALS else other
        for name in {*wanted, "over_write"}:
            assert counts[kind, name] >= 0.5 * len(of_kind(tasks, kind)), (kind, name)


def test_a_clause_or_the_opening_states_a_fact_but_not_both(made):
    _, tasks, _ = made
    for task in tasks:
        names = [f.name for f in (*task.opening, *task.withheld, *task.background)]
        assert len(names) == len(set(names))
        said = [(f.label, f.spoken) for f in (*task.opening, *task.withheld, *task.background)]
        assert len(said) == len(set(said))


def test_only_the_kind_for_it_breaks_a_rule(made):
    stage, tasks, _ = made
    for task in tasks:
        environment = fresh(stage, task)
        user = who(stage, task)
        for call in task.solution:
            for rule in stage.application.policy_rules:
                assert rule.tool != call.tool or not breaks(stage, environment, rule, call, user)
            made_by(environment, task, call)


def who(stage, task):
    """Return the key of the user's row, told by what the user says of themselves."""
    told = {f.name: f.value for f in (*task.opening, *task.withheld, *task.background)}
    identity = {n.removeprefix("user."): v for n, v in told.items() if n.startswith("user.")}
    table = stage.engine.tables[stage.application.user.table]
    values = {path.replace(".", "_"): value for path, value in identity.items()}
    condition = " AND ".join(_says(table, path) for path in identity)
    rows = fresh(stage, task).query(f"SELECT id FROM {table.name} WHERE {condition}", values)
    assert len(rows) == 1
    return rows[0]["id"]


def _says(table, path):
    """Return the condition that a column of a row, or of the row it refers to, is `:path`."""
    column, _, further = path.partition(".")
    if not further:
        return f"{column} = :{column}"
    key = f"{column}_id"
    return (
        f"{key} IN (SELECT id FROM {table.foreign_keys[key]} WHERE {further} = :{column}_{further})"
    )


def breaks(stage, environment, rule, call, user):
    values = dict.fromkeys(stage.application.tools[rule.tool].parameters)
    for name, value in call.arguments.items():
        values[name] = json.dumps(value) if isinstance(value, list | dict) else value
    rows = environment.query(rule.when, {**values, "user_id": user})
    return bool(rows and next(iter(rows[0].values())))


# --- one kind each ---------------------------------------------------------------------------


def test_a_chain_has_two_or_three_writes_in_turn(made):
    _, tasks, _ = made
    for task in of_kind(tasks, TaskKind.CHAINED_WRITES):
        writes = [call for call in task.solution if call.effect is not Effect.READ]
        assert 2 <= len(writes) <= 3
        assert len(task.clauses) == len(writes)
        assert len({call.group for call in writes}) == len(writes)


def test_many_chains_go_on_with_a_row_they_made_or_touched(made):
    stage, tasks, _ = made
    linked = []
    for task in of_kind(tasks, TaskKind.CHAINED_WRITES):
        _, results = play(stage, task, task.solution)
        writes = [i for i, c in enumerate(task.solution) if c.effect is not Effect.READ]
        first, second = task.solution[writes[0]], task.solution[writes[1]]
        touched = {*values_in(first.arguments), *values_in(results[writes[0]])}
        parameters = stage.application.tools[second.tool].parameters
        keys = {
            value
            for parameter, value in meanings(parameters, second.arguments)
            if parameter.entity and not parameter.entity.startswith(stage.application.user.table)
        }
        linked.append(bool(keys & touched))
    share = FEW_LINKS.get(stage.application.application, LINKS)
    assert sum(linked) >= share * len(linked)


def test_no_wish_of_a_chain_ends_what_an_earlier_one_made_or_sets_it_anew(made):
    """Nobody asks for a ride and then for that it be cancelled."""
    stage, tasks, _ = made
    for task in of_kind(tasks, TaskKind.CHAINED_WRITES):
        environment = fresh(stage, task)
        named, before = set(), {}
        for call in task.solution:
            made_by(environment, task, call)
            rows = environment.changed_now()
            for key, row in before.items():
                if rows.get(key) == row:
                    continue
                assert None not in (row, rows.get(key)), (task.clauses, key)
                for column, was in row.items():
                    if rows[key][column] != was and isinstance(was, str):
                        assert was not in named, (task.clauses, column)
                        assert call.effect is not Effect.DESTRUCTIVE, (task.clauses, column)
            if call.effect is not Effect.READ:
                named.update(values_in(call.arguments))
            before = rows


def test_parallel_calls_share_the_last_group(made):
    _, tasks, _ = made
    for task in of_kind(tasks, TaskKind.PARALLEL):
        last = [call for call in task.solution if call.group == task.solution[-1].group]
        assert len(last) >= 2
        assert len(task.clauses) == 2


def test_answers_are_in_the_results_and_not_in_the_request(made):
    stage, tasks, _ = made
    for task in tasks:
        if not task.outputs:
            continue
        _, results = play(stage, task, task.solution)
        shown = {repr(value) for value in values_in(results)}
        said = " ".join([*task.clauses, *(f.spoken for f in task.opening)]).lower().split()
        for output in task.outputs:
            assert repr(output.value) in shown
            if output.type == "text":
                assert str(output.value).lower() not in " ".join(said)
            if output.type == "integer":
                assert str(output.value) not in said
            assert (output.currency is not None) == (output.type == "money")


def test_answers_to_two_questions_can_be_told_apart(made):
    _, tasks, _ = made
    for task in of_kind(tasks, TaskKind.PARALLEL):
        told = [(output.type, output.value) for output in task.outputs]
        assert len(told) == len(set(told))


def test_a_missing_fact_is_in_no_way_told(made):
    _, tasks, _ = made
    for task in of_kind(tasks, TaskKind.MISSING_FACT):
        (fact,) = task.withheld
        text = " ".join([*task.clauses, *(f.spoken for f in task.opening)])
        assert f" {fact.spoken} " not in f" {text} "
        assert fact.name not in {f.name for f in (*task.opening, *task.background)}
        used = {repr(v) for call in task.solution for v in values_in(call.arguments)}
        if fact.name.count(".") == 0:
            assert repr(fact.value) in used


def test_both_identity_and_details_are_left_out_now_and_then(made):
    _, tasks, _ = made
    names = {task.withheld[0].name for task in of_kind(tasks, TaskKind.MISSING_FACT)}
    assert any(name.startswith("user.") for name in names)
    assert any(not name.startswith("user.") for name in names)


def test_what_is_forbidden_would_succeed_and_ends_in_a_hand_off(made):
    stage, tasks, _ = made
    for task in of_kind(tasks, TaskKind.FORBIDDEN):
        *lookups, last = task.solution
        assert last.tool == stage.application.handoff
        assert last.arguments["reason"] == "not_allowed"
        assert all(call.effect is Effect.READ for call in lookups)
        wrong = task.decoys["wrongful_compliance"][-1]
        broken = [r for r in stage.application.policy_rules if r.text == task.rule]
        assert [r.tool for r in broken] == [wrong.tool]
        assert breaks(stage, fresh(stage, task), broken[0], wrong, who(stage, task))
        diff, _ = play(stage, task, task.decoys["wrongful_compliance"])
        assert diff


def test_what_no_tool_serves_ends_in_a_hand_off(made):
    stage, tasks, _ = made
    outside = set(stage.application.out_of_scope)
    found = Counter()
    for task in of_kind(tasks, TaskKind.UNSERVED):
        last = task.solution[-1]
        assert last.tool == stage.application.handoff
        assert last.arguments["reason"] == "no_tool"
        found["outside" if task.clauses[0] in outside else "missing tool"] += 1
    assert len(found) == 2
