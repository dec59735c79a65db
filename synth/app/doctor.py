"""Say what this machine offers: versions, sandbox, who holds the registry."""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from synth.app._show import show
from synth.core.errors import ToolloomError
from synth.core.sandbox.confine import tier
from synth.core.store import Workspace
from tool_registry.install import uv

_PACKAGES = ("toolloom", "apsw", "duckdb", "mcp", "openai", "torch", "transformers")


def configure(parser: argparse.ArgumentParser) -> None:
    """Take no options."""


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Look around and report."""
    programs = {name: shutil.which(name) is not None for name in ("node", "npm")}
    programs["uv"] = uv() is not None  # beside the interpreter too, as crawls find it
    found: dict[str, Any] = {
        "python": sys.version.split()[0],
        "versions": {name: _version(name) for name in _PACKAGES},
        "cores": len(os.sched_getaffinity(0)),
        "sandbox": str(tier()),
        "rooms": _rooms(),
        "programs": programs,
        "registry": _registry(arguments),
    }
    if not arguments.json:
        lines = [f"python       {found['python']}, {found['cores']} cores"]
        lines += [f"{name:<13}{v or 'not installed'}" for name, v in found["versions"].items()]
        lines += [f"{name:<13}{'found' if ok else 'absent'}" for name, ok in programs.items()]
        lines += [f"{name:<13}{found[name]}" for name in ("sandbox", "rooms", "registry")]
        show("\n".join(lines))
    return found


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _rooms() -> str:
    """Return whether commands of coding agents can run here, and why not."""
    from simulators.sandbox.run import why_not

    try:
        reason = asyncio.run(why_not())
    except ToolloomError as error:
        reason = str(error)
    return f"none for commands of coding agents: {reason}" if reason else "ready"


def _registry(arguments: argparse.Namespace) -> str:
    if not (arguments.workspace / "registry.duckdb").exists():
        return f"none yet in {arguments.workspace}"
    try:
        with Workspace(arguments.workspace).read() as con:
            row = con.execute("SELECT count(*) FROM tools").fetchone()
    except ToolloomError as error:
        return str(error)
    return f"{row[0] if row else 0} tools in {arguments.workspace}"
