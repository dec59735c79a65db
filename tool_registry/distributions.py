"""What tools look like, evolved ones beside written and crawled ones: figures from the registry."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import duckdb
import orjson

from tool_registry.schema import subschemas

_SQL = """
SELECT CASE WHEN t.application IS NULL THEN 'crawled'
            WHEN t.application IN (SELECT application FROM ancestry) THEN 'evolved'
            ELSE 'written' END, t.server, v.effect, v.parameters
FROM tools t JOIN tool_versions v USING (tool, version) WHERE t.listed
"""


@dataclass
class _Counts:
    """Of the tools of one source."""

    servers: set[str] = field(default_factory=set)
    tools: int = 0
    parameters: int = 0
    nested: int = 0
    """Tools whose parameters have properties of their own."""
    enums: int = 0
    writes: int = 0


def distributions(con: duckdb.DuckDBPyConnection) -> list[dict[str, Any]]:
    """Return a row of figures for each source of tools: crawled, evolved, written.

    Args:
        con: a connection to the registry.
    """
    found: dict[str, _Counts] = defaultdict(_Counts)
    for source, server, effect, parameters in con.execute(_SQL).fetchall():
        counts = found[source]
        whole, *parts = subschemas(orjson.loads(parameters))
        counts.servers.add(server)
        counts.tools += 1
        counts.parameters += len(whole.get("properties", ()))
        counts.nested += any(part.get("properties") for part in parts)
        counts.enums += any("enum" in part for part in parts)
        counts.writes += effect in ("write", "destructive")
    return [
        {
            "source": source,
            "servers": len(counts.servers),
            "tools": counts.tools,
            "tools_each": round(counts.tools / len(counts.servers), 1),
            "parameters": round(counts.parameters / counts.tools, 2),
            "nested_pct": round(100 * counts.nested / counts.tools, 1),
            "enum_pct": round(100 * counts.enums / counts.tools, 1),
            "writes_pct": round(100 * counts.writes / counts.tools, 1),
        }
        for source, counts in sorted(found.items())
    ]
