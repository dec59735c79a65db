"""What tools look like, evolved ones beside written and crawled ones: figures from the registry."""

from __future__ import annotations

from typing import Any

import duckdb

_SQL = r"""
WITH shown AS (
    SELECT t.tool, t.server, v.effect, v.parameters,
        CASE WHEN t.application IS NULL THEN 'crawled'
             WHEN t.application IN (SELECT application FROM ancestry) THEN 'evolved'
             ELSE 'written' END AS source,
        len(json_keys(v.parameters, '$.properties')) AS parameters_of,
        regexp_matches(v.parameters::VARCHAR, '"properties"\s*:.*"properties"\s*:') AS nested,
        contains(v.parameters::VARCHAR, '"enum"') AS enums
    FROM tools t JOIN tool_versions v USING (tool, version) WHERE t.listed
)
SELECT source, count(DISTINCT server) AS servers, count(*) AS tools,
    round(count(*) / count(DISTINCT server), 1) AS tools_each,
    round(avg(coalesce(parameters_of, 0)), 2) AS parameters,
    round(100 * avg(nested::INT), 1) AS nested_pct,
    round(100 * avg(enums::INT), 1) AS enum_pct,
    round(100 * avg((effect IN ('write', 'destructive'))::INT), 1) AS writes_pct
FROM shown GROUP BY source ORDER BY source
"""


def distributions(con: duckdb.DuckDBPyConnection) -> list[dict[str, Any]]:
    """Return a row of figures for each source of tools: crawled, evolved, written.

    Args:
        con: a connection to the registry.
    """
    found = con.execute(_SQL)
    names = [column[0] for column in found.description or ()]
    return [dict(zip(names, row, strict=True)) for row in found.fetchall()]
