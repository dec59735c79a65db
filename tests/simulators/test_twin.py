"""Twins: the exact tools of a crawled server over tables derived from their parameters."""

import asyncio
import random

import pytest

from simulators.check import check_environment
from simulators.sql.engine import Engine
from simulators.sql.lint import lint
from simulators.twin.derive import derive
from simulators.twin.reading import read_tool
from simulators.twin.world import NOT_SUPPORTED, OUT_OF_SERVICE, TwinWorld
from synth.agents import agents_for
from synth.core.errors import NotSuitable
from synth.core.types import Effect, Provenance, TaskKind, ToolSpec
from synth.gate import admit
from synth.tasks import sample_task


def spec(name, properties, required=(), **more):
    schema = {"type": "object", "properties": properties, "required": list(required), **more}
    return ToolSpec(
        name=name,
        description=f"Foreign words about {name}.",
        parameters=schema,
        provenance=Provenance(source="catalog:test#server"),
    )


TEXT, WHOLE = {"type": "string"}, {"type": "integer"}
SERVER = [
    spec("listProjects", {"pageSize": {"type": "number", "minimum": 1, "maximum": 100}}),
    spec("createTask", {"title": TEXT, "project_id": TEXT, "tags": {"type": "array"}},
         ["title", "project_id"]),
    spec("getTask", {"taskId": TEXT}, ["taskId"]),
    spec("search-tasks", {"query": TEXT}, ["query"]),
    spec("update_task", {"task_id": TEXT, "title": TEXT, "done": {"type": "boolean"}}, ["task_id"]),
    spec("deleteTask", {"taskId": TEXT}, ["taskId"]),
    spec("get_project", {"project_id": TEXT}, ["project_id"]),
    spec("run_pipeline", {"name": TEXT}, ["name"]),
    spec("get_account", {"api_key": TEXT}, ["api_key"]),
]  # fmt: skip


@pytest.fixture(scope="module")
def world():
    derived = derive("twin_test", SERVER)
    return TwinWorld(derived, Engine(derived.application))


def test_tools_are_shown_as_they_were_crawled_but_for_their_effect(world):
    shown = {tool.name: tool for tool in world.tools()}
    assert set(shown) == {tool.name for tool in SERVER}
    for tool in SERVER:
        now = shown[tool.name]
        assert (now.description, now.parameters) == (tool.description, tool.parameters)
    assert shown["listProjects"].effect is Effect.READ
    assert shown["createTask"].effect is Effect.WRITE
    assert shown["deleteTask"].effect is Effect.DESTRUCTIVE


def test_what_has_no_twin_is_a_distractor_with_a_reason(world):
    assert world.derived.reasons == {"run_pipeline": "verb", "get_account": "secret"}
    assert world.distractors == {"run_pipeline", "get_account"}


def test_the_application_is_sound(world):
    assert lint(world.inner.engine, draws=20).errors == ()


def call(world, *calls):
    async def run():
        environment = world.environment()
        await environment.reset(1)
        results = [await environment.call(*one) for one in calls]
        return results, await environment.diff()

    return asyncio.run(run())


def test_a_call_in_crawled_names_does_what_it_says(world):
    table = world.inner.engine.environment()
    table.reset_now(1)
    task = table.query("SELECT * FROM task_rows ORDER BY id LIMIT 1", {})[0]
    (read, wrote), diff = call(
        world,
        ("getTask", {"taskId": task["id"]}),
        ("update_task", {"task_id": task["id"], "title": "another"}),
    )
    assert read.ok
    assert task["name"] in read.content
    assert wrote.ok
    assert len(diff) == 1
    assert '"another"' in diff[0]


def test_the_crawled_schema_is_held_to(world):
    (few, wrong, unknown), diff = call(
        world, ("createTask", {"title": "x"}), ("listProjects", {"pageSize": 0}), ("nothing", {})
    )
    assert [r.error.code for r in (few, wrong)] == ["invalid_arguments"] * 2
    assert unknown.error.code == "unknown_tool"
    assert diff == ()


def test_a_distractor_refuses_and_an_optional_parameter_without_meaning_is_named(world):
    (idle, odd), diff = call(
        world,
        ("run_pipeline", {"name": "x"}),
        ("createTask", {"title": "x", "project_id": "PR001", "tags": ["a"]}),
    )
    assert idle.error.code == OUT_OF_SERVICE
    assert odd.error.code == NOT_SUPPORTED
    assert "'tags'" in odd.error.message
    assert diff == ()


def test_a_key_is_looked_up_where_a_tool_lists_it(world):
    assert ("search-tasks", "getTask", "taskId") in {
        (edge.source, edge.target, edge.parameter) for edge in world.edges()
    }


def test_a_twin_keeps_the_contract_of_environments(world):
    calls = [("createTask", {"title": "x", "project_id": "PR001"}), ("listProjects", {})]
    assert asyncio.run(check_environment(world.environment, calls)) == []


@pytest.mark.parametrize("kind", [TaskKind.LOOKUP, TaskKind.SINGLE_WRITE])
def test_tasks_are_asked_in_crawled_names_and_admitted(world, kind):
    names = {tool.name for tool in SERVER}

    async def run():
        found = 0
        for number, agent in enumerate(agents_for(world, 6, 0)):
            rng = random.Random(number)
            try:
                task = await sample_task(world, agent, kind, number, rng)
            except NotSuitable:
                continue
            assert {c.tool for c in task.blueprint.solution} <= names - world.distractors
            tools = {tool.name: tool for tool in world.tools()}
            admission = await admit(task, agent, world.environment(), tools)
            assert admission.accepted, admission
            found += 1
        return found

    assert asyncio.run(run()) >= 2


def test_toolsets_are_never_grown_around_a_distractor(world):
    agents = agents_for(world, 40, 0, size=(3, 8))
    assert any(set(agent.tools) & world.distractors for agent in agents)
    assert all(set(agent.tools) - world.distractors for agent in agents)


@pytest.mark.parametrize(
    ("tool", "reason"),
    [
        (spec("convert_time", {}), "verb"),
        (spec("get_all", {}), "noun"),
        (spec("get_x", {"a": {"type": "array"}}, ["a"]), "parameters"),
        (spec("get_x", {"a": {"type": "string", "pattern": "^z$"}}, ["a"]), "parameters"),
        (spec("get_x", {"apiKey": TEXT}, ["apiKey"]), "secret"),
        (spec("get_x", {"a": TEXT}, anyOf=[{}]), "schema"),
        (spec("get_x", {"a": TEXT}, ["b"]), "parameters"),
    ],
)
def test_what_cannot_be_read_has_a_reason(tool, reason):
    with pytest.raises(NotSuitable) as raised:
        read_tool(tool)
    assert raised.value.what == reason


def test_no_words_of_the_server_enter_ours(world):
    assert "Foreign words" not in world.derived.application.model_dump_json()


@pytest.mark.parametrize(
    ("name", "verb", "noun"),
    [
        ("getPullRequest", "show", "pull_request"),
        ("jira_list_issues", "list", "issue"),
        ("get_users", "list", "user"),
        ("DELETE-ITEM", "delete", "item"),
        ("find_order_by_id", "list", "order_"),
    ],
)
def test_verb_and_noun_are_read_from_names(name, verb, noun):
    reading = read_tool(spec(name, {}))
    assert (reading.verb, reading.noun) == (verb, noun)
