"""A live server at work: one private process, one private folder, and a pool of warm ones.

Starting a server costs about a second, seeding its folder again a few milliseconds. A process that
served one episode may serve the next only if probe calls after re-seeding show exactly the new
folder; otherwise it is ended and a fresh one takes its place.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import re
import tempfile
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from simulators.live.folder import MAX_ENTRIES, Tree
from synth.core.errors import DiskFull, ServerFailed
from synth.core.mcp.disk import remove
from synth.core.mcp.session import Limits, McpSession, RpcError, ServerLaunch
from synth.core.sandbox.confine import ProcessLimits
from synth.core.types import Diff

WORK = "{work}"
FILE_LIMIT = 16 << 20
"""Bytes of one file that a server may write before the kernel stops it."""
DISK_LIMIT = 96 << 20
"""Bytes of all that a server may write: its folder, home and temporary files."""
PREFIX = "toolloom-"


@dataclass(frozen=True, slots=True)
class Probe:
    """A read that shows whether a server sees its folder as it is. Paths are the agent's."""

    tool: str
    arguments: Mapping[str, Any]
    holds: Callable[[str], bool]
    """Takes the text of the result as the server wrote it."""


@dataclass(frozen=True, slots=True)
class LiveServer:
    """How a server is started for an episode, and how its words are read.

    `{work}` in an argument or variable stands for the private folder of the episode.
    """

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    alias: str = "/data"
    """What the agent calls the private folder, so that no transcript holds a machine's path."""
    paths: frozenset[str] | None = None
    """Parameters that hold paths; None takes every argument that begins with the alias."""
    scrub: tuple[tuple[re.Pattern[str], str], ...] = ()
    """Replacements in results: what differs from run to run, such as times."""
    probes: Callable[[Tree], Sequence[Probe]] | None = None
    """Reads that prove a warm process reset; None means a fresh process each time."""
    compare: Callable[[Tree, Tree], Diff] | None = None
    """Net change from one folder to another in terms of what it means; default: of the files."""
    network: bool = False
    readable: tuple[Path, ...] = ()
    """Shown to the server read-only: where its program is installed."""
    allow_weaker: bool = False
    limits: Limits = field(
        default_factory=lambda: Limits(
            call_s=20.0,
            stop_s=0.3,
            disk_bytes=DISK_LIMIT,
            disk_files=4 * MAX_ENTRIES,
            process=ProcessLimits(file_bytes=FILE_LIMIT),
        )
    )

    def launch(self, work: Path) -> ServerLaunch:
        """Return the launch of a process whose private folder is `work`."""
        return ServerLaunch(
            argv=tuple(part.replace(WORK, str(work)) for part in self.argv),
            env={name: value.replace(WORK, str(work)) for name, value in self.env.items()},
            cwd=work,
            network=self.network,
            writable=work,
            readable=self.readable,
            name=self.name,
            allow_weaker=self.allow_weaker,
        )


