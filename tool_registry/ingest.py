"""From crawl entries and applications to rows of the registry. Idempotent.

A *version* is a definition of a tool. A definition seen before keeps its number, a new one gets the
next; `tool_sightings` says which crawl saw which. Nothing is ever deleted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import duckdb

from synth.core.application import Application
from synth.core.canonical import canonical, content_key
from synth.core.mcp.wire import parse
from synth.core.protocols import Edge
from synth.core.store import insert, now
from synth.core.types import Provenance, ToolSpec
from tool_registry import search
from tool_registry.backfill import fill
from tool_registry.classify import Inferred, classify, taxonomy
from tool_registry.language import language_of
from tool_registry.ledger import Entry
from tool_registry.licence import spdx
from tool_registry.normalize import HASH_DIGITS, Accepted, Rejected, normalize, normalize_list
from tool_registry.quality import quality_of


@dataclass(frozen=True, slots=True)
class Prepared:
    """A crawl entry with its tools normalised: the work that needs no database."""

    entry: Entry
    accepted: tuple[Accepted, ...]
    rejected: tuple[Rejected, ...]


def provenance_of(entry: Entry) -> Provenance:
    """Return where the tools of an entry come from."""
    return Provenance(
        source=entry.server,
        package=entry.target.get("package"),
        version=entry.facts.get("package_version"),
        licence=spdx(entry.facts.get("licence")),
        server=entry.server,
    )


def prepare(entry: Entry) -> Prepared:
    """Normalise the tools of an entry."""
    found = normalize_list([parse(text.encode()) for text in entry.tools], provenance_of(entry))
    return Prepared(
        entry,
        tuple(tool for tool in found if isinstance(tool, Accepted)),
        tuple(tool for tool in found if isinstance(tool, Rejected)),
    )


def ingest(con: duckdb.DuckDBPyConnection, prepared: Iterable[Prepared]) -> int:
    """Enter crawl entries; those that are in already change nothing.

    Args:
        con: a connection from `Workspace.write`.
        prepared: in the order of the crawl.

    Returns:
        How many were new.
    """
    known = {row[0] for row in con.execute("SELECT crawl FROM crawls").fetchall()}
    total = 0
    batch: dict[str, Prepared] = {}
    for item in prepared:
        if item.entry.crawl in known:
            continue
        known.add(item.entry.crawl)
        if item.entry.server in batch:  # a server's lists are entered one after another
            _ingest_batch(con, list(batch.values()))
            batch = {}
        batch[item.entry.server] = item
        total += 1
    _ingest_batch(con, list(batch.values()))
    fill(con)
    return total


def _ingest_batch(con: duckdb.DuckDBPyConnection, batch: Sequence[Prepared]) -> None:
    """Enter lists of different servers, all at once: a statement costs as much as its rows."""
    if not batch:
        return
    _servers(con, [item.entry for item in batch])
    insert(con, "crawls", (_crawl_row(item) for item in batch))
    insert(con, "rejects", (_reject_row(i.entry, tool) for i in batch for tool in i.rejected))
    lists = [
        ToolList(i.entry.server, i.entry.crawl, _time_of(i.entry), i.accepted)
        for i in batch
        if i.entry.outcome == "ok"
    ]
    enter_lists(con, lists)


def _time_of(entry: Entry) -> datetime:
    return datetime.fromisoformat(entry.started_at)


def register_application(
    con: duckdb.DuckDBPyConnection, application: Application, edges: Iterable[Edge] = ()
) -> int:
    """Enter an executable application, its tools and their dependency graph; returns its tools.

    Args:
        con: a connection from `Workspace.write`.
        application: the document.
        edges: the graph by names of tools, as its `World` gives it.
    """
    return register_applications(con, [(application, edges)])


def register_applications(
    con: duckdb.DuckDBPyConnection, found: Iterable[tuple[Application, Iterable[Edge]]]
) -> int:
    """Enter many applications at once, as `register_application` does one; returns their tools."""
    items, at = list(found), now()
    lists: list[ToolList] = []
    rows: list[dict[str, Any]] = []
    links: list[dict[str, Any]] = []
    for application, edges in items:
        server = f"application:{application.application}"
        row = application.model_dump(include={"application", "category", "summary"})
        document = application.model_dump_json(by_alias=True)
        rows.append(row | {"key": application.key, "document": document, "updated_at": at})
        tools = [_declared(spec, place) for place, spec in enumerate(application.specs.values())]
        lists.append(ToolList(server, None, at, tools))
        links += (
            {"source": f"{server}/{s}", "column": c, "target": f"{server}/{t}", "parameter": p}
            for s, c, t, p in sorted({(e.source, e.column, e.target, e.parameter) for e in edges})
        )
    if not items:
        return 0
    servers = [item.server for item in lists]
    con.execute(
        "INSERT INTO servers SELECT unnest($1), 'application', NULL, unnest($2), NULL, NULL, $3, $3"
        " ON CONFLICT (server) DO UPDATE SET last_seen = excluded.last_seen",
        [servers, [application.summary for application, _ in items], at],
    )
    insert(con, "applications", rows, conflict="replace")
    about = {row["category"]: taxonomy().get(row["category"]) for row in rows}
    categories = ({"category": c, "description": k.about if k else None} for c, k in about.items())
    insert(con, "categories", categories, conflict="nothing")
    enter_lists(con, lists)
    con.execute(
        "DELETE FROM tool_edges WHERE regexp_replace(source, '/[^/]*$', '') IN (SELECT unnest($1))",
        [servers],
    )
    insert(con, "tool_edges", links)
    return sum(len(item.tools) for item in lists)


def _declared(spec: ToolSpec, position: int) -> Accepted:
    """Return a tool of an application in the shape of a crawled one; it is ours, and sound."""
    raw = {
        "name": spec.name,
        "description": spec.description,
        "inputSchema": spec.parameters,
        "outputSchema": spec.returns,
    }
    found = normalize(raw, spec.provenance, position=position)
    hashes = (
        (found.semantic_hash, found.description_hash)
        if isinstance(found, Accepted)
        else (content_key(raw, digits=HASH_DIGITS),) * 2
    )
    text = canonical(raw)
    raw_hash = content_key(raw, digits=HASH_DIGITS)
    return Accepted(position, spec.name, spec, text, raw_hash, *hashes, flags=())


# --- rows ------------------------------------------------------------------------------------


def _servers(con: duckdb.DuckDBPyConnection, entries: Sequence[Entry]) -> None:
    titles = [entry.facts.get("server_info", {}).get("name") for entry in entries]
    columns: list[list[Any]] = [
        [entry.server for entry in entries],
        [entry.server.partition(":")[0] for entry in entries],
        [entry.target.get("package") for entry in entries],
        [title[:200] if isinstance(title, str) else None for title in titles],
        [spdx(entry.facts.get("licence")) for entry in entries],
        [entry.facts.get("homepage") for entry in entries],
        [_time_of(entry) for entry in entries],
    ]
    unnested = ", ".join(f"unnest(${place})" for place in range(1, 8))
    con.execute(
        f"INSERT INTO servers SELECT {unnested}, unnest($7) ON CONFLICT (server) DO UPDATE SET "
        "title = coalesce(excluded.title, title), licence = coalesce(excluded.licence, licence), "
        "homepage = coalesce(excluded.homepage, homepage), last_seen = excluded.last_seen",
        columns,
    )


def _crawl_row(item: Prepared) -> dict[str, Any]:
    entry, facts = item.entry, item.entry.facts
    hashes = sorted(tool.raw_hash for tool in item.accepted)
    plain = (
        "latest_version", "protocol", "instructions", "confinement", "network", "constraint",
        "install_s", "start_s", "list_s", "stderr_tail", "package_version",
    )  # fmt: skip
    return {
        "crawl": entry.crawl,
        "server": entry.server,
        "started_at": _time_of(entry),
        "outcome": entry.outcome,
        "reason": entry.reason,
        "server_info": canonical(facts["server_info"]),
        "argv": canonical(facts["argv"]),
        "tools": len(item.accepted),
        "rejected": len(item.rejected),
        "list_hash": content_key(hashes, digits=HASH_DIGITS) if entry.outcome == "ok" else None,
        "flags": canonical(entry.flags),
        "content": entry.content,
        **{name: facts[name] for name in plain},
    }


def _reject_row(entry: Entry, tool: Rejected) -> dict[str, Any]:
    return {
        "crawl": entry.crawl,
        "server": entry.server,
        "position": tool.position,
        "name": tool.name,
        "reason": tool.reason,
        "detail": tool.detail,
        "raw": tool.raw,
    }


@dataclass(frozen=True, slots=True)
class ToolList:
    """All tools that a server offers at one time."""

    server: str
    crawl: str | None
    """None where nothing was crawled: an application of ours."""
    at: datetime
    tools: Sequence[Accepted]


@dataclass(frozen=True, slots=True)
class _Current:
    """A tool in the list of its server, with the number of its definition."""

    tool: str
    version: int
    accepted: Accepted
    of: ToolList
    inferred: Inferred | None
    """What it is probably for; nobody asks where it is declared."""

    @property
    def category(self) -> tuple[str | None, str | None, float | None]:
        """Return category, where it is known from, and how clearly."""
        if declared := self.accepted.spec.category:
            return declared, "declared", None
        found = self.inferred
        return (found.category, "inferred", found.score) if found else (None, None, None)


def enter_lists(con: duckdb.DuckDBPyConnection, lists: Sequence[ToolList]) -> None:
    """Enter whole lists of different servers: versions, sightings, what is no longer listed."""
    if not lists:
        return
    servers = [item.server for item in lists]
    known = con.execute(
        "SELECT t.tool, v.definition, v.version FROM tools t JOIN tool_versions v USING (tool) "
        "WHERE t.server IN (SELECT unnest($1))",
        [servers],
    ).fetchall()
    versions = {(tool, definition): version for tool, definition, version in known}
    newest = Counter[str]()
    for tool, _, version in known:
        newest[tool] = max(newest[tool], version)
    fresh: list[dict[str, Any]] = []
    current: list[_Current] = []
    for item in lists:
        inferred = classify(item.server, [accepted.spec for accepted in item.tools])
        for accepted, category in zip(item.tools, inferred, strict=True):
            name = f"{item.server}/{accepted.name}"
            key, definition = _keys_of(accepted.spec)
            number = versions.get((name, definition))
            if number is None:
                newest[name] += 1
                number = newest[name]
                fresh.append(_version_row(name, number, (key, definition), accepted, item))
            current.append(_Current(name, number, accepted, item, category))
    insert(con, "tool_versions", fresh)
    con.execute("UPDATE tools SET listed = false WHERE server IN (SELECT unnest($1))", [servers])
    _current_tools(con, current)
    rows = [
        {"crawl": c.of.crawl, "tool": c.tool, "version": c.version} for c in current if c.of.crawl
    ]
    insert(con, "tool_sightings", rows)
    search.forget(con, servers)
    search.learn(con, [(c.tool, c.of.server, c.accepted.name, c.accepted.spec) for c in current])


def _current_tools(con: duckdb.DuckDBPyConnection, current: Sequence[_Current]) -> None:
    if not current:
        return
    categories = [c.category for c in current]
    columns: dict[str, list[Any]] = {
        "tool": [c.tool for c in current],
        "server": [c.of.server for c in current],
        "name": [c.accepted.name for c in current],
        "function_name": [c.accepted.spec.name for c in current],
        "application": [c.accepted.spec.application for c in current],
        "category": [category for category, _, _ in categories],
        "category_source": [source for _, source, _ in categories],
        "category_score": [score for _, _, score in categories],
        "version": [c.version for c in current],
        "listed": [True for _ in current],
        "first_seen": [c.of.at for c in current],
        "last_seen": [c.of.at for c in current],
    }
    unnested = ", ".join(f"unnest(${place})" for place in range(1, len(columns) + 1))
    kept = [name for name in columns if name not in ("tool", "server", "name", "first_seen")]
    changed = ", ".join(f"{name} = excluded.{name}" for name in kept)
    con.execute(
        f"INSERT INTO tools ({', '.join(columns)}) SELECT {unnested} "
        f"ON CONFLICT (tool) DO UPDATE SET {changed}",
        list(columns.values()),
    )
    rows = ({"category": one.name, "description": one.about} for one in taxonomy().values())
    insert(con, "categories", rows, conflict="nothing")


def _keys_of(spec: ToolSpec) -> tuple[str, str]:
    """Return the content key of a tool, and the one without its package's version and licence."""
    content = spec.model_dump(mode="json")
    key = content_key(content)  # as `spec.key`, which would write everything out once more
    content["provenance"] |= {"version": None, "licence": None}
    return key, content_key(content)


def _version_row(
    name: str, number: int, keys: tuple[str, str], tool: Accepted, of: ToolList
) -> dict[str, Any]:
    spec = tool.spec
    quality, reasons = quality_of(spec, tool.flags)
    return {
        "tool": name,
        "version": number,
        "spec": keys[0],
        "definition": keys[1],
        "description": spec.description,
        "parameters": canonical(spec.parameters),
        "returns": None if spec.returns is None else canonical(spec.returns),
        "annotations": canonical(spec.annotations),
        "effect": str(spec.effect),
        "effect_source": spec.effect_source,
        "provenance": spec.provenance.model_dump_json(),
        "document": spec.model_dump_json(),
        "raw": tool.raw,
        "raw_hash": tool.raw_hash,
        "semantic_hash": tool.semantic_hash,
        "description_hash": tool.description_hash,
        "flags": canonical(list(tool.flags)),
        "package_version": spec.provenance.version,
        "crawl": of.crawl,
        "seen_at": of.at,
        "language": language_of(spec.description),
        "quality": quality,
        "quality_reasons": canonical(reasons),
    }
