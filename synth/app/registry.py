"""Search, show and count what is in the registry.

toolloom registry stats
toolloom registry search "read a file" --effect read --min-quality 0.8
toolloom registry show read_text_file
toolloom registry similar read_text_file
toolloom registry show read_text_file --provider gemini
toolloom registry tree finance
toolloom registry coverage
toolloom registry duplicates
toolloom registry map
toolloom registry sql "SELECT server, count(*) FROM tools GROUP BY ALL"
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from synth.app import _map
from synth.app._options import positive, share
from synth.app._show import hand_over, json_text, line, lines, say, show
from synth.core.errors import BadInput, BadPlace
from synth.core.formats import declare
from synth.core.store import Workspace
from synth.core.types import Effect
from synth.pipeline.worlds import register_missing
from tool_registry import browse
from tool_registry.profiles import PROVIDERS, declaration
from tool_registry.search import ALL, Filter

WIDEST = 10_000
"""Columns of a table that goes to a file or another program; it takes what it needs."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("action", choices=list(_ANSWERS))
    parser.add_argument("text", nargs="?", help="what to search, show, compare or ask")
    parser.add_argument(
        "--limit", type=positive, default=20, metavar="N", help="rows (default: 20)"
    )
    parser.add_argument("--csv", action="store_true", help=f"rows as CSV ({', '.join(_TABLES)})")
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="map: folder to draw in (default: WORKSPACE/map)"
    )
    parser.add_argument(
        "--provider",
        choices=list(PROVIDERS),
        help="show: the tool as this API takes it, and what was changed for it",
    )
    only = parser.add_argument_group("search: only tools")
    only.add_argument("--category", metavar="NAME", help="of this category")
    only.add_argument("--effect", choices=[str(effect) for effect in Effect])
    only.add_argument("--licence", metavar="SPDX", help="under this licence, e.g. MIT")
    only.add_argument("--language", metavar="CODE", help="described in this language, e.g. zh")
    only.add_argument("--server", metavar="NAME", help="of servers whose name begins so")
    only.add_argument("--min-quality", type=share, metavar="SHARE", help="of at least this score")
    only.add_argument(
        "--synthetic",
        action=argparse.BooleanOptionalAction,
        help="of applications, or only of servers",
    )


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Answer from the registry."""
    if arguments.action in _EXAMPLES and not arguments.text:
        what = f"{arguments.action} needs a text"
        raise BadInput(what, where="registry", remedy=f"e.g. {_EXAMPLES[arguments.action]}")
    _check_options(arguments)
    workspace = Workspace(arguments.workspace)
    left_out = None
    try:
        register_missing(workspace, _tell_new)
    except BadPlace as error:  # what is in a registry can be read where nothing can be written
        left_out = error
    result = _ANSWERS[arguments.action](workspace, arguments)
    if left_out is not None:
        say(f"installed applications are left out: {left_out}")
    if arguments.csv:
        _write_csv(result)
    elif not arguments.json:
        _show_answer(arguments.action, result)
    return result


def _check_options(arguments: argparse.Namespace) -> None:
    """Refuse options that mean nothing for an action."""
    where = f"registry {arguments.action}"
    if _only(arguments) != ALL and arguments.action != "search":
        raise BadInput("only search takes filters", where=where)
    if arguments.csv and (arguments.json or arguments.action not in _TABLES):
        raise BadInput("--csv is for rows, and not beside --json", where=where)
    if arguments.provider and arguments.action != "show":
        raise BadInput("only show declares a tool to a provider", where=where)
    if arguments.out and arguments.action != "map":
        raise BadInput("only map draws in a folder", where=where)


def _show_answer(action: str, result: dict[str, Any]) -> None:
    if action in _PAGES:
        show(_PAGES[action](result))
    elif action in ("search", "similar"):
        _show_found(result["rows"])
    else:
        _show(result)
    if action == "stats" and not result["tools_real"]:
        show("no real tools yet: toolloom crawl npm:@modelcontextprotocol/server-filesystem")


def _tell_new(names: Sequence[str]) -> None:
    say(f"entering {len(names)} installed applications in the registry, once")


def _stats(workspace: Workspace, arguments: argparse.Namespace) -> dict[str, Any]:
    return browse.stats(workspace)


def _search(workspace: Workspace, arguments: argparse.Namespace) -> dict[str, Any]:
    return _ranking(browse.search(workspace, arguments.text, arguments.limit, _only(arguments)))


def _only(arguments: argparse.Namespace) -> Filter:
    return Filter(
        category=arguments.category,
        effect=arguments.effect,
        licence=arguments.licence,
        language=arguments.language,
        server=arguments.server,
        min_quality=arguments.min_quality,
        synthetic=arguments.synthetic,
    )


def _similar(workspace: Workspace, arguments: argparse.Namespace) -> dict[str, Any]:
    return _ranking(browse.similar(workspace, arguments.text, arguments.limit))


def _ranking(found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {"columns": list(_FOUND), "rows": [[tool[c] for c in _FOUND] for tool in found]}


_FOUND = ("tool", "effect", "category", "licence", "quality", "score", "description")


def _one(workspace: Workspace, arguments: argparse.Namespace) -> dict[str, Any]:
    if arguments.provider:
        return asdict(declaration(browse.spec(workspace, arguments.text), arguments.provider))
    return browse.show(workspace, arguments.text)


def _sql(workspace: Workspace, arguments: argparse.Namespace) -> dict[str, Any]:
    table = browse.sql(workspace, arguments.text, limit=arguments.limit)
    rows = [list(row) for row in table.rows]
    return {"columns": list(table.columns), "rows": rows, "truncated": table.truncated}


_TABLES = ("search", "similar", "sql", "duplicates")
_EXAMPLES = {
    "search": "toolloom registry search 'cancel a booking'",
    "show": "toolloom registry show cancel_booking",
    "similar": "toolloom registry similar cancel_booking",
    "sql": "toolloom registry sql 'SELECT server, count(*) FROM tools GROUP BY ALL'",
}
_ANSWERS = {
    "stats": _stats,
    "search": _search,
    "show": _one,
    "similar": _similar,
    "sql": _sql,
    "tree": _map.tree,
    "coverage": _map.coverage,
    "duplicates": _map.duplicates,
    "map": _map.draw,
}
_PAGES: dict[str, Callable[[dict[str, Any]], str]] = {
    "tree": _map.tree_page,
    "coverage": _map.coverage_page,
    "map": _map.map_page,
}


def _about(result: dict[str, Any], newest: dict[str, Any]) -> str:
    """Return category and quality in a line."""
    source = f" ({result['category_source']})" if result["category_source"] else ""
    about = f"category: {result['category'] or 'none'}{source}"
    if newest["quality"] is not None:
        lacks = "; ".join(newest["quality_reasons"] or ()) or "lacks nothing"
        about += f", quality {newest['quality']:.2f}: {lacks}"
    return about


def _tool_page(result: dict[str, Any]) -> str:
    """Return what is known of one tool, as people read it; `--json` has all of it."""
    newest = result["versions"][0]
    function = {key: newest[key] for key in ("description", "parameters")}
    tool = {"name": result["function_name"], **function}
    page = [
        line(f"{result['tool']}: {newest['effect']} ({newest['effect_source']})"),
        declare([{"function": tool}], describe_parameters=True),
        line(_about(result, newest)),
    ]
    for version in result["versions"]:
        package = f", package {version['package_version']}" if version["package_version"] else ""
        flags = f", {' '.join(version['flags'])}" if version["flags"] else ""
        page.append(
            line(f"version {version['version']}, seen {version['seen_at']}{package}{flags}")
        )
    for crawl in result["crawls"]:
        page.append(line(f"crawled {crawl['started_at']}: {crawl['reason'] or crawl['outcome']}"))
    for step in result.get("ancestors", ()):
        own = " (this tool)" if result["name"] in step["tools"] else ""
        whence = (
            f", of {', '.join(step['parents'])}" if step["parents"] and not step["step"] else ""
        )
        page.append(
            line(f"{step['application']}: {step['operator']}, {step['words']}{own}{whence}")
        )
    return "\n".join(page)


def _show_found(rows: Sequence[Sequence[Any]]) -> None:
    """Show what a search found, a name whole whatever the width: it is what `show` takes."""
    if not rows:
        show("nothing matches")
    for tool, effect, category, licence, quality, score, description in rows:
        shown = f"{score:.1f}" if score > 1 else f"{score:.2f}"
        facts = [effect, category or "no category", licence or "no licence known"]
        facts += [] if quality is None else [f"quality {quality:.2f}"]
        show(f"{line(tool)}  {line(', '.join(facts))}  (score {shown})\n    {line(description)}")


def _write_csv(result: dict[str, Any]) -> None:
    """Write rows as RFC 4180 has them, for programs: a spreadsheet may run cells that begin with =.

    Nothing is escaped but what the format needs, except where a terminal would act upon it.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(result["columns"])
    writer.writerows(result["rows"])
    hand_over(text.getvalue())
    if result.get("truncated"):
        say(f"the first {len(result['rows'])} rows; --limit N writes more")


def _change(change: dict[str, str]) -> str:
    return f"{change['path'] or 'the tool'}: {change['what']} ({change['why']})"


def _show(result: dict[str, Any]) -> None:
    if "versions" in result and "tool" in result:
        show(_tool_page(result))
        return
    if "changes" in result:
        show(json_text(json.dumps(result["body"], ensure_ascii=False, indent=2)))
        show("\n".join(line(_change(one)) for one in result["changes"]) or "nothing was changed")
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
