"""One session over standard input and output: one process, one client, one episode.

Nothing but the protocol reaches standard output: while a session lasts, the package points the
descriptor at standard error, so that whatever else is written lands there. Input is read by us, not
by the package: within bounds, so that a signal ends the session even while nothing comes, so that
what is no message is answered (JSON-RPC 2.0, section 5.1; the package drops it, and its sender
would wait), and so that whoever sends all at once and closes gets every answer.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from typing import TYPE_CHECKING, Any, Self, cast

import anyio
from mcp import types
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage

from simulators.served.episode import Offer, episode
from simulators.served.server import mcp_server
from synth.core.errors import BadInput
from synth.core.mcp.wire import LineBuffer, LineTooLong, parse

if TYPE_CHECKING:
    from anyio import AsyncFile
    from mcp.shared._context_streams import ContextSendStream

MAX_MESSAGE = 4 << 20
"""Bytes of one message; a longer one ends the session. The package has the same bound for HTTP."""
_CHUNK = 64 << 10
_DRAIN_S = 60.0
"""Time that requests under way have when no more will come."""


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
        wire = _Wire(lines)
        with anyio.CancelScope() as scope:
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.add_signal_handler(number, scope.cancel)
            try:
                # It iterates over lines, and that is all it does with them.
                async with stdio_server(stdin=cast("AsyncFile[str]", wire)) as (read, write):
                    wire.out = write
                    await server.run(read, wire, server.create_initialization_options())
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


class _Wire:
    """Both directions of a session: answers what is no message, and ends when all is answered.

    Args:
        lines: what the client sends.
    """

    out: ContextSendStream[SessionMessage]
    """Where answers go; set before the first line is asked for."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self._open: set[str] = set()
        self._settled = asyncio.Event()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> str:
        async for line in self._lines:
            if not line.strip():
                continue
            wrong = self._hear(line)
            if wrong is None:
                return line
            await self.out.send(SessionMessage(wrong))
        with anyio.move_on_after(_DRAIN_S):
            while self._open:
                self._settled.clear()
                await self._settled.wait()
        raise StopAsyncIteration

    async def send(self, item: SessionMessage, /) -> None:
        try:
            await self.out.send(item)
        finally:
            if isinstance(item.message, types.JSONRPCResponse | types.JSONRPCError):
                self._settle(item.message.id)

    async def aclose(self) -> None:
        await self.out.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def _hear(self, line: str) -> types.JSONRPCError | None:
        """Note what a line asks for; return what it gets at once if it is no message."""
        value = parse(line.encode("utf-8", errors="replace"))
        wrong = _wrong(value)
        try:
            message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValueError:
            if wrong is None and "method" in value:
                wrong = _error(types.PARSE_ERROR, "This cannot be read.", value)
            return wrong
        if wrong is None and isinstance(message, types.JSONRPCRequest):
            self._open.add(str(message.id))
        elif wrong is None and getattr(message, "method", "") == "notifications/cancelled":
            self._settle((value.get("params") or {}).get("requestId"))  # it is not answered
        return wrong

    def _settle(self, identity: object) -> None:
        self._open.discard(str(identity))
        self._settled.set()


def _wrong(value: Any) -> types.JSONRPCError | None:
    """Return the answer to what is no request, no notification and no response."""
    if value is None:
        return _error(types.PARSE_ERROR, "This is no JSON.", None)
    if not isinstance(value, dict):
        return _error(types.INVALID_REQUEST, "A message is an object, and alone.", None)
    if "method" not in value and ("result" in value or "error" in value):
        return None
    if value.get("jsonrpc") != "2.0" or not isinstance(value.get("method"), str):
        return _error(types.INVALID_REQUEST, "A request has jsonrpc 2.0 and a method.", value)
    if "id" in value and _identity(value) is None:
        return _error(types.INVALID_REQUEST, "An id is a string or an integer.", value)
    if not isinstance(value.get("params"), dict | None):
        return _error(types.INVALID_PARAMS, "The parameters are an object.", value)
    return None


def _error(code: int, message: str, value: Any) -> types.JSONRPCError:
    said = types.ErrorData(code=code, message=message)
    return types.JSONRPCError(jsonrpc="2.0", id=_identity(value), error=said)


def _identity(value: Any) -> str | int | None:
    """Return the identity of a request if it is one that can be sent back."""
    identity = value.get("id") if isinstance(value, dict) else None
    if isinstance(identity, str):
        return identity if identity.encode(errors="ignore").decode() == identity else None
    return identity if type(identity) is int else None
