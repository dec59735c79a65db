"""Looking at the registry: plain data, read-only, nothing held open.

stats(workspace)                     counts, effects, servers, what failed
search(workspace, "send a message")  ranked tools
similar(workspace, "send_message")   tools that are most like one
show(workspace, "get_current_time")  everything known of one tool
sql(workspace, "SELECT ...")         any query, within limits
specs(workspace, server="pypi:…")    tools as `ToolSpec`
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import orjson
from pydantic import ValidationError

from synth.core.errors import BadInput, BadRow, UnknownName
from synth.core.store import Workspace
from synth.core.types import ToolSpec
from tool_registry.search import ALL, Filter, ranked
from tool_registry.search import similar as alike

MAX_ROWS = 1000
QUERY_S = 30.0
_JSON_COLUMNS = (
    "parameters", "returns", "annotations", "provenance", "raw", "flags", "quality_reasons",
)  # fmt: skip
_NEAR = """
SELECT name FROM (
    SELECT name, max(jaro_winkler_similarity(lower(name), lower($1))) AS near
    FROM tools WHERE listed GROUP BY name
) WHERE near > 0.85 ORDER BY near DESC, name LIMIT 3
"""


@dataclass(frozen=True, slots=True)
class Table:
    """The answer to a query."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    truncated: bool
    """True when there are more rows."""


def stats(workspace: Workspace) -> dict[str, Any]:
    """Return counts of what the registry holds; rejects are those of each server's last crawl.

    `quality` is the mean in percent, None where nothing is scored.
    """
    with workspace.read() as con:
        return {
            "tools": _one(con, "SELECT count(*) FROM tools WHERE listed"),
            "tools_real": _one(
                con, "SELECT count(*) FROM tools WHERE listed AND application IS NULL"
            ),
            "tools_synthetic": _one(
                con, "SELECT count(*) FROM tools WHERE listed AND application IS NOT NULL"
            ),
            "versions": _one(con, "SELECT count(*) FROM tool_versions"),
            "servers": _one(con, "SELECT count(*) FROM servers WHERE registry <> 'application'"),
            "applications": _one(con, "SELECT count(*) FROM applications"),
            "rejected": _one(
                con, "SELECT count(*) FROM rejects WHERE crawl IN (SELECT crawl FROM last_crawls)"
            ),
            "by_effect": _pairs(
                con, "SELECT effect, count(*) FROM catalogue WHERE listed GROUP BY 1 ORDER BY 1"
            ),
            "by_category": _pairs(
                con,
                "SELECT coalesce(category, '(none)'), count(*) FROM catalogue WHERE listed "
                "GROUP BY 1 ORDER BY 2 DESC, 1",
            ),
            "quality": _one(con, "SELECT round(avg(quality), 2) FROM catalogue WHERE listed"),
            "by_registry": _pairs(
                con,
                "SELECT registry, count(*) FROM tools JOIN servers USING (server) WHERE listed "
                "GROUP BY 1 ORDER BY 1",
            ),
            "outcomes": _pairs(
                con, "SELECT outcome, count(*) FROM last_crawls GROUP BY 1 ORDER BY 1"
            ),
            "reject_reasons": _pairs(
                con,
                "SELECT reason, count(*) FROM rejects "
                "WHERE crawl IN (SELECT crawl FROM last_crawls) GROUP BY 1 ORDER BY 1",
            ),
            "flags": _pairs(
                con,
                "SELECT flag, count(*) FROM (SELECT unnest(CAST(flags AS VARCHAR[])) AS flag "
                "FROM catalogue WHERE listed) GROUP BY 1 ORDER BY 2 DESC, 1",
            ),
        }


def search(
    workspace: Workspace, text: str, limit: int = 10, only: Filter = ALL
) -> list[dict[str, Any]]:
    """Return the tools that match `text` best, best first, each with its score (BM25).

    Raises:
        UnknownName: `only` asks for a category that no tool has.
    """
    with workspace.read() as con:
        _check(con, only)
        found = ranked(con, text, limit, only)
        return _described(con, found)


