"""Starts a server, takes its list, ends it; tries again with what it complains about.

Never calls a tool. Servers run without network: of 48 servers that could be listed at all, all
could be listed that way.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path

from synth.core.errors import ServerFailed
from synth.core.mcp.disk import private_folder
from synth.core.mcp.session import McpSession, ServerLaunch
from synth.core.sandbox.confine import tier
from tool_registry import secrets
from tool_registry.scrub import visible
from tool_registry.source import Bench, Listing

WORK = "{work}"
MAX_TRIES = 3
_FOLDER_WORDS = ("usage", "required", "missing", "argument", "director", "path")


@dataclass(frozen=True, slots=True)
class Command:
    """A server's command line before its private folder is known (`{work}`)."""

    argv: tuple[str, ...]
    label: str
    env: dict[str, str]
    cwd: Path | None = None
    readable: tuple[Path, ...] = ()


async def list_server(command: Command, bench: Bench, listing: Listing) -> None:
    """List a server, with at most two more tries: dummy credentials, its folder as argument.

    Args:
        command: how to start it.
        bench: limits and permissions.
        listing: filled.

    Raises:
        ServerFailed: the failure of the last try; says what the first one said, too.
    """
    listing.network, listing.confinement = bench.network, tier()
    first: ServerFailed | None = None
    for left in reversed(range(MAX_TRIES)):
        try:
            await _once(command, bench, listing)
            return
        except ServerFailed as failure:
            changed = _remedied(command, failure, listing) if left else None
            if changed is None:
                raise _both(first, failure) from None
            command, first = changed, first or failure


def _both(first: ServerFailed | None, last: ServerFailed) -> ServerFailed:
    """Return the last failure; what was added to the command may have caused it alone."""
    if first is None or first.what == last.what:
        return last
    what = f"{first.what[:300]}; tried again with what it seemed to lack: {last.what[:300]}"
    return ServerFailed(what, where=last.where, remedy=last.remedy, outcome=last.outcome)


async def _once(command: Command, bench: Bench, listing: Listing) -> None:
    listing.argv = [secrets.redacted(part) for part in command.argv]
    with private_folder() as private:
        folder = str(private)
        session = McpSession(_launch(command, bench, folder), bench.limits)
        try:
            async with session:
                listing.protocol, listing.server_info = session.protocol, session.server_info
                listing.instructions, listing.start_s = session.instructions, session.start_s
                begun = time.monotonic()
                listing.tools = await session.list_tools()
                listing.list_s = time.monotonic() - begun
        finally:
            listing.flags |= session.flags
            said = session.stderr_tail.replace(folder, WORK)
            listing.stderr_tail = secrets.redacted(visible(said, set())[-4000:])


def _launch(command: Command, bench: Bench, folder: str) -> ServerLaunch:
    return ServerLaunch(
        argv=tuple(part.replace(WORK, folder) for part in command.argv),
        env={name: value.replace(WORK, folder) for name, value in command.env.items()},
        cwd=command.cwd,
        network=bench.network,
        writable=Path(folder),
        readable=command.readable,
        name=command.label,
        allow_weaker=bench.allow_weaker,
    )


def _remedied(command: Command, failure: ServerFailed, listing: Listing) -> Command | None:
    """Return the command with what the server said it lacks, or None when it lacks nothing."""
    if failure.outcome not in ("exited", "timeout"):
        return None
    said = listing.stderr_tail
    missing = [name for name in secrets.variables_in(said) if name not in command.env]
    if missing:
        listing.flags.add("dummy_credentials")
        dummies = {name: secrets.dummy(name) for name in missing}
        return replace(command, env={**command.env, **dummies})
    wants_folder = any(word in said.lower() for word in _FOLDER_WORDS)
    given = any(WORK in part for part in command.argv)
    if failure.outcome == "exited" and wants_folder and not given and "Traceback" not in said:
        listing.flags.add("folder_argument")
        return replace(command, argv=(*command.argv, WORK))
    return None
