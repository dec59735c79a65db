"""Sessions over streamable HTTP, on loopback alone: each is one episode in its own environment.

    POST /mcp                  the handshake opens a session; its `Mcp-Session-Id` names the episode
    POST /episodes/NAME/mcp    the episode that is called NAME, begun by whoever comes first

The first is what clients expect. The second is for clients of 2026-07-28, which has no sessions any
more, and for whoever wants to look at the diff of an episode that another client plays.

Every request passes one door: a foreign `Host` or `Origin` is refused before anything is opened, so
that no web page can reach an episode by rebinding a name (specification, transports: security). No
stream is kept open, since nothing is ever told unasked: GET gets 405, as the specification allows.
An episode that refused all that it was asked ends with the refusal. When there are too many, the
one unused for longest ends, and idle ones end by themselves.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import socket
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Collection, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from uuid import uuid4

import anyio
import uvicorn
from mcp import types
from mcp.server.transport_security import (
    RequestBodyLimitMiddleware,
    TransportSecurityMiddleware,
    TransportSecuritySettings,
)
from mcp.types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from simulators.served.arriving import Arriving
from simulators.served.episode import Count, Offer, episode
from simulators.served.line import ByPath, BySession, Line
from simulators.served.server import mcp_server
from synth.core.errors import BadInput
from synth.core.mcp.wire import parse

LOOPBACK = "127.0.0.1"
PATH = "/mcp"
_NAMED = re.compile(r"/episodes/([A-Za-z0-9_.-]{1,64})/mcp")
_SESSION, _VERSION = "mcp-session-id", "mcp-protocol-version"
_END_S = 5.0
"""Time that an episode has to end by itself, and once more after it was told to."""
_GRACE_S = 1.0
"""Time that requests under way have when all is over."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Bounds:
    """What clients may take up."""

    episodes: int = 256
    """At once; beyond it the one that was used least recently ends, if it can be an idle one."""
    idle_s: float = 1800.0
    """An episode ends after so long without a request."""
    message_bytes: int = 4 << 20
    arrive_s: float = 30.0
    """Time that the body of a request has to arrive."""


@dataclass(slots=True, eq=False)
class _Open:
    key: str
    line: Line
    ready: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None
    used: float = field(default_factory=time.monotonic)
    """When it was last asked (monotonic)."""
    requests: set[anyio.CancelScope] = field(default_factory=set)
    """Those under way."""
    entered: bool = False
    """It has given somebody a result: until then it is nobody's."""


