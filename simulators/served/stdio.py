"""One session over standard input and output: one process, one client, one episode.

Nothing but the protocol reaches standard output: while a session lasts, the package points the
descriptor at standard error, so that whatever else is written lands there. Input is read by us, not
by the package: within bounds, and so that a signal ends the session even while nothing comes.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from typing import TYPE_CHECKING, cast

import anyio
from mcp.server.stdio import stdio_server

from simulators.served.episode import Offer, episode
from simulators.served.server import mcp_server
from synth.core.errors import BadInput
from synth.core.mcp.wire import LineBuffer, LineTooLong

if TYPE_CHECKING:
    from anyio import AsyncFile

MAX_MESSAGE = 4 << 20
"""Bytes of one message; a longer one ends the session. The package has the same bound for HTTP."""
_CHUNK = 64 << 10


async def serve_stdio(offer: Offer, *, descriptor: int = 0, limit: int = MAX_MESSAGE) -> None:
    """Serve one session until its client leaves, or SIGINT or SIGTERM comes.

    Args:
        offer: what is served.
        descriptor: where the client's messages are read.
        limit: bytes of one message.

    Raises:
        BadInput: the client sent a message longer than `limit`.
        ToolloomError: the episode cannot begin.
    """
    loop = asyncio.get_running_loop()
    async with episode(offer) as played:
        server, lines = mcp_server(played), Lines(descriptor, limit)
        with anyio.CancelScope() as scope:
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.add_signal_handler(number, scope.cancel)
            try:
                # It iterates over lines, and that is all it does with them.
                async with stdio_server(stdin=cast("AsyncFile[str]", lines)) as (read, write):
                    await server.run(read, write, server.create_initialization_options())
            except* BrokenPipeError:  # the client is gone: that is the end, and no error
                pass
    if lines.too_long:
        raise BadInput(
            f"a message of more than {limit >> 20} MiB: the session is over", where="standard input"
        )


class Lines:
    """The lines of a descriptor, read by a thread of its own so that waiting for one can be ended.

    Args:
        descriptor: a pipe, a file or a terminal.
        limit: bytes of a line; a longer one is the end.
    """

    def __init__(self, descriptor: int, limit: int) -> None:
        self.too_long = False
        self._descriptor, self._limit = descriptor, limit
        self._loop = asyncio.get_running_loop()
        # One line ahead: a client that writes faster than it is answered waits in its own pipe.
        self._found: asyncio.Queue[str | None] = asyncio.Queue(maxsize=1)
        threading.Thread(target=self._read, name="standard input", daemon=True).start()

    def __aiter__(self) -> Lines:
        return self

    async def __anext__(self) -> str:
        line = await self._found.get()
        if line is None:
            raise StopAsyncIteration
        return line

    def _read(self) -> None:
        buffer = LineBuffer(self._limit)
        try:
            while chunk := os.read(self._descriptor, _CHUNK):
                for line in buffer.feed(chunk):
                    self._put(line.decode("utf-8", errors="replace"))
        except LineTooLong:
            self.too_long = True
        except OSError:  # a terminal that was closed
            pass
        self._put(None)

    def _put(self, line: str | None) -> None:
        waiting = self._found.put(line)
        try:
            asyncio.run_coroutine_threadsafe(waiting, self._loop).result()
        except RuntimeError:  # the session is over
            waiting.close()
