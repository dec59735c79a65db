"""What registries of earlier versions lack: scores and categories of tools entered before them."""

from __future__ import annotations

import duckdb
import orjson

from synth.core.canonical import canonical
from synth.core.types import ToolSpec
from tool_registry.classify import classify
from tool_registry.quality import quality_of

_LACKS = "FROM tools JOIN tool_versions USING (tool, version) WHERE quality IS NULL"
_TOOLS = f"""
SELECT t.server, t.tool, t.version, v.document, v.flags
FROM tools t JOIN tool_versions v USING (tool, version)
WHERE t.server IN (SELECT server {_LACKS}) AND (t.listed OR v.quality IS NULL)
ORDER BY t.server, t.tool
"""


def lacks(con: duckdb.DuckDBPyConnection) -> bool:
    """Say whether there are definitions that `fill` would score."""
    return bool(con.execute(f"SELECT 1 {_LACKS} LIMIT 1").fetchall())


def fill(con: duckdb.DuckDBPyConnection) -> None:
    """Score and classify the current definitions that were entered before this was done.

    A category depends on the other tools of a server, so all of these are looked at.

    Args:
        con: a connection from `Workspace.write`.
    """
    servers: dict[str, list[tuple[str, int, ToolSpec, list[str]]]] = {}
    for server, tool, version, document, flags in con.execute(_TOOLS).fetchall():
        spec = ToolSpec.model_validate_json(document)
        servers.setdefault(server, []).append((tool, version, spec, orjson.loads(flags)))
    for server, tools in servers.items():
        inferred = classify(server, [spec for _, _, spec, _ in tools])
        scored = [quality_of(spec, flags) for _, _, spec, flags in tools]
        con.execute(
            "UPDATE tool_versions AS v SET quality = n.quality, quality_reasons = n.reasons FROM "
            "(SELECT unnest($1) AS tool, unnest($2) AS version, unnest($3) AS quality, "
            "unnest($4) AS reasons) n WHERE v.tool = n.tool AND v.version = n.version",
            [
                [tool for tool, *_ in tools],
                [version for _, version, *_ in tools],
                [score for score, _ in scored],
                [canonical(reasons) for _, reasons in scored],
            ],
        )
        told = [(tool[0], one) for tool, one in zip(tools, inferred, strict=True) if one]
        con.execute(
            "UPDATE tools AS t SET category = n.category, category_source = 'inferred', "
            "category_score = n.score FROM (SELECT unnest($1) AS tool, unnest($2) AS category, "
            "unnest($3) AS score) n WHERE t.tool = n.tool AND t.category IS NULL",
            [
                [tool for tool, _ in told],
                [one.category for _, one in told],
                [one.score for _, one in told],
            ],
        )
