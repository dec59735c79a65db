"""`toolloom serve` over standard input and output: real processes and the official client."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from mcp import Client, MCPError, StdioServerParameters, stdio_client

from simulators.served.episode import offer
from simulators.served.stdio import Lines, serve_stdio
from simulators.sql.engine import Engine
from simulators.sql.load import load_application
from simulators.sql.world import SqlWorld
from synth.app import serve
from synth.core.sandbox.confine import hidden_places, tier
from synth.core.store import Workspace
from tool_registry import browse
from tool_registry.crawl import crawl

DATA = Path(__file__).parent / "data"
LIBRARY = DATA / "library.yaml"
WORLD = SqlWorld(Engine(load_application(LIBRARY)))
LEND = ("lend_book", {"book_id": "B1", "member_id": "M001"})
COMMAND = [sys.executable, "-m", "synth", "serve", str(LIBRARY), "--seed", "7"]
HELLO = json.loads((DATA / "initialize.json").read_bytes())


def client(**server):
    parameters = StdioServerParameters(**server)
    return Client(stdio_client(parameters), mode="legacy", read_timeout_seconds=60)


async def text(client, uri):
    return (await client.read_resource(uri)).contents[0].text


def ended(pid, within=10.0):
    """Say whether a process that is not our child is gone, or a zombie that nobody waited for."""
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2]
        except FileNotFoundError:
            return True
        if state.split()[0] == "Z":
            return True
        time.sleep(0.05)
    return False


def test_two_processes_are_two_episodes_and_each_is_the_environment(tmp_path):
    """The second is started by what `--print-config` says, from another folder."""
    printed = subprocess.run(
        [*COMMAND[:4], LIBRARY.name, *COMMAND[5:], "--no-start-over", "--print-config"],
        cwd=LIBRARY.parent, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    ((name, entry),) = json.loads(printed.stdout)["mcpServers"].items()
    twin = Engine(load_application(LIBRARY)).environment()
    twin.reset_now(7)
    own = twin.call_now(*LEND)

    async def run():
        async with (
            client(command=COMMAND[0], args=COMMAND[1:]) as one,
            client(**entry, cwd=str(tmp_path)) as other,
        ):
            names = [[t.name for t in (await c.list_tools()).tools] for c in (one, other)]
            result = await one.call_tool(*LEND)
            diffs = [await text(c, "toolloom://diff") for c in (one, other)]
            facts = json.loads(await text(other, "toolloom://episode"))
            await one.call_tool("toolloom_start_over")
            with pytest.raises(MCPError, match="Connection closed"):
                await other.call_tool("lend_book", {"book_id": "x" * 5_000_000})
            return names, result, [*diffs, await text(one, "toolloom://diff")], facts

    names, result, diffs, facts = asyncio.run(run())
    assert (name, facts["seed"], facts["calls"]) == ("toolloom-library", 7, 0)
    assert names[0] == [*names[1], "toolloom_start_over"]
    assert result.structured_content == json.loads(own.content)
    assert diffs == ["[\n" + ",\n".join(twin.diff_now()) + "\n]", "[]", "[]"]
    assert list(tmp_path.iterdir()) == []


def test_a_message_without_end_ends_the_session_and_says_so():
    endless = subprocess.run(
        COMMAND, input=b"x" * 5_000_000, capture_output=True, timeout=60, check=False
    )
    assert (endless.returncode, endless.stdout) == (2, b"")
    assert b"a message of more than 4 MiB" in endless.stderr
    assert len(endless.stderr.strip().splitlines()) == 1


def test_standard_output_holds_the_protocol_alone_and_whatever_comes_in_is_answered():
    """What is no message is answered by its kind of wrong, with its id where it has one."""
    call = b'{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"find_member",'
    lines = {
        b"noise": (None, -32700),
        b"[" * 100_000: (None, -32700),
        b"\xff\xfe": (None, -32700),
        b'{"jsonrpc":"2.0","id":"half","method":"ping"': (None, -32700),
        b'{"jsonrpc":"2.0","id":11,"method":"ping","params":{"a":"\\ud800"}}': (11, -32700),
        b"{}": (None, -32600),
        b'[{"jsonrpc":"2.0","id":12,"method":"ping"}]': (None, -32600),
        b'{"jsonrpc":"2.0","id":"\\ud800","method":"ping"}': (None, -32600),
        b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}': (None, -32600),
        b'{"jsonrpc":"1.0","id":13,"method":"ping"}': (13, -32600),
        b'{"jsonrpc":"2.0","id":"n\\n","method":5}': ("n\n", -32600),
        b'{"jsonrpc":"2.0","id":14,"method":"ping","params":[]}': (14, -32602),
        b'{"jsonrpc":"2.0","id":15,"error":{"code":1,"message":"to no request"}}': None,
        b'{"jsonrpc":"2.0","id":16,"result":5}': None,
        b"": None,
        json.dumps(HELLO).encode(): (1, None),
        b'{"jsonrpc":"2.0","method":"notifications/initialized"}': None,
        call + b'"arguments":{"email":"\\u202e\\u0000\\n"}}}': (2, None),
        b'{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":5}}': (3, -32602),
        b'{"jsonrpc":"2.0","id":4,"method":"no/such"}': (4, -32601),
        b'{"jsonrpc":"2.0","id":5,"method":"ping"}': (5, None),
    }
    done = subprocess.run(
        [*COMMAND[:3], "--json", *COMMAND[3:]],
        input=b"\n".join([*lines, b""]), capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    said = [(a["id"], a["error"]["code"] if "error" in a else None) for a in answers]
    assert (done.returncode, {a["jsonrpc"] for a in answers}) == (0, {"2.0"})
    assert sorted(map(str, said)) == sorted(str(one) for one in lines.values() if one)
    results = {a["id"]: a["result"] for a in answers if "result" in a}
    assert results[1]["serverInfo"]["name"] == "toolloom-library"
    assert results[2]["isError"] is True


def test_who_asks_all_and_closes_gets_every_answer_but_those_that_it_cancelled(capfd):
    class Slow(type(WORLD.environment())):
        async def call(self, name, arguments):
            await asyncio.sleep(0.05 if arguments["book_id"] != "never" else 600)
            return await super().call(name, arguments)

    def calling(number, book):
        arguments = {"book_id": book, "member_id": "M001"}
        params = {"name": "lend_book", "arguments": arguments}
        return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}

    cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled"}
    asked = [HELLO, *(calling(n, f"B{n}") for n in range(2, 8)), calling(9, "never")]
    asked += [{**cancelled, "params": {"requestId": 9}}, cancelled]
    reading, writing = os.pipe()
    os.write(writing, b"".join(json.dumps(message).encode() + b"\n" for message in asked))
    os.close(writing)
    served = replace(offer(WORLD, seed=7), make=lambda: Slow(WORLD.engine))
    asyncio.run(asyncio.wait_for(serve_stdio(served, descriptor=reading), 30))
    os.close(reading)
    answers = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert sorted(answer["id"] for answer in answers) == list(range(1, 8))
    assert all("result" in answer for answer in answers)


_CLIENT = """
import subprocess, sys, time
server = subprocess.Popen(sys.argv[2:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
server.stdin.write(sys.argv[1].encode() + b"\\n")
server.stdin.flush()
server.stdout.readline()
print(server.pid, flush=True)
time.sleep(600)
"""


def test_a_client_that_is_killed_leaves_no_process():
    command = [sys.executable, "-c", _CLIENT, json.dumps(HELLO), *COMMAND]
    killed = subprocess.Popen(command, stdout=subprocess.PIPE)
    server = int(killed.stdout.readline())
    assert not ended(server, within=0.2)
    killed.kill()
    killed.communicate()
    assert ended(server)


def test_a_signal_ends_it_quietly_while_it_waits():
    process = subprocess.Popen(
        COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    process.stdin.write(json.dumps(HELLO).encode() + b"\n")
    process.stdin.flush()
    assert b"serverInfo" in process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=20) == 0
    assert process.stderr.read() == b""
    process.stdin.close()
    process.stdout.close()
    process.stderr.close()


def test_lines_are_cut_however_they_arrive_and_the_unfinished_one_is_none():
    async def run():
        reading, writing = os.pipe()
        lines = Lines(reading, limit=8)
        for chunk in (b"on", b"e\ntwo\n", b"\n12345678\nrest"):
            os.write(writing, chunk)
        os.close(writing)
        found = [line async for line in lines]
        os.close(reading)
        return found, lines.too_long

    assert asyncio.run(run()) == (["one", "two", "", "12345678"], False)


def visible_when_confined():
    """Say whether a confined server finds this program: what lies in homes is hidden from it."""
    here = Path(serve.__file__)
    shown = any(here.is_relative_to(prefix) for prefix in (sys.prefix, sys.base_prefix))
    hidden = any(here.is_relative_to(folder) for folder in ("/tmp", *hidden_places()))
    return tier() != "rlimits" and (shown or not hidden)


@pytest.mark.skipif(not visible_when_confined(), reason="unconfined, or installed out of sight")
def test_our_own_crawler_takes_every_tool_with_its_effect(tmp_path):
    entry = tmp_path / "mcp.json"
    server = {"command": COMMAND[0], "args": COMMAND[1:]}
    entry.write_text(json.dumps({"mcpServers": {"library": server}}), encoding="utf-8")
    workspace = Workspace(tmp_path / "workspace")
    (server,) = asyncio.run(crawl([str(entry)], workspace=workspace)).servers
    assert (server.outcome, server.tools) == ("ok", len(WORLD.tools()) + 1), server.reason
    for spec in WORLD.tools():
        found = browse.show(workspace, f"{server.server}/{spec.name}")["versions"][0]
        assert (found["effect"], found["effect_source"]) == (spec.effect, "annotated")
        assert found["parameters"] == spec.parameters