class Host:
    """One running server and its folder. Made by `Host.start`; not to be shared.

    `broken` is set by the first failure that leaves its state in doubt; it is then good only for
    `close`.
    """

    def __init__(self, server: LiveServer, base: Path) -> None:
        self.server, self.base = server, base
        self.work = base / "data"
        self.session = McpSession(server.launch(self.work), server.limits)
        self.tree = Tree({})
        """The folder as last seen."""
        self.broken = False
        self.loop = asyncio.get_running_loop()
        temporary = re.escape(os.path.realpath(tempfile.gettempdir()))
        self._remove = weakref.finalize(self, remove, base)
        self._private = re.compile(f"{temporary}/{PREFIX}[A-Za-z0-9_-]+")

    @classmethod
    async def start(cls, server: LiveServer, tree: Tree) -> Host:
        """Seed a private folder with `tree` and start a process on it.

        Raises:
            ServerFailed: it does not start, or does not see its folder.
            DiskFull: no room for the folder.
        """
        base = Path(os.path.realpath(tempfile.mkdtemp(prefix=f"{PREFIX}live-")))
        host = cls(server, base)
        try:
            host.work.mkdir()
            host._write(tree)
            await host.session.open()
            if not await host.sees_its_folder():
                raise ServerFailed(
                    "does not show the folder it was given", where=server.name, outcome="invalid"
                )
        except BaseException:
            await host.close()
            raise
        return host

    async def seed(self, tree: Tree) -> bool:
        """Make the folder hold `tree`. False: this process cannot be used for it."""
        if self.broken or self.server.probes is None:
            return False
        try:
            self._write(tree)
            return await self.sees_its_folder()
        except ServerFailed:
            self.broken = True
            return False

    def _write(self, tree: Tree) -> None:
        try:
            tree.write(self.work)
        except OSError as error:
            self.broken = True
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise DiskFull("the disk is full", where=str(self.base.parent)) from error
            raise ServerFailed(
                f"its folder cannot be seeded ({error.strerror})",
                where=self.server.name,
                outcome="invalid",
            ) from error
        self.tree = tree

    async def sees_its_folder(self) -> bool:
        """Say whether every probe shows the folder as it was seeded."""
        for probe in self.server.probes(self.tree) if self.server.probes else ():
            try:
                result = await self.call(probe.tool, probe.arguments)
            except RpcError:
                return False
            if result.get("isError") is True or not probe.holds(_text(result)):
                return False
        return True

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Run one call with the agent's paths; return the raw result.

        Raises:
            RpcError: the server refused; it can go on.
            ServerFailed: it is gone, too slow or talks nonsense; the host is broken.
        """
        try:
            return await self.session.call_tool(tool, self._inward(arguments))
        except RpcError:
            raise
        except ServerFailed as error:
            self.broken = True
            what = self.outward(error.what)  # it may quote the server's last words
            raise ServerFailed(
                what, where=error.where, remedy=error.remedy, outcome=error.outcome
            ) from error
        except BaseException:  # cancelled: the call may still be running over there
            self.broken = True
            raise

    def scan(self) -> Tree:
        """Look at the folder as it really is now.

        Raises:
            ServerFailed: something in it has no place there; the host is broken.
        """
        try:
            self.tree = Tree.scan(self.work, server=self.server.name)
        except ServerFailed:
            self.broken = True
            raise
        return self.tree

    async def close(self) -> None:
        """End the process and all it started, then remove the folder."""
        self.broken = True
        try:
            await self.session.close()
        finally:
            self._remove()

    # --- paths and words ----------------------------------------------------------------------

    def _inward(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments with the agent's paths turned into paths of this machine."""
        known = self.server.paths
        out: dict[str, Any] = {}
        for name, value in arguments.items():
            if known is not None and name not in known:
                out[name] = value
            elif isinstance(value, list):
                out[name] = [self._path(item, sure=known is not None) for item in value]
            else:
                out[name] = self._path(value, sure=known is not None)
        return out

    def _path(self, value: Any, *, sure: bool) -> Any:
        alias = self.server.alias
        if not isinstance(value, str) or value.startswith("~"):
            return value
        if not sure and ("\n" in value or not f"{value}/".startswith(f"{alias}/")):
            return value
        full = "/" + os.path.normpath(os.path.join(alias, value)).lstrip("/")
        if full == alias or full.startswith(f"{alias}/"):
            return str(self.work) + full.removeprefix(alias)
        return full  # outside, as the agent sees the world: the server will refuse it

    def text(self, result: Mapping[str, Any]) -> str:
        """Return the text of a raw result, the same on every machine and in every run."""
        return self.outward(_text(result))

    def outward(self, text: str) -> str:
        """Replace this machine's paths and what else differs from run to run."""
        text = text.replace(str(self.work), self.server.alias).replace(f"{self.base}/", "/")
        text = self._private.sub("/private", text.replace(str(self.base), "/"))
        for pattern, replacement in self.server.scrub:
            text = pattern.sub(replacement, text)
        return text.encode("utf-8", "replace").decode()


def _text(result: Mapping[str, Any]) -> str:
    """Join the text blocks of a result; other blocks are named, not shown."""
    blocks = result.get("content")
    parts = [_block(block) for block in blocks] if isinstance(blocks, list) else []
    return "\n".join(parts)


def _block(block: Any) -> str:
    if not isinstance(block, dict):
        return "[unreadable]"
    inner = block.get("resource")
    holder = inner if isinstance(inner, dict) else block
    if isinstance(holder.get("text"), str):
        return str(holder["text"])
    return f"[{block.get('type')}: {holder.get('mimeType', 'no text')}]"


class HostPool:
    """Warm servers of one kind. Every host it ever gave out is ended by `close`.

    Args:
        server: what to start.
        keep: warm processes kept while nobody uses them (each about 70 MB).
    """

    def __init__(self, server: LiveServer, *, keep: int = 2) -> None:
        self.server, self.keep = server, keep
        self.started = 0
        """Processes started so far."""
        self.reused = 0
        """Times a warm process was reset and proved."""
        self._idle: list[Host] = []
        self._out: set[Host] = set()

    async def lease(self, tree: Tree) -> Host:
        """Return a host whose folder holds `tree`: a warm one that proves it, or a fresh one.

        Raises:
            ServerFailed: a fresh server does not start or does not see its folder.
            DiskFull: no room for a folder.
        """
        loop = asyncio.get_running_loop()
        while self._idle:
            host = self._idle.pop()
            self._out.add(host)
            if host.loop is loop and await host.seed(tree):
                self.reused += 1
                return host
            await self._end(host)
        self.started += 1
        host = await Host.start(self.server, tree)
        self._out.add(host)
        return host

    async def again(self, host: Host, tree: Tree) -> Host:
        """Return `host`, or another in its place, with its folder holding `tree`."""
        if await host.seed(tree):
            self.reused += 1
            return host
        await self._end(host)
        return await self.lease(tree)

    async def release(self, host: Host) -> None:
        """Take a host back: kept warm if sound and wanted, else ended."""
        if host.broken or self.server.probes is None or len(self._idle) >= self.keep:
            await self._end(host)
            return
        self._out.discard(host)
        self._idle.append(host)

    async def _end(self, host: Host) -> None:
        await host.close()
        self._out.discard(host)

    async def close(self) -> None:
        """End every process, idle or not. The pool can be used again."""
        hosts = [*self._idle, *self._out]
        self._idle.clear()
        self._out.clear()
        async with contextlib.AsyncExitStack() as stack:
            for host in hosts:
                stack.push_async_callback(host.close)
