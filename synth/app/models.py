"""Fetch a small model, or try what the configured ones can do.

toolloom models fetch smollm2
toolloom models check --config models.toml
toolloom models check --set models.agent.model=m --set models.agent.base_url=http://127.0.0.1:8000/v1
"""

from __future__ import annotations

import argparse
import asyncio
import json
from pathlib import Path
from typing import Any

from synth.app._options import add_config, positive, read_config
from synth.app._show import bar, show
from synth.core.config import Config
from synth.core.errors import BadInput, TargetMissed


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("action", choices=["fetch", "check"])
    parser.add_argument("name", nargs="?", help="smollm2 (135M parameters, 93 MB, Apache-2.0)")
    parser.add_argument(
        "--probes", type=positive, default=5, metavar="N", help="check: tool calls to ask for"
    )
    add_config(parser)


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Fetch and say where it lies, or check and show a table.

    Raises:
        TargetMissed: a role needs what its model does not have.
    """
    if arguments.action == "check":
        return _check(arguments)
    if arguments.name is None:
        raise BadInput("which model?", where="models fetch", remedy="toolloom models fetch smollm2")
    from train.fetch import fetch

    path = fetch(arguments.name, arguments.workspace / "cache" / "models")
    if not arguments.json:
        show(str(path))
    return {"name": arguments.name, "path": str(path), "bytes": path.stat().st_size}


def _check(arguments: argparse.Namespace) -> dict[str, Any]:
    config = read_config(arguments)
    if not config.models.roles():
        remedy = "e.g. --set models.agent.model=NAME --set models.agent.base_url=URL"
        raise BadInput("no role has a model", where="models", remedy=remedy)
    folders = [arguments.workspace / "cache" / "models"]
    rows = asyncio.run(_checked(config, arguments.probes, folders))
    missing = [f"{row['role']}: {', '.join(row['missing'])}" for row in rows if row["missing"]]
    if not arguments.json:
        show("\n".join(_table(rows)))
    elif missing:
        show(json.dumps({"roles": rows}))
    if missing:
        remedy = "choose other models, or see the hints above"
        raise TargetMissed(f"missing: {'; '.join(missing)}", where="models", remedy=remedy)
    return {"roles": rows}


async def _checked(config: Config, probes: int, folders: list[Path]) -> list[dict[str, Any]]:
    from synth.core.llm.health import check  # openai takes a second to import

    roles = config.models.roles()
    rows = []
    with bar("check") as shown:
        for number, (role, model) in enumerate(roles.items()):
            shown.update(number, len(roles), role)
            rows.append((await check(role, model, probes=probes, folders=folders)).row())
    return rows


def _table(rows: list[dict[str, Any]]) -> list[str]:
    """Return what was found, a line a role, and what to do about it."""
    from synth.core.llm.health import ABILITIES

    widths = [max(len(str(row[name])) for row in rows) for name in ("role", "model", "endpoint")]
    out = []
    for row in rows:
        names = (row["role"], row["model"], row["endpoint"])
        head = "  ".join(name.ljust(width) for name, width in zip(names, widths, strict=True))
        if row["error"]:
            out.append(f"{head}  not reachable: {row['error']}")
            continue
        words = {True: "yes", False: "no", None: "?"}
        found = [f"{name} {words[row['abilities'][name]]}" for name in ABILITIES]
        counts = ", ".join(f"{row[name]} {name}" for name in ("called", "valid", "right"))
        found[0] += f" (of {row['probes']}: {counts})"
        out.append(f"{head}  {', '.join(found)}, {row['latency_s']:g} s a reply")
        if row["hint"]:
            out.append(f"{' ' * len(head)}  {row['hint']}")
    return out
