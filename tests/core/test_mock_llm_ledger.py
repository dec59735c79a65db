"""The mock endpoint's ledger and its schedule of faults, against what clients saw."""

import asyncio
import hashlib
import json
import signal
import socket
import subprocess
import sys
from collections import Counter

import openai
import orjson
import pytest

from synth.core.errors import UnknownName
from synth.core.llm.mock.child import child
from synth.core.llm.mock.plan import Pace
from synth.core.llm.mock.server import MockLLM
from synth.core.llm.mock.threads import serving

HELLO = {"model": "mock", "messages": [{"role": "user", "content": "Hello"}]}
QUICK = Pace(pace_s=0.001, stall_s=0.01)


def test_the_ledger_says_who_asked_what_and_what_was_told(wire):
    with serving() as mock:
        tag = "X-Toolloom-Call: ep-1/agent/4\r\nX-Toolloom-Attempt: 2\r\n"
        raw, _, _ = wire.exchange(mock, {**wire.ask, "model": "m"}, headers=tag)
        wire.exchange(mock, {**wire.ask, "model": "fault:http_503"})
        wire.exchange(mock, {**wire.ask, "model": "fault:reset_mid_body", "stream": True})
        first, second, third = mock.ledger.entries()
        sums = (mock.ledger.requests, mock.ledger.prompt_tokens, mock.ledger.completion_tokens)
    usage = json.loads(wire.split(raw)[2])["usage"]
    assert first.pop("at") >= 0
    assert first == {
        "call": "ep-1/agent/4",
        "attempt": 2,
        "model": "m",
        "request": hashlib.sha256(orjson.dumps({**wire.ask, "model": "m"})).hexdigest(),
        "fault": None,
        "status": 200,
        "prompt_tokens": usage["prompt_tokens"],
        "completion_tokens": usage["completion_tokens"],
        "stream": False,
        "finished": True,
    }
    assert sums == (3, usage["prompt_tokens"], usage["completion_tokens"])
    assert [second[k] for k in ("call", "attempt", "fault", "status")] == [
        None,
        None,
        "http_503",
        503,
    ]
    assert (third["finished"], third["stream"], third["prompt_tokens"]) == (False, True, None)


DRAWN = ("http_503", "reset_before_headers", "cut_json", "usage_missing", "finish_null", "calls")


def drawn(seed, concurrency, wire):
    """Play 120 calls of up to four attempts, so many at a time; return what the ledger says."""

    async def go():
        options = {"seed": seed, "fault_rate": 0.4, "faults": DRAWN, "pace": QUICK}
        async with MockLLM(**options) as mock:
            gate = asyncio.Semaphore(concurrency)

            async def call(number):
                async with gate:
                    for attempt in range(4):
                        tags = {
                            "X_Toolloom_Call": f"e{number}/agent/0",
                            "X_Toolloom_Attempt": attempt,
                        }
                        body = {**wire.ask, "model": "mock", "seed": number}
                        await wire.once(mock, wire.post(body, **tags))

            await asyncio.gather(*map(call, range(120)))
            return [
                tuple(entry[k] for k in ("call", "attempt", "fault", "completion_tokens"))
                for entry in mock.ledger.entries()
            ]

    return asyncio.run(go())


def test_the_schedule_does_not_depend_on_concurrency_and_holds_its_rate(wire):
    one, eight, many = (drawn(3, concurrency, wire) for concurrency in (1, 8, 64))
    assert one != many  # another order
    assert sorted(one, key=str) == sorted(eight, key=str) == sorted(many, key=str)
    faults = Counter(fault for _, _, fault, _ in one)
    assert faults.total() == len(one) == 480
    assert 0.32 < 1 - faults[None] / 480 < 0.48
    assert set(faults) - {None} > set(DRAWN[:5])
    assert any(name.startswith("arguments") for name in faults if name)
    other = drawn(4, 64, wire)
    assert sorted(one, key=str) != sorted(other, key=str)


def test_names_and_groups_are_checked():
    with pytest.raises(UnknownName, match="did you mean 'http_503'"):
        MockLLM(faults=("http_53",))
    with pytest.raises(UnknownName, match="did you mean 'stream'"):
        MockLLM(faults=("streams",))


