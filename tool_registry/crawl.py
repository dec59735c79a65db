"""Lists many servers: politely, resumably, each failure its own.

    report = await crawl(["pypi:mcp-server-time", "path/to/mcp.json"], workspace=Workspace("ws"))

Writes a ledger while it works and fills the registry in one short transaction at its end. Tools are
listed, never called.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from synth.core.canonical import content_key
from synth.core.errors import BadInput, DiskFull, ServerFailed, ToolloomError
from synth.core.store import Workspace, now
from tool_registry import secrets
from tool_registry.catalogs import Imported, import_catalog
from tool_registry.ingest import Prepared, ingest, prepare
from tool_registry.ledger import Entry, Ledger, facts_of, identity, identity_of
from tool_registry.scrub import TooDeep, excerpt, storable
from tool_registry.source import (
    SOURCES,
    Bench,
    Catalog,
    Finder,
    Listing,
    Progress,
    Source,
    Target,
)

BEAT_S = 5.0
"""How often is said whose answer is waited for."""
MAX_LIST_BYTES = 32 << 20
"""JSON text of one server's list; the largest of 48 had 249 kB."""


@dataclass(frozen=True, slots=True)
class Crawled:
    """What became of one server."""

    server: str
    outcome: str
    reason: str | None
    tools: int
    rejected: int
    seconds: float
    version: str | None
    latest: str | None
    argv: tuple[str, ...]
    """Exactly what was run, credentials replaced."""
    flags: tuple[str, ...]
    resumed: bool
    """True when an earlier, interrupted crawl had listed it."""


@dataclass(frozen=True, slots=True)
class CrawlReport:
    """What a crawl brought."""

    servers: tuple[Crawled, ...]
    ledger: str | None
    """None where no server was asked: catalogs are not."""
    imported: tuple[Imported, ...] = ()

    @property
    def tools(self) -> int:
        """Return how many usable tools were listed."""
        return sum(s.tools for s in self.servers) + sum(c.tools for c in self.imported)

    @property
    def failed(self) -> tuple[Crawled, ...]:
        """Return the servers that gave no list."""
        return tuple(server for server in self.servers if server.outcome != "ok")


def targets_of(
    texts: Iterable[str],
    pages: Path | None = None,
    progress: Progress = lambda done, total, note: None,
) -> list[Target]:
    """Return the servers that a user's words name, each once.

    Args:
        texts: the words.
        pages: folder where answers of services are kept; None keeps none.
        progress: called while a service is asked about many servers.

    Raises:
        BadInput: a word is for no source, or its source cannot read it.
    """
    found: dict[str, Target] = {}
    for text in texts:
        source = source_of(text)
        if isinstance(source, Catalog):
            raise BadInput(f"a catalog names no servers to ask: {text!r}")
        if pages is not None and isinstance(source, Finder):
            named = source.find(text, pages, progress)
        else:
            named = source.targets(text)
        for target in named:
            found.setdefault(identity(target), target)
    if not found:
        raise BadInput("nothing to crawl")
    return list(found.values())


def source_of(text: str) -> Source | Catalog:
    """Return the source that a user's word is for.

    Raises:
        BadInput: it is for none.
    """
    sources: list[Source | Catalog] = [SOURCES.get(name) for name in SOURCES.names()]
    source = next((source for source in sources if source.claims(text)), None)
    if source is None:
        forms = ", ".join(source.example for source in sources)
        raise BadInput(f"not a source of tools: {text!r}", remedy=f"write one of: {forms}")
    return source


async def crawl(
    targets: Sequence[str | Target],
    *,
    workspace: Workspace,
    bench: Bench | None = None,
    progress: Progress = lambda done, total, note: None,
    concurrency: int = 2,
) -> CrawlReport:
    """List servers and enter what they offer in the registry.

    Args:
        targets: words such as `npm:@scope/name`, `pypi:name`, `servers.json`, `tools.jsonl`; or
            targets. Catalogs are entered first, each in a transaction of its own.
        workspace: where the registry, installed servers and ledgers are.
        bench: limits and permissions; its cache is the workspace's by default.
        progress: called after each server, and now and then while none is done.
        concurrency: servers listed at a time.

    Raises:
        BadInput: a target makes no sense.
        StoreLocked: the registry stayed open elsewhere; the same crawl continues with ingesting.
        DiskFull: the ledger could not be written.
    """
    words = [target for target in targets if isinstance(target, str)]
    catalogs = [(word, found) for word in words if isinstance(found := source_of(word), Catalog)]
    asked = [word for word in words if word not in dict(catalogs)]
    pages = workspace.cache / "pages"
    wanted = targets_of(asked, pages, progress) if asked or not targets else []
    wanted += [target for target in targets if isinstance(target, Target)]
    imported = tuple(import_catalog(c, word, workspace, progress) for word, c in catalogs)
    if not wanted:
        return CrawlReport((), None, imported)
    ledger = Ledger(workspace.cache / "crawls", wanted)
    try:
        resumed = set(ledger.entries)
        bench = bench or Bench(cache=workspace.cache / "servers")
        await _list_all(wanted, ledger, bench, progress, concurrency)
        prepared = [prepare(ledger.entries[identity(target)]) for target in wanted]
        with workspace.write() as con:
            ingest(con, prepared)
        ledger.finish()
    finally:
        ledger.close()
    crawled = tuple(_crawled(item, resumed) for item in prepared)
    return CrawlReport(crawled, str(ledger.path), imported)


