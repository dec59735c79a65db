"""A live MCP server behind the `Environment` protocol (K2 report 3.1.1: real execution).

State is the folder on disk, and the diff is what really changed there, whatever the server says.
A failed call leaves the folder as it was. Everything that puts the server itself in doubt (it
exits, hangs, floods, escapes its folder) is a `ServerFailed`: no verdict on anybody.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jsonschema_rs

from simulators.live.folder import Tree
from simulators.live.host import Host, HostPool, LiveServer
from synth.core import schemas
from synth.core.canonical import canonical
from synth.core.errors import ServerFailed
from synth.core.mcp.session import RpcError
from synth.core.types import CallError, Diff, Effect, ToolResult, ToolSpec

MAX_RESULT = 100_000
"""Characters of a result that an agent is shown."""
MAX_MESSAGE = 300
_OPEN_ENDED = {"additionalProperties", "patternProperties"}
"""Schemas with one of these say themselves what other parameters there may be."""
INVALID_PARAMS, UNKNOWN_METHOD = -32602, -32601


class LiveEnvironment:
    """One episode's private process and private folder.

    Args:
        server: how the server is started.
        specs: the tools on offer; their effects decide when the folder is looked at.
        template: state seed -> the folder an episode starts from.
        pool: where processes come from and go back to; default one of its own.
    """

    real = True

    def __init__(
        self,
        server: LiveServer,
        specs: Sequence[ToolSpec],
        template: Callable[[int], Tree],
        *,
        pool: HostPool | None = None,
    ) -> None:
        self._server, self._template = server, template
        self._specs = {spec.name: spec for spec in specs}
        self._schemas: dict[str, jsonschema_rs.Validator | None] = {}
        self._own_pool = pool is None
        self._pool = pool or HostPool(server)
        self._host: Host | None = None
        self._base = Tree({})

    async def reset(self, seed: int) -> None:
        """Start over in a folder made from `seed`; a warm process must prove itself.

        Raises:
            ServerFailed: the server does not start or does not see its folder.
            DiskFull: no room for the folder.
        """
        self._base = self._template(seed)
        await self._settle(self._base)

    async def _settle(self, tree: Tree) -> None:
        host, self._host = self._host, None
        self._host = await (self._pool.again(host, tree) if host else self._pool.lease(tree))

    def _ready(self) -> Host:
        if self._host is None:
            raise ServerFailed(
                "has no running episode",
                where=self._server.name,
                remedy="call reset first",
                outcome="invalid",
            )
        if self._host.broken:
            raise ServerFailed(
                "failed earlier in this episode",
                where=self._server.name,
                remedy="call reset to start over",
                outcome="exited",
            )
        return self._host

    def tools(self) -> tuple[ToolSpec, ...]:
        """Return the tools on offer."""
        return tuple(self._specs.values())

    async def call(self, name: str, arguments: Mapping[str, Any]) -> ToolResult:
        """Run one call on the live server.

        Unknown tools and arguments that the schema refuses never reach it. A failed call is
        undone on disk.

        Raises:
            ServerFailed: the server itself failed; the episode is no verdict.
        """
        host = self._ready()
        spec = self._specs.get(name)
        if spec is None:
            return _failure("unknown_tool", f"There is no tool named {name!r}.")
        problem = self._problem(spec, arguments)
        if problem is not None:
            return _failure("invalid_arguments", problem)
        before = host.tree
        try:
            result = self._result(host, await host.call(name, arguments))
        except RpcError as error:
            result = _refusal(error, host)
        if result.ok and spec.effect is Effect.READ:
            return result
        if host.scan() != before and not result.ok:
            await self._settle(before)
        return result

    def _problem(self, spec: ToolSpec, arguments: Any) -> str | None:
        """Say what is wrong with the arguments: the schema's objections, or unknown parameters.

        Servers drop parameters that they do not know without a word; an agent is told.
        """
        if not isinstance(arguments, Mapping):
            return "The arguments are not a JSON object."
        try:
            canonical(dict(arguments))
        except ValueError as error:
            return f"The arguments are {error}."
        if spec.name not in self._schemas:
            self._schemas[spec.name] = _validator(spec.parameters)
        schema = self._schemas[spec.name]
        for found in schema.iter_errors(dict(arguments)) if schema else ():
            where = ".".join(str(part) for part in found.instance_path)
            said = found.message[:MAX_MESSAGE]
            return f"{where}: {said}" if where else said
        return _unknown_parameter(spec, arguments)

    def _result(self, host: Host, raw: Mapping[str, Any]) -> ToolResult:
        text = host.text(raw)
        structured = raw.get("structuredContent")
        if not text and isinstance(structured, dict):
            text = host.outward(canonical(structured))
        if len(text) > MAX_RESULT:
            text = f"{text[:MAX_RESULT]}\n[{len(text) - MAX_RESULT} more characters]"
        if raw.get("isError") is True:
            text = text or "The tool failed."
            error = CallError(code="tool_error", message=text[:MAX_MESSAGE])
            return ToolResult(ok=False, content=text, error=error)
        return ToolResult(ok=True, content=text)

    async def diff(self) -> Diff:
        """Return what differs on disk from the folder of `reset`.

        Raises:
            ServerFailed: the server left something that has no place in its folder.
        """
        tree = self._ready().scan()
        compare = self._server.compare
        return compare(self._base, tree) if compare else tree.diff(self._base)

    async def snapshot(self) -> bytes:
        """Return the whole folder."""
        return self._ready().scan().pack()

    async def restore(self, state: bytes) -> None:
        """Go back to a snapshot; `diff` still counts from `reset`."""
        await self._settle(Tree.unpack(state))

    async def fork(self) -> LiveEnvironment:
        """Return an independent copy with a process and a folder of its own."""
        tree = self._ready().scan()
        twin = LiveEnvironment(
            self._server,
            tuple(self._specs.values()),
            self._template,
            pool=None if self._own_pool else self._pool,
        )
        twin._base = self._base
        await twin._settle(tree)
        return twin

    async def close(self) -> None:
        """Give process and folder back. Harmless when called twice."""
        host, self._host = self._host, None
        if host is not None:
            await self._pool.release(host)
        if self._own_pool:
            await self._pool.close()


def _failure(code: str, message: str) -> ToolResult:
    """Return a failure of our own making, in the form every environment gives it."""
    error = CallError(code=code, message=message)
    content = canonical({"error": {"code": code, "message": message}})
    return ToolResult(ok=False, content=content, error=error)


def _refusal(error: RpcError, host: Host) -> ToolResult:
    """Turn a protocol error into what the agent may see: its own mistakes, no inner workings."""
    if error.code == INVALID_PARAMS:
        return _failure("invalid_arguments", host.outward(error.message))
    if error.code == UNKNOWN_METHOD:
        return _failure("unknown_tool", host.outward(error.message))
    return _failure("tool_fault", "The tool reported an internal error.")


def _unknown_parameter(spec: ToolSpec, arguments: Mapping[str, Any]) -> str | None:
    known = spec.parameters.get("properties")
    if not isinstance(known, Mapping) or _OPEN_ENDED & spec.parameters.keys():
        return None
    unknown = next((name for name in arguments if name not in known), None)
    there_are = ", ".join(known) or "none"
    return None if unknown is None else f"There is no parameter {unknown!r}, only: {there_are}."


def _validator(schema: Mapping[str, Any]) -> jsonschema_rs.Validator | None:
    """Return a validator, or None where the schema itself is broken."""
    try:
        return schemas.validator(schema)
    except schemas.BROKEN:
        return None  # the server knows what it takes
