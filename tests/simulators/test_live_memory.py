"""Goals on a live knowledge-graph server, and states compared by what they mean."""

import asyncio
import json
import random
import runpy
import sys
from pathlib import Path

import pytest

from simulators.check import check_environment
from simulators.live.folder import Tree
from simulators.live.memory import FILE, MemoryWorld, compare
from simulators.live.team import team
from synth.core.errors import BadInput, ServerFailed
from synth.core.types import Effect, Provenance, TaskKind, ToolSpec

SERVER = Path(__file__).with_name("live_memory_server.py")
SPECS = tuple(
    ToolSpec(
        name=tool["name"],
        description=tool["description"],
        parameters=tool["inputSchema"],
        provenance=Provenance(source="test"),
    )
    for tool in runpy.run_path(str(SERVER))["listing"]()
)


def world():
    command = (sys.executable, "-I", "-S", str(SERVER))
    return MemoryWorld(command, SPECS, readable=[SERVER.parent], allow_weaker=True)


def graph(*lines):
    return Tree.of({FILE: "\n".join(map(json.dumps, lines))})


def test_every_goal_is_reached_by_its_solution_and_missed_by_its_decoys():
    async def scenario():
        memory = world()
        names = tuple(spec.name for spec in memory.tools())
        environment = memory.environment()
        goals = []
        try:
            for kind in memory.kinds():
                for number in range(7):
                    rng = random.Random(f"{kind}/{number}")
                    goal = await memory.blueprint(kind, names, number % 4, rng)
                    goals.append(goal)
                    for calls in (goal.solution, *goal.decoys.values()):
                        await environment.reset(goal.state_seed)
                        for call in calls:
                            assert (await environment.call(call.tool, call.arguments)).ok
                        reached = await environment.diff() in goal.diffs
                        wrong_read = bool(goal.outputs) and calls == goal.decoys["wrong_entity"]
                        assert reached == (calls == goal.solution or wrong_read)
            return goals, memory.pool.started
        finally:
            await environment.close()
            await memory.close()

    goals, started = asyncio.run(scenario())
    assert started == 2
    assert len({goal.clauses for goal in goals}) > 25
    assert {call.tool for goal in goals for call in goal.solution} == {
        "open_nodes",
        "create_entities",
        "create_relations",
        "delete_relations",
        "add_observations",
        "delete_observations",
    }
    writes = {
        goal.kind: sum(call.effect is not Effect.READ for call in goal.solution) for goal in goals
    }
    assert writes[TaskKind.CHAINED_WRITES] == 2
    assert writes[TaskKind.LOOKUP] == 0


def test_a_live_memory_keeps_the_contract_of_every_environment():
    person = team(7).people[0].name
    calls = [
        ("open_nodes", {"names": [person]}),
        ("add_observations", {"observations": [{"entityName": person, "contents": ["x"]}]}),
        ("add_observations", {"observations": [{"entityName": "nobody", "contents": ["x"]}]}),
        ("read_graph", {}),
    ]

    async def scenario():
        memory = world()
        try:
            return await check_environment(memory.environment, calls)
        finally:
            await memory.close()

    assert asyncio.run(scenario()) == []


def test_the_order_of_lines_and_of_observations_means_nothing():
    one = {"type": "entity", "name": "a", "entityType": "person", "observations": ["x", "y"]}
    two = {"type": "relation", "from": "a", "to": "b", "relationType": "leads"}
    turned = one | {"observations": ["y", "x"]}
    assert compare(graph(one, two), graph(two, turned)) == ()
    assert compare(graph(one), graph(one | {"observations": ["x"]}, two)) == (
        '["observations","delete",{"entity":"a","text":"y"},null]',
        '["relations","insert",null,{"from":"a","relationType":"leads","to":"b"}]',
    )


@pytest.mark.parametrize(
    "tree",
    [
        Tree.of({FILE: "{"}),
        Tree.of({FILE: "[]"}),
        Tree.of({FILE: '{"type":"entity"}'}),
        Tree.of({FILE: b"\xff"}),
        Tree.of({FILE: None}),
        Tree.of({FILE: "", "other": "x"}),
    ],
)
def test_a_file_that_is_no_graph_is_a_fault_of_the_server(tree):
    with pytest.raises(ServerFailed, match="memory: left no readable graph") as caught:
        compare(graph(), tree)
    assert caught.value.outcome == "invalid"


def test_a_spoilt_graph_ends_the_episode_and_the_next_one_starts_fresh():
    async def scenario():
        memory = world()
        environment = memory.environment()
        try:
            await environment.reset(1)
            await environment.call("delete_entities", {"names": []})
            with pytest.raises(ServerFailed, match="left no readable graph"):
                await environment.diff()
            await environment.reset(1)
            return await environment.diff()
        finally:
            await environment.close()
            await memory.close()

    assert asyncio.run(scenario()) == ()


def test_a_server_without_its_tools_is_refused_in_one_line():
    with pytest.raises(BadInput, match="the server lacks open_nodes"):
        MemoryWorld(("server",), [spec for spec in SPECS if spec.name != "open_nodes"])


def test_a_team_is_the_same_for_its_seed_and_consistent():
    assert team(3) == team(3)
    assert team(3) != team(4)
    lines = list(team(3).lines())
    names = {line["name"] for line in lines if line["type"] == "entity"}
    ends = {line[end] for line in lines if line["type"] == "relation" for end in ("from", "to")}
    assert ends <= names
    assert not names & set(team(3).unknown_companies)