async def _list_all(
    wanted: Sequence[Target], ledger: Ledger, bench: Bench, progress: Progress, concurrency: int
) -> None:
    places = asyncio.Semaphore(max(1, concurrency))
    left = [target for target in wanted if ledger.entry_of(target) is None]
    done = len(wanted) - len(left)
    asked: list[str] = []
    progress(done, len(wanted), "")

    async def one(target: Target) -> None:
        nonlocal done
        async with places:
            asked.append(target.server)
            entry = await list_target(target, bench)
            asked.remove(target.server)
        ledger.add(entry)
        done += 1
        what = f"{len(entry.tools)} tools" if entry.outcome == "ok" else entry.outcome
        progress(done, len(wanted), f"{target.server}: {what}")

    async def beat() -> None:
        while True:
            await asyncio.sleep(BEAT_S)
            progress(done, len(wanted), f"waiting for {', '.join(asked)}")

    waiting = asyncio.create_task(beat())
    try:
        async with asyncio.TaskGroup() as group:
            for target in left:
                group.create_task(one(target))
    except* ToolloomError as failures:
        raise failures.exceptions[0] from None
    finally:
        waiting.cancel()


async def list_target(target: Target, bench: Bench) -> Entry:
    """List one server; a failure is an entry like any other.

    Raises:
        DiskFull: nothing could be written any more; no fault of the server.
    """
    listing, begun, started = Listing(), time.monotonic(), now().isoformat()
    outcome, reason = "ok", None
    try:
        await SOURCES.get(target.source).fetch(target, bench, listing)
    except ServerFailed as failure:
        # An installer may quote the address it asked, and addresses may hold a password.
        outcome, reason = failure.outcome, secrets.redacted(_reason(failure, target))
    except DiskFull:
        raise
    except ToolloomError as failure:  # this machine cannot confine it, a broken plug-in
        outcome, reason = "not_run", _reason(failure, target)
    record = target.record()
    tools = _texts(listing.tools, listing.flags) if outcome == "ok" else []
    return Entry(
        crawl=content_key([record, started], digits=16),
        target=record,
        started_at=started,
        seconds=round(time.monotonic() - begun, 3),
        outcome=outcome,
        reason=reason,
        facts=_strict(facts_of(listing)),
        flags=sorted(listing.flags),
        tools=tools,
    )


def _reason(failure: ToolloomError, target: Target) -> str:
    """Return what went wrong; the server's name stands beside it wherever it is shown."""
    where = "" if failure.where == target.server else failure.where
    return str(ToolloomError(failure.what, where=where, remedy=failure.remedy))


def _texts(tools: Sequence[Any], flags: set[str]) -> list[str]:
    """Return each raw tool as JSON text; one that has none is sketched, and rejected later."""
    out: list[str] = []
    size = 0
    for tool in tools:
        try:
            text = json.dumps(tool, separators=(",", ":"))
        except (RecursionError, ValueError):
            text = json.dumps([excerpt(tool)])
        size += len(text)
        if size > MAX_LIST_BYTES:
            flags.add("list_cut")
            break
        out.append(text)
    return out


def _strict(facts: dict[str, Any]) -> dict[str, Any]:
    out = {}
    for name, value in facts.items():
        try:
            out[name] = storable(value, set())
        except TooDeep:
            out[name] = excerpt(value)
    return out


def _crawled(item: Prepared, resumed: set[str]) -> Crawled:
    entry = item.entry
    return Crawled(
        server=entry.server,
        outcome=entry.outcome,
        reason=entry.reason,
        tools=len(item.accepted),
        rejected=len(item.rejected),
        seconds=entry.seconds,
        version=entry.facts.get("package_version"),
        latest=entry.facts.get("latest_version"),
        argv=tuple(entry.facts.get("argv") or ()),
        flags=tuple(entry.flags),
        resumed=identity_of(entry.target) in resumed,
    )
