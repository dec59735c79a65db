"""A conversation with one MCP server, on our own bounded readers: stdio or HTTP beneath it.

No SDK client: it loses a whole list for one bad tool, hangs on a line without end and has no
deadline (`docs/decisions/0008-our-own-mcp-reader.md`). Everything is returned raw; judging it is
the caller's work. Protocol: MCP 2025-11-25 with the `initialize` handshake, which is what servers
speak.

    async with McpSession(ServerLaunch(argv=("mcp-server-time",))) as session:
        tools = await session.list_tools()
        result = await session.call_tool("get_current_time", {"timezone": "UTC"})

    async with McpSession(ServerAddress("https://mcp.example.com/mcp")) as session: ...
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Protocol

from synth.core.errors import ServerFailed
from synth.core.mcp.address import ServerAddress
from synth.core.mcp.process import Limits, ServerLaunch, start
from synth.core.mcp.wire import messages

__all__ = ["Limits", "McpSession", "RpcError", "ServerAddress", "ServerLaunch"]

PROTOCOL = "2025-11-25"
METHOD_NOT_FOUND = -32601
MESSAGE_BYTES = 512
"""What a message that answers nothing counts for besides its length: short ones cost time."""


class RpcError(ServerFailed):
    """The server answered a request with an error. The session can go on."""

    def __init__(self, error: Any, *, where: str) -> None:
        fields = error if isinstance(error, dict) else {"message": error}
        self.code = fields.get("code")
        self.message = str(fields.get("message", ""))[:2000]
        super().__init__(f"error {self.code}: {self.message}", where=where, outcome="rpc_error")


class Transport(Protocol):
    """Carries messages to one server and back: `process.ServerProcess`, `remote.RemoteServer`."""

    @property
    def pid(self) -> int | None:
        """Return the id of its process group, None where it runs elsewhere."""

    @property
    def stderr_tail(self) -> str:
        """Return the end of what it wrote to standard error."""

    def send(self, line: bytes, *, limit_s: float | None = None) -> None:
        """Queue a message.

        Args:
            line: JSON and a line feed.
            limit_s: seconds until its answer is due; None where none is expected.
        """

    def agreed(self, protocol: str) -> None:
        """Learn which version of the protocol both sides speak."""

    def kill(self) -> None:
        """End it now."""

    async def close(self) -> None:
        """End it and everything that belongs to it."""


class McpSession:
    """One private server process, or one session of a server elsewhere. Not to be shared.

    Args:
        launch: what to start, or where it is.
        limits: what it may cost.
    """

    def __init__(self, launch: ServerLaunch | ServerAddress, limits: Limits | None = None) -> None:
        self.launch, self.limits = launch, limits or Limits()
        self.server_info: dict[str, Any] = {}
        self.protocol = ""
        self.instructions: str | None = None
        self.capabilities: dict[str, Any] = {}
        self.flags: set[str] = set()
        """What was odd: `noise`, `stray_reply`, `server_request`, `cursor_loop`, …"""
        self.noise_lines = 0
        self.start_s = 0.0
        """Seconds from launch to the answer of `initialize`."""
        self._server: Transport | None = None
        self._waiting: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self._next_id = 0
        self._idle_bytes = 0
        self._answer_bytes = 0
        """Size of the last message that answered a request."""
        self._failure: ServerFailed | None = None

    # --- the public verbs ---------------------------------------------------------------------

    async def open(self) -> McpSession:
        """Start the server and shake hands.

        Raises:
            ServerFailed: it exited, was silent past `limits.start_s`, or answered nonsense.
        """
        begun = time.monotonic()
        try:
            self._server = self._connected()
            hello = {
                "protocolVersion": PROTOCOL,
                "capabilities": {},
                "clientInfo": {"name": "toolloom", "version": "1"},
            }
            result = await self._request("initialize", hello, self.limits.start_s)
            self._read_hello(result)
            self._server.agreed(self.protocol)
            self._send({"method": "notifications/initialized"})
        except BaseException:
            await self.close()
            raise
        self.start_s = time.monotonic() - begun
        return self

    def _connected(self) -> Transport:
        if isinstance(self.launch, ServerLaunch):
            return start(self.launch, self.limits, on_line=self._on_line, on_end=self._on_end)
        from synth.core.mcp.remote import RemoteServer  # aiohttp is heavy

        return RemoteServer(self.launch, self.limits, on_line=self._on_line, on_end=self._on_end)

    async def list_tools(self) -> list[Any]:
        """Return the raw entries of every page of `tools/list`, as the server wrote them.

        A cursor that comes back, more than `limits.pages` pages, `limits.tools` tools or
        `limits.list_bytes` bytes end the listing with a flag (`cursor_loop`, `too_many_pages`,
        `too_many_tools`, `list_cut`).

        Raises:
            ServerFailed: no page, or not all of them, within `limits.list_s`.
        """
        deadline = time.monotonic() + self.limits.list_s
        tools: list[Any] = []
        seen: set[str] = set()
        cursor: str | None = None
        size = 0
        for _ in range(self.limits.pages):
            params = {} if cursor is None else {"cursor": cursor}
            left = deadline - time.monotonic()
            page = await self._request("tools/list", params, max(left, 0.0))
            entries = page.get("tools")
            if not isinstance(entries, list):
                raise self._nonsense("the result of tools/list has no list of tools")
            tools += entries
            if len(tools) > self.limits.tools:
                self.flags.add("too_many_tools")
                return tools[: self.limits.tools]
            cursor = page.get("nextCursor")
            if not isinstance(cursor, str):
                return tools
            if cursor in seen or not entries:
                self.flags.add("cursor_loop")
                return tools
            size += self._answer_bytes
            if size > self.limits.list_bytes:
                self.flags.add("list_cut")
                return tools
            seen.add(cursor)
        self.flags.add("too_many_pages")
        return tools

    async def call_tool(
        self, name: str, arguments: Mapping[str, Any], *, limit_s: float | None = None
    ) -> dict[str, Any]:
        """Return the raw result of one call (`content`, `structuredContent`, `isError`).

        Args:
            name: the tool's name as the server wrote it.
            arguments: the arguments object; the caller has validated it.
            limit_s: seconds for this call; default `limits.call_s`.

        Raises:
            RpcError: the server answered with a protocol error; the session can go on.
            ServerFailed: it exited, was too slow or answered nonsense; the session is over.
        """
        params = {"name": name, "arguments": dict(arguments)}
        return await self._request("tools/call", params, limit_s or self.limits.call_s)

    async def close(self) -> None:
        """End the server and everything it started. Harmless when called twice."""
        self._on_end(ServerFailed("the session is closed", where=self._where, outcome="exited"))
        if self._server is not None:
            await self._server.close()

    async def __aenter__(self) -> McpSession:
        return await self.open()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    @property
    def stderr_tail(self) -> str:
        """Return the end of what the server wrote to standard error."""
        return self._server.stderr_tail if self._server else ""

    @property
    def pid(self) -> int | None:
        """Return the id of the server's process group, None before the start or elsewhere."""
        return self._server.pid if self._server else None

    # --- requests and replies -----------------------------------------------------------------

    @property
    def _where(self) -> str:
        return self.launch.label

    async def _request(self, method: str, params: dict[str, Any], limit_s: float) -> dict[str, Any]:
        if self._failure is not None:
            raise self._failure
        self._next_id += 1
        number = self._next_id
        reply: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[str(number)] = reply
        self._idle_bytes = 0
        self._send({"id": number, "method": method, "params": params}, limit_s=limit_s)
        try:
            async with asyncio.timeout(limit_s):
                message = await reply
        except TimeoutError:
            failure = ServerFailed(
                f"no answer to {method} within {limit_s:g} s",
                where=self._where,
                outcome="timeout",
            )
            self._over(failure)
            raise failure from None
        finally:
            self._waiting.pop(str(number), None)
        if "error" in message:
            raise RpcError(message["error"], where=self._where)
        result = message.get("result")
        if not isinstance(result, dict):
            raise self._nonsense(f"the result of {method} is not an object")
        return result

    def _send(self, message: dict[str, Any], *, limit_s: float | None = None) -> None:
        text = json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":"))
        if self._server is not None:
            self._server.send(text.encode() + b"\n", limit_s=limit_s)

    def _on_line(self, line: bytes) -> bool:
        """Take what the server said; True when it answers a request of ours."""
        found = messages(line)
        answered = False
        if found is None and line.strip():
            self.noise_lines += 1
            self.flags.add("noise")
        for message in found or ():
            answered |= self._take(message)
        if answered:
            self._answer_bytes = len(line)
        self._idle_bytes = 0 if answered else self._idle_bytes + len(line) + MESSAGE_BYTES
        if self._idle_bytes > self.limits.noise_bytes and self._failure is None:
            self._over(ServerFailed("floods its output", where=self._where, outcome="oversize"))
        return answered

    def _take(self, message: dict[str, Any]) -> bool:
        """Handle one message; True when it answers a request of ours."""
        number = message.get("id")
        if "method" in message:
            if number is not None:
                self._refuse(message["method"], number)
            return False
        reply = self._waiting.get(str(number))
        if reply is None or reply.done():
            self.flags.add("stray_reply")
            return False
        reply.set_result(message)
        return True

    def _refuse(self, method: Any, number: Any) -> None:
        """Answer a request of the server: `ping` politely, everything else with a refusal."""
        if method == "ping":
            self._send({"id": number, "result": {}})
            return
        self.flags.add("server_request")
        error = {"code": METHOD_NOT_FOUND, "message": "this client answers no requests"}
        self._send({"id": number, "error": error})

    def _read_hello(self, result: dict[str, Any]) -> None:
        protocol = result.get("protocolVersion")
        if not isinstance(protocol, str):
            raise self._nonsense("the result of initialize names no protocol version")
        info, capabilities = result.get("serverInfo"), result.get("capabilities")
        instructions = result.get("instructions")
        self.protocol = protocol[:40]
        self.server_info = info if isinstance(info, dict) else {}
        self.capabilities = capabilities if isinstance(capabilities, dict) else {}
        self.instructions = instructions if isinstance(instructions, str) else None

    def _nonsense(self, what: str) -> ServerFailed:
        return ServerFailed(what, where=self._where, outcome="invalid")

    def _over(self, failure: ServerFailed) -> None:
        """End the session now: nothing it says later counts."""
        self._on_end(failure)
        if self._server is not None:
            self._server.kill()

    def _on_end(self, failure: ServerFailed) -> None:
        if self._failure is None:
            self._failure = failure
        for reply in self._waiting.values():
            if not reply.done():
                reply.set_exception(self._failure)
