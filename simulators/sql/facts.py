"""What a user knows: facts about rows, keyed by parameter and path, and how templates see them.

A fact is a known column of a row that the goal is about, or of a row it refers to through known
foreign keys: `loan_id.book.title`. The user's own row is always called `user`. Keys are paths and
never tables, because two parameters may mean two rows of one table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from weakref import ref

import orjson

from simulators.sql.environment import SqlEnvironment
from simulators.sql.graph import Graph
from simulators.sql.words import Speaking, Spoken, Unsaid, Withheld, noun, singular, spoken
from synth.core.application import Parameter
from synth.core.errors import BadApplication
from synth.core.speech import ENGLISH, speech
from synth.core.types import Fact, Scalar, ToolResult

DEPTH = 3
"""References that facts follow from the row of a parameter."""
MAX_SAID = 300
"""Characters of one value in a clause."""

_NONE: Mapping[str, Scalar] = {}


@dataclass(frozen=True, slots=True)
class Known:
    """A fact and the column it is the value of."""

    fact: Fact
    origin: str


class Scene:
    """The seeded state of one seed, read only.

    It remembers rows and results of read tools, so it should live no longer than the sampling of
    one task: nine in ten questions that come again do so within it.

    Args:
        graph: the application's derived structure.
        environment: used for reading only; several scenes share it.
        seed: which seeded state.
    """

    def __init__(self, graph: Graph, environment: SqlEnvironment, seed: int) -> None:
        self.graph, self.seed = graph, seed
        self._environment = environment
        self._rows: dict[tuple[str, str, Scalar], dict[str, Scalar] | None] = {}
        self._lists: dict[tuple[str, tuple[Scalar, ...]], list[dict[str, Scalar]]] = {}
        self._columns: dict[tuple[str, tuple[Scalar, ...]], list[Scalar]] = {}
        self._reads: dict[tuple[str, bytes], Any] = {}

    def _still(self) -> SqlEnvironment:
        if self._environment.seed != self.seed:
            self._environment.reset_now(self.seed)
        return self._environment

    def row(self, table: str, column: str, value: Scalar) -> dict[str, Scalar] | None:
        """Return the first row of `table` whose `column` is `value`, or None."""
        key = (table, column, value)
        if key not in self._rows:
            sql = f'SELECT * FROM "{table}" WHERE "{column}" = :value ORDER BY id LIMIT 1'
            found = self._still().query(sql, {"value": value})
            self._rows[key] = found[0] if found else None
        return self._rows[key]

    def select(self, sql: str, parameters: Mapping[str, Scalar]) -> list[dict[str, Scalar]]:
        """Return the rows of a SELECT; the list is shared and must not be changed."""
        key = (sql, tuple(parameters.values()))
        found = self._lists.get(key)
        if found is None:
            found = self._lists[key] = self._still().query(sql, parameters)
        return found

    def column(self, sql: str, parameters: Mapping[str, Scalar] = _NONE) -> list[Scalar]:
        """Return the first column of a SELECT; the list is shared and must not be changed."""
        key = (sql, tuple(parameters.values()))
        found = self._columns.get(key)
        if found is None:
            rows = self._still().query(sql, parameters)
            found = self._columns[key] = [next(iter(row.values())) for row in rows]
        return found

    def read(self, tool: str, arguments: Mapping[str, Any]) -> Any:
        """Return the parsed result of a read tool, or None where the call fails."""
        key = (tool, orjson.dumps(arguments, option=orjson.OPT_SORT_KEYS))
        if key not in self._reads:
            result = self._still().call_now(tool, arguments)
            self._reads[key] = unwrapped(result) if result.ok else None
        return self._reads[key]

    def speakers(self) -> list[Scalar]:
        """Return the keys of the rows who may speak; `[None]` for an operator's world."""
        user = self.graph.application.user
        if user.table is None:
            return [None]
        condition = f" WHERE {user.where}" if user.where else ""
        sql = f'SELECT id FROM "{user.table}"{condition} ORDER BY id'
        return self.column(sql)


def unwrapped(result: ToolResult) -> Any:
    """Return a successful result as data: a row, or a list of rows."""
    content = orjson.loads(result.content)
    return content["result"] if isinstance(content.get("result"), list) else content