def _described(
    con: duckdb.DuckDBPyConnection, found: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Add to found tools what people choose by."""
    query = (
        "SELECT tool, category, licence, quality FROM catalogue WHERE tool IN (SELECT unnest(?))"
    )
    more = {row[0]: row[1:] for row in con.execute(query, [[t["tool"] for t in found]]).fetchall()}
    names = ("category", "licence", "quality")
    return [tool | dict(zip(names, more[tool["tool"]], strict=True)) for tool in found]


def _check(con: duckdb.DuckDBPyConnection, only: Filter) -> None:
    for what, value in (("category", only.category), ("effect", only.effect)):
        if value is None:
            continue
        query = f"SELECT DISTINCT {what} FROM catalogue WHERE {what} IS NOT NULL"
        known = [row[0] for row in con.execute(query).fetchall()]
        if value not in known:
            raise UnknownName(what, value, known)


def similar(workspace: Workspace, name_or_key: str, limit: int = 10) -> list[dict[str, Any]]:
    """Return the tools most like one, best first; a copy of it scores 1.

    Raises:
        BadInput: as `show`; or the tool is no longer listed, and so not among those compared.
    """
    with workspace.read() as con:
        tool = _found(con, name_or_key)
        if not con.execute("SELECT 1 FROM tools WHERE tool = ? AND listed", [tool]).fetchall():
            raise BadInput(
                f"{tool} is no longer listed by its server",
                where="registry",
                remedy="toolloom registry show has its last definition; search finds by words",
            )
        return _described(con, alike(con, tool, limit))


def show(workspace: Workspace, name_or_key: str) -> dict[str, Any]:
    """Return everything known of one tool.

    Args:
        workspace: where to look.
        name_or_key: `server/name`, a name or function name that only one server uses, or the
            content key of a definition.

    Raises:
        UnknownName: no such tool; close names are suggested.
        BadInput: several servers have one; lists them.
    """
    with workspace.read() as con:
        tool = _found(con, name_or_key)
        (about,) = _rows(con, "SELECT * FROM tools WHERE tool = $1", tool)
        (server,) = _rows(con, "SELECT * FROM servers WHERE server = $1", about["server"])
        versions = _rows(
            con, "SELECT * EXCLUDE (tool, document) FROM tool_versions WHERE tool = $1", tool
        )
        crawls = _rows(
            con, "SELECT * FROM crawls WHERE server = $1 ORDER BY started_at DESC", about["server"]
        )
        ancestors = _rows(con, "FROM ancestors($1)", about["application"] or "")
    for version in versions:
        for column in _JSON_COLUMNS:
            version[column] = None if version[column] is None else orjson.loads(version[column])
    versions.sort(key=lambda version: -int(version["version"]))
    return {**about, "about_server": server, "versions": versions, "crawls": crawls} | (
        {"ancestors": ancestors} if ancestors else {}
    )


def spec(workspace: Workspace, name_or_key: str) -> ToolSpec:
    """Return the current definition of one tool.

    Raises:
        BadInput: as `show`.
        BadRow: the stored definition does not validate.
    """
    query = "SELECT document FROM tools JOIN tool_versions USING (tool, version) WHERE tool = ?"
    with workspace.read() as con:
        tool = _found(con, name_or_key)
        (document,) = con.execute(query, [tool]).fetchall()[0]
    return _spec(tool, document)


def _spec(tool: str, document: str) -> ToolSpec:
    try:
        return ToolSpec.model_validate_json(document)
    except ValidationError as error:
        raise BadRow(str(error).splitlines()[0], where=f"tool_versions: {tool}") from error


def _found(con: duckdb.DuckDBPyConnection, name_or_key: str) -> str:
    """Return the key of the one tool that is meant."""
    found = con.execute(
        "SELECT DISTINCT tool FROM tools WHERE $1 IN (tool, name, function_name) UNION "
        "SELECT tool FROM tool_versions WHERE $1 IN (spec, definition) ORDER BY 1",
        [name_or_key],
    ).fetchall()
    if not found:
        near = con.execute(_NEAR, [name_or_key]).fetchall()
        words = ", ".join(repr(row[0]) for row in near)
        raise BadInput(
            f"unknown tool {name_or_key!r}",
            remedy=f"did you mean {words}?" if near else "toolloom registry search finds by words",
        )
    if len(found) > 1:
        listed = ", ".join(row[0] for row in found[:10])
        raise BadInput(
            f"{len(found)} servers have a tool {name_or_key!r}", remedy=f"name one of: {listed}"
        )
    return str(found[0][0])


def sql(
    workspace: Workspace, query: str, *, limit: int = MAX_ROWS, limit_s: float = QUERY_S
) -> Table:
    """Run a query on the registry: read-only, without any other file or the network.

    Args:
        workspace: where to look.
        query: SQL of DuckDB.
        limit: rows returned at most.
        limit_s: seconds until the query is interrupted.

    Raises:
        BadInput: the query is wrong, or too slow.
    """
    with workspace.read() as con:
        clock = threading.Timer(limit_s, con.interrupt)
        clock.start()
        try:
            found = con.execute(query)
            if found is None:  # nothing but spaces and comments
                raise BadInput("no query", where="sql", remedy="for instance SELECT * FROM tools")
            columns = tuple(column[0] for column in found.description or ())
            rows = found.fetchmany(limit + 1) if columns else []
        except duckdb.InterruptException as error:
            raise BadInput(f"the query took more than {limit_s:.0f} s", where="sql") from error
        except duckdb.Error as error:
            raise BadInput(_first_line(error), where="sql") from error
        finally:
            clock.cancel()
    return Table(columns, tuple(rows[:limit]), truncated=len(rows) > limit)


def specs(workspace: Workspace, *, server: str | None = None) -> list[ToolSpec]:
    """Return the current definition of every listed tool, or of one server's.

    Raises:
        BadRow: a stored definition does not validate.
    """
    with workspace.read() as con:
        found = con.execute(
            "SELECT t.tool, v.document FROM tools t JOIN tool_versions v USING (tool, version) "
            "WHERE t.listed AND ($1 IS NULL OR t.server = $1) ORDER BY t.tool",
            [server],
        ).fetchall()
    return [_spec(tool, document) for tool, document in found]


def _first_line(error: duckdb.Error) -> str:
    return next((line for line in str(error).splitlines() if line.strip()), "the query failed")


def _one(con: duckdb.DuckDBPyConnection, query: str) -> float | None:
    value: float | None = con.execute(query).fetchall()[0][0]
    return value


def _pairs(con: duckdb.DuckDBPyConnection, query: str) -> dict[str, int]:
    return {str(name): int(count) for name, count in con.execute(query).fetchall()}


def _rows(con: duckdb.DuckDBPyConnection, query: str, value: str) -> list[dict[str, Any]]:
    found = con.execute(query, [value])
    columns = [column[0] for column in found.description or ()]
    return [dict(zip(columns, row, strict=True)) for row in found.fetchall()]
