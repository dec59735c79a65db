"""A goal in the words of the person who wants it: a clause, and the facts it states."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from simulators.sql.facts import Mind, Node, Row, called, in_words
from simulators.sql.goals import Binding, bindings
from simulators.sql.words import Unsaid, Withheld, Words, noun, occurs
from synth.core.application import Parameter
from synth.core.errors import NotSuitable
from synth.core.types import Fact, Scalar


@dataclass(slots=True)
class Asked:
    """One wish, put into words."""

    tool: str
    arguments: dict[str, Any]
    clause: str
    targets: list[tuple[Node, str]]
    """Rows (and the column that is passed) the agent has to find; new rows are not among them."""
    said: dict[str, Fact] = field(default_factory=dict)
    """Facts that clause and opening state, by name."""
    implied: frozenset[str] = frozenset()
    """Facts that the clause conveys already."""
    uses: set[tuple[str, Scalar, str]] = field(default_factory=set)
    """Table, key and column of everything that the clause names."""


class Asking:
    """Puts the calls of one user into words.

    Args:
        mind: the user.
        withheld: names of facts that stay unsaid.
    """

    def __init__(self, mind: Mind, withheld: frozenset[str] = frozenset()) -> None:
        self.mind, self.withheld = mind, withheld
        self._names: dict[str, Fact] = {}
        self._tools: list[str] = []
        self._spoken: set[Any] = set()
        """Values the user has stated in earlier wishes: what they may know of a new row."""

    def ask(
        self,
        tool: str,
        parameters: Mapping[str, Parameter],
        arguments: Mapping[str, Any],
        words: Words,
    ) -> Asked:
        """Put one call into words.

        Args:
            tool: its name.
            parameters: its parameters.
            arguments: what it will be called with.
            words: the template of its intent or question.

        Raises:
            NotSuitable: the wish cannot be said without a value that nobody knows (`no_words`), or
                its arguments mean rows that do not exist (`no_goal`).
        """
        prefix = self._prefix(tool, arguments)
        said: dict[str, Fact] = {}
        targets: list[tuple[Node, str]] = []
        bound = list(bindings(parameters, arguments))
        wish = _Wish(self, prefix, said, targets, bound)
        # Targets first: the template then names rows by the same paths.
        for binding in bound:
            wish.take(binding)
        plain = {prefix + b.name: b.parameter.enum is not None for b in bound}
        try:
            values = {
                name: wish.value(name, p, arguments[name]) if name in arguments else None
                for name, p in parameters.items()
            }
            clause = words.render(values)
        except Unsaid as reason:
            raise NotSuitable("no_words") from reason
        # `{% if urgent %} at once{% endif %}` says it without the word "yes".
        implied = frozenset(
            name
            for name, fact in said.items()
            if (name not in plain or name.removeprefix(prefix).split(".")[0] in words.names)
            and (occurs(fact.spoken, clause) or plain.get(name) or isinstance(fact.value, bool))
        )
        return Asked(tool, dict(arguments), clause, targets, said, implied, wish.uses)

    def note(self, asked: Asked) -> None:
        """Remember a wish: later ones keep their names apart from it and may repeat its values."""
        self._names.update(asked.said)
        self._spoken.update(fact.value for fact in asked.said.values())
        self._tools.append(asked.tool)

    def _prefix(self, tool: str, arguments: Mapping[str, Any]) -> str:
        """Return what keeps the names of this wish's facts apart from those of earlier ones."""
        used = {name.split(".")[0] for name in self._names}
        if used.isdisjoint(arguments):
            return ""
        times = self._tools.count(tool)
        return f"{tool}." if times < 2 else f"{tool}.{times}."


class Unknowable(Unsaid):
    """A template says a column that `known` does not grant the user."""


class _Wish:
    """What one template sees, and what it turns out to say."""

    def __init__(
        self,
        asking: Asking,
        prefix: str,
        said: dict[str, Fact],
        targets: list[tuple[Node, str]],
        bound: list[Binding],
    ) -> None:
        self.mind, self.withheld = asking.mind, asking.withheld
        self.spoken = asking._spoken
        self.prefix, self.said, self.targets = prefix, said, targets
        self.nodes: dict[str, tuple[Node, str]] = {}
        self.uses: set[tuple[str, Scalar, str]] = set()
        self.elements = {".".join(binding.name.split(".")[:2]) for binding in bound}

    def take(self, binding: Binding) -> None:
        """Note what one plain value of the arguments means."""
        name = self.prefix + binding.name
        if binding.parameter.entity is not None:
            self._take_row(name, binding.parameter.entity, binding)
            return
        of = noun(self.prefix.split(".")[0])
        own = self._own(binding)
        fact = own or self.mind.argument(name, binding.parameter, binding.value, of=of)
        if fact.name not in self.withheld:
            self.said[fact.name] = fact

    def _take_row(self, name: str, entity: str, binding: Binding) -> None:
        several = f"{binding.name.partition('.')[0]}.1" in self.elements
        word = called(binding.name, alone=not several)
        node = self.mind.node(entity, binding.value, name, word)
        if node is None:
            raise NotSuitable("no_goal")
        column = entity.split(".")[1]
        self.nodes[name] = (node, column)
        if not node.born:
            self.targets.append((node, column))

    def _own(self, binding: Binding) -> Fact | None:
        """Return the fact of the user's own row that a search value repeats, if it does."""
        me = self.mind.me
        if me is None or binding.parameter.match is None:
            return None
        known = (k for k in me.facts() if k.origin == binding.parameter.match)
        return next((k.fact for k in known if k.fact.value == binding.value), None)

    def value(self, name: str, parameter: Parameter, value: Any) -> Any:
        """Return what a template sees for one argument."""
        if isinstance(value, list) and parameter.items is not None:
            return [self.value(f"{name}.{i}", parameter.items, v) for i, v in enumerate(value)]
        if isinstance(value, dict):
            inner = parameter.properties or {}
            absent = {key: None for key in inner if key not in value}
            return absent | {k: self.value(f"{name}.{k}", inner[k], v) for k, v in value.items()}
        full = self.prefix + name
        if full in self.nodes:
            node, column = self.nodes[full]
            return Row(node, column, self.say, self.withheld)
        if full in self.withheld:
            return Withheld()
        fact = self.said.get(full)
        return in_words(fact or self.mind.argument(full, parameter, value))

    def say(self, node: Node, column: str, fact: Fact) -> None:
        """Note that the template uses a column of a row."""
        if node.born:
            if fact.value not in self.spoken:
                raise Unsaid  # computed when the row was made: the user cannot know it
        elif node.knows(column):
            self.said[fact.name] = fact
            self.uses.add((node.table, node.row["id"], column))
        else:
            raise Unknowable(f"{node.table}.{column}")