class Mind:
    """One user's knowledge of one scene.

    Args:
        scene: the seeded state.
        user: key of the user's row; None for an operator.
    """

    def __init__(self, scene: Scene, user: Scalar) -> None:
        self.scene, self.graph, self.user = scene, scene.graph, user
        self.born: dict[tuple[str, Scalar], dict[str, Scalar]] = {}
        """Rows made during the goal, by table and key: nobody knew them before."""
        self.application = scene.graph.application
        self.english = self.application.language == ENGLISH.language
        self.speech = speech(self.application.language)
        table = self.application.user.table
        row = scene.row(table, "id", user) if table is not None else None
        self.me = Node(self, table, row, "user", "user") if table is not None and row else None

    def node(
        self, column: str, value: Scalar, path: str, noun: str, *, reachable: bool = True
    ) -> Node | None:
        """Return the row that a value means, or None; the user's own is always `me`.

        Args:
            column: `table.column` that has the value.
            value: the value.
            path: by which the row is reached; facts are named after it.
            noun: how people call the row.
            reachable: whether the user's knowledge leads there.
        """
        table, name = column.split(".")
        row = self.scene.row(table, name, value) or self.born.get((table, value))
        if row is None:
            return None
        if self.me is not None and table == self.me.table and row["id"] == self.user:
            return self.me
        return Node(self, table, row, path, noun, reachable=reachable)

    def fact(self, name: str, label: str, value: Scalar, origin: str | None) -> Fact:
        """Return a fact in words, with the meaning of its column."""
        boolean = origin in self.graph.booleans and value is not None
        currency = self.application.currency if origin in self.application.money else None
        value = bool(value) if boolean else value
        text = self.application.values.get(str(value)) if isinstance(value, str) else None
        text = text or spoken(value, currency=currency, boolean=boolean, speech=self.speech)
        return Fact(name=name, label=label, value=value, spoken=text)

    def argument(self, name: str, parameter: Parameter, value: Scalar, *, of: str = "") -> Fact:
        """Return the fact of an argument that only the user can decide.

        Args:
            name: name of the fact; a path in the arguments.
            parameter: what the value is given to.
            value: the value.
            of: tells apart facts of two wishes that would have one label.
        """
        label = parameter.label or called(name)
        label = f"{label} ({of})" if of and self.english else label
        return self.fact(name, label, value, parameter.sets or parameter.match)


class Node:
    """One row, seen along the path by which the user thinks of it."""

    __slots__ = (
        "_children", "_facts", "_further", "_mind", "_single", "noun", "path", "reachable", "row",
        "table",
    )  # fmt: skip

    def __init__(
        self,
        mind: Mind,
        table: str,
        row: dict[str, Scalar],
        path: str,
        noun: str,
        *,
        reachable: bool = True,
    ) -> None:
        # The mind knows its node, which it outlives: together they would wait for the collector.
        self._mind = ref(mind)
        self.table, self.row = table, row
        self.path, self.noun = path, noun
        self.reachable = reachable
        """Whether the user's knowledge leads here (every reference on the path is known)."""
        # Templates and the search for look-ups ask for the same few things over and over.
        self._facts: tuple[Known, ...] | None = None
        self._further: tuple[Node, ...] | None = None
        self._single: dict[str, Fact] = {}
        self._children: dict[str, Node | None] = {}

    @property
    def mind(self) -> Mind:
        """Return who thinks of it."""
        mind = self._mind()
        assert mind is not None
        return mind

    @property
    def born(self) -> bool:
        """Whether the row was made during the goal."""
        return (self.table, self.row["id"]) in self.mind.born

    @property
    def own(self) -> bool:
        """Whether this is the user's own row."""
        return self is self.mind.me

    def knowable(self) -> tuple[str, ...]:
        """Return the columns of this row that the user can know."""
        application = self.mind.application
        known = application.known.get(self.table, ())
        if not self.own:
            return known
        return tuple(dict.fromkeys((*application.identify, *known)))

    def knows(self, column: str) -> bool:
        """Return whether the user can know this column of this row."""
        return self.reachable and column in self.knowable()

    def child(self, column: str) -> Node | None:
        """Return the row that a foreign key of this row refers to."""
        if column not in self._children:
            self._children[column] = self._child(column)
        return self._children[column]

    def _child(self, column: str) -> Node | None:
        target = self.mind.graph.foreign[f"{self.table}.{column}"]
        value = self.row[column]
        if value is None:
            return None
        reachable = self.knows(column)
        word = noun(column)
        path = f"{self.path}.{word.replace(' ', '_')}"
        return self.mind.node(target, value, path, word, reachable=reachable)

    def facts(self) -> tuple[Known, ...]:
        """Return what the user knows of this row, known references followed."""
        if self._facts is None:
            self._facts = tuple(self._find(DEPTH)) if self.reachable else ()
        return self._facts

    def _find(self, depth: int) -> Iterator[Known]:
        for column in self.knowable():
            origin = f"{self.table}.{column}"
            if origin not in self.mind.graph.foreign:
                if self.row[column] is not None:
                    yield Known(self.fact(column), origin)
            elif depth and (child := self.child(column)) and not child.own:
                yield from child._find(depth - 1)

    def fact(self, column: str) -> Fact:
        """Return the fact that a column would be, whether the user knows it or not."""
        if column not in self._single:
            origin = f"{self.table}.{column}"
            label = self.mind.application.label(origin)
            if not self.own and self.mind.english:  # others' labels say whose they are
                label = f"{label} of the {self.noun}"
            name = f"{self.path}.{column}"
            self._single[column] = self.mind.fact(name, label, self.row[column], origin)
        return self._single[column]

    def around(self) -> tuple[Node, ...]:
        """Return this row and the rows it refers to, nearest first, known or not."""
        if self._further is None:
            found, layer = [self], [self]
            for _ in range(DEPTH):
                layer = [child for node in layer for child in node.references()]
                layer = [child for child in layer if child not in found]
                found.extend(layer)
            self._further = tuple(found[1:])
        return (self, *self._further)

    def references(self) -> Iterator[Node]:
        """Yield the rows that this row refers to, known or not."""
        for column in self.mind.graph.references[self.table]:
            if child := self.child(column):
                yield child

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Node):
            return NotImplemented
        return self.table == other.table and self.row["id"] == other.row["id"]

    def __hash__(self) -> int:
        return hash((self.table, self.row["id"]))


