"""The mock endpoint as a server: connections, odd requests, many clients, clients that leave."""

import asyncio
import gc
import json
import os
import resource
import signal
import subprocess
import sys
import time

import openai
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from synth.core.errors import BadPlace
from synth.core.llm.mock.plan import Pace
from synth.core.llm.mock.server import MockLLM
from synth.core.llm.mock.table import FAULTS
from synth.core.llm.mock.threads import serving

HELLO = {"model": "mock", "messages": [{"role": "user", "content": "Hello"}]}
QUICK = Pace(pace_s=0.001, stall_s=0.01)


def resident():
    """Return the bytes of memory that this process holds."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


async def reply(reader):
    """Read one reply with a length from a connection that is kept."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    return int(head.split()[1]), await reader.readexactly(length)


def test_one_connection_serves_requests_one_after_the_other_in_pieces_and_in_heaps(wire):
    async def go():
        async with MockLLM() as mock:
            reader, writer = await asyncio.open_connection("127.0.0.1", mock.port)
            for byte in range(0, len(wire.post(HELLO)), 7):  # in pieces
                writer.write(wire.post(HELLO)[byte : byte + 7])
                await asyncio.sleep(0)
            first = await reply(reader)
            writer.write(wire.post(HELLO) * 3)  # in a heap
            others = [await reply(reader) for _ in range(3)]
            assert others == [first] * 3
            assert first[0] == 200
            assert mock.connections == 1
            writer.close()
            return mock.ledger.requests

    assert asyncio.run(go()) == 4


@pytest.mark.parametrize(
    ("request_text", "status"),
    [
        (b"GET /v1/models HTTP/1.1\r\n\r\n", 200),
        (b"GET /health?x=1 HTTP/1.1\r\n\r\n", 200),
        (b"POST /chat/completions HTTP/1.1\r\ncontent-length: 2\r\n\r\n{}", 400),
        (b"GET /v1/chat/completions HTTP/1.1\r\n\r\n", 405),
        (b"GET /v1/embeddings HTTP/1.1\r\n\r\n", 404),
        (b"hello\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\ncontent-length: -1\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\ncontent-length: 99999999999\r\n\r\n", 413),
        (b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n", 411),
        (b"GET / HTTP/1.1\r\nx: " + b"y" * 70_000, 431),
    ],
)
def test_what_is_no_request_gets_a_status_and_json(request_text, status):
    async def go():
        async with MockLLM() as mock:
            reader, writer = await asyncio.open_connection("127.0.0.1", mock.port)
            writer.write(request_text)
            found = await reply(reader)
            writer.close()
            return found

    found, body = asyncio.run(go())
    assert found == status
    assert isinstance(json.loads(body), dict)


def test_a_body_nested_deeper_than_can_be_written_is_refused(wire):
    deep = b"[" * 300 + b"]" * 300
    body = b'{"model": "m", "messages": [{"role": "user"}], "stop": ' + deep + b"}"
    head = f"POST /v1/chat/completions HTTP/1.1\r\ncontent-length: {len(body)}\r\n\r\n"

    async def go():
        async with MockLLM() as mock:
            return await wire.once(mock, head.encode() + body)

    status, _, answer = wire.split(asyncio.run(go()))
    assert status == 400
    assert "cannot be read" in json.loads(answer)["error"]["message"]


def test_a_client_that_waits_for_leave_to_send_its_body_gets_it(wire):
    async def go():
        async with MockLLM() as mock:
            reader, writer = await asyncio.open_connection("127.0.0.1", mock.port)
            head, _, body = wire.post(HELLO, Expect="100-continue").partition(b"\r\n\r\n")
            writer.write(head + b"\r\n\r\n")
            leave = await reader.readuntil(b"\r\n\r\n")
            writer.write(body)
            status, _ = await reply(reader)
            writer.close()
            return leave, status

    assert asyncio.run(go()) == (b"HTTP/1.1 100 Continue\r\n\r\n", 200)


CALLED = {"role": "assistant", "tool_calls": [{"id": "a", "function": {}}]}


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ([], "not an object"),
        ({"model": "m", "messages": []}, "at least one message"),
        ({"model": "m", "messages": [{"role": "wizard"}]}, "messages[0] has no known role"),
        ({"model": "m", "messages": [CALLED]}, "without a result at the end"),
        ({"model": "m", "messages": [CALLED, {"role": "user"}]}, "before messages[1]"),
        (
            {"model": "m", "messages": [{"role": "tool", "tool_call_id": "a"}]},
            "answers no open tool call",
        ),
        (
            {"model": "m", "messages": [{"role": "assistant", "tool_calls": [{"id": ""}]}]},
            "without an id of their own",
        ),
        ({"model": "m", "messages": [{"role": ["user"]}]}, "messages[0] has no known role"),
        (
            {"model": "m", "messages": [{"role": "assistant", "tool_calls": 5}]},
            "without an id of their own",
        ),
        ({**HELLO, "tools": [{"name": "x"}]}, "not a list of functions"),
        ({**HELLO, "n": 2}, "n must be 1"),
    ],
)
def test_requests_that_endpoints_refuse_are_refused_with_the_reason(wire, body, says):
    with serving() as mock:
        status, _, answer = wire.split(wire.exchange(mock, body)[0])
        entry = mock.ledger.entries()[0]
    assert status == entry["status"] == 400
    assert says in json.loads(answer)["error"]["message"]
    assert entry["prompt_tokens"] is None


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.floats(allow_nan=False)
    | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)
