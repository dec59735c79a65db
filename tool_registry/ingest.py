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
from tool_registry.ledger import Entry
from tool_registry.normalize import HASH_DIGITS, Accepted, Rejected, normalize, normalize_list
from tool_registry.search import document_words


@dataclass(frozen=True, slots=True)
class Prepared:
    """A crawl entry with its tools normalised: the work that needs no database."""

    entry: Entry
    accepted: tuple[Accepted, ...]
    rejected: tuple[Rejected, ...]


def prepare(entry: Entry) -> Prepared:
    """Normalise the tools of an entry."""
    facts = entry.facts
    provenance = Provenance(
        source=entry.server,
        package=entry.target.get("package"),
        version=facts.get("package_version"),
        licence=facts.get("licence"),
        server=entry.server,
    )
    found = normalize_list([parse(text.encode()) for text in entry.tools], provenance)
    return Prepared(
        entry,
        tuple(tool for tool in found if isinstance(tool, Accepted)),
        tuple(tool for tool in found if isinstance(tool, Rejected)),
    )


def ingest(con: duckdb.DuckDBPyConnection, prepared: Sequence[Prepared]) -> None:
    """Enter crawl entries; those that are in already change nothing.

    Args:
        con: a connection from `Workspace.write`.
        prepared: in the order of the crawl.
    """
    known = {row[0] for row in con.execute("SELECT crawl FROM crawls").fetchall()}
    for item in prepared:
        if item.entry.crawl not in known:
            known.add(item.entry.crawl)
            _ingest_one(con, item)


def _ingest_one(con: duckdb.DuckDBPyConnection, item: Prepared) -> None:
    entry, at = item.entry, datetime.fromisoformat(item.entry.started_at)
    _server(con, entry, at)
    insert(con, "crawls", [_crawl_row(item, at)])
    insert(con, "rejects", (_reject_row(entry, tool) for tool in item.rejected))
    if entry.outcome == "ok":
        _tools(con, entry.server, entry.crawl, item.accepted, at)


def register_application(
    con: duckdb.DuckDBPyConnection, application: Application, edges: Iterable[Edge] = ()
) -> int:
    """Enter an executable application, its tools and their dependency graph; returns its tools.

    Args:
        con: a connection from `Workspace.write`.
        application: the document.
        edges: the graph by names of tools, as its `World` gives it.
    """
    server, at = f"application:{application.application}", now()
    con.execute(
        "INSERT INTO servers VALUES (?, 'application', NULL, ?, NULL, NULL, ?, ?) "
        "ON CONFLICT (server) DO UPDATE SET last_seen = excluded.last_seen",
        [server, application.summary, at, at],
    )
    document = application.model_dump_json(by_alias=True)
    row = {
        "application": application.application,
        "category": application.category,
        "summary": application.summary,
        "key": application.key,
        "document": document,
        "updated_at": at,
    }
    insert(con, "applications", [row], conflict="replace")
    insert(con, "categories", [{"category": application.category}], conflict="nothing")
    tools = [_declared(spec, place) for place, spec in enumerate(application.specs.values())]
    _tools(con, server, None, tools, at)
    con.execute("DELETE FROM tool_edges WHERE starts_with(source, ?)", [f"{server}/"])
    links = {(e.source, e.column, e.target, e.parameter) for e in edges}
    rows = (
        {"source": f"{server}/{s}", "column": c, "target": f"{server}/{t}", "parameter": p}
        for s, c, t, p in sorted(links)
    )
    insert(con, "tool_edges", rows)
    return len(tools)


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


def _server(con: duckdb.DuckDBPyConnection, entry: Entry, at: datetime) -> None:
    title = entry.facts.get("server_info", {}).get("name")
    registry = entry.server.partition(":")[0]
    con.execute(
        "INSERT INTO servers VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (server) DO UPDATE SET "
        "title = coalesce(excluded.title, title), licence = coalesce(excluded.licence, licence), "
        "homepage = coalesce(excluded.homepage, homepage), last_seen = excluded.last_seen",
        [
            entry.server,
            registry,
            entry.target.get("package"),
            title[:200] if isinstance(title, str) else None,
            entry.facts.get("licence"),
            entry.facts.get("homepage"),
            at,
            at,
        ],
    )


