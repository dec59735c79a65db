"""Enters lists that are written down already: catalogs, documents, functions.

Nothing is installed, started or fetched. What a catalog says of a server has a hash; a server of
which it says the same as last time is left alone, so that importing twice changes nothing.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, TypeAlias

import duckdb
import orjson

from synth.core.canonical import content_key, text_key
from synth.core.store import Workspace, now
from tool_registry.backfill import lacks
from tool_registry.ingest import Prepared, ingest, provenance_of
from tool_registry.ledger import Entry, facts_of
from tool_registry.normalize import Accepted, Rejected, Unreadable, normalize_list
from tool_registry.scrub import TooDeep, excerpt, storable
from tool_registry.source import Catalog, Written

Progress: TypeAlias = Callable[[int, int, str], None]
STEP = 25
"""Servers between two reports of progress."""


@dataclass(frozen=True, slots=True)
class Imported:
    """What became of one catalog."""

    source: str
    servers: int
    rows: int
    """Tools that it lists, usable or not: `tools` and `rejected` together."""
    tools: int
    rejected: int
    reasons: dict[str, int]
    """Why entries were rejected, with how many."""
    changed: int
    """Servers that are new, or of which it says something else than before."""
    unlisted: int
    """Servers that it names without a list of their tools."""


def import_catalog(
    catalog: Catalog,
    text: str,
    workspace: Workspace,
    progress: Progress = lambda done, total, note: None,
) -> Imported:
    """Read a catalog and enter it, in one transaction.

    Args:
        catalog: the source that `text` is for.
        text: as the user wrote it.
        workspace: where the registry is.
        progress: called with servers done, servers in all, and a line for people.

    Raises:
        BadInput: it cannot be read at all.
        StoreLocked: the registry stayed open elsewhere; nothing was entered.
    """
    written = list(catalog.read(text))
    with workspace.read() as con:
        before, lacking = _known(con), lacks(con)
    prepared: list[Prepared] = []
    for done, item in enumerate(written):
        if done % STEP == 0:
            progress(done, len(written), item.target.server)
        prepared.append(_prepared(item, before.get(item.target.server)))
    progress(len(written), len(written), "entering")
    fresh = [item for item in prepared if item.entry.outcome != "unchanged"]
    if fresh or lacking:
        with workspace.write() as con:
            ingest(con, fresh)
    return _imported(text, prepared, before)


@dataclass(frozen=True, slots=True)
class _Before:
    """What the last crawl of a server brought."""

    content: str | None
    tools: int
    rejected: int
    reasons: tuple[tuple[str, int], ...]


def _known(con: duckdb.DuckDBPyConnection) -> dict[str, _Before]:
    why: dict[str, Counter[str]] = {}
    rejects = con.execute(
        "SELECT server, rejects.reason, count(*) "
        "FROM rejects JOIN last_crawls USING (crawl, server) GROUP BY ALL"
    ).fetchall()
    for server, reason, count in rejects:
        why.setdefault(server, Counter())[reason] = count
    last = con.execute("SELECT server, content, tools, rejected FROM last_crawls").fetchall()
    return {
        server: _Before(content, tools, rejected, tuple(why.get(server, Counter()).items()))
        for server, content, tools, rejected in last
    }


def _prepared(item: Written, before: _Before | None) -> Prepared:
    record, listing = item.target.record(), item.listing
    facts = {name: _strict(value) for name, value in facts_of(listing).items()}
    hashes = [_hash(tool) for tool in listing.tools]
    content = content_key([record, facts, sorted(listing.flags), hashes, item.missing])
    started = now().isoformat()
    same = before is not None and before.content == content
    outcome = "unchanged" if same else "no_list" if item.missing else "ok"
    entry = Entry(
        crawl=content_key([record, content, started], digits=16),
        target=record,
        started_at=started,
        seconds=0.0,
        outcome=outcome,
        reason=item.missing,
        facts=facts,
        flags=sorted(listing.flags),
        tools=[],
        content=content,
    )
    if outcome != "ok":
        return Prepared(entry, (), ())
    found = normalize_list(listing.tools, provenance_of(entry))
    return Prepared(
        entry,
        tuple(tool for tool in found if isinstance(tool, Accepted)),
        tuple(tool for tool in found if isinstance(tool, Rejected)),
    )


def _hash(tool: Any) -> str:
    if isinstance(tool, Unreadable):
        return text_key(f"{tool.reason} {tool.detail}", digits=32)
    try:  # three times as fast as the canonical text; good enough to see that nothing changed
        return blake2b(orjson.dumps(tool, option=orjson.OPT_SORT_KEYS), digest_size=16).hexdigest()
    except TypeError:  # nested too deep, or an integer that it does not know
        return text_key(json.dumps(excerpt(tool)), digits=32)


def _strict(value: Any) -> Any:
    try:
        return storable(value, set())
    except TooDeep:
        return excerpt(value)


def _imported(text: str, prepared: Sequence[Prepared], before: dict[str, _Before]) -> Imported:
    tools, rejected, changed = 0, 0, 0
    reasons = Counter[str]()
    for item in prepared:
        if item.entry.outcome == "unchanged":
            last = before[item.entry.server]
            tools, rejected = tools + last.tools, rejected + last.rejected
            reasons.update(dict(last.reasons))
        else:
            changed += 1
            tools, rejected = tools + len(item.accepted), rejected + len(item.rejected)
            reasons.update(tool.reason for tool in item.rejected)
    return Imported(
        source=text,
        servers=len(prepared),
        rows=tools + rejected,
        tools=tools,
        rejected=rejected,
        reasons=dict(sorted(reasons.items())),
        changed=changed,
        unlisted=sum(item.entry.reason is not None for item in prepared),
    )