FIELDS = st.sampled_from(
    ["tools", "tool_choice", "response_format", "stream_options", "stream", "max_tokens",
     "logprobs", "top_logprobs", "n", "messages", "seed"]
)  # fmt: skip
SHAPED = st.fixed_dictionaries({"type": st.just("json_schema"), "json_schema": JSON}) | JSON
TOOL = st.fixed_dictionaries(
    {"function": st.fixed_dictionaries({"name": st.text(), "parameters": JSON})}
)


ANY_FAULT = sorted(set(FAULTS) - {"endless_body", "refused"})


@pytest.fixture(scope="module")
def quick():
    with serving(pace=QUICK) as mock:
        yield mock


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    more=st.dictionaries(FIELDS, SHAPED | st.lists(TOOL, max_size=2), max_size=4),
    fault=st.sampled_from(ANY_FAULT),
)
def test_whatever_a_body_holds_it_is_answered_as_planned_and_entered(wire, quick, more, fault):
    before = quick.ledger.requests
    raw, _, _ = wire.exchange(quick, {**HELLO, "model": f"fault:{fault}", **more})
    entry = quick.ledger.entries()[-1]
    assert quick.ledger.requests == before + 1
    assert raw[9:12] == (b"%d" % entry["status"] if entry["status"] else b"")
    assert entry["status"] in (0, 200, 400) or entry["fault"] == fault


# --- many clients ----------------------------------------------------------------------------


def test_a_thousand_requests_are_in_flight_at_once(wire):
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most < 2400:
        pytest.skip(f"only {most} open files are allowed here")
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2400), most))

    async def go():
        async with MockLLM(latency_s=1.0) as mock:
            started = time.monotonic()
            found = await asyncio.gather(
                *(wire.once(mock, wire.post({**HELLO, "seed": n})) for n in range(1000))
            )
            entries = mock.ledger.entries()
            return found, entries, time.monotonic() - started

    found, entries, seconds = asyncio.run(go())
    assert all(b"HTTP/1.1 200" in raw for raw in found)
    assert len({entry["request"] for entry in entries}) == 1000
    assert seconds < 60  # one after the other would take a thousand


def test_memory_and_files_stay_flat_over_twenty_thousand_requests(wire):
    def now():
        gc.collect()
        return resident(), len(os.listdir("/proc/self/fd"))

    async def go():
        async with MockLLM(keep_ledger=False) as mock:
            assert mock.ledger.entries() == []
            reader, writer = await asyncio.open_connection("127.0.0.1", mock.port)

            async def play(count):
                for start in range(0, count, 100):
                    batch = [wire.post({**HELLO, "seed": start + n}) for n in range(100)]
                    writer.write(b"".join(batch))
                    for _ in batch:
                        assert (await reply(reader))[0] == 200

            await play(5000)
            before = now()
            await play(15_000)
            after = now()
            writer.close()
            return before, after, mock.ledger.requests

    (rss, files), (rss_after, files_after), requests = asyncio.run(go())
    assert requests == 20_000
    assert rss_after - rss < 3 << 20
    assert files_after == files


def test_clients_that_leave_in_the_middle_leave_nothing_behind(wire):
    async def go():
        async with MockLLM(pace=Pace(pace_s=0.05)) as mock:
            for name in ("endless_body", "trickle", "sse_slow", "slow_headers"):
                for _ in range(10):
                    _, writer = await asyncio.open_connection("127.0.0.1", mock.port)
                    writer.write(wire.post({**HELLO, "model": f"fault:{name}", "stream": True}))
                    await writer.drain()
                    while mock.connections == 0:
                        await asyncio.sleep(0.005)
                    writer.transport.abort()
            async with asyncio.timeout(20):
                while mock.connections:
                    await asyncio.sleep(0.01)
            return await wire.once(mock, wire.post(HELLO))

    assert b"HTTP/1.1 200" in asyncio.run(go())


def test_a_client_that_does_not_read_costs_no_memory(wire):
    async def go():
        async with MockLLM() as mock:
            reader, writer = await asyncio.open_connection("127.0.0.1", mock.port, limit=1 << 10)
            big = {**HELLO, "model": "fault:arguments_1mb", "tools": [{"function": {"name": "f"}}]}
            writer.write(wire.post(big) * 60)
            rss = resident()
            await asyncio.sleep(0.3)
            stuck = mock.ledger.requests
            grown = resident() - rss
            for _ in range(60):  # now it reads
                head = await reader.readuntil(b"\r\n\r\n")
                assert b" 200 " in head
                await reader.readexactly(int(head.split(b"content-length: ")[1].split(b"\r\n")[0]))
            writer.close()
            return stuck, grown, mock.ledger.requests

    stuck, grown, requests = asyncio.run(go())
    assert stuck < 30
    assert grown < 40 << 20
    assert requests == 60


# --- the command -----------------------------------------------------------------------------


def test_the_command_says_its_address_first_and_its_sums_at_the_end(tmp_path):
    command = [sys.executable, "-m", "synth", "--json", "mock-llm", "--fault-rate=1"]
    process = subprocess.Popen(
        [*command, "--faults=http_409"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.getcwd()},
    )
    url = process.stderr.readline().strip()
    client = openai.OpenAI(base_url=url, api_key="x", max_retries=0)
    with client, pytest.raises(openai.ConflictError):
        client.chat.completions.create(**HELLO)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=30)
    assert json.loads(out) == {
        "requests": 1, "faults": {"http_409": 1}, "prompt_tokens": 0, "completion_tokens": 0,
    }  # fmt: skip
    assert process.returncode == 0
    assert not list(tmp_path.iterdir())


def test_a_port_that_is_taken_is_named_with_a_remedy():
    with serving() as mock, pytest.raises(BadPlace, match=f"port {mock.port}.*choose another"):
        serving(port=mock.port).__enter__()
