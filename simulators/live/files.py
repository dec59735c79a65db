"""Goals on a live file server: the shared folder of a small office, on real disk.

Made for the npm package `@modelcontextprotocol/server-filesystem`; any server with tools of the
same names and parameters will do.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import random
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from simulators.live.desk import Desk
from simulators.live.folder import Tree
from simulators.live.host import WORK, LiveServer, Probe
from simulators.live.office import office
from simulators.live.recipes import CHAINS, OPEN_FACTS, QUESTIONS, WRITES
from simulators.live.world import LiveWorld, Toolset, edges_between
from synth.core.protocols import Edge
from synth.core.types import Effect, PlannedCall, TaskKind, ToolSpec

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


class FileWorld(LiveWorld[Desk]):
    """The world of one installed file server.

    Args:
        argv: command of the server, `{work}` standing for the folder it may use (appended where
            it is missing).
        specs: its tools, as crawled.
        readable: folders in which its program is installed.
        keep: warm processes kept while nobody uses them.
        allow_weaker: run it on machines that cannot confine it.

    Raises:
        BadInput: the server lacks tools that the goals are made of.
    """

    name = "files"
    category = "file management"
    package = "npm:@modelcontextprotocol/server-filesystem"
    effects = EFFECTS
    needed = NEEDED
    rules = POLICY
    recipes = {
        TaskKind.SINGLE_WRITE: WRITES,
        TaskKind.CHAINED_WRITES: CHAINS,
        TaskKind.LOOKUP: QUESTIONS,
        TaskKind.PARALLEL: (*QUESTIONS, *WRITES),
        TaskKind.MISSING_FACT: OPEN_FACTS,
    }

    def __init__(
        self,
        argv: Sequence[str],
        specs: Sequence[ToolSpec],
        *,
        readable: Sequence[Path] = (),
        keep: int = 2,
        allow_weaker: bool = False,
    ) -> None:
        probed = any(spec.name == "directory_tree" for spec in specs)
        server = LiveServer(
            name=self.name,
            argv=tuple(argv) if any(WORK in part for part in argv) else (*argv, WORK),
            alias=ROOT,
            paths=PATHS,
            scrub=_SCRUB,
            probes=_probes if probed else None,
            readable=tuple(readable),
            allow_weaker=allow_weaker,
        )
        super().__init__(server, specs, keep=keep)

    def template(self, seed: int) -> Tree:
        """Return the office's folder."""
        return _template(seed)

    def desk(self, seed: int, tools: Toolset, rng: random.Random) -> Desk:
        """Return the office and the tools to work on it."""
        return Desk(effects=tools.effects, office=office(seed), root=ROOT, rng=rng)

    def unasked(self, desk: Desk) -> PlannedCall | None:
        """Return a new file or folder that nobody asked for."""
        if "write_file" in desk.effects:
            return desk.write("notes/unasked.txt", "Nobody asked for this.\n")
        if "create_directory" in desk.effects:
            return desk.folder("notes/unasked")
        return None

    def edges(self) -> tuple[Edge, ...]:
        """Return which results feed which parameters: found paths, and texts to be edited."""
        return edges_between(self.tools(), _edges())


@functools.lru_cache(maxsize=64)
def _template(seed: int) -> Tree:
    return office(seed).tree()


def _edges() -> Iterator[Edge]:
    for finder in ("search_files", "directory_tree", "list_directory"):
        yield Edge(finder, "path", "read_text_file", "path")
        yield Edge(finder, "path", "read_multiple_files", "paths")
        yield Edge(finder, "path", "edit_file", "path")
        yield Edge(finder, "path", "move_file", "source")
        yield Edge(finder, "path", "get_file_info", "path")
    yield Edge("read_text_file", "content", "edit_file", "edits")


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
