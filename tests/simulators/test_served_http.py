"""`toolloom serve --http`: sessions and named episodes over real sockets, within bounds."""

import asyncio
import json
import signal
import subprocess
import sys
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import httpx2
import pytest
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client

from simulators.served.episode import offer
from simulators.served.http import Bounds, served_http
from simulators.sql.engine import Engine
from simulators.sql.load import load_application
from simulators.sql.world import SqlWorld
from synth.core.errors import BadInput, ToolloomError

LIBRARY = Path(__file__).parent / "data" / "library.yaml"
WORLD = SqlWorld(Engine(load_application(LIBRARY)))
OFFER = offer(WORLD, seed=7)
LEND = ("lend_book", {"book_id": "B1", "member_id": "M001"})
JSON = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}
LIST = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}


def client(url, mode="legacy"):
    return Client(streamable_http_client(url), mode=mode, read_timeout_seconds=30)


async def text(client, uri):
    return (await client.read_resource(uri)).contents[0].text


async def until(true, within=10.0):
    async with asyncio.timeout(within):
        while not true():
            await asyncio.sleep(0.01)


class Counted:
    """Makes environments, and knows how many are not given back."""

    def __init__(self):
        self.open = 0
        outer = self

        class Environment(type(WORLD.environment())):
            async def reset(self, seed):
                outer.open += self.seed is None
                await super().reset(seed)

            async def close(self):
                outer.open -= 1
                await super().close()

        self.offer = replace(OFFER, make=lambda: Environment(WORLD.engine))


@asynccontextmanager
async def raw(url):
    async with httpx2.AsyncClient(base_url=url.removesuffix("/mcp"), headers=JSON) as http:
        yield http


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_one_session_is_one_episode(mode):
    async def run():
        async with served_http(OFFER) as (url, episodes):
            async with client(url, mode) as one, client(url, mode) as other:
                assert len((await one.list_tools()).tools) == len(WORLD.tools()) + 1
                assert (await one.call_tool(*LEND)).structured_content
                failed = await other.call_tool("lend_book", {"book_id": "B1"})
                assert failed.is_error
                diffs = [await text(c, "toolloom://diff") for c in (one, other)]
                assert len(episodes.keys) == 2
                assert one.protocol_version == "2025-11-25"
            await until(lambda: not episodes.keys)  # the client ends its session
            return diffs, (episodes.count.episodes, episodes.count.calls)

    (changed, untouched), count = asyncio.run(run())
    twin = WORLD.environment()
    twin.reset_now(7)
    twin.call_now(*LEND)
    assert changed == "[\n" + ",\n".join(twin.diff_now()) + "\n]"
    assert untouched == "[]"
    assert count == (2, 2)


def test_an_episode_named_by_the_path_is_shared_by_clients_of_both_eras():
    async def run():
        async with served_http(OFFER) as (url, episodes):
            named = url.replace("/mcp", "/episodes/a/mcp")
            async with client(named) as old, client(named, "2026-07-28") as new:
                await asyncio.gather(old.list_tools(), new.list_tools())
                await new.call_tool(*LEND)
                assert await text(old, "toolloom://diff") == await text(new, "toolloom://diff")
                assert await text(old, "toolloom://diff") != "[]"
            async with client(url.replace("/mcp", "/episodes/b/mcp"), "auto") as other:
                assert other.protocol_version == "2026-07-28"
                assert await text(other, "toolloom://diff") == "[]"
            return episodes.keys

    assert asyncio.run(run()) == ("/a", "/b")


def test_foreign_hosts_and_origins_are_refused_before_anything_is_opened():
    async def run():
        async with served_http(OFFER) as (url, episodes), raw(url) as http:
            port = url.split(":")[2].split("/")[0]
            found = []
            for path in ("/mcp", "/episodes/a/mcp"):
                for headers in (
                    {"host": "evil.example"},
                    {"host": f"evil.example:{port}"},
                    {"host": f"127.0.0.1.evil.example:{port}"},
                    {"host": "127.0.0.1:1"},
                    {"origin": "http://evil.example"},
                    {"origin": f"http://127.0.0.1:{port}.evil.example"},
                    {"origin": "null"},
                ):
                    answer = await http.post(path, json=HELLO, headers=headers)
                    found.append((answer.status_code, "jsonrpc" in answer.text))
            opened = episodes.keys
            kept = {"host": f"localhost:{port}", "origin": f"http://localhost:{port}"}
            good = await http.post("/mcp", json=HELLO, headers=kept)
            return found, opened, good.status_code

    found, opened, good = asyncio.run(run())
    assert found == [*[(421, False)] * 4, *[(403, False)] * 3] * 2
    assert (opened, good) == ((), 200)


