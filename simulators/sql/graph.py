"""What follows from an application's declarations alone: origins, keys, edges between tools.

A result column that SQLite traces to a table column (or that `columns:` declares) can feed every
parameter that means the same column; foreign keys count as the key they reference. The walk over
these edges is how toolsets and chains of calls are sampled (K2 report 3.1.1).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import networkx as nx

from simulators.sql.engine import Engine
from synth.core.application import Parameter, Tool
from synth.core.protocols import Edge

OWNER_HOPS = 3
"""References followed from a row to the user it belongs to."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """One place in a tool's arguments that holds a plain value."""

    path: tuple[str, ...]
    """`("items", "*", "book_id")`; `*` stands for the elements of an array."""
    parameter: Parameter
    required: bool

    @property
    def name(self) -> str:
        """The path without its stars: `items.book_id`."""
        return ".".join(part for part in self.path if part != "*")

    @property
    def meaning(self) -> str | None:
        """The column that the value stands for or is compared with, if any."""
        return self.parameter.entity or self.parameter.match


def leaves(tool: Tool) -> tuple[Leaf, ...]:
    """Return every plain value in the arguments of `tool`, in order."""
    found: list[Leaf] = []
    for name, parameter in tool.parameters.items():
        found.extend(_leaves((name,), parameter, not parameter.optional))
    return tuple(found)


def _leaves(path: tuple[str, ...], parameter: Parameter, required: bool) -> Iterator[Leaf]:
    if parameter.type == "array" and parameter.items is not None:
        yield from _leaves((*path, "*"), parameter.items, required)
    elif parameter.properties is not None:
        for name, inner in parameter.properties.items():
            yield from _leaves((*path, name), inner, required and not inner.optional)
    else:
        yield Leaf(path, parameter, required)


