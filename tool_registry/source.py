"""What a source of tools is: a plug-in, one file in `tool_registry/sources/`.

A source turns what a user writes (`pypi:mcp-server-time`, a path) into targets, and a target into a
listing. Listing may install and run a server, but never calls a tool.
"""

from __future__ import annotations

import asyncio
import shlex
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeAlias, runtime_checkable

from synth.core.errors import BadInput
from synth.core.mcp.session import Limits, ServerAddress
from synth.core.plugins import Plugins


@dataclass(frozen=True, slots=True)
class Target:
    """One server to list."""

    server: str
    """Identity in the registry: `pypi:NAME`, `npm:NAME`, `mcp.json:PATH#NAME`, `url:https://…`."""
    source: str
    """Name of the plug-in that lists it."""
    package: str | None = None
    version: str | None = None
    """None means the newest that fits this machine."""
    command: tuple[str, ...] = ()
    """For servers that are not installed by us."""
    arguments: tuple[str, ...] = ()
    """For the server; `{work}` stands for its private folder."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Without secrets: those are replaced before a target is made."""
    cwd: str | None = None
    script: str | None = None
    """Which of the package's commands; None lets the source choose."""
    address: ServerAddress | None = field(default=None, repr=False)
    """Of a server elsewhere. May hold credentials, so nothing of it is written down."""

    def record(self) -> dict[str, Any]:
        """Return the target as it is written down: names of variables only, no values."""
        return {
            "server": self.server,
            "source": self.source,
            "package": self.package,
            "version": self.version,
            "command": list(self.command),
            "arguments": list(self.arguments),
            "env": sorted(self.env),
            "cwd": self.cwd,
            "script": self.script,
        }


@dataclass(slots=True)
class Listing:
    """What one attempt to list a server brought; what is known when it fails is kept."""

    tools: list[Any] = field(default_factory=list)
    """Raw entries."""
    package_version: str | None = None
    latest_version: str | None = None
    licence: str | None = None
    homepage: str | None = None
    constraint: str | None = None
    protocol: str | None = None
    server_info: dict[str, Any] = field(default_factory=dict)
    instructions: str | None = None
    argv: list[str] = field(default_factory=list)
    confinement: str | None = None
    network: bool = False
    install_s: float | None = None
    start_s: float | None = None
    list_s: float | None = None
    flags: set[str] = field(default_factory=set)
    stderr_tail: str = ""


@dataclass(frozen=True, slots=True)
class Bench:
    """What a source may use while it lists."""

    cache: Path
    """Folder for installed servers; survives the crawl."""
    limits: Limits = field(default_factory=Limits)
    install_s: float = 300.0
    network: bool = False
    """Let servers reach the network while they are listed. Installing always may."""
    allow_weaker: bool = False
    """Run servers with resource limits alone where this machine offers no confinement."""
    turns: Mapping[str, asyncio.Semaphore] = field(
        default_factory=lambda: defaultdict(lambda: asyncio.Semaphore(1))
    )
    """One installation at a time from each registry, one session at a time with each host."""


class Source(Protocol):
    """One kind of place that tools come from."""

    name: str
    example: str
    """What a user may write."""

    def claims(self, text: str) -> bool:
        """Say whether `text` is for this source. Reads nothing."""

    def targets(self, text: str) -> Sequence[Target]:
        """Return the servers that `text` names.

        Raises:
            BadInput: it names none; says why.
        """

    async def fetch(self, target: Target, bench: Bench, listing: Listing) -> None:
        """Fill `listing`; what is known when it fails is kept.

        Raises:
            ServerFailed: no list; the outcome is recorded.
        """


Progress: TypeAlias = Callable[[int, int, str], None]
"""Called with how many are done, how many in all, and a line for people."""


@runtime_checkable
class Finder(Protocol):
    """A source that asks a service about many servers, and keeps its answers to ask less."""

    def find(self, text: str, pages: Path, progress: Progress) -> Sequence[Target]:
        """Return the servers that `text` names.

        Args:
            text: as `Source.targets` takes it.
            pages: folder for answers of the service; survives the crawl.
            progress: called for each page or repository.

        Raises:
            BadInput: it names none, or the service does not answer at all.
        """


@dataclass(frozen=True, slots=True)
class Written:
    """A server whose list is written down already: nothing is installed or started."""

    target: Target
    listing: Listing
    """Its tools are raw entries of `tools/list`, or `normalize.Unreadable`."""
    missing: str | None = None
    """Why there is no list of it; None where there is one, and be it empty."""


@runtime_checkable
class Catalog(Protocol):
    """One kind of place where lists of tools are written down."""

    name: str
    example: str
    """What a user may write."""

    def claims(self, text: str) -> bool:
        """Say whether `text` is for this source. Reads nothing."""

    def read(self, text: str) -> Iterable[Written]:
        """Return the servers that are written down there, each once.

        Raises:
            BadInput: it cannot be read at all; a row that cannot is `Unreadable` instead.
        """


def split_words(text: str, *, where: str) -> list[str]:
    """Split `NAME ARGUMENT...` as a shell would, without a shell.

    Raises:
        BadInput: an unclosed quotation mark.
    """
    try:
        return shlex.split(text) or [""]
    except ValueError as error:
        raise BadInput(f"{error}: {text!r}", where=where) from error


SOURCES = Plugins("source", "tool_registry.sources", "SOURCE")
