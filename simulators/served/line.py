"""How requests reach the server of one episode over HTTP: by a session, or by the path."""

from __future__ import annotations

import asyncio
from typing import Protocol

from mcp.server import Server
from mcp.server.streamable_http import StreamableHTTPServerTransport
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.types import Receive, Scope, Send

from simulators.served.episode import Episode


class Line(Protocol):
    """How requests reach the server of one episode."""

    async def run(self, server: Server[Episode], ready: asyncio.Event) -> None:
        """Serve until `end`; `ready` is set once requests may come."""

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""

    async def end(self) -> None:
        """End it."""


class BySession:
    """For an episode that a session of the handshake era names."""

    def __init__(self, key: str) -> None:
        self._transport = StreamableHTTPServerTransport(key, is_json_response_enabled=True)

    async def run(self, server: Server[Episode], ready: asyncio.Event) -> None:
        """Serve until `end`."""
        async with self._transport.connect() as (read, write):
            ready.set()
            await server.run(read, write, server.create_initialization_options())

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        await self._transport.handle_request(scope, receive, send)

    async def end(self) -> None:
        """End it."""
        await self._transport.terminate()


class ByPath:
    """For an episode that the path names, and clients of either era."""

    def __init__(self) -> None:
        self._manager: StreamableHTTPSessionManager | None = None
        self._over = asyncio.Event()

    async def run(self, server: Server[Episode], ready: asyncio.Event) -> None:
        """Serve until `end`."""
        manager = StreamableHTTPSessionManager(server, stateless=True, json_response=True)
        async with manager.run():
            self._manager = manager
            ready.set()
            await self._over.wait()

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        assert self._manager is not None, "a request came before it was ready"
        await self._manager.handle_request(scope, receive, send)

    async def end(self) -> None:
        """End it."""
        self._over.set()