class Graph:
    """Origins, keys and dependency edges of one application; computed once.

    Args:
        engine: runs the application; asked for its tables and for the columns of its statements.
    """

    def __init__(self, engine: Engine) -> None:
        application = engine.application
        self.application = application
        self.columns = {name: tuple(table.columns) for name, table in engine.tables.items()}
        self.booleans = frozenset(
            f"{name}.{column.name}"
            for name, table in engine.tables.items()
            for column in table.columns.values()
            if column.boolean
        )
        self.foreign = {
            f"{name}.{column}": f"{target}.id"
            for name, table in engine.tables.items()
            for column, target in table.foreign_keys.items()
        }
        """Reference -> the key it references."""
        self._roots: dict[str, str] = {}
        self.references = {name: tuple(table.foreign_keys) for name, table in engine.tables.items()}
        """Table -> its columns that refer to rows."""
        self.leaves = {name: leaves(tool) for name, tool in application.tools.items()}
        self._required = {
            name: tuple(x.parameter.entity for x in found if x.required and x.parameter.entity)
            for name, found in self.leaves.items()
        }
        self._findable: dict[frozenset[str], frozenset[str]] = {}
        self.outputs = {
            name: {column.name: column.origin for column in columns}
            for name, columns in engine.results.items()
        }
        """Tool -> result column -> origin (None where it has no origin in a table)."""
        self.producers = self._producers()
        """Key -> read tools of the agent that return it, each with the columns that hold it."""
        self.owners = {table: self._owner_paths(table) for table in self.columns}
        """Table -> shortest paths of references to the user's table (empty path: that table)."""

    def root(self, column: str) -> str:
        """Return the key that `table.column` refers to, or the column itself."""
        if column not in self._roots:
            self._roots[column] = self._root(column)
        return self._roots[column]

    def _root(self, column: str) -> str:
        seen = {column}
        while (target := self.foreign.get(column)) and target not in seen:
            seen.add(target)
            column = target
        return column

    def reads(self, tool: str) -> bool:
        """Return whether a tool only reads."""
        return self.application.tools[tool].effect == "read"

    def is_key(self, column: str) -> bool:
        """Return whether the (unified) column identifies a row of its table."""
        return column.endswith(".id")

    def _producers(self) -> dict[str, tuple[tuple[str, str], ...]]:
        found: dict[str, list[tuple[str, str]]] = {}
        for name in self.application.specs:
            if self.reads(name):
                for column, origin in self.outputs[name].items():
                    if origin is not None:
                        found.setdefault(self.root(origin), []).append((name, column))
        return {key: tuple(pairs) for key, pairs in found.items()}

    def _owner_paths(self, table: str) -> tuple[tuple[str, ...], ...]:
        user = self.application.user.table
        if user is None:
            return ()
        paths: list[tuple[str, tuple[str, ...]]] = [(table, ())]
        for _ in range(OWNER_HOPS + 1):
            done = tuple(path for end, path in paths if end == user)
            if done:
                return done
            paths = [
                (target.split(".")[0], (*path, column))
                for end, path in paths
                for column, target in self.foreign.items()
                if column.split(".")[0] == end and target.split(".")[0] != end
            ]
        return ()

    def findable(self, tools: frozenset[str]) -> frozenset[str]:
        """Return the columns whose values these tools can find, starting from what users know.

        Too many rather than too few: whether a look-up leaves one row, its result tells.
        """
        if tools not in self._findable:
            self._findable[tools] = frozenset(self._find(tools))
        return self._findable[tools]

    def _find(self, tools: frozenset[str]) -> set[str]:
        application = self.application
        known = [(table, columns) for table, columns in application.known.items()]
        if application.user.table:
            known.append((application.user.table, application.identify))
        found = {f"{table}.{column}" for table, columns in known for column in columns}
        found.difference_update(self.foreign)
        before = -1
        while before < len(found):
            before = len(found)
            for tool in tools:
                if self.reads(tool) and self.lacks(tool, found) == ():
                    found.update(self.root(o) for o in self.outputs[tool].values() if o)
        return found

    def lacks(self, tool: str, found: Collection[str]) -> tuple[str, ...]:
        """Return the keys among the required parameters of a tool that are not `found`."""
        keys = (self.root(e) for e in self._required[tool])
        return tuple(key for key in keys if key not in found)

    def edges(self) -> tuple[Edge, ...]:
        """Return the dependency edges of the agent's tools, sorted; a tool never feeds itself."""
        takers = self._takers()
        found = {
            Edge(source, column, target, name)
            for source in self.application.specs
            for column, origin in self.outputs[source].items()
            if origin is not None
            for key in (("entity", self.root(origin)), ("match", origin))
            for target, name in takers.get(key, ())
            if target != source
        }
        return tuple(sorted(found, key=lambda e: (e.source, e.column, e.target, e.parameter)))

    def _takers(self) -> dict[tuple[str, str], list[tuple[str, str]]]:
        """Return what may feed a parameter of the agent's tools -> those tools and parameters."""
        found: dict[tuple[str, str], list[tuple[str, str]]] = {}
        for target in self.application.specs:
            for leaf in self.leaves[target]:
                key = self._fed_by(leaf)
                if key is not None:
                    found.setdefault(key, []).append((target, leaf.name))
        return found

    def _fed_by(self, leaf: Leaf) -> tuple[str, str] | None:
        parameter = leaf.parameter
        if parameter.entity is not None:
            return "entity", self.root(parameter.entity)
        # A value from a short list of choices is said by the user, not carried between tools.
        choices = parameter.enum is not None or parameter.type == "boolean"
        if parameter.match is None or parameter.op not in {"eq", "contains"} or choices:
            return None
        return "match", parameter.match

    def networkx(self) -> nx.MultiDiGraph:
        """Return the edges as a networkx graph: nodes with `effect`, edges with their columns."""
        graph = nx.MultiDiGraph()
        for name in self.application.specs:
            graph.add_node(name, effect=self.application.tools[name].effect)
        for edge in self.edges():
            graph.add_edge(edge.source, edge.target, column=edge.column, parameter=edge.parameter)
        return graph