def _crawl_row(item: Prepared, at: datetime) -> dict[str, Any]:
    entry, facts = item.entry, item.entry.facts
    hashes = sorted(tool.raw_hash for tool in item.accepted)
    plain = (
        "latest_version", "protocol", "instructions", "confinement", "network", "constraint",
        "install_s", "start_s", "list_s", "stderr_tail", "package_version",
    )  # fmt: skip
    return {
        "crawl": entry.crawl,
        "server": entry.server,
        "started_at": at,
        "outcome": entry.outcome,
        "reason": entry.reason,
        "server_info": canonical(facts["server_info"]),
        "argv": canonical(facts["argv"]),
        "tools": len(item.accepted),
        "rejected": len(item.rejected),
        "list_hash": content_key(hashes, digits=HASH_DIGITS) if entry.outcome == "ok" else None,
        "flags": canonical(entry.flags),
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


def _tools(
    con: duckdb.DuckDBPyConnection,
    server: str,
    crawl: str | None,
    tools: Sequence[Accepted],
    at: datetime,
) -> None:
    """Enter a server's whole list: versions, sightings, what is no longer listed, search words."""
    known = con.execute(
        "SELECT t.tool, v.definition, v.version FROM tools t JOIN tool_versions v USING (tool) "
        "WHERE t.server = ?",
        [server],
    ).fetchall()
    versions = {(tool, definition): version for tool, definition, version in known}
    newest = Counter[str]()
    for tool, _, version in known:
        newest[tool] = max(newest[tool], version)
    fresh, current = [], []
    for tool in tools:
        name, definition = f"{server}/{tool.name}", definition_of(tool.spec)
        number = versions.get((name, definition))
        if number is None:
            newest[name] += 1
            number = newest[name]
            fresh.append(_version_row(name, number, definition, tool, crawl, at))
        current.append((name, number, tool))
    insert(con, "tool_versions", fresh)
    con.execute("UPDATE tools SET listed = false WHERE server = ?", [server])
    if current:
        con.execute(
            "INSERT INTO tools SELECT unnest($1), $2, unnest($3), unnest($4), unnest($5), "
            "unnest($6), unnest($7), true, $8, $8 ON CONFLICT (tool) DO "
            "UPDATE SET version = excluded.version, listed = true, last_seen = excluded.last_seen, "
            "function_name = excluded.function_name, category = excluded.category",
            [
                [name for name, _, _ in current],
                server,
                [tool.name for _, _, tool in current],
                [tool.spec.name for _, _, tool in current],
                [tool.spec.application for _, _, tool in current],
                [tool.spec.category for _, _, tool in current],
                [number for _, number, _ in current],
                at,
            ],
        )
    if crawl is not None:
        rows = ({"crawl": crawl, "tool": name, "version": n} for name, n, _ in current)
        insert(con, "tool_sightings", rows)
    _search_rows(con, [(name, server, tool) for name, _, tool in current])


def definition_of(spec: ToolSpec) -> str:
    """Return the content key of a tool without the version and licence of its package."""
    bare = spec.provenance.model_copy(update={"version": None, "licence": None})
    return spec.model_copy(update={"provenance": bare}).key


def _version_row(
    name: str,
    number: int,
    definition: str,
    tool: Accepted,
    crawl: str | None,
    at: datetime,
) -> dict[str, Any]:
    spec = tool.spec
    return {
        "tool": name,
        "version": number,
        "spec": spec.key,
        "definition": definition,
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
        "crawl": crawl,
        "seen_at": at,
    }


def _search_rows(
    con: duckdb.DuckDBPyConnection, tools: Sequence[tuple[str, str, Accepted]]
) -> None:
    names = [name for name, _, _ in tools]
    con.execute("DELETE FROM search_words WHERE tool IN (SELECT unnest($1))", [names])
    lengths, words = [], []
    for name, server, tool in tools:
        counted = document_words(tool.spec, tool.name, server)
        lengths.append({"tool": name, "words": sum(counted.values())})
        words += [{"word": w, "tool": name, "times": n} for w, n in counted.items()]
    insert(con, "search_tools", lengths, conflict="replace")
    insert(con, "search_words", words)
