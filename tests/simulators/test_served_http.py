"""`toolloom serve --http`: sessions and named episodes over real sockets, within bounds."""

import asyncio
import json
import signal
import subprocess
import sys
import time
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

DATA = Path(__file__).parent / "data"
LIBRARY = DATA / "library.yaml"
WORLD = SqlWorld(Engine(load_application(LIBRARY)))
OFFER = offer(WORLD, seed=7)
LEND = ("lend_book", {"book_id": "B1", "member_id": "M001"})
JSON = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
HELLO = json.loads((DATA / "initialize.json").read_bytes())
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
    """Makes environments, and knows how many are not given back; calls may never end."""

    def __init__(self, *, endless=False):
        self.open = self.busy = 0
        outer = self

        class Environment(type(WORLD.environment())):
            async def reset(self, seed):
                outer.open += self.seed is None
                await super().reset(seed)

            async def call(self, name, arguments):
                outer.busy += 1
                if endless and arguments:
                    await asyncio.Event().wait()
                return await super().call(name, arguments)

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
                await http.post("/episodes/a%0A/mcp", json=HELLO),
                await http.post("/episodes/a/mcp%0A", json=HELLO),
                await http.post("/episodes/a/mcp%3Fb", json=HELLO),
                await http.post("/episodes/" + "x" * 65 + "/mcp", json=HELLO),
                await http.get("/mcp"),
                await http.put("/mcp", json=HELLO),
                await http.delete("/mcp"),
                await http.delete("/episodes/a/mcp"),
            ]
            assert tries[8].json()["error"]["code"] == -32022
            assert "2025-11-25" in tries[8].json()["error"]["data"]["supported"]
            assert tries[8].json()["id"] == 2
            return [answer.status_code for answer in tries], episodes.keys

    codes, keys = asyncio.run(run())
    assert codes[:9] == [400, 400, 400, 413, 400, 400, 404, 404, 400]
    assert codes[9:] == [*[404] * 6, 405, 405, 400, 405]
    assert keys == ()


@pytest.mark.parametrize("path", ["/mcp", "/episodes/a/mcp"])
def test_an_episode_that_refused_all_it_was_asked_is_gone(path):
    counted = Counted()
    wrong = {**HELLO, "params": {"protocolVersion": 5}}

    async def run():
        async with served_http(counted.offer) as (url, episodes), raw(url) as http:
            answer = await http.post(path, json=wrong)
            await until(lambda: not episodes.keys and not counted.open)
            good = await http.post(path, json=HELLO)
            return answer.json()["error"]["code"], good.status_code, counted.open

    assert asyncio.run(run()) == (-32602, 200, 1)


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


CALL = {"jsonrpc": "2.0", "id": 3, "method": "tools/call"}
CALL["params"] = {"name": LEND[0], "arguments": LEND[1]}


async def session(http):
    answer = await http.post("/mcp", json=HELLO)
    return {"mcp-session-id": answer.headers["mcp-session-id"]}


def test_a_session_that_is_being_answered_makes_no_room_while_an_idle_one_can():
    counted = Counted(endless=True)

    async def run():
        bounds = Bounds(episodes=2)
        async with served_http(counted.offer, bounds=bounds) as (url, episodes), raw(url) as http:
            busy, idle = await session(http), await session(http)
            calling = asyncio.create_task(http.post("/mcp", json=CALL, headers=busy))
            await until(lambda: counted.busy)
            await http.post("/mcp", json=LIST, headers=idle)  # the busy one is unused for longest
            await session(http)
            kept = [header["mcp-session-id"] in episodes.keys for header in (busy, idle)]
            await session(http)
            await session(http)
            kept.append(calling.done())
            return kept, counted.open

    assert asyncio.run(run()) == ([True, False, False], 2)


def test_the_end_waits_for_nobody_whose_call_never_ends_and_leaves_no_answer_open(caplog):
    counted = Counted(endless=True)

    async def run():
        async with httpx2.AsyncClient(headers=JSON, timeout=30) as http:
            async with served_http(counted.offer) as (url, _):
                http.base_url = url.removesuffix("/mcp")
                asking = [http.post("/mcp", json=CALL, headers=await session(http)) for _ in "abc"]
                asking += [http.post("/episodes/a/mcp", json=CALL) for _ in "de"]
                calls = [asyncio.create_task(one) for one in asking]
                await until(lambda: counted.busy >= 4)  # calls of one episode wait for one another
            return [answer.status_code for answer in await asyncio.gather(*calls)]

    begun = time.monotonic()
    assert asyncio.run(run()) == [404] * 5
    assert time.monotonic() - begun < 10.0
    assert (counted.open, caplog.records) == (0, [])


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


async def half(url):
    """Send the beginning of a request; return where its answer comes."""
    port = int(url.split(":")[2].split("/")[0])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = [f"Host: 127.0.0.1:{port}", *(f"{name}: {value}" for name, value in JSON.items())]
    writer.write("\r\n".join(["POST /mcp HTTP/1.1", *head, "Content-Length: 99", "", "{"]).encode())
    await writer.drain()
    return reader, writer


def test_half_a_request_is_given_up_in_time_and_the_end_does_not_wait_for_it(caplog):
    async def go():
        async with served_http(OFFER, bounds=Bounds(arrive_s=0.2)) as (url, episodes):
            reader, writer = await half(url)
            first = await asyncio.wait_for(reader.readline(), 10.0)
            writer.close()
        async with served_http(OFFER) as (url, _):
            reader, writer = await half(url)
            async with client(url) as other:
                await other.list_tools()
            begun = time.monotonic()
        last = await reader.readline()
        writer.close()
        return first, last, time.monotonic() - begun, episodes.count.episodes

    first, last, lasted, begun = asyncio.run(go())
    assert first == last == b"HTTP/1.1 408 Request Timeout\r\n"
    assert lasted < 8.0
    assert begun == 0
    assert caplog.records == []


def test_a_request_may_arrive_in_pieces():
    async def pieces():
        for byte in json.dumps(HELLO).encode():
            yield bytes([byte])
            await asyncio.sleep(0)

    async def go():
        async with served_http(OFFER) as (url, _), httpx2.AsyncClient() as http:
            return await http.post(url, content=pieces(), headers=JSON)

    answer = asyncio.run(go())
    assert (answer.status_code, "result" in answer.json()) == (200, True)


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
