"""Serve an OpenAI-compatible endpoint that costs nothing and can misbehave: for dry runs and tests.

Its answers depend on the seed and the request alone. With --script, agents repeat the rows of a
dataset; otherwise they make one plausible call and say a sentence. With --fault-rate, requests meet
the faults that real endpoints were reported for; docs/tutorial.md shows how to read the ledger.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import signal
import sys
from pathlib import Path
from typing import Any, TextIO

from synth.app._show import say
from synth.core.errors import BadInput
from synth.core.llm.mock.server import MockLLM


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("--port", type=int, default=0, help="default: a free one")
    parser.add_argument("--seed", type=int, default=0, help="decides answers and faults")
    parser.add_argument(
        "--fault-rate", type=float, default=0.0, metavar="R", help="share of faulty replies, 0 to 1"
    )
    parser.add_argument(
        "--faults",
        default="",
        metavar="A,B",
        help="names or groups (status, transport, body, calls, finish, text, stream); default: all",
    )
    parser.add_argument(
        "--latency-ms", type=float, default=0.0, metavar="L", help="before each reply"
    )
    parser.add_argument(
        "--script", type=Path, metavar="FILE", help="dataset (export --format openai) to repeat"
    )
    parser.add_argument(
        "--ledger", type=Path, metavar="FILE", help="one JSON line a request, appended"
    )


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Serve until Ctrl-C; return what was served."""
    if not 0 <= arguments.fault_rate <= 1:
        raise BadInput("--fault-rate must be between 0 and 1")
    if not 0 <= arguments.latency_ms <= 600_000:
        raise BadInput("--latency-ms must be between 0 and 600000")
    if not 0 <= arguments.port < 1 << 16:
        raise BadInput("--port must be between 0 and 65535")
    mock = MockLLM(
        port=arguments.port,
        seed=arguments.seed,
        fault_rate=arguments.fault_rate,
        faults=tuple(name for name in arguments.faults.split(",") if name),
        latency_s=arguments.latency_ms / 1000,
        script=arguments.script,
        ledger=arguments.ledger,
        keep_ledger=arguments.ledger is not None,
    )
    _allow_many_connections()
    asyncio.run(_serve(mock, sys.stderr if arguments.json else sys.stdout))
    ledger = mock.ledger
    served = {
        "requests": ledger.requests,
        "faults": dict(sorted(ledger.faults.items())),
        "prompt_tokens": ledger.prompt_tokens,
        "completion_tokens": ledger.completion_tokens,
    }
    say(f"{ledger.requests} requests, {ledger.faults.total()} of them faulty")
    return served


async def _serve(mock: MockLLM, out: TextIO) -> None:
    loop = asyncio.get_running_loop()
    async with mock:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, mock.ended.set)
        # The address is a result, and a program that started this waits for it: at once, alone.
        out.write(f"{mock.url}\n")
        out.flush()
        await mock.ended.wait()
    if mock.broken is not None:
        raise mock.broken


def _allow_many_connections() -> None:
    """Raise the limit of open files, one a connection, as far as this user may."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
