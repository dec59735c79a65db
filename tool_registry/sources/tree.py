"""`tree:PATH`: a repository that was cloned, or a folder of such; nothing in it is run.

How its server is launched is told from its files (`launches`); packages are then listed like any
other. Links are not followed, and files are read up to a bound.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from synth.core.errors import BadInput, ServerFailed
from tool_registry.launches import MAX_FILE, WANTED, launches_in
from tool_registry.source import Bench, Listing, Target

MAX_FOLDERS = 2_000
"""Folders below PATH that are looked at; more are told."""


class Tree:
    """Servers whose repositories lie on this machine."""

    name = "tree"
    example = "tree:PATH"

    def claims(self, text: str) -> bool:
        """Say whether `text` is for this source."""
        return text.startswith("tree:")

    def targets(self, text: str) -> Sequence[Target]:
        """Return the servers of a folder and of those directly below it, each once.

        Raises:
            BadInput: it is no folder, or nothing in it tells how a server is launched.
        """
        named = text.removeprefix("tree:")
        try:
            folder = Path(named).expanduser()
            there = bool(named) and folder.is_dir()
        except (ValueError, RuntimeError):  # a NUL in it, or a user that nobody knows
            there = False
        if not there:
            raise BadInput("no such folder", where=repr(named), remedy="write tree:PATH")
        found: dict[str, Target] = {}
        for repository in _repositories(folder):
            for target in launches_in(read_wanted(repository)):
                found.setdefault(target.server, target)
        if not found:
            what = "no file of it tells how a server is launched"
            remedy = "looked at: server.json, mcp.json, README, package.json, pyproject.toml"
            raise BadInput(what, where=str(folder), remedy=remedy)
        return list(found.values())

    async def fetch(self, target: Target, bench: Bench, listing: Listing) -> None:
        """Targets are of other sources."""
        raise ServerFailed("no package", where=target.server, outcome="unsupported")


def _repositories(folder: Path) -> Iterator[Path]:
    yield folder
    with os.scandir(folder) as entries:
        names = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    if len(names) > MAX_FOLDERS:
        what = f"more than {MAX_FOLDERS} folders"
        raise BadInput(what, where=str(folder), remedy="name some of them")
    yield from (folder / name for name in names if not name.startswith("."))


def read_wanted(folder: Path) -> dict[str, bytes]:
    """Return the files of `launches.WANTED` that a folder has; links are none of them."""
    found = {}
    for name in WANTED:
        path = folder / name
        try:
            if path.is_symlink() or path.parent.is_symlink() or not path.is_file():
                continue
            with path.open("rb") as file:
                found[name] = file.read(MAX_FILE)
        except OSError:
            continue
    return found


SOURCE = Tree()