def test_without_headers_of_ours_attempts_are_told_by_the_openai_package_or_counted(wire):
    with serving() as mock:
        client = openai.OpenAI(base_url=mock.url, api_key="none", max_retries=3, timeout=10)
        body = {**HELLO, "model": "fault:http_503@1"}
        said = client.chat.completions.create(**body)
        client.close()
        assert said.choices[0].finish_reason == "stop"
        assert [entry["status"] for entry in mock.ledger.entries()] == [503, 200]
        other = {**wire.ask, "model": "fault:http_500@2"}
        found = [wire.split(wire.exchange(mock, other)[0])[0] for _ in range(3)]
    assert found == [500, 500, 200]


def test_a_plain_client_counts_what_the_ledger_counts(wire):
    """Half of the requests faulty: the sums of all bodies that can be read are the ledger's."""
    seen, requests = Counter(), 0
    with serving(
        seed=8, fault_rate=0.5, faults=("status", "body", "calls", "finish"), pace=QUICK
    ) as mock:
        for number in range(80):
            for stream in ({}, wire.stream):
                raw, _, _ = wire.exchange(
                    mock, {**wire.ask, "model": "m", "seed": number, **stream}
                )
                requests += 1
                for usage in usages(wire.split(raw)[2]):
                    seen.update(usage)
        entries = mock.ledger.entries()
        assert mock.ledger.faults.total() > 50
    assert len(entries) == requests
    for kind in ("prompt_tokens", "completion_tokens"):
        assert sum(entry[kind] or 0 for entry in entries) == seen[kind] > 0


def usages(body):
    texts = [body] if isinstance(body, bytes) else b"".join(body).split(b"\n\n")
    for text in texts:
        try:
            found = json.loads(text.removeprefix(b"data: ").decode("utf-8-sig"))
        except ValueError:
            continue
        if isinstance(found, dict) and found.get("usage"):
            yield {kind: found["usage"][kind] for kind in ("prompt_tokens", "completion_tokens")}


def test_the_ledger_is_written_before_the_reply_and_survives_a_killed_client(tmp_path):
    code = (
        "import openai, sys\n"
        "client = openai.OpenAI(base_url=sys.argv[1], api_key='x')\n"
        "for n in range(10**6):\n"
        "    client.chat.completions.create(model='mock', seed=n,\n"
        "        messages=[{'role': 'user', 'content': 'hi'}])\n"
        "    print(n, flush=True)\n"
    )
    with child(tmp_path / "ledger.jsonl") as mock:
        client = subprocess.Popen(
            [sys.executable, "-c", code, mock.url], stdout=subprocess.PIPE, text=True
        )
        for _ in range(5):
            last = int(client.stdout.readline())
        client.send_signal(signal.SIGKILL)
        rest = client.communicate()[0].split()
        answered = int(rest[-1]) + 1 if rest and rest[-1].isdigit() else last + 1
        entries = mock.entries()
        # What the client was told is in the ledger, and at most the one request under way.
        assert answered <= len(entries) <= answered + 2
        with openai.OpenAI(base_url=mock.url, api_key="x") as other:
            assert other.models.list().data[0].id == "mock"


def test_a_ledger_that_cannot_be_written_ends_the_server_and_no_reply_is_sent(wire, tmp_path):
    limit = "import resource, runpy, sys, signal\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
    limit += "resource.setrlimit(resource.RLIMIT_FSIZE, (400, 400))\n"
    limit += "sys.argv = ['toolloom', 'mock-llm', '--ledger', sys.argv[1]]\n"
    limit += "runpy.run_module('synth', run_name='__main__')\n"
    process = subprocess.Popen(
        [sys.executable, "-c", limit, str(tmp_path / "ledger.jsonl")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    port = int(process.stdout.readline().rsplit(":", 1)[1].split("/")[0])
    with socket.create_connection(("127.0.0.1", port), timeout=10) as plain:
        plain.sendall(wire.post(HELLO) * 2)
        replies = b""
        while part := plain.recv(4096):
            replies += part
            if replies.count(b"HTTP/1.1") == 2:
                break
    _, said = process.communicate(timeout=30)
    assert replies.startswith(b"HTTP/1.1 200")
    assert b"HTTP/1.1 500" in replies
    assert process.returncode == 1
    assert "ledger.jsonl: no space left on the disk (free some space and repeat)" in said
    assert len((tmp_path / "ledger.jsonl").read_text().splitlines()) == 1
