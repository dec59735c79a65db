"""Search, show and count what is in the registry.

toolloom registry stats
toolloom registry search "read a file"
toolloom registry show read_text_file
toolloom registry similar read_text_file
toolloom registry sql "SELECT server, count(*) FROM tools GROUP BY ALL"
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from synth.app._options import positive
from synth.app._show import line, lines, say, show
from synth.core.errors import BadInput, BadPlace
from synth.core.formats import declare
from synth.core.store import Workspace
from synth.pipeline.worlds import register_missing
from tool_registry import browse

WIDEST = 10_000
"""Columns of a table that goes to a file or another program; it takes what it needs."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("action", choices=["stats", "search", "show", "similar", "sql"])
    parser.add_argument("text", nargs="?", help="what to search, show, compare or ask")
    parser.add_argument(
        "--limit", type=positive, default=20, metavar="N", help="rows (default: 20)"
    )


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Answer from the registry."""
    if arguments.action != "stats" and not arguments.text:
        what = f"{arguments.action} needs a text"
        raise BadInput(what, where="registry", remedy=f"e.g. {_EXAMPLES[arguments.action]}")
    workspace = Workspace(arguments.workspace)
    left_out = None
    try:
        register_missing(workspace, _tell_new)
    except BadPlace as error:  # what is in a registry can be read where nothing can be written
        left_out = error
    result = _ANSWERS[arguments.action](workspace, arguments)
    if left_out is not None:
        say(f"installed applications are left out: {left_out}")
    if not arguments.json:
        if arguments.action in ("search", "similar"):
            _show_found(result["rows"])
        else:
            _show(result)
        if arguments.action == "stats" and not result["tools_real"]:
            show("no real tools yet: toolloom crawl npm:@modelcontextprotocol/server-filesystem")
    return result


def _tell_new(names: Sequence[str]) -> None:
    say(f"entering {len(names)} installed applications in the registry, once")


def _stats(workspace: Workspace, arguments: argparse.Namespace) -> dict[str, Any]:
    return browse.stats(workspace)


def _search(workspace: Workspace, arguments: argparse.Namespace) -> dict[str, Any]:
    return _ranking(browse.search(workspace, arguments.text, arguments.limit))


def _similar(workspace: Workspace, arguments: argparse.Namespace) -> dict[str, Any]:
    return _ranking(browse.similar(workspace, arguments.text, arguments.limit))


def _ranking(found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    columns = ("tool", "effect", "score", "description")
    return {"columns": list(columns), "rows": [[tool[c] for c in columns] for tool in found]}


def _one(workspace: Workspace, arguments: argparse.Namespace) -> dict[str, Any]:
    return browse.show(workspace, arguments.text)


def _sql(workspace: Workspace, arguments: argparse.Namespace) -> dict[str, Any]:
    table = browse.sql(workspace, arguments.text, limit=arguments.limit)
    rows = [list(row) for row in table.rows]
    return {"columns": list(table.columns), "rows": rows, "truncated": table.truncated}


_EXAMPLES = {
    "search": "toolloom registry search 'cancel a booking'",
    "show": "toolloom registry show cancel_booking",
    "similar": "toolloom registry similar cancel_booking",
    "sql": "toolloom registry sql 'SELECT server, count(*) FROM tools GROUP BY ALL'",
}
_ANSWERS = {"stats": _stats, "search": _search, "show": _one, "similar": _similar, "sql": _sql}


def _tool_page(result: dict[str, Any]) -> str:
    """Return what is known of one tool, as people read it; `--json` has all of it."""
    newest = result["versions"][0]
    function = {key: newest[key] for key in ("description", "parameters")}
    tool = {"name": result["function_name"], **function}
    page = [
        line(f"{result['tool']}: {newest['effect']} ({newest['effect_source']})"),
        declare([{"function": tool}], describe_parameters=True),
    ]
    for version in result["versions"]:
        package = f", package {version['package_version']}" if version["package_version"] else ""
        flags = f", {' '.join(version['flags'])}" if version["flags"] else ""
        page.append(
            line(f"version {version['version']}, seen {version['seen_at']}{package}{flags}")
        )
    for crawl in result["crawls"]:
        page.append(line(f"crawled {crawl['started_at']}: {crawl['reason'] or crawl['outcome']}"))
    return "\n".join(page)


def _show_found(rows: Sequence[Sequence[Any]]) -> None:
    """Show what a search found, a name whole whatever the width: it is what `show` takes."""
    if not rows:
        show("nothing matches")
    for tool, effect, score, description in rows:
        shown = f"{score:.1f}" if score > 1 else f"{score:.2f}"
        show(f"{line(tool)}  {effect}  (score {shown})\n    {line(description)}")


def _show(result: dict[str, Any]) -> None:
    if "versions" in result and "tool" in result:
        show(_tool_page(result))
        return
    if "rows" not in result:
        show("\n".join(line(f"{key:<18}{value}") for key, value in result.items()))
        return
    from rich.console import Console
    from rich.table import Column, Table
    from rich.text import Text

    table = Table(*[Column(Text(line(name)), overflow="fold") for name in result["columns"]])
    for row in result["rows"]:
        table.add_row(*[Text("" if cell is None else lines(str(cell))) for cell in row])
    # A pipe has no width: a name folded into two lines is found by nobody.
    Console(width=None if sys.stdout.isatty() else WIDEST).print(table)
    if result.get("truncated"):
        show(f"the first {len(result['rows'])} rows; --limit N shows more")
