"""Goals on a live file server: each is carried out, and what counts as done is on disk."""

import asyncio
import contextlib
import json
import random
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from simulators.live.desk import Desk
from simulators.live.files import EFFECTS, NEEDED, FileWorld
from simulators.live.office import money, office
from simulators.live.recipes import RECIPES
from synth.core.errors import BadInput, NotSuitable
from synth.core.mcp.session import McpSession
from synth.core.types import Effect, Provenance, TaskKind, ToolSpec

pytestmark = pytest.mark.claim("k2-real")

SERVER = Path(__file__).with_name("live_server.py")
PACKAGE = "@modelcontextprotocol/server-filesystem"


def specs_of(tools):
    return tuple(
        ToolSpec(
            name=tool["name"],
            description=tool["description"],
            parameters=tool["inputSchema"],
            provenance=Provenance(source="test"),
        )
        for tool in tools
    )


SPECS = specs_of(runpy.run_path(str(SERVER))["listing"]())


def small_world():
    command = (sys.executable, "-I", "-S", str(SERVER), "{work}")
    return FileWorld(command, SPECS, readable=[SERVER.parent], allow_weaker=True)


def names(world):
    return tuple(spec.name for spec in world.tools())


async def outcome(environment, blueprint, calls):
    await environment.reset(blueprint.state_seed)
    results = [await environment.call(call.tool, call.arguments) for call in calls]
    return results, await environment.diff()


async def sampled(world, count, *, kinds=None, first=0):
    """Yield `count` blueprints of each kind."""
    for kind in kinds or world.kinds():
        for number in range(first, first + count):
            rng = random.Random(f"{kind}/{number}")
            yield await world.blueprint(kind, names(world), number % 5, rng)


async def prove(world, count):
    """Check what every goal promises; return how often each tool was used and the goals."""
    goals = []
    environment = world.environment()
    async for blueprint in sampled(world, count):
        goals.append(blueprint)
        results, diff = await outcome(environment, blueprint, blueprint.solution)
        assert all(result.ok for result in results)
        assert diff in blueprint.diffs
        reads = blueprint.kind is TaskKind.LOOKUP or bool(blueprint.outputs)
        assert (blueprint.diffs == ((),)) == reads
        assert () not in blueprint.diffs or reads
        for name, calls in blueprint.decoys.items():
            results, diff = await outcome(environment, blueprint, calls)
            assert all(result.ok for result in results), name
            if not reads or name == "over_write":
                assert diff not in blueprint.diffs, name
        groups = [call.group for call in blueprint.solution]
        assert groups == sorted(groups)
        assert set(groups) == set(range(len(set(groups))))
    await environment.close()
    return goals


def test_every_goal_is_reached_by_its_solution_and_missed_by_its_decoys():
    async def scenario():
        world = small_world()
        try:
            return await prove(world, 6)
        finally:
            await world.close()

    goals = asyncio.run(scenario())
    assert {goal.kind for goal in goals} == set(small_world().kinds())
    assert {name for goal in goals for name in goal.decoys} == {"wrong_entity", "over_write"}
    assert len({goal.clauses for goal in goals}) > 22
    used = {call.tool for goal in goals for call in goal.solution}
    assert used == {"search_files", "list_directory", *NEEDED}
    for goal in goals:
        effects = [call.effect is Effect.READ for call in goal.solution]
        if goal.kind is TaskKind.CHAINED_WRITES:
            assert effects.count(False) >= 2
        if goal.kind is TaskKind.SINGLE_WRITE:
            assert effects.count(False) == 1
        if goal.kind is TaskKind.PARALLEL:
            assert sum(call.group == 0 for call in goal.solution) == 2
            assert len(goal.clauses) == 2
        if goal.kind is TaskKind.MISSING_FACT:
            (fact,) = goal.withheld
            assert fact.value in json.dumps([call.arguments for call in goal.solution])
            assert not any(str(fact.value) in clause for clause in goal.clauses)


def test_the_same_draw_gives_the_same_goal_in_another_process():
    async def scenario():
        world = small_world()
        try:
            return [blueprint.key async for blueprint in sampled(world, 2)]
        finally:
            await world.close()

    assert asyncio.run(scenario()) == asyncio.run(scenario())


def test_a_final_newline_is_the_agents_to_choose():
    async def scenario():
        world = small_world()
        desk = Desk(office=office(1), root="/data", effects=EFFECTS, rng=random.Random(1))
        (text,) = next(e for e in (RECIPES.writes[0](desk),)).facts
        try:
            rng = random.Random(0)
            while True:
                goal = await world.blueprint(TaskKind.SINGLE_WRITE, ("write_file",), 1, rng)
                if goal.solution[0].tool == "write_file" and len(goal.solution) == 1:
                    break
            call = goal.solution[0]
            more = call.arguments | {"content": call.arguments["content"] + "\n"}
            environment = world.environment()
            await environment.reset(1)
            await environment.call("write_file", more)
            return text.spoken, goal.diffs, await environment.diff()
        finally:
            await world.close()

    spoken, diffs, diff = asyncio.run(scenario())
    assert spoken.startswith('"')
    assert len(diffs) == 2
    assert diff in diffs


