"""An environment in the words of MCP, without a wire: the official client talks to it in memory."""

import asyncio
import json
from argparse import Namespace
from dataclasses import replace
from pathlib import Path

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp import Client, MCPError

from simulators.sandbox.run import why_not as sandbox_why_not
from simulators.served.episode import MAX_ARGUMENTS, START_OVER, episode, offer
from simulators.served.server import as_result, as_tool, mcp_server
from simulators.sql.engine import Engine
from simulators.sql.load import load_application
from simulators.sql.world import SqlWorld
from synth.app import serve
from synth.core.errors import BadApplication, ToolloomError
from synth.core.types import Effect, Provenance, ToolResult, ToolSpec

WORLD = SqlWorld(Engine(load_application(Path(__file__).parent / "data" / "library.yaml")))
LEND = ("lend_book", {"book_id": "B1", "member_id": "M001"})
ERAS = ("legacy", "2026-07-28")


def served(talk, mode="legacy", given=None):
    """Let `talk` have a client of a new episode."""

    async def run():
        async with (
            episode(given or offer(WORLD, seed=7)) as played,
            Client(mcp_server(played), mode=mode) as client,
        ):
            return await talk(client)

    return asyncio.run(run())


async def text(client, uri):
    return (await client.read_resource(uri)).contents[0].text


async def refused(asking):
    with pytest.raises(MCPError) as caught:
        await asking
    return caught.value.code


@pytest.mark.parametrize("mode", ERAS)
def test_tools_are_listed_with_schema_and_what_they_do_to_the_world(mode):
    async def talk(client):
        return (await client.list_tools()).tools, client.instructions

    tools, instructions = served(talk, mode)
    specs = WORLD.tools()
    assert [tool.name for tool in tools] == [*(spec.name for spec in specs), START_OVER]
    assert [tool.input_schema for tool in tools[:-1]] == [spec.parameters for spec in specs]
    assert [tool.description for tool in tools[:-1]] == [spec.description for spec in specs]
    hints = {
        tool.name: (tool.annotations.read_only_hint, tool.annotations.destructive_hint)
        for tool in tools
    }
    expected = {
        Effect.READ: (True, False),
        Effect.WRITE: (False, False),
        Effect.DESTRUCTIVE: (False, True),
    }
    assert hints == {s.name: expected[s.effect] for s in specs} | {START_OVER: (False, True)}
    assert len(set(hints.values())) > 1
    assert {tool.annotations.open_world_hint for tool in tools} == {False}
    assert mode != "legacy" or instructions == WORLD.policy().strip()


def test_an_unknown_effect_gives_no_hint_and_only_an_object_is_promised():
    spec = ToolSpec(name="x", description="", provenance=Provenance(source="test"))
    tool = as_tool(spec, real=True)
    assert (tool.annotations.read_only_hint, tool.annotations.destructive_hint) == (None, None)
    assert tool.annotations.open_world_hint is True
    assert tool.output_schema is None
    object_schema = {"type": "object", "properties": {}}
    assert as_tool(spec.model_copy(update={"returns": object_schema})).output_schema
    assert as_tool(spec.model_copy(update={"returns": {"type": "array"}})).output_schema is None


@pytest.mark.parametrize(
    ("content", "value"),
    [('{"a":1}', {"a": 1}), ("[1]", None), ("{broken", None), ("plain", None), ("{}", {})],
)
def test_a_result_is_its_text_to_the_letter_and_its_object_where_it_is_one(content, value):
    result = as_result(ToolResult(ok=True, content=content))
    assert (result.content[0].text, result.structured_content) == (content, value)
    assert as_result(ToolResult(ok=False, content=content)).structured_content is None


@pytest.mark.parametrize("mode", ERAS)
def test_calls_answer_as_the_environment_does_and_the_diff_is_its_diff(mode):
    twin = WORLD.environment()
    twin.reset_now(7)

    async def talk(client):
        assert json.loads(await text(client, "toolloom://diff")) == []
        for name, arguments in (LEND, ("lend_book", {"book_id": "B1", "member_id": "nobody"})):
            own, result = twin.call_now(name, arguments), await client.call_tool(name, arguments)
            assert result.content[0].text == own.content
            assert result.is_error is not own.ok
            assert result.structured_content == (json.loads(own.content) if own.ok else None)
        return await text(client, "toolloom://diff"), await text(client, "toolloom://episode")

    diff, facts = served(talk, mode)
    assert twin.diff_now()
    assert diff == "[\n" + ",\n".join(twin.diff_now()) + "\n]"
    assert json.loads(diff) == [json.loads(line) for line in twin.diff_now()]
    assert json.loads(facts) == {
        "application": "library", "seed": 7, "starts": 1, "calls": 2, "failed": 1,
    }  # fmt: skip


def test_starting_over_gives_the_pristine_state_or_another_one():
    async def talk(client):
        first = await client.call_tool(*LEND)
        changed = await text(client, "toolloom://diff")
        facts = (await client.call_tool(START_OVER)).structured_content
        assert (facts["starts"], facts["calls"], facts["seed"]) == (2, 0, 7)
        assert await text(client, "toolloom://diff") == "[]"
        assert await client.call_tool(*LEND) == first
        assert await text(client, "toolloom://diff") == changed
        other = (await client.call_tool(START_OVER, {"seed": 8})).structured_content
        assert (other["seed"], other["starts"]) == (8, 3)
        assert (await client.call_tool(START_OVER)).structured_content["seed"] == 8
        for wrong in ({"seed": -1}, {"seed": "1"}, {"seed": True}, {"seed": 2**53}, {"x": 1}):
            result = await client.call_tool(START_OVER, wrong)
            assert result.is_error
            assert "invalid_arguments" in result.content[0].text
        return json.loads(await text(client, "toolloom://episode"))["starts"]

    assert served(talk) == 4


