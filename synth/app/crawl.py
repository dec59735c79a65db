"""Read the tools of MCP servers into the registry. Tools are listed, never called.

toolloom crawl npm:@modelcontextprotocol/server-filesystem pypi:mcp-server-time
toolloom crawl path/to/mcp.json https://mcp.example.com/mcp
toolloom crawl github:OWNER/REPO github:topic:mcp-server?most=20 tree:path/to/clones
toolloom crawl tools.jsonl catalog:mcp-registry tools:my-tools.json openapi:shop.yaml

Packages are installed into the workspace with scripts off; servers run confined, without network,
without this machine's environment. An interrupted crawl goes on where it was.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from synth.app._options import positive
from synth.app._show import bar, command, line, show
from synth.core.errors import TargetMissed
from synth.core.store import Workspace
from tool_registry.catalogs import Imported
from tool_registry.crawl import Crawled, CrawlReport, crawl
from tool_registry.source import Bench


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "source",
        nargs="+",
        help="npm:NAME, pypi:NAME[==VERSION], an mcp.json file, https://HOST/mcp, "
        "github:OWNER/REPO, tree:PATH, mcp-registry:URL; catalog:PATH, JSON Lines, tools:FILE "
        "(OpenAI), openapi:FILE, python:MODULE (your own code: it is imported)",
    )
    parser.add_argument(
        "--concurrency",
        type=positive,
        default=2,
        metavar="N",
        help="servers at a time (default: 2)",
    )
    parser.add_argument(
        "--network", action="store_true", help="let servers reach the network while listed"
    )
    parser.add_argument(
        "--allow-weaker",
        action="store_true",
        help="run servers with resource limits alone where there is no confinement",
    )


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Crawl, and return what became of each server.

    Raises:
        TargetMissed: no server could be listed.
    """
    workspace = Workspace(arguments.workspace)
    bench = Bench(
        cache=workspace.cache / "servers",
        network=arguments.network,
        allow_weaker=arguments.allow_weaker,
    )
    with bar("crawl") as shown:
        report = asyncio.run(
            crawl(
                arguments.source,
                workspace=workspace,
                bench=bench,
                progress=lambda done, total, note: shown.update(done, total, note),
                concurrency=arguments.concurrency,
            )
        )
    if not arguments.json:
        show("\n".join([*map(_catalog, report.imported), *_servers(report)]))
    if report.servers and len(report.failed) == len(report.servers):
        first = report.failed[0]
        raise TargetMissed(
            f"no server could be listed: {first.reason or first.outcome}", where=first.server
        )
    return {
        "tools": report.tools,
        "servers": [asdict(server) for server in report.servers],
        "sources": _kinds(report),
        "imported": [asdict(item) for item in report.imported],
        "ledger": report.ledger,
    }


def _catalog(item: Imported) -> str:
    what = f"{item.servers} servers, {item.tools} tools"
    if item.unlisted:
        what += f", {item.unlisted} servers without a list"
    if item.rejected:
        why = ", ".join(f"{count} {reason}" for reason, count in item.reasons.items())
        what += f", {item.rejected} rejected ({why})"
    news = f"{item.changed} servers are new or changed" if item.changed else "nothing is new"
    return line(f"{item.source}  {what}; {news}")


def _servers(report: CrawlReport) -> Iterator[str]:
    """Yield the table of what was listed, what failed and why, and sums; columns are aligned."""
    listed = [server for server in report.servers if server.outcome == "ok"]
    wide = max((len(server.server) for server in report.servers), default=0)
    if len(report.servers) > 1:
        yield f"{'server':{wide}}  {'version':14} {'tools':>5} {'seconds':>8}"
    for server in sorted(listed, key=_named):
        rejected = f"  {server.rejected} rejected" if server.rejected else ""
        yield line(f"{_columns(server, wide)} {server.tools:5} {server.seconds:8.1f}{rejected}")
    for server in sorted(report.failed, key=lambda one: (one.outcome, _named(one))):
        yield line(f"{_columns(server, wide)} {'-':>5} {server.seconds:8.1f}  {server.outcome}")
        yield f"    {line(server.reason or server.outcome)}"
        if server.argv:
            yield f"    ran: {command(server.argv)}"
    if len(report.servers) > 1:
        for kind in _kinds(report):
            yield line(
                "{source}: {listed} of {servers} servers listed, {tools} tools".format(**kind)
            )
        tools = sum(server.tools for server in listed)
        yield f"{len(listed)} of {len(report.servers)} servers listed, {tools} tools"


def _columns(server: Crawled, wide: int) -> str:
    return f"{server.server:{wide}}  {server.version or '-':14}"


def _kinds(report: CrawlReport) -> list[dict[str, Any]]:
    """Return what each kind of source gave: names of servers begin with it."""
    found: dict[str, list[Crawled]] = {}
    for server in report.servers:
        found.setdefault(server.server.partition(":")[0], []).append(server)
    return [
        {
            "source": kind,
            "servers": len(servers),
            "listed": sum(server.outcome == "ok" for server in servers),
            "tools": sum(server.tools for server in servers),
        }
        for kind, servers in sorted(found.items())
    ]


def _named(server: Crawled) -> str:
    return f"{server.server} {server.version or ''}".strip()
