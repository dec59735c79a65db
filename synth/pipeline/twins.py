"""Twins of crawled servers: derived from the registry, linted, written down, opened again.

`twins/servers.jsonl` of a workspace has a row for each crawled server that was looked at: its tools
as they were crawled, and what came of them. A row is whole, so a run does not depend on what is
crawled later. A server whose tools changed gets another row, and the last one counts.
"""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import orjson

from simulators.sql.engine import Engine
from simulators.sql.lint import lint
from simulators.twin.derive import Derived, derive
from simulators.twin.world import TwinWorld
from synth.core import jsonl
from synth.core.canonical import content_key
from synth.core.errors import BadInput, NotSuitable, ToolloomError, UnknownName
from synth.core.locks import lock_folder
from synth.core.store import Workspace
from synth.core.types import ToolSpec

TWIN = "twin:"
"""Begins the name, or the pattern of names, of twins in `generate.applications`."""
ROUNDS = 4
"""Times that tools are left out of a twin for what the lint finds in them."""
DRAWS = 30
ENOUGH = 2
SUSPECT = ("suspicious",)
"""Flags of the registry that keep a tool out: agents would read its text."""
_TOOL = re.compile(r": tools\.([a-z0-9_]+)")

Told = Callable[[int, str], None]


def folder_of(workspace: Path) -> Path:
    """Return where twins are."""
    return workspace / "twins"


def make_twins(workspace: Workspace, tell: Told = lambda done, note: None) -> dict[str, Any]:
    """Derive a twin of every crawled server that can have one; what is there is not made again.

    Args:
        workspace: its registry has the tools.
        tell: hears of the servers looked at so far.

    Returns:
        What `summary` returns.

    Raises:
        BadInput: nothing was crawled.
        ToolloomError: another process makes twins in this workspace.
    """
    servers = _crawled(workspace)
    if not servers:
        raise BadInput(
            "no server was crawled", where=str(workspace.path), remedy="toolloom crawl SOURCE"
        )
    folder = folder_of(workspace.path)
    lock = lock_folder(folder, "making of twins")
    try:
        done = {row["server"]: row["key"] for row in _rows(folder)}
        with jsonl.Appender(folder / "servers.jsonl") as file:
            for number, (server, specs) in enumerate(sorted(servers.items()), 1):
                key = content_key([spec.key for spec in specs])
                if done.get(server) != key:
                    file.append(_row(server, key, specs))
                tell(number, f"of {len(servers)} servers")
    finally:
        os.close(lock)
    return summary(workspace.path)


def summary(workspace: Path) -> dict[str, Any]:
    """Return counts of servers and tools with a twin, and why the others have none."""
    rows = list(_last(folder_of(workspace)).values())
    made = [row for row in rows if row["application"]]
    why = Counter(reason for row in made for reason in row["reasons"].values())
    return {
        "servers": len(rows),
        "twins": len(made),
        "tools": sum(len(row["specs"]) for row in rows),
        "twin_tools": sum(len(row["specs"]) - len(row["reasons"]) for row in made),
        "distractors": sum(len(row["reasons"]) for row in made),
        "distractors_by_reason": dict(why.most_common()),
        "without_twin": dict(Counter(row["why"] for row in rows if row["why"]).most_common()),
    }


def _crawled(workspace: Workspace) -> dict[str, list[ToolSpec]]:
    found: dict[str, list[ToolSpec]] = defaultdict(list)
    with workspace.read() as con:
        rows = con.execute(
            "SELECT t.server, v.document FROM tools t JOIN tool_versions v USING (tool, version) "
            "JOIN catalogue c USING (tool) WHERE t.listed AND t.application IS NULL "
            "AND NOT list_has_any(CAST(c.flags AS VARCHAR[]), ?) ORDER BY t.tool",
            [list(SUSPECT)],
        ).fetchall()
    for server, document in rows:
        found[server].append(ToolSpec.model_validate_json(document))
    return found


def _row(server: str, key: str, specs: Sequence[ToolSpec]) -> dict[str, Any]:
    """Derive the twin of one server, leaving out what the lint finds unsound."""
    row: dict[str, Any] = {"server": server, "key": key, "application": None, "why": ""}
    row |= {
        "without": [],
        "reasons": {},
        "specs": [orjson.loads(s.model_dump_json()) for s in specs],
    }
    name, without = _name(server), set[str]()
    try:
        for _ in range(ROUNDS):
            derived = derive(name, specs, without=without)
            unsound = _unsound(derived)
            if not unsound:
                if not TwinWorld(derived, Engine(derived.application)).kinds():
                    raise NotSuitable("no_task")
                row |= {"application": name, "reasons": dict(derived.reasons)}
                return row | {"without": sorted(without)}
            without |= unsound
        raise NotSuitable("lint")
    except NotSuitable as reason:
        return row | {"why": reason.what}


def _unsound(derived: Derived) -> set[str]:
    """Return the crawled names of tools that do not compile or that the lint objects to."""
    try:
        report = lint(Engine(derived.application), seeds=(0,), draws=DRAWS, enough=ENOUGH)
        said = [str(finding) for finding in report.errors]
    except ToolloomError as error:
        said = [str(error)]
    found = {match[1] for text in said if (match := _TOOL.search(text))}
    if said and not found:
        raise NotSuitable("lint")
    return {derived.tools[name].name for name in found}


def _name(server: str) -> str:
    """Return the name of a server's twin: readable, and no other server's."""
    last = re.sub(r"[^a-z0-9]+", "_", server.rsplit("/", 1)[-1].lower()).strip("_")
    return f"twin_{last[:36]}_{content_key(server, digits=6)}"


def _rows(folder: Path) -> Iterator[Mapping[str, Any]]:
    yield from jsonl.read(folder / "servers.jsonl")


def _last(folder: Path) -> dict[str, Mapping[str, Any]]:
    return {row["server"]: row for row in _rows(folder)}


def twins(
    workspace: Path, patterns: Iterable[str], images: Path | None = None
) -> dict[str, TwinWorld]:
    """Return the twins of a workspace whose names match, by name.

    Args:
        workspace: the folder.
        patterns: names, with `*` and `?` as in file names.
        images: where seeded images outlive the process; None keeps none.

    Raises:
        UnknownName: a pattern matches none.
    """
    rows = {row["application"]: row for row in _last(folder_of(workspace)).values()}
    rows.pop(None, None)
    found: dict[str, TwinWorld] = {}
    for pattern in patterns:
        matched = [name for name in rows if fnmatchcase(name, pattern)]
        if not matched:
            raise UnknownName("twin (`toolloom twins` makes them)", pattern, rows)
        for name in matched:
            if name not in found:
                found[name] = _open(rows[name], images)
    return found


def _open(row: Mapping[str, Any], images: Path | None) -> TwinWorld:
    specs = [ToolSpec.model_validate(spec) for spec in row["specs"]]
    derived = derive(row["application"], specs, without=row["without"])
    return TwinWorld(derived, Engine(derived.application, images))
