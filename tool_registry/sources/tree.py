"""`tree:PATH`: a repository that was cloned, or a folder of such; nothing in it is run.

How its servers are launched is told from its files (`launches`); packages are then listed like any
other, and what is found and not usable is kept with the reason. Links are not followed, and files
are read up to a bound.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from synth.core.errors import BadInput, ServerFailed
from tool_registry.launches import MAX_FILE, launches_in, unusable_targets, wanted
from tool_registry.source import Bench, Listing, Target

MAX_FOLDERS = 2_000
"""Folders below PATH that are looked at; more are told."""
MAX_NAMES = 10_000
"""Names of a repository that are looked at."""


class Tree:
    """Servers whose repositories lie on this machine."""

    name = "tree"
    example = "tree:PATH"

    def claims(self, text: str) -> bool:
        """Say whether `text` is for this source."""
        return text.startswith("tree:")

    def targets(self, text: str) -> Sequence[Target]:
        """Return the servers of a repository, or of the repositories of a folder, each once.

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
        usable: dict[str, Target] = {}
        unusable: list[Target] = []
        for repository in _repositories(folder):
            launches = launches_in(read_wanted(repository))
            for target in launches.targets:
                usable.setdefault(target.server, target)
            if launches.unusable:
                unusable += unusable_targets(launches, f"tree:{repository}", self.name)
        if not usable and not unusable:
            what = "no file of it tells how a server is launched"
            remedy = "looked at: server.json, mcp.json, README, package.json, pyproject.toml"
            raise BadInput(what, where=str(folder), remedy=remedy)
        return [*usable.values(), *unusable]

    async def fetch(self, target: Target, bench: Bench, listing: Listing) -> None:
        """Say why what a file tells is not listed."""
        raise ServerFailed(
            target.script or "no package", where=target.server, outcome="unsupported"
        )


def _repositories(folder: Path) -> Iterator[Path]:
    """Yield a repository alone, or the folder and those directly below it."""
    yield folder
    if (folder / ".git").exists():
        return
    with os.scandir(folder) as entries:
        names = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    if len(names) > MAX_FOLDERS:
        what = f"more than {MAX_FOLDERS} folders"
        raise BadInput(what, where=str(folder), remedy="name some of them")
    yield from (folder / name for name in names if not name.startswith("."))


def read_wanted(folder: Path) -> dict[str, bytes]:
    """Return the files of a folder that tell how its servers are launched; no links."""
    found = {}
    for path in wanted(_names(folder)):
        try:
            # a link that was put there meanwhile is not followed, a pipe not waited for
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
            with os.fdopen(os.open(folder / path, flags), "rb") as file:
                found[path] = file.read(MAX_FILE) or b""
        except OSError:
            continue
    return found


def _names(folder: Path) -> Iterator[str]:
    """Yield paths of files, at most two folders deep and `MAX_NAMES`."""
    seen = 0
    for place, folders, files in os.walk(folder, followlinks=False):
        below = Path(place).relative_to(folder)
        folders[:] = sorted(folders) if len(below.parts) < 2 else []
        for name in sorted(files):
            if not (Path(place) / name).is_symlink():
                yield (below / name).as_posix()
        seen += len(files) + len(folders)
        if seen > MAX_NAMES:
            return


SOURCE = Tree()