class Row(Speaking):
    """A row inside a template: its columns in words, its references as rows.

    Args:
        node: the row.
        column: which column the parameter itself holds (printed by the bare name).
        say: told each fact that the template uses.
        withheld: names of facts that stay unsaid.
    """

    __slots__ = ("_column", "_node", "_say", "_withheld")

    def __init__(
        self,
        node: Node,
        column: str,
        say: Callable[[Node, str, Fact], None],
        withheld: frozenset[str],
    ) -> None:
        self._node, self._column, self._say, self._withheld = node, column, say, withheld

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        node = self._node
        if name in node.row:
            return self._value(name)
        for reference in (f"{name}_id", name):
            if f"{node.table}.{reference}" in node.mind.graph.foreign:
                child = node.child(reference)
                return child and Row(child, "id", self._say, self._withheld)
        known = ", ".join(node.row)
        raise BadApplication(
            f"{node.table!r} has no column or reference {name!r}", remedy=f"columns: {known}"
        )

    def _value(self, column: str) -> Any:
        fact = self._node.fact(column)
        if fact.name in self._withheld:
            return Withheld()
        value = self._node.row[column]
        if value is None:
            return None
        self._say(self._node, column, fact)
        return in_words(fact)

    def __str__(self) -> str:
        return str(self._value(self._column))


def in_words(fact: Fact) -> Any:
    """Return the fact's value for a template: plain where it is said as it is.

    Raises:
        Unsaid: nobody says so long a text (and a template must not loop over it).
    """
    if len(fact.spoken) > MAX_SAID:
        raise Unsaid
    same = isinstance(fact.value, (str, int)) and str(fact.value) == fact.spoken
    return fact.value if same else Spoken(fact.value, fact.spoken)


def called(path: str, *, alone: bool = False) -> str:
    """Return how people call what a path names: `loan_ids.1` is the second loan.

    Args:
        path: in the arguments of a call.
        alone: an element of an array is the only one.
    """
    parts = path.split(".")
    if len(parts) > 1 and parts[-1].isdigit():
        word = singular(noun(parts[-2]))
        return word if alone else f"{_ordinal(int(parts[-1]))} {word}"
    if len(parts) > 2 and parts[-2].isdigit():
        return f"{noun(parts[-1])} of the {called('.'.join(parts[:-1]), alone=alone)}"
    return noun(parts[-1])


def _ordinal(index: int) -> str:
    names = ("first", "second", "third", "fourth", "fifth")
    return names[index] if index < len(names) else f"{index + 1}th"