def test_an_agent_that_is_measured_has_no_way_to_start_over():
    async def talk(client):
        names = [tool.name for tool in (await client.list_tools()).tools]
        return names, await refused(client.call_tool(START_OVER))

    names, code = served(talk, given=offer(WORLD, start_over=False))
    assert START_OVER not in names
    assert code == -32602


def test_a_tool_of_the_same_name_is_refused_at_the_start():
    class Taken(SqlWorld):
        def tools(self):
            first, *rest = super().tools()
            return (first.model_copy(update={"name": START_OVER}), *rest)

    world = Taken(WORLD.engine)
    with pytest.raises(BadApplication, match="--no-start-over"):
        offer(world)
    assert offer(world, start_over=False).start_over is False


def test_the_policy_is_a_resource_and_nothing_else_can_be_read():
    async def talk(client):
        listed = (await client.list_resources()).resources
        assert [one.uri for one in listed] == [
            "toolloom://policy", "toolloom://diff", "toolloom://episode",
        ]  # fmt: skip
        assert (await client.list_resource_templates()).resource_templates == []
        for uri in ("toolloom://other", "file:///etc/passwd", "toolloom://diff/.."):
            assert await refused(client.read_resource(uri)) == -32002
        assert await refused(client.list_tools(cursor="2")) == -32602
        return await text(client, "toolloom://policy")

    assert served(talk) == WORLD.policy().strip()


def test_hostile_arguments_are_results_and_change_nothing():
    async def talk(client):
        name = LEND[0]
        for wrong in ({}, {"book_id": 5, "member_id": None}, {"x": [[[]]]}, {"book_id": 10**400}):
            result = await client.call_tool(name, wrong)
            assert result.is_error
            assert json.loads(result.content[0].text)["error"] == "invalid_arguments"
        large = await client.call_tool(name, {"book_id": "x" * MAX_ARGUMENTS, "member_id": "M001"})
        assert "larger than 256 KiB" in large.content[0].text
        assert await refused(client.call_tool("no_such_tool", {})) == -32602
        assert await refused(client.call_tool("x" * 10**6, {})) == -32602
        return await text(client, "toolloom://diff")

    assert served(talk) == "[]"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=25)
@given(st.lists(st.tuples(st.sampled_from([t.name for t in WORLD.tools()]), JSON), max_size=6))
def test_whatever_is_called_the_same_happens_as_in_the_environment(calls):
    twin = WORLD.environment()
    twin.reset_now(7)
    calls = [
        (name, value if isinstance(value, dict) else {"book_id": value}) for name, value in calls
    ]

    async def talk(client):
        for name, arguments in calls:
            own = twin.call_now(name, arguments)
            assert (await client.call_tool(name, arguments)).content[0].text == own.content
        return await text(client, "toolloom://diff")

    assert json.loads(served(talk)) == [json.loads(line) for line in twin.diff_now()]
    twin.close_now()


def test_a_broken_environment_is_an_error_of_the_protocol_and_is_given_back():
    closed = []

    class Broken(type(WORLD.environment())):
        async def call(self, name, arguments):
            raise ToolloomError("the disk is gone")

        async def close(self):
            closed.append(True)
            await super().close()

    async def talk(client):
        return await refused(client.call_tool(*LEND))

    given = replace(offer(WORLD), make=lambda: Broken(WORLD.engine))
    assert served(talk, given=given) == -32603
    assert closed == [True]


def test_every_application_can_be_listed_by_the_official_client():
    from simulators.sql.load import applications

    for name in applications():
        world = SqlWorld(Engine(load_application(name)))
        tools = served(lambda client: client.list_tools(), given=offer(world)).tools
        assert len(tools) == len(world.tools()) + 1
        for tool in tools:
            jsonschema_rs.meta.validate(tool.input_schema)


def test_the_sandbox_is_served_like_any_application(capsys):
    why_not = asyncio.run(sandbox_why_not())
    if why_not:
        pytest.skip(f"this machine makes no rooms: {why_not}")
    arguments = Namespace(application="sandbox", seed=7, no_start_over=True)
    given = serve._offer(arguments)
    assert "project slugs: Our module" in capsys.readouterr().err

    async def talk(client):
        tools = {tool.name: tool.annotations for tool in (await client.list_tools()).tools}
        run = await client.call_tool("run_bash", {"command": "rm README.md; echo '{}'"})
        wrong = await client.call_tool("read_file", {"path": "README.md"})
        diff = json.loads(await text(client, "toolloom://diff"))
        return tools, run.content[0].text, wrong.is_error, diff

    tools, said, failed, diff = served(talk, "2026-07-28", given)
    assert tools["run_bash"].destructive_hint is True
    assert tools["run_bash"].open_world_hint is True
    assert tools["read_file"].read_only_hint is True
    assert (said, failed) == ("{}\n[exit code 0]", True)
    assert [(table, kind, before["path"]) for table, kind, before, _ in diff] == [
        ("files", "delete", "README.md"),
    ]  # fmt: skip
