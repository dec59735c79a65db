"""Goals on a live knowledge-graph server: what a small team wants remembered.

Made for the npm package `@modelcontextprotocol/server-memory`, which keeps entities, their
observations and relations in one file. States are compared as sets of these, because the order of
lines in the file means nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence, Set
from typing import Any

from simulators.live.entries import RECIPES, Memory
from simulators.live.folder import Tree
from simulators.live.host import LiveServer, Probe
from simulators.live.team import team
from simulators.live.world import LiveWorld, Toolset
from synth.core.canonical import canonical
from synth.core.errors import ServerFailed
from synth.core.protocols import Edge
from synth.core.types import Diff, Effect, PlannedCall

FILE = "memory.jsonl"
EFFECTS = {
    "create_entities": Effect.WRITE,
    "create_relations": Effect.WRITE,
    "add_observations": Effect.WRITE,
    "delete_entities": Effect.DESTRUCTIVE,
    "delete_observations": Effect.DESTRUCTIVE,
    "delete_relations": Effect.DESTRUCTIVE,
    "read_graph": Effect.READ,
    "search_nodes": Effect.READ,
    "open_nodes": Effect.READ,
}

POLICY = """The knowledge graph is the shared memory of a small team. Its conventions:
- Entities are of type person, project or company; their name is the name people use.
- An observation is one short statement. Figures are written "key: value", for example
  "extension: 4312" (person), "deadline: 2026-05-12" (project), "contact: Berg" (company).
- Relations are works_on and leads (person to project), and supplies (company to project).

Look an entity up before you change it. Write observations exactly as they are dictated. Change only
what was asked for; to correct an observation, delete the old one and add the new one."""


def _links() -> Iterator[Edge]:
    for finder in ("search_nodes", "open_nodes", "read_graph"):
        yield Edge(finder, "name", "add_observations", "observations")
        yield Edge(finder, "observations", "delete_observations", "deletions")
        yield Edge(finder, "relations", "delete_relations", "relations")
        yield Edge(finder, "name", "create_relations", "relations")
        yield Edge(finder, "name", "delete_entities", "entityNames")
    yield Edge("search_nodes", "name", "open_nodes", "names")


LINKS = tuple(_links())


class MemoryWorld(LiveWorld[Memory]):
    """The world of one installed knowledge-graph server."""

    name = "memory"
    category = "knowledge management"
    package = "npm:@modelcontextprotocol/server-memory"
    effects = EFFECTS
    needed = ("open_nodes", "read_graph", "create_entities", "create_relations", "add_observations")
    rules = POLICY
    recipes = RECIPES
    links = LINKS

    def serve(self, argv: tuple[str, ...], tools: Set[str]) -> LiveServer:
        """Return how it is started: with the name of its file."""
        return LiveServer(
            name=self.name,
            argv=argv,
            env={"MEMORY_FILE_PATH": f"{{work}}/{FILE}"},
            paths=frozenset(),
            probes=_probes,
            compare=compare,
        )

    def template(self, seed: int) -> Tree:
        """Return the folder with the team's memory file."""
        return Tree.of({FILE: "\n".join(map(json.dumps, team(seed).lines()))})

    def desk(self, seed: int, tools: Toolset) -> Memory:
        """Return the team and the tools to work on its memory."""
        return Memory(effects=tools.effects, team=team(seed), rng=tools.rng)

    def unasked(self, desk: Memory) -> PlannedCall | None:
        """Return a new entity or observation that nobody asked for."""
        if "create_entities" in desk.effects:
            return desk.add("Nobody", "person")
        if "add_observations" in desk.effects:
            return desk.note(desk.team.people[0].name, "Nobody asked for this.")
        return None


# --- states ----------------------------------------------------------------------------------


def compare(before: Tree, after: Tree) -> Diff:
    """Return the net change of the graph: rows of `entities`, `observations`, `relations`.

    Raises:
        ServerFailed: the server left a file that is no graph, or other files.
    """
    old, new = _rows(before), _rows(after)
    gone = [canonical([table, "delete", row, None]) for table, row in _only(old, new)]
    come = [canonical([table, "insert", None, row]) for table, row in _only(new, old)]
    return tuple(sorted(gone + come))


def _only(these: set[str], those: set[str]) -> Iterator[tuple[str, Any]]:
    for row in these - those:
        table, value = json.loads(row)
        yield table, value


def _rows(tree: Tree) -> set[str]:
    content = tree.entries.get(FILE, b"")
    try:
        if not isinstance(content, bytes) or set(tree.entries) - {FILE}:
            raise ValueError("files beside it")
        items = [json.loads(line) for line in content.decode().splitlines() if line.strip()]
        return {canonical(row) for item in items for row in _item_rows(item)}
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ServerFailed(
            f"left no readable graph ({error})", where=MemoryWorld.name, outcome="invalid"
        ) from error


def _item_rows(item: dict[str, Any]) -> Iterator[tuple[str, dict[str, str]]]:
    if item["type"] == "entity":
        yield "entities", {"name": item["name"], "type": item["entityType"]}
        for text in item["observations"]:
            yield "observations", {"entity": item["name"], "text": text}
    else:
        yield "relations", {name: item[name] for name in ("from", "relationType", "to")}


def _probes(tree: Tree) -> Sequence[Probe]:
    """Ask for the whole graph."""
    return (Probe("read_graph", {}, _shows(tree)),)


def _shows(tree: Tree) -> Callable[[str], bool]:
    def holds(text: str) -> bool:
        try:
            graph = json.loads(text)
            lines = [{"type": "entity", **entity} for entity in graph["entities"]]
            lines += [{"type": "relation", **relation} for relation in graph["relations"]]
            shown = Tree.of({FILE: "\n".join(map(json.dumps, lines))})
            return _rows(shown) == _rows(tree)
        except (ValueError, KeyError, TypeError, RecursionError, ServerFailed):
            return False

    return holds