class _Answer:
    """Passes on the answer to one request, and marks the episode as entered if it is a result."""

    def __init__(self, opened: _Open, send: Send) -> None:
        self._opened, self._send = opened, send
        self._status, self._whole = 0, False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
        else:
            self._whole = not message.get("more_body", False)
            if self._status == 200 and not self._opened.entered:
                said = parse(message.get("body", b""))
                self._opened.entered = isinstance(said, dict) and "result" in said
        await self._send(message)

    async def cut_short(self, scope: Scope, receive: Receive) -> None:
        """Bring to an end what the episode did not live to answer."""
        if not self._status:
            await _refusal(404, "The episode has ended.")(scope, receive, self._send)
        elif not self._whole:
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})


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
        self.admitting = True
        """Whether new episodes may begin."""
        self._offer = offer
        self._open: OrderedDict[str, _Open] = OrderedDict()
        self._playing: set[asyncio.Task[None]] = set()
        self._arriving: set[Arriving] = set()
        hosts = [f"{name}:{port}" for name in (LOOPBACK, "localhost")]
        settings = TransportSecuritySettings(
            allowed_hosts=hosts, allowed_origins=[f"http://{host}" for host in hosts]
        )
        self._door = TransportSecurityMiddleware(settings)

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
        refused = refused or _misplaced(scope["path"], request.method)
        if refused is not None:
            await refused(scope, receive, send)
            return
        arriving = Arriving(receive, self.bounds.arrive_s)
        self._arriving.add(arriving)
        answer = partial(self._answer, arriving)
        try:
            bounded = RequestBodyLimitMiddleware(answer, self.bounds.message_bytes)
            await bounded(scope, arriving, send)
        finally:
            self._arriving.discard(arriving)

    async def _answer(self, arriving: Arriving, scope: Scope, receive: Receive, send: Send) -> None:
        self._arriving.discard(arriving)
        if arriving.late:
            await _refusal(408, "The request did not arrive in time.")(scope, receive, send)
            return
        named = _NAMED.fullmatch(scope["path"])
        if named is not None:
            found = await self._begin(f"/{named[1]}", ByPath)
        else:
            body = await receive()
            receive = _again(body, receive)
            found = await self._session(Request(scope), parse(body.get("body", b"")))
        if isinstance(found, Response):
            await found(scope, receive, send)
        else:
            await self._ask(found, scope, receive, send)

    async def _session(self, request: Request, message: Any) -> _Open | Response:
        """Return the session of a request to `PATH`, a new one for a handshake, or a refusal."""
        fields = message if isinstance(message, dict) else {}
        version = request.headers.get(_VERSION)
        if version is not None and version not in HANDSHAKE_PROTOCOL_VERSIONS:
            return _no_sessions(version, fields.get("id"))
        key = request.headers.get(_SESSION)
        if key is None:
            if request.method != "POST" or fields.get("method") != "initialize":
                return _refusal(400, "There is no session: initialize first.")
            new = uuid4().hex
            return await self._begin(new, lambda: BySession(new))
        if key not in self._open or key.startswith("/"):
            return _refusal(404, "Session not found: it ended, or never was. Initialize again.")
        return self._open[key]

    # --- episodes ----------------------------------------------------------------------------

    async def _begin(self, key: str, line: Callable[[], Line]) -> _Open | Response:
        """Have the episode `key` open, served by a new `line` if it is a new one."""
        while key not in self._open and len(self._open) >= self.bounds.episodes:
            await self._end(self._spare())
        if not self.admitting:
            return _refusal(503, "This server is ending.")
        opened = self._open.get(key)
        if opened is None:
            opened = self._open[key] = _Open(key, line())
            opened.task = asyncio.create_task(self._play(opened))
            self._playing.add(opened.task)
            opened.task.add_done_callback(self._playing.discard)
        return opened

    async def _play(self, opened: _Open) -> None:
        try:
            async with episode(self._offer, self.count) as played:
                await opened.line.run(mcp_server(played), opened.ready)
        except Exception:  # one client's episode is nobody else's
            _log.exception("an episode ended in an error")
        finally:
            self._forget(opened)
            opened.ready.set()

    async def _ask(self, opened: _Open, scope: Scope, receive: Receive, send: Send) -> None:
        answer = _Answer(opened, send)
        self._open.move_to_end(opened.key)
        with anyio.CancelScope() as asking:
            opened.requests.add(asking)
            try:
                await opened.ready.wait()
                if self._open.get(opened.key) is opened:
                    await opened.line.handle(scope, receive, answer)
                else:
                    refused = _refusal(500, "The episode did not begin.", types.INTERNAL_ERROR)
                    await refused(scope, receive, answer)
            finally:
                opened.requests.discard(asking)
                opened.used = time.monotonic()
        if asking.cancelled_caught:
            await answer.cut_short(scope, receive)
        if not opened.entered and not opened.requests:
            await self._end(opened)

    def _spare(self) -> _Open:
        """Return the episode that is missed least: the one unused for longest, idle if one is."""
        idle = (one for one in self._open.values() if not one.requests)
        return next(idle, None) or next(iter(self._open.values()))

    def _forget(self, opened: _Open) -> None:
        if self._open.get(opened.key) is opened:  # else another one has that name by now
            del self._open[opened.key]

    async def _end(self, opened: _Open) -> None:
        self._forget(opened)
        await opened.ready.wait()
        for asking in tuple(opened.requests):
            asking.cancel()
        await opened.line.end()
        await _ended([opened.task] if opened.task is not None else [])

    async def _end_idle(self) -> None:
        while True:
            await asyncio.sleep(min(self.bounds.idle_s / 4, 30.0))
            late = time.monotonic() - self.bounds.idle_s
            idle = [o for o in self._open.values() if not o.requests and o.used <= late]
            for opened in idle:
                self._forget(opened)  # now, while it is known that nothing is under way
            await asyncio.shield(asyncio.gather(*map(self._end, idle)))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """End idle episodes meanwhile, and all of them afterwards."""
        idle = asyncio.create_task(self._end_idle())
        try:
            yield
        finally:
            self.admitting = False
            for arriving in self._arriving:
                arriving.end()
            idle.cancel()
            await asyncio.gather(*map(self._end, tuple(self._open.values())))
            await _ended(tuple(self._playing))  # those that somebody else had begun to end


async def _ended(tasks: Collection[asyncio.Task[None]]) -> None:
    """Wait until tasks have ended; those that do not by themselves are told to."""
    left = {task for task in tasks if not task.done()}
    if left:
        _, left = await asyncio.wait(left, timeout=_END_S)
    for task in left:
        task.cancel()
    if left:
        await asyncio.wait(left, timeout=_END_S)


def _misplaced(path: str, method: str) -> Response | None:
    """Return the refusal of a request that has no place here.

    `path` is the one that was sent, decoded: an address made of it would lose line breaks, and
    what follows a question mark.
    """
    if path != PATH and not _NAMED.fullmatch(path):
        return _refusal(404, f"The path is {PATH} or /episodes/NAME/mcp.")
    allowed = ("POST", "DELETE") if path == PATH else ("POST",)
    if method in allowed:
        return None
    return Response(status_code=405, headers={"Allow": ", ".join(allowed)})


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
            timeout_graceful_shutdown=10,
        )
        listener = _Listener(config)
        serving = asyncio.create_task(listener.serve([listening]))
        try:
            async with episodes.running():
                try:
                    yield f"http://{LOOPBACK}:{port}{PATH}", episodes
                finally:  # nothing new; what is under way may end; then what is still open ends
                    episodes.admitting, listener.should_exit = False, True
                    await asyncio.wait([serving], timeout=_GRACE_S)
        finally:
            await serving
