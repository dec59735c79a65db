"""What a call of a model costs this process, beside two ways of using the bare `openai` client.

CPU time of the client alone: the endpoint (`toolloom mock-llm`, 20 ms a reply) is another process.
A call is a short question; an episode is four calls of a growing conversation with ten tools, two
of which it calls. Ours goes through everything: queue, books, journal on disk, validator.
"Tuned" is the same package with our transport and raw bytes and nothing of ours around it: what
the package costs at the least. Where the variable BENCH_PEER names a Python that has `verifiers`,
the same conversations are had with it, in a process of its own.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import orjson

from synth.core.config import ModelConfig, Models
from synth.core.llm.endpoint import Endpoint
from synth.core.llm.journal import Journal
from synth.core.llm.mock.child import Child, child
from synth.core.llm.open import OpenModels
from synth.core.protocols import ChatRequest, Sampler
from synth.core.types import Message

LATENCY_MS = 20
CONCURRENCY = (1, 32, 256, 1000)
CALLS = {1: 100, 32: 800, 256: 1500, 1000: 3000}
_QUESTION = [
    {"role": "system", "content": "You help the members of a library. Be brief and exact."},
    {"role": "user", "content": "When is my loan of Dune due? I am Ann Lee, ann@ex.org."},
]
_TOOLS = [
    {
        "type": "function",
        "function": {
            "name": f"tool_{number}",
            "description": "Find the loans of a member, the latest first, by their e-mail address.",
            "parameters": {
                "type": "object",
                "properties": {
                    "email": {"type": "string", "description": "E-mail address of the member"},
                    "limit": {"type": "integer", "description": "At most so many", "minimum": 1},
                },
                "required": ["email"],
            },
        },
    }
    for number in range(10)
]
Once = Callable[[int], Awaitable[None]]
"""Does one call, or one episode, of a number."""


async def _measured(once: Once, count: int, concurrency: int) -> tuple[float, float]:
    """Return milliseconds of CPU a piece, and pieces per second."""
    numbers = iter(range(count))

    async def worker() -> None:
        for number in numbers:
            await once(number)

    await once(-1)  # imports and certificates
    start, wall = time.process_time(), time.perf_counter()
    await asyncio.gather(*(worker() for _ in range(concurrency)))
    spent, took = time.process_time() - start, time.perf_counter() - wall
    return 1e3 * spent / count, count / took


def _episode(ask: Callable[[int, list[dict[str, Any]]], Awaitable[Message]]) -> Once:
    async def once(number: int) -> None:
        messages = list(_QUESTION)
        for _ in range(4):
            reply = await ask(number, messages)
            messages.append(reply.openai())
            results = [(call.id, "\n".join(["due 2026-03-23"] * 3)) for call in reply.tool_calls]
            messages += [
                {"role": "tool", "tool_call_id": id_, "content": text} for id_, text in results
            ]
            if not results:
                messages.append({"role": "user", "content": "And the next one?"})

    return once


async def _ours(url: str, what: str, concurrency: int, folder: Path) -> tuple[float, float]:
    config = ModelConfig(model="mock", base_url=url, key_env="NO_KEY", concurrency=concurrency)
    journal = Journal(folder)
    models = OpenModels(Models(agent=config), journal=journal)
    bound: dict[int, Any] = {}

    async def call(number: int) -> None:
        await models.bound("agent", f"e{number}").complete(ChatRequest(_QUESTION))

    async def turn(number: int, messages: list[dict[str, Any]]) -> Message:
        if number not in bound:
            bound[number] = models.bound("agent", f"e{number}")
        return (await bound[number].complete(ChatRequest(messages, _TOOLS))).message

    try:
        count = CALLS[concurrency] // (1 if what == "call" else 4)
        return await _measured(call if what == "call" else _episode(turn), count, concurrency)
    finally:
        await models.close()
        journal.close()


async def _bare(url: str, what: str, concurrency: int) -> tuple[float, float]:
    import openai

    client = openai.AsyncOpenAI(api_key="none", base_url=url, max_retries=0, timeout=600.0)
    sampler = Sampler()
    settings: dict[str, Any] = {"model": "mock", "temperature": sampler.temperature}

    async def call(number: int) -> None:
        await client.chat.completions.create(messages=_QUESTION, **settings)

    async def turn(number: int, messages: list[dict[str, Any]]) -> Message:
        reply = await client.chat.completions.create(messages=messages, tools=_TOOLS, **settings)
        said = reply.choices[0].message
        calls = [
            {"id": one.id, "name": one.function.name, "arguments": one.function.arguments}
            for one in said.tool_calls or ()
        ]
        return Message(role="assistant", content=said.content, tool_calls=calls)

    try:
        count = max(concurrency, CALLS[concurrency] // (2 if what == "call" else 8))
        return await _measured(call if what == "call" else _episode(turn), count, concurrency)
    finally:
        await client.close()


async def _tuned(url: str, what: str, concurrency: int) -> tuple[float, float]:
    config = ModelConfig(model="mock", base_url=url, concurrency=concurrency)
    endpoint = Endpoint(config)
    settings: dict[str, Any] = {"model": "mock", "temperature": Sampler().temperature}

    async def call(number: int) -> None:
        body = orjson.dumps({"messages": _QUESTION, **settings})
        orjson.loads(await endpoint.ask(body, {}, stream=False))

    async def turn(number: int, messages: list[dict[str, Any]]) -> Message:
        body = orjson.dumps({"messages": messages, "tools": _TOOLS, **settings})
        reply = orjson.loads(await endpoint.ask(body, {}, stream=False))
        said = reply["choices"][0]["message"]
        calls = [{"id": one["id"], **one["function"]} for one in said.get("tool_calls") or ()]
        return Message(role="assistant", content=said["content"], tool_calls=calls)

    try:
        count = max(concurrency, CALLS[concurrency] // (2 if what == "call" else 8))
        return await _measured(call if what == "call" else _episode(turn), count, concurrency)
    finally:
        await endpoint.close()


def _peer(url: str) -> Iterator[tuple[str, str, str]]:
    python = os.environ.get("BENCH_PEER")
    if not python:
        yield "verifiers, a call of an episode", "not run", "set BENCH_PEER to its Python"
        return
    script = str(Path(__file__).with_name("peer_verifiers.py"))
    for concurrency in (32, 256):
        command = [python, script, url, "200", str(concurrency)]
        run = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
        told = json.loads(run.stdout.splitlines()[-1])
        cost = f"{1e3 * told['cpu_s'] / told['calls']:.2f} ms"
        yield f"verifiers, a call of an episode, {concurrency} at once", cost, "ours is above: / 4"


def _mock(folder: Path, latency_ms: int) -> AbstractContextManager[Child]:
    return child(folder / f"ledger-{latency_ms}.jsonl", f"--latency-ms={latency_ms}")


def rows() -> Iterator[tuple[str, str, str]]:
    """Yield CPU a call and an episode, and how near to concurrency / latency it comes."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with _mock(folder, LATENCY_MS) as mock:
            for what, calls in (("call", 1), ("episode", 4)):
                for concurrency in CONCURRENCY:
                    run = folder / f"{what}-{concurrency}"
                    ours, rate = asyncio.run(_ours(mock.url, what, concurrency, run))
                    bare, _ = asyncio.run(_bare(mock.url, what, concurrency))
                    tuned, _ = asyncio.run(_tuned(mock.url, what, concurrency))
                    share = rate * calls * LATENCY_MS / 1e3 / concurrency
                    yield (
                        f"{what}, {concurrency} at once: CPU",
                        f"{ours:.2f} ms",
                        f"openai client {bare:.2f} ms, tuned {tuned:.2f} ms; "
                        f"{share:.0%} of concurrency / latency",
                    )
            yield from _peer(mock.url)
        with _mock(folder, 1000) as mock:
            _, rate = asyncio.run(_ours(mock.url, "call", 256, folder / "slow"))
            yield "calls of 1 s, 256 at once", f"{rate / 256:.0%}", "of concurrency / latency"
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    yield "peak memory of this process", f"{peak:.0f} MB", "both clients, 1,000 in flight"
