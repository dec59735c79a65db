"""Sessions over streamable HTTP, on loopback alone: each is one episode in its own environment.

    POST /mcp                  the handshake opens a session; its `Mcp-Session-Id` names the episode
    POST /episodes/NAME/mcp    the episode that is called NAME, begun by whoever comes first

The first is what clients expect. The second is for clients of 2026-07-28, which has no sessions any
more, and for whoever wants to look at the diff of an episode that another client plays.

Every request passes one door: a foreign `Host` or `Origin` is refused before anything is opened, so
that no web page can reach an episode by rebinding a name (specification, transports: security). No
stream is kept open, since nothing is ever told unasked: GET gets 405, as the specification allows.
When there are too many episodes the one unused for longest ends, and idle ones end by themselves.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import socket
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol
from uuid import uuid4

import uvicorn
from mcp import types
from mcp.server import Server
from mcp.server.streamable_http import StreamableHTTPServerTransport
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import (
    RequestBodyLimitMiddleware,
    TransportSecurityMiddleware,
    TransportSecuritySettings,
)
from mcp.types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from simulators.served.episode import Count, Episode, Offer, episode
from simulators.served.server import mcp_server
from synth.core.errors import BadInput
from synth.core.mcp.wire import parse

LOOPBACK = "127.0.0.1"
PATH = "/mcp"
_NAMED = re.compile(r"/episodes/([A-Za-z0-9_.-]{1,64})/mcp")
_SESSION, _VERSION = "mcp-session-id", "mcp-protocol-version"
_END_S = 5.0
"""Time that an episode has to end by itself."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Bounds:
    """What clients may take up."""

    episodes: int = 256
    """At once; beyond it the one that was used least recently ends."""
    idle_s: float = 1800.0
    """An episode ends after so long without a request."""
    message_bytes: int = 4 << 20


class _Line(Protocol):
    """How requests reach the server of one episode."""

    async def run(self, server: Server[Episode], ready: asyncio.Event) -> None:
        """Serve until `end`; `ready` is set once requests may come."""

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""

    async def end(self) -> None:
        """End it."""


class _BySession:
    """For an episode that a session of the handshake era names."""

    def __init__(self, key: str) -> None:
        self._transport = StreamableHTTPServerTransport(key, is_json_response_enabled=True)

    async def run(self, server: Server[Episode], ready: asyncio.Event) -> None:
        async with self._transport.connect() as (read, write):
            ready.set()
            await server.run(read, write, server.create_initialization_options())

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._transport.handle_request(scope, receive, send)

    async def end(self) -> None:
        await self._transport.terminate()


class _ByPath:
    """For an episode that the path names, and clients of either era."""

    def __init__(self) -> None:
        self._manager: StreamableHTTPSessionManager | None = None
        self._over = asyncio.Event()

    async def run(self, server: Server[Episode], ready: asyncio.Event) -> None:
        manager = StreamableHTTPSessionManager(server, stateless=True, json_response=True)
        async with manager.run():
            self._manager = manager
            ready.set()
            await self._over.wait()

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert self._manager is not None, "a request came before it was ready"
        await self._manager.handle_request(scope, receive, send)

    async def end(self) -> None:
        self._over.set()


@dataclass(slots=True)
class _Open:
    line: _Line
    ready: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None
    used: float = field(default_factory=time.monotonic)
    """When it was last asked (monotonic)."""
    asked: int = 0
    """Requests under way."""


