"""An application as a world."""

import asyncio
import random

import pytest

from simulators.sql.engine import Engine
from simulators.sql.world import SqlWorld
from synth.core.application import Application
from synth.core.errors import BadApplication, NotSuitable, UnknownName
from synth.core.protocols import Environment
from synth.core.types import TaskKind


@pytest.fixture(name="world")
def _world(workshop):
    world = SqlWorld(workshop)
    yield world
    asyncio.run(world.close())


def test_a_world_says_what_it_is(world, workshop):
    assert (world.name, world.category, world.real) == ("workshop", "repairs", False)
    assert world.handoff == "refer"
    assert world.clock == "2026-03-02T09:00:00"
    assert [spec.name for spec in world.tools()] == list(workshop.application.tools)
    assert {edge.source for edge in world.edges()} >= {"find_person", "list_bikes"}
    # Its users hold no tool of their own.
    assert world.kinds() == tuple(kind for kind in TaskKind if kind is not TaskKind.USER_ACT)


def test_the_policy_is_rendered_without_anybodys_data(world):
    assert world.policy() == (
        "You serve the workshop as of 2 March 2026, 09:00; you talk to one person.\n"
        "- Only members may have a bicycle painted.\n"
        "- A job that is due within three days may not be cancelled."
    )


def test_its_environments_run_its_tools(world):
    async def bikes():
        environment = world.environment()
        assert isinstance(environment, Environment)
        await environment.reset(0)
        return await environment.call("list_bikes", {"person_id": "P3"})

    assert '"Cargo"' in asyncio.run(bikes()).content


def test_a_blueprint_belongs_to_the_toolset_and_state_it_was_asked_for(world):
    tools = ("refer", "find_person", "list_bikes", "get_bike", "open_job")
    made = asyncio.run(world.blueprint(TaskKind.SINGLE_WRITE, tools, 7, random.Random(3)))
    assert (made.world, made.kind, made.state_seed) == ("workshop", TaskKind.SINGLE_WRITE, 7)
    assert made.tools == tools
    assert made.solution[-1].tool == "open_job"


def test_an_unknown_tool_is_named(world):
    with pytest.raises(UnknownName, match="did you mean 'get_bike'"):
        asyncio.run(world.blueprint(TaskKind.LOOKUP, ("get_bikes",), 0, random.Random(1)))


def test_what_does_not_suit_is_said_in_one_word(world):
    with pytest.raises(NotSuitable) as caught:
        asyncio.run(world.blueprint(TaskKind.FORBIDDEN, ("find_person",), 0, random.Random(1)))
    assert caught.value.what == "no_handoff"


def test_closing_twice_does_no_harm(workshop):
    world = SqlWorld(workshop)
    asyncio.run(
        world.blueprint(TaskKind.LOOKUP, tuple(t.name for t in world.tools()), 0, random.Random(1))
    )
    asyncio.run(world.close())
    asyncio.run(world.close())


def kinds_of(file):
    return set(SqlWorld(Engine(Application.model_validate(file))).kinds())


def test_kinds_depend_on_what_the_application_has(workshop_file):
    missing = {TaskKind.USER_ACT}  # its users hold no tools
    assert set(TaskKind) - kinds_of(workshop_file) == missing
    workshop_file["policy_rules"] = []
    missing.add(TaskKind.FORBIDDEN)
    assert set(TaskKind) - kinds_of(workshop_file) == missing
    for tool in workshop_file["tools"].values():
        tool.pop("questions", None)
    missing.add(TaskKind.LOOKUP)
    assert set(TaskKind) - kinds_of(workshop_file) == missing
    workshop_file["out_of_scope"] = []
    del workshop_file["handoff"]
    missing.add(TaskKind.UNSERVED)
    assert set(TaskKind) - kinds_of(workshop_file) == missing


def test_a_policy_has_a_bounded_number_of_rules(workshop_file):
    rule = workshop_file["policy_rules"][0]
    rules = [{**rule, "name": f"rule_{number}"} for number in range(101)]
    workshop_file["policy_rules"] = rules
    with pytest.raises(BadApplication, match="101 rules"):
        SqlWorld(Engine(Application.model_validate(workshop_file)))


def test_a_policy_that_cannot_be_rendered_is_refused(workshop_file):
    workshop_file["policy"] = "{% for i in range(10) %}x{% endfor %}"
    with pytest.raises(BadApplication, match="workshop: policy"):
        SqlWorld(Engine(Application.model_validate(workshop_file)))