@pytest.mark.parametrize(
    ("kind", "tools", "reason"),
    [
        (TaskKind.FORBIDDEN, NEEDED, "kind"),
        (TaskKind.SINGLE_WRITE, ("read_text_file", "search_files"), "toolset"),
        (TaskKind.LOOKUP, ("write_file",), "toolset"),
        (TaskKind.CHAINED_WRITES, ("search_files", "move_file"), "toolset"),
        (TaskKind.PARALLEL, (), "toolset"),
    ],
)
def test_a_toolset_that_cannot_do_it_is_not_suitable(kind, tools, reason):
    world = small_world()
    with pytest.raises(NotSuitable) as caught:
        asyncio.run(world.blueprint(kind, tools, 0, random.Random(1)))
    assert caught.value.what == reason
    assert world.pool.started == 0


@pytest.mark.parametrize(
    "tools",
    [
        ("directory_tree", "read_multiple_files", "write_file"),
        ("list_directory", "read_text_file", "edit_file"),
        ("search_files", "move_file", "create_directory"),
    ],
)
def test_goals_use_only_the_tools_of_the_agent(tools):
    async def scenario():
        world = small_world()
        found = []
        try:
            for number in range(8):
                for kind in (TaskKind.SINGLE_WRITE, TaskKind.LOOKUP, TaskKind.PARALLEL):
                    with contextlib.suppress(NotSuitable):
                        rng = random.Random(number)
                        found.append(await world.blueprint(kind, tools, number, rng))
        finally:
            await world.close()
        return found

    found = asyncio.run(scenario())
    assert len(found) >= 8
    used = {
        call.tool
        for goal in found
        for calls in (goal.solution, *goal.decoys.values())
        for call in calls
    }
    assert used <= set(tools)
    assert all(goal.tools == tools for goal in found)


def test_tools_are_told_by_their_effect_whatever_the_server_claims():
    lies = [spec.model_copy(update={"annotations": {"readOnlyHint": True}}) for spec in SPECS]
    world = FileWorld(("server",), lies)
    effects = {spec.name: spec.effect for spec in world.tools()}
    assert effects["write_file"] is Effect.DESTRUCTIVE
    assert effects["read_text_file"] is Effect.READ
    assert "misbehave" not in effects
    assert world.server.argv == ("server", "{work}")
    assert {(spec.application, spec.effect_source) for spec in world.tools()} == {
        ("files", "declared")
    }
    assert all({edge.source, edge.target} <= set(effects) for edge in world.edges())
    assert len(world.edges()) == 16


def test_a_server_without_file_tools_is_refused_in_one_line():
    with pytest.raises(BadInput, match=r"the server lacks move_file \(use npm:"):
        FileWorld(("server",), [spec for spec in SPECS if spec.name != "move_file"])


def test_an_office_is_the_same_for_its_seed_and_consistent():
    assert office(7) == office(7)
    assert office(7) != office(8)
    here = office(7)
    tree = here.tree()
    files = {path: content for path, content in tree.entries.items() if isinstance(content, bytes)}
    assert 45 <= len(files) <= 70
    register = files["invoices/register.csv"].decode().splitlines()[1:]
    assert len(register) == len(here.invoices)
    for invoice, row in zip(here.invoices, register, strict=True):
        text = files[invoice.path].decode()
        assert text.endswith(f"Total: {money(invoice.total)} EUR\n")
        assert row.split(",")[3] == f"{invoice.total / 100:.2f}"
        assert sum(q * p for _, q, p in invoice.lines) == invoice.total
    chores = [chore.text for todo in here.todos for chore in todo.chores]
    assert len(chores) == len(set(chores))


@pytest.mark.parametrize(
    "recipe", [*RECIPES.writes, *RECIPES.chains, *RECIPES.questions], ids=lambda r: r.__name__
)
def test_errands_fit_every_office(recipe):
    for seed in range(30):
        desk = Desk(office=office(seed), root="/data", effects=EFFECTS, rng=random.Random(seed))
        errand = recipe(desk)
        assert errand.clauses
        assert errand.stages != errand.wrong
        assert all(fact.spoken for fact in errand.facts)


@pytest.mark.network
def test_the_real_file_server_serves_every_goal(tmp_path):
    npm, node = shutil.which("npm"), shutil.which("node")
    if npm is None or node is None:
        pytest.skip("npm is not installed")
    install = [npm, "install", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix"]
    try:
        subprocess.run(
            [*install, str(tmp_path), PACKAGE], check=True, capture_output=True, timeout=180
        )
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        pytest.skip(f"the npm registry is out of reach: {error}")
    program = tmp_path / "node_modules" / PACKAGE / "dist/index.js"

    async def scenario():
        launch = FileWorld((node, str(program)), SPECS, readable=[tmp_path]).server
        folder = tmp_path / "list"
        folder.mkdir()
        async with McpSession(launch.launch(folder)) as session:
            listed = await session.list_tools()
        world = FileWorld((node, str(program)), specs_of(listed), readable=[tmp_path])
        try:
            goals = await prove(world, 6)
        finally:
            await world.close()
        return goals, world

    goals, world = asyncio.run(scenario())
    assert len(goals) == 30
    assert {spec.name for spec in world.tools()} == set(EFFECTS)
    assert world.pool.started <= 2
