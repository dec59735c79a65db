"""Which tools cost a client of the official SDK the server's whole list."""

import asyncio
import json
import sys
from pathlib import Path

import pytest
from pydantic import ValidationError

from synth.core.types import Provenance
from tool_registry.normalize import Accepted, normalize_list
from tool_registry.sdk import sdk_rejects

WHERE = Provenance(source="pypi:notes")
OBJECT = {"type": "object", "properties": {"a": {"type": "string"}}}
LIVE = Path(__file__).parents[3] / "shared" / "data" / "mcp_live"

REFUSED = {
    "empty_schema": {"inputSchema": {}},
    "no_schema": {},
    "schema_is_text": {"inputSchema": "none"},
    "any_of_without_type": {"inputSchema": {"anyOf": [OBJECT]}},
    "nullable_object": {"inputSchema": OBJECT | {"type": ["object", "null"]}},
    "required_is_text": {"inputSchema": OBJECT | {"required": "a"}},
    "hint_is_text": {"inputSchema": OBJECT, "annotations": {"readOnlyHint": "certainly"}},
    "array_result": {"inputSchema": OBJECT, "outputSchema": {"type": "array"}},
}
TAKEN = {
    "plain": {"inputSchema": OBJECT},
    "odd_name": {"name": "add a note", "inputSchema": OBJECT},
    "more_keys": {"inputSchema": OBJECT, "x": 1},
}


def tool(more):
    return {"name": "add_note", "description": "Add a note."} | more


def flags(raw):
    (found,) = normalize_list([raw], WHERE)
    return set(found.flags) if isinstance(found, Accepted) else None


@pytest.mark.parametrize("shape", REFUSED)
def test_a_tool_that_the_sdk_refuses_is_flagged_and_never_dropped_for_it(shape):
    raw = tool(REFUSED[shape])
    assert sdk_rejects(raw)
    found = flags(raw)
    assert found is None or "sdk_rejects" in found
    assert found is not None or shape == "schema_is_text"  # nothing else is beyond repair


@pytest.mark.parametrize("shape", TAKEN)
def test_what_the_sdk_takes_has_no_flag(shape):
    assert "sdk_rejects" not in flags(tool(TAKEN[shape]))


def test_its_neighbours_are_not_flagged():
    good, bad = tool(TAKEN["plain"]), tool(REFUSED["empty_schema"]) | {"name": "other"}
    first, second = normalize_list([good, bad], WHERE)
    assert ("sdk_rejects" in first.flags, "sdk_rejects" in second.flags) == (False, True)


SERVER = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    if asked.get("method") == "initialize":
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                  "serverInfo": {"name": "s", "version": "1"}}
    elif asked.get("method") == "tools/list":
        result = {"tools": json.loads(sys.argv[1])}
    else:
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""


@pytest.mark.parametrize("shape", ["required_is_text", "array_result", "plain"])
def test_the_flag_says_what_the_sdks_own_client_does(shape):
    from mcp import ClientSession, StdioServerParameters, stdio_client

    good, other = tool(TAKEN["plain"]), tool((REFUSED | TAKEN)[shape]) | {"name": "other"}

    async def listed():
        server = StdioServerParameters(
            command=sys.executable, args=["-c", SERVER, json.dumps([good, other])]
        )
        async with (
            stdio_client(server) as (read, write),
            ClientSession(read, write, read_timeout_seconds=20) as session,
        ):
            await session.initialize()
            try:
                return len((await session.list_tools()).tools)
            except ValidationError:
                return None

    assert asyncio.run(listed()) == (None if sdk_rejects(other) else 2)


@pytest.mark.skipif(not LIVE.is_dir(), reason="no crawled servers beside the repository")
def test_the_sdk_takes_nearly_all_lists_of_real_servers():
    servers, costly = 0, []
    for path in sorted(LIVE.glob("*.json")):
        tools = json.loads(path.read_text(encoding="utf-8")).get("tools") or []
        kept = [t for t in normalize_list(tools, WHERE) if isinstance(t, Accepted)]
        servers += bool(kept)
        costly += [path.stem] * any("sdk_rejects" in t.flags for t in kept)
        alone = [t.name for t in kept if "sdk_rejects" in t.flags]
        assert alone == [t["name"] for t in tools if sdk_rejects(t)]
    assert servers > 30
    assert len(costly) <= servers // 10