class Episodes:
    """The ASGI application: finds the episode that a request belongs to, or begins it.

    Args:
        offer: what is served.
        port: where it is served; part of the only `Host` headers that are let in.
        bounds: what clients may take up.
    """

    def __init__(self, offer: Offer, port: int, bounds: Bounds | None = None) -> None:
        self.count = Count()
        self.bounds = bounds or Bounds()
        self._offer = offer
        self._open: OrderedDict[str, _Open] = OrderedDict()
        hosts = [f"{name}:{port}" for name in (LOOPBACK, "localhost")]
        settings = TransportSecuritySettings(
            allowed_hosts=hosts, allowed_origins=[f"http://{host}" for host in hosts]
        )
        self._door = TransportSecurityMiddleware(settings)
        self._bounded = RequestBodyLimitMiddleware(self._answer, self.bounds.message_bytes)

    @property
    def keys(self) -> tuple[str, ...]:
        """Return the names of the episodes that are open, the one unused for longest first."""
        return tuple(self._open)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request in, or turn it away."""
        if scope["type"] != "http":
            return
        request = Request(scope)
        refused = await self._door.validate_request(request, is_post=request.method == "POST")
        if refused is None and request.method not in ("POST", "DELETE"):
            refused = Response(status_code=405, headers={"Allow": "POST, DELETE"})
        if refused is not None:
            await refused(scope, receive, send)
        else:
            await self._bounded(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope)
        named = _NAMED.fullmatch(request.url.path)
        if named is not None:
            line = await self._begin(f"/{named[1]}", _ByPath())
        elif request.url.path != PATH:
            line = _refusal(404, f"The path is {PATH} or /episodes/NAME/mcp.")
        else:
            body = await receive()
            receive = _again(body, receive)
            line = await self._session(request, parse(body.get("body", b"")))
        if isinstance(line, Response):
            await line(scope, receive, send)
        else:
            await self._ask(line, scope, receive, send)

    async def _session(self, request: Request, message: Any) -> str | Response:
        """Return the session of a request to `PATH`, a new one for a handshake, or a refusal."""
        fields = message if isinstance(message, dict) else {}
        version = request.headers.get(_VERSION)
        if version is not None and version not in HANDSHAKE_PROTOCOL_VERSIONS:
            return _no_sessions(version, fields.get("id"))
        key = request.headers.get(_SESSION)
        if key is None:
            if request.method != "POST" or fields.get("method") != "initialize":
                return _refusal(400, "There is no session: initialize first.")
            return await self._begin(new := uuid4().hex, _BySession(new))
        if key not in self._open or key.startswith("/"):
            return _refusal(404, "Session not found: it ended, or never was. Initialize again.")
        return key

    # --- episodes ----------------------------------------------------------------------------

    async def _begin(self, key: str, line: _Line) -> str | Response:
        """Have the episode `key` open, served by `line` if it is a new one."""
        while key not in self._open and len(self._open) >= self.bounds.episodes:
            await self._end(next(iter(self._open)))
        opened = self._open.get(key)
        if opened is None:
            opened = self._open[key] = _Open(line)
            opened.task = asyncio.create_task(self._play(key, opened))
        await opened.ready.wait()
        if self._open.get(key) is not opened:
            return _refusal(500, "The episode did not begin.", types.INTERNAL_ERROR)
        return key

    async def _play(self, key: str, opened: _Open) -> None:
        try:
            async with episode(self._offer, self.count) as played:
                await opened.line.run(mcp_server(played), opened.ready)
        except Exception:  # one client's episode is nobody else's
            _log.exception("an episode ended in an error")
        finally:
            if self._open.get(key) is opened:  # else another one has that name by now
                del self._open[key]
            opened.ready.set()

    async def _ask(self, key: str, scope: Scope, receive: Receive, send: Send) -> None:
        opened = self._open[key]
        self._open.move_to_end(key)
        opened.used, opened.asked = time.monotonic(), opened.asked + 1
        try:
            await opened.line.handle(scope, receive, send)
        finally:
            opened.used, opened.asked = time.monotonic(), opened.asked - 1

    async def _end(self, key: str) -> None:
        opened = self._open.pop(key)
        await opened.ready.wait()
        await opened.line.end()
        if opened.task is not None:
            await asyncio.wait([opened.task], timeout=_END_S)
            opened.task.cancel()

    async def _end_idle(self) -> None:
        while True:
            await asyncio.sleep(min(self.bounds.idle_s / 4, 30.0))
            late = time.monotonic() - self.bounds.idle_s
            idle = [key for key, one in self._open.items() if not one.asked and one.used <= late]
            for key in idle:
                if key in self._open:
                    await self._end(key)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """End idle episodes meanwhile, and all of them afterwards."""
        idle = asyncio.create_task(self._end_idle())
        try:
            yield
        finally:
            idle.cancel()
            for key in self.keys:
                await self._end(key)


def _again(message: Message, receive: Receive) -> Receive:
    """Return a `receive` that gives `message`, which was read already, first."""
    left = [message]

    async def give() -> Message:
        return left.pop() if left else await receive()

    return give


def _refusal(status: int, message: str, code: int = types.INVALID_REQUEST, **more: Any) -> Response:
    """Return a JSON-RPC error."""
    error = {"code": code, "message": message} | ({"data": more["data"]} if "data" in more else {})
    body = {"jsonrpc": "2.0", "id": more.get("id"), "error": error}
    return Response(json.dumps(body), status_code=status, media_type="application/json")


def _no_sessions(version: str, asked: Any) -> Response:
    """Refuse a protocol without sessions; a client that knows an earlier one falls back to it."""
    message = (
        f"Sessions end with {HANDSHAKE_PROTOCOL_VERSIONS[-1]}: initialize, or name the episode in "
        "the path, /episodes/NAME/mcp."
    )
    data = {"supported": list(HANDSHAKE_PROTOCOL_VERSIONS), "requested": version[:40]}
    number = asked if isinstance(asked, (int, str)) else None
    return _refusal(400, message, types.UNSUPPORTED_PROTOCOL_VERSION, data=data, id=number)


# --- the listener ----------------------------------------------------------------------------


class _Listener(uvicorn.Server):
    """Leaves the signals of the process to whoever started it."""

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


@asynccontextmanager
async def served_http(
    offer: Offer, port: int = 0, bounds: Bounds | None = None
) -> AsyncIterator[tuple[str, Episodes]]:
    """Serve episodes on loopback while the block lasts; give the address and the episodes.

    Args:
        offer: what is served.
        port: 0 is a free one.
        bounds: what clients may take up.

    Raises:
        BadInput: the port is taken, or not for us.
    """
    try:
        listening = socket.create_server((LOOPBACK, port), backlog=128)
    except OSError as error:
        what = f"port {port} cannot be used: {(error.strerror or str(error)).lower()}"
        raise BadInput(what, remedy="give another, or none for a free one") from error
    with listening:
        port = listening.getsockname()[1]
        episodes = Episodes(offer, port, bounds)
        config = uvicorn.Config(
            episodes,
            lifespan="off",
            log_config=None,
            log_level="error",
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=2,
        )
        listener = _Listener(config)
        serving = asyncio.create_task(listener.serve([listening]))
        try:
            async with episodes.running():
                yield f"http://{LOOPBACK}:{port}{PATH}", episodes
        finally:
            listener.should_exit = True
            await serving
