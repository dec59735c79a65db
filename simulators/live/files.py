"""Goals on a live file server: the shared folder of a small office, on real disk.

Made for the npm package `@modelcontextprotocol/server-filesystem`; any server with tools of the
same names and parameters will do.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
from collections.abc import Iterator, Sequence, Set
from typing import Any

from simulators.live.desk import Desk
from simulators.live.folder import Tree
from simulators.live.host import WORK, LiveServer, Probe
from simulators.live.office import office
from simulators.live.recipes import RECIPES
from simulators.live.world import LiveWorld, Toolset
from synth.core.protocols import Edge
from synth.core.types import Effect, PlannedCall

ROOT = "/data"
EFFECTS = {
    "read_text_file": Effect.READ,
    "read_multiple_files": Effect.READ,
    "write_file": Effect.DESTRUCTIVE,
    "edit_file": Effect.WRITE,
    "create_directory": Effect.WRITE,
    "list_directory": Effect.READ,
    "list_directory_with_sizes": Effect.READ,
    "directory_tree": Effect.READ,
    "move_file": Effect.WRITE,
    "search_files": Effect.READ,
    "get_file_info": Effect.READ,
    "list_allowed_directories": Effect.READ,
}
"""Tools of the package that the world offers (not: `read_file`, deprecated; `read_media_file`)."""
NEEDED = ("read_text_file", "write_file", "edit_file", "create_directory", "move_file")
PATHS = frozenset({"path", "paths", "source", "destination"})
_SCRUB = (
    # Times of files are the machine's; the folder's own time stands still.
    (re.compile(r"[A-Z][a-z]{2} [A-Z][a-z]{2} \d\d \d{4} \d\d:\d\d:\d\d GMT\S*( \([^)]*\))?"),
     "Mon Mar 02 2026 09:00:00 GMT+0000 (Coordinated Universal Time)"),
    (re.compile(r"\.[0-9a-f]{32}\.tmp\b"), ".tmp"),
)  # fmt: skip

POLICY = f"""All files are below {ROOT}, the shared folder of a small office. Its layout:
- {ROOT}/archive: what is finished, by year
- {ROOT}/contacts/suppliers.csv: suppliers (company,contact,phone,email)
- {ROOT}/invoices/open and {ROOT}/invoices/paid: one text file an invoice, INV-NUMBER.txt
- {ROOT}/invoices/register.csv: all invoices (number,company,payable_by,total,status)
- {ROOT}/notes/YEAR: minutes of meetings, DATE-TOPIC.md
- {ROOT}/projects/NAME: one folder a project
- {ROOT}/reports: monthly figures, visitors-MONTH.csv
- {ROOT}/todo/NAME.txt: one to-do list a person, lines "- [ ] what (due YYYY-MM-DD)", [x] when done

Always use full paths. Look before you write: files may lie elsewhere than expected. Change only
what was asked for, keep everything else of a file as it is, and never overwrite another file."""


def _links() -> Iterator[Edge]:
    for finder in ("search_files", "directory_tree", "list_directory"):
        yield Edge(finder, "path", "read_text_file", "path")
        yield Edge(finder, "path", "read_multiple_files", "paths")
        yield Edge(finder, "path", "edit_file", "path")
        yield Edge(finder, "path", "move_file", "source")
        yield Edge(finder, "path", "get_file_info", "path")
    yield Edge("read_text_file", "content", "edit_file", "edits")


LINKS = tuple(_links())


class FileWorld(LiveWorld[Desk]):
    """The world of one installed file server."""

    name = "files"
    category = "file management"
    package = "npm:@modelcontextprotocol/server-filesystem"
    effects = EFFECTS
    needed = NEEDED
    rules = POLICY
    recipes = RECIPES
    links = LINKS

    def serve(self, argv: tuple[str, ...], tools: Set[str]) -> LiveServer:
        """Return how it is started; `{work}` is its folder, appended where it is missing."""
        return LiveServer(
            name=self.name,
            argv=argv if any(WORK in part for part in argv) else (*argv, WORK),
            alias=ROOT,
            paths=PATHS,
            scrub=_SCRUB,
            probes=_probes if "directory_tree" in tools else None,
        )

    def template(self, seed: int) -> Tree:
        """Return the office's folder."""
        return _template(seed)

    def desk(self, seed: int, tools: Toolset) -> Desk:
        """Return the office and the tools to work on it."""
        return Desk(effects=tools.effects, office=office(seed), root=ROOT, rng=tools.rng)

    def unasked(self, desk: Desk) -> PlannedCall | None:
        """Return a new file or folder that nobody asked for."""
        if "write_file" in desk.effects:
            return desk.write("notes/unasked.txt", "Nobody asked for this.\n")
        if "create_directory" in desk.effects:
            return desk.folder("notes/unasked")
        return None


@functools.lru_cache(maxsize=64)
def _template(seed: int) -> Tree:
    return office(seed).tree()


# --- proof of a reset ------------------------------------------------------------------------


def _probes(tree: Tree) -> Sequence[Probe]:
    """Ask for all names, and for the texts of two files that differ from seed to seed."""
    names = {os.fsencode(path).decode("utf-8", "replace") for path in tree.entries}
    texts: dict[str, str] = {}
    for path, content in tree.entries.items():
        with contextlib.suppress(UnicodeError):
            if isinstance(content, bytes) and path.encode():
                texts[path] = content.decode()
    chosen = sorted(texts, key=lambda path: (len(texts[path]), path))[-2:]
    whole = Probe("directory_tree", {"path": ROOT}, lambda text: _names(text) == names)
    return whole, *(
        Probe("read_text_file", {"path": f"{ROOT}/{path}"}, texts[path].__eq__) for path in chosen
    )


def _names(text: str) -> set[str] | None:
    """Return every path in a `directory_tree`, None where it is none."""
    try:
        return set(_walk(json.loads(text), ""))
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def _walk(entries: Any, prefix: str) -> Iterator[str]:
    for entry in entries:
        path = prefix + entry["name"]
        yield path
        yield from _walk(entry.get("children", ()), path + "/")