def test_what_is_no_session_opens_none():
    async def run():
        async with served_http(OFFER) as (url, episodes), raw(url) as http:
            tries = [
                await http.post("/mcp", json=LIST),
                await http.post("/mcp", content=b"no JSON"),
                await http.post("/mcp", content=b"[" * 1_000_000),
                await http.post("/mcp", content=b"{" + b" " * 5_000_000),
                await http.post("/mcp", json=[HELLO]),
                await http.post("/mcp", content=json.dumps(HELLO), headers={"content-type": "x/y"}),
                await http.post("/mcp", json=HELLO, headers={"mcp-session-id": "nobody's"}),
                await http.post("/mcp", json=HELLO, headers={"mcp-session-id": "/a"}),
                await http.post("/mcp", json=LIST, headers={"mcp-protocol-version": "2026-07-28"}),
                await http.post("/else", json=HELLO),
                await http.post("/episodes/a%2Fb/mcp", json=HELLO),
                await http.post("/episodes/" + "x" * 65 + "/mcp", json=HELLO),
                await http.get("/mcp"),
                await http.put("/mcp", json=HELLO),
                await http.delete("/mcp"),
            ]
            assert tries[8].json()["error"]["code"] == -32022
            assert "2025-11-25" in tries[8].json()["error"]["data"]["supported"]
            assert tries[8].json()["id"] == 2
            return [answer.status_code for answer in tries], episodes.keys

    codes, keys = asyncio.run(run())
    assert codes == [400, 400, 400, 413, 400, 400, 404, 404, 400, 404, 404, 404, 405, 405, 400]
    assert keys == ()


def test_the_session_unused_for_longest_makes_room_and_its_environment_is_given_back():
    counted = Counted()

    async def run():
        bounds = Bounds(episodes=3)
        async with served_http(counted.offer, bounds=bounds) as (url, _), raw(url) as http:
            sessions = []
            for number in range(5):
                answer = await http.post("/mcp", json=HELLO)
                sessions.append({"mcp-session-id": answer.headers["mcp-session-id"]})
                if number == 2:  # the first is used again, so the second is the oldest
                    await http.post("/mcp", json=LIST, headers=sessions[0])
            codes = [(await http.post("/mcp", json=LIST, headers=s)).status_code for s in sessions]
            return codes, counted.open

    assert asyncio.run(run()) == ([200, 404, 404, 200, 200], 3)
    assert counted.open == 0


def test_idle_sessions_end():
    counted = Counted()

    async def run():
        bounds = Bounds(idle_s=0.2)
        async with served_http(counted.offer, bounds=bounds) as (url, episodes), raw(url) as http:
            answer = await http.post("/mcp", json=HELLO)
            session = {"mcp-session-id": answer.headers["mcp-session-id"]}
            await http.post("/episodes/a/mcp", json=HELLO)
            assert len(episodes.keys) == counted.open == 2
            await until(lambda: not episodes.keys)
            await until(lambda: counted.open == 0)
            return (await http.post("/mcp", json=LIST, headers=session)).status_code

    assert asyncio.run(run()) == 404


def test_episodes_that_cannot_begin_are_nobody_elses_trouble(caplog):
    broken = [True]

    def make():
        environment = WORLD.environment()
        if broken[0]:
            environment.close_now()
        return environment

    async def run():
        async with served_http(replace(OFFER, make=make)) as (url, episodes), raw(url) as http:
            bad = [await http.post(path, json=HELLO) for path in ("/mcp", "/episodes/a/mcp")]
            assert episodes.keys == ()
            broken[0] = False
            good = [await http.post(path, json=HELLO) for path in ("/mcp", "/episodes/a/mcp")]
            return [answer.status_code for answer in (*bad, *good)]

    assert asyncio.run(run()) == [500, 500, 200, 200]
    assert "an episode ended in an error" in caplog.text
    assert ToolloomError.__name__ in caplog.text


def test_many_clients_at_once_stay_apart():
    async def one(client, number):
        for _ in range(number % 3):
            await client.call_tool("toolloom_start_over", {"seed": number})
        await client.call_tool(*LEND)
        return json.loads(await text(client, "toolloom://episode"))

    async def run():
        async with served_http(OFFER) as (url, _), AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(client(url)) for _ in range(6)]
            return await asyncio.gather(*map(one, clients, range(6)))

    found = asyncio.run(run())
    assert [facts["starts"] for facts in found] == [1, 2, 3, 1, 2, 3]
    assert [facts["seed"] for facts in found] == [7, 1, 2, 7, 4, 5]
    assert {facts["calls"] for facts in found} == {1}


def test_a_port_that_is_taken_is_named():
    async def run():
        async with served_http(OFFER) as (url, _):
            port = int(url.split(":")[2].split("/")[0])
            with pytest.raises(BadInput, match=f"port {port} cannot be used"):
                async with served_http(OFFER, port):
                    pass

    asyncio.run(run())


def test_the_command_serves_until_ctrl_c_and_says_what_was_played():
    command = [sys.executable, "-m", "synth", "--json", "serve", str(LIBRARY), "--http"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    entry = json.loads(process.stderr.readline())["mcpServers"]["toolloom-library"]
    assert process.stderr.readline().strip() == entry["url"]

    async def run():
        async with client(entry["url"], "auto") as playing:
            await playing.call_tool(*LEND)
            with pytest.raises(MCPError):
                await playing.call_tool("no_such_tool")
            process.send_signal(signal.SIGINT)  # while the session is open
            return await asyncio.to_thread(process.communicate, timeout=30)

    out, err = asyncio.run(run())
    assert process.returncode == 0
    assert json.loads(out) == {"episodes": 1, "calls": 2}
    assert err == "1 episodes, 2 calls\n"
