"""What the mock endpoint costs: CPU of its process per request, so that benches can allow for it.

python bench/bench_mock.py
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from synth.core.llm.mock.child import Child, child

Row = tuple[str, str, str]
REQUESTS = 4000
CONNECTIONS = 32
_TOOL = {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}


def requests() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield a short request, and one as agents send it in the middle of an episode."""
    yield "short", {"model": "mock", "messages": [{"role": "user", "content": "Hello. " * 60}]}
    messages: list[dict[str, Any]] = [{"role": "system", "content": "Rules. " * 300}]
    for turn in range(6):
        call = {"id": f"c{turn}", "function": {"name": "tool_1", "arguments": '{"id": "A-1"}'}}
        messages += [
            {"role": "user", "content": "Please do it. " * 10},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{turn}", "content": '{"state": "open"}' * 18},
        ]
    functions = [
        {"name": f"tool_{n}", "description": "What it does. " * 14, "parameters": _TOOL}
        for n in range(10)
    ]
    tools = [{"type": "function", "function": function} for function in functions]
    yield "agent", {"model": "mock", "messages": messages, "tools": tools}


async def _play(server: Child, body: dict[str, Any], count: int) -> None:
    data = orjson.dumps(body)
    head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {len(data)}\r\n\r\n"
    port = int(server.url.rsplit(":", 1)[1].split("/")[0])

    async def worker() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(count // CONNECTIONS):
            writer.write(head.encode() + data)
            reply = await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(int(reply.split(b"content-length: ")[1].split(b"\r\n")[0]))
        writer.close()

    await asyncio.gather(*(worker() for _ in range(CONNECTIONS)))


def _cpu_s(process: Path) -> float:
    """Return the seconds of CPU a process has used."""
    fields = (process / "stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _resident(process: Path) -> int:
    pages = int((process / "statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def mock_rows() -> Iterator[Row]:
    """Yield the costs; the least of five runs, which other load disturbs least."""
    folder = tempfile.TemporaryDirectory()
    with folder as name, child(Path(name) / "ledger.jsonl") as server:
        process = Path("/proc") / str(server.process.pid)
        for kind, body in requests():
            asyncio.run(_play(server, body, 640))
            times = []
            for _ in range(5):
                before = _cpu_s(process)
                asyncio.run(_play(server, body, REQUESTS))
                times.append(_cpu_s(process) - before)
            size = f"{len(orjson.dumps(body)) / 1024:.1f} kB, {CONNECTIONS} connections"
            yield f"mock-llm: {kind} request", f"{1e6 * min(times) / REQUESTS:.0f} µs CPU", size
        yield (
            "mock-llm: memory",
            f"{_resident(process) / 2**20:.0f} MB",
            "after all of these",
        )


if __name__ == "__main__":
    for what, figure, beside in mock_rows():
        print(f"{what:<28}{figure:>14}   {beside}")
