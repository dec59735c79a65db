"""How an agent finds what it must know: AND/OR search backwards over executed look-ups.

A wanted key is an OR over the read tools that return it, each an AND over the inputs that the tool
needs; inputs are facts the user can state or keys found the same way. A look-up counts only if what
the user knows leaves one row of its *executed* result. Where stated facts do not suffice, the
smallest set of further knowable columns is added to what the user says; where none does, the goal
is ambiguous.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from simulators.sql.choice import Choice, Key
from simulators.sql.facts import Known, Mind, Node
from simulators.sql.goals import forbidden, shaped
from simulators.sql.graph import Leaf
from synth.core.application import Parameter
from synth.core.errors import NotSuitable
from synth.core.types import Fact

DEPTH = 4
"""Look-ups in a row that may be needed to find one key."""

_USER = -1
"""Group of what the user says: before every call."""


@dataclass(frozen=True, slots=True)
class Lookup:
    """A read call of a solution."""

    tool: str
    arguments: dict[str, Any]
    group: int


@dataclass(slots=True)
class Plan:
    """What is known at some point: calls made, keys found (with their group), facts said."""

    calls: list[Lookup] = field(default_factory=list)
    found: dict[Key, int] = field(default_factory=dict)
    said: dict[str, Fact] = field(default_factory=dict)

    def copy(self) -> Plan:
        """Return an independent copy."""
        return Plan(list(self.calls), dict(self.found), dict(self.said))

    @property
    def cost(self) -> tuple[int, int]:
        """Calls first, then facts the user has to state."""
        return len(self.calls), len(self.said)


@dataclass(slots=True)
class _Trial:
    """A look-up about to be executed."""

    arguments: dict[str, Any]
    plan: Plan
    inputs: list[Key]


class Solver:
    """Finds keys for one user and one toolset, look-ups shared between all keys asked for.

    Args:
        mind: the user whose knowledge counts.
        tools: names of the tools the agent has.
        said: facts the request states anyway.
        given: plain arguments of the goal; a look-up's parameter of the same name takes them.
        withheld: names of facts that must not be used.
    """

    def __init__(
        self,
        mind: Mind,
        tools: Iterable[str],
        *,
        said: Mapping[str, Fact],
        given: Mapping[str, Any],
        withheld: frozenset[str] = frozenset(),
    ) -> None:
        self.mind, self.graph = mind, mind.graph
        self.tools, self.withheld, self.given = frozenset(tools), withheld, given
        self.plan = Plan(said=dict(said))
        self.wanted: list[tuple[Node, str]] = []
        self._ambiguous = False
        self._ruled = {rule.tool for rule in mind.application.policy_rules}

    def find(self, node: Node, column: str) -> int:
        """Plan look-ups until `column` of the row is known.

        Returns:
            The group of the call that reveals it; -1 where the user says it.

        Raises:
            NotSuitable: `ambiguous` or `unsolvable`.
        """
        self._ambiguous = False
        plan = self._solve(self.plan, node, column, (), DEPTH)
        if plan is None:
            raise NotSuitable("ambiguous" if self._ambiguous else "unsolvable")
        self.plan = plan
        self.wanted.append((node, column))
        return plan.found[self._key(node, column)]

    def see(self, origins: Iterable[str]) -> None:
        """Add look-ups that show these columns of the wanted rows, where tools show them at all.

        A rule on the age of a booking can be applied only by somebody who has seen its date.
        """
        seen = {o for call in self.plan.calls for o in self.graph.outputs[call.tool].values()}
        hidden = [o for o in sorted(origins) if o not in seen and not self.graph.is_key(o)]
        for node, _ in list(self.wanted):
            for row in node.around():
                shown = [o for o in hidden if o.split(".")[0] == row.table]
                hidden = [o for o in hidden if not (o in shown and self._show(row, o))]

    def _show(self, node: Node, origin: str) -> bool:
        """Add a look-up whose result has a column of exactly this row."""
        for tool in sorted(self.tools):
            outputs = self.graph.outputs[tool]
            if origin not in outputs.values() or not self.graph.reads(tool):
                continue
            keys = [c for c, o in outputs.items() if o and self.graph.root(o) == f"{node.table}.id"]
            for trial in self._trials(tool, self.plan, node, (), 1):
                result = self.mind.scene.read(tool, trial.arguments)
                rows = result if isinstance(result, list) else [result]
                if any(row and row.get(c) == node.row["id"] for row in rows for c in keys):
                    key = (f"{node.table}.id", node.row["id"])
                    self.plan = self._add(trial.plan, tool, trial, {}, key)
                    return True
        return False

    def _key(self, node: Node, column: str) -> Key:
        return self.graph.root(f"{node.table}.{column}"), node.row[column]

    def _known(self, node: Node) -> Iterator[Known]:
        for known in node.facts():
            if known.fact.name not in self.withheld:
                yield known

    def _solve(
        self, plan: Plan, node: Node, column: str, stack: tuple[Key, ...], depth: int
    ) -> Plan | None:
        key = self._key(node, column)
        if key in plan.found:
            return plan
        origin = f"{node.table}.{column}"
        direct = next((k.fact for k in self._known(node) if k.origin == origin), None)
        if direct is not None:
            plan = plan.copy()
            plan.said[direct.name] = direct
            plan.found[key] = _USER
            return plan
        if depth == 0 or key in stack:
            return None
        return self._search(plan, node, column, (*stack, key), depth)

    def _search(
        self, plan: Plan, node: Node, column: str, stack: tuple[Key, ...], depth: int
    ) -> Plan | None:
        best: Plan | None = None
        key = stack[-1]
        options = [
            (self._missing(plan, node, tool), tool, out)
            for tool, out in self.graph.producers.get(key[0], ())
            if tool in self.tools
        ]
        for missing, tool, out in sorted(options):
            if best is not None and len(plan.calls) + 1 + missing > len(best.calls):
                break
            for trial in self._trials(tool, plan, node, stack, depth):
                found = self._accept(tool, out, trial, node, stack, depth)
                if found is not None and (best is None or found.cost < best.cost):
                    best = found
                if best is not None and best.cost == (len(plan.calls) + 1, len(plan.said)):
                    return best
        return best

    def _missing(self, plan: Plan, node: Node, tool: str) -> int:
        """Return how many keys `tool` needs that are not known yet: a lower bound of its cost."""
        missing = 0
        for leaf in self.graph.leaves[tool]:
            entity = leaf.parameter.entity
            if leaf.required and entity and self.graph.is_key(entity):
                sources = self._sources(node, entity)
                missing += not any(self._key(n, c) in plan.found for n, c in sources)
        return missing

    # --- inputs --------------------------------------------------------------------------

    def _sources(self, node: Node, entity: str) -> list[tuple[Node, str]]:
        """Return the rows that could be meant by a parameter of a look-up, likeliest first."""
        table, column = entity.split(".")
        near = [n for n in node.around() if n.table == table]
        if self.mind.me is not None and self.mind.me.table == table:
            near.append(self.mind.me)
        near.extend(n for n, _ in self.wanted if n.table == table)
        return [(n, column) for n in dict.fromkeys(near)]

    def _trials(
        self, tool: str, plan: Plan, node: Node, stack: tuple[Key, ...], depth: int
    ) -> Iterator[_Trial]:
        """Yield the ways to call `tool` for a row: with stated filters, with more, with none."""
        base = _Trial({}, plan.copy(), [])
        for leaf in self.graph.leaves[tool]:
            if leaf.required and not self._require(base, leaf, node, stack, depth):
                return
        stated: list[tuple[Leaf, Any, Fact | Key | None]] = []
        further: list[tuple[Leaf, Any, Fact | Key | None]] = []
        for leaf in self.graph.leaves[tool]:
            if not leaf.required and (filled := self._fill(leaf, node, base.plan)):
                source = filled[1]
                new = isinstance(source, Fact) and source.name not in base.plan.said
                (further if new else stated).append((leaf, *filled))
        yield self._filter(base, stated)
        if further:
            yield self._filter(base, [*stated, *further])
        if stated:
            yield base

    def _require(
        self, trial: _Trial, leaf: Leaf, node: Node, stack: tuple[Key, ...], depth: int
    ) -> bool:
        entity = leaf.parameter.entity
        if entity is not None and _simple(leaf):
            for source, column in self._sources(node, entity):
                plan = self._solve(trial.plan, source, column, stack, depth - 1)
                if plan is not None:
                    trial.plan = plan
                    trial.inputs.append(self._key(source, column))
                    _put(trial.arguments, leaf, shaped(leaf.parameter, source.row[column]))
                    return True
            return False
        filled = self._fill(leaf, node, trial.plan)
        if filled is None:
            return False
        self._use(trial, leaf, *filled)
        return True

    def _fill(self, leaf: Leaf, node: Node, plan: Plan) -> tuple[Any, Fact | Key | None] | None:
        """Return a value for a parameter and where it comes from, without any new look-up."""
        parameter = leaf.parameter
        if not _simple(leaf):
            return None
        if parameter.entity is not None:
            for source, column in self._sources(node, parameter.entity):
                key = self._key(source, column)
                if key in plan.found and key[0] != self.graph.root(f"{node.table}.id"):
                    return shaped(parameter, source.row[column]), key
            return None
        if parameter.match is not None and (fact := self._matching(parameter, node, plan)):
            return shaped(parameter, fact.value), fact
        if leaf.name in self.given and _suits(parameter, self.given[leaf.name]):
            return self.given[leaf.name], None
        return None

    def _matching(self, parameter: Parameter, node: Node, plan: Plan) -> Fact | None:
        facts = [k.fact for k in self._known(node) if k.origin == parameter.match]
        if not facts and self.mind.me is not None:
            facts = [k.fact for k in self._known(self.mind.me) if k.origin == parameter.match]
        facts = [f for f in facts if _suits(parameter, shaped(parameter, f.value))]
        return next((f for f in facts if f.name in plan.said), facts[0] if facts else None)

    def _filter(
        self, base: _Trial, filters: Iterable[tuple[Leaf, Any, Fact | Key | None]]
    ) -> _Trial:
        trial = _Trial(dict(base.arguments), base.plan.copy(), list(base.inputs))
        for leaf, value, source in filters:
            self._use(trial, leaf, value, source)
        return trial

    def _use(self, trial: _Trial, leaf: Leaf, value: Any, source: Fact | Key | None) -> None:
        _put(trial.arguments, leaf, value)
        if isinstance(source, Fact):
            trial.plan.said[source.name] = source
        elif source is not None:
            trial.inputs.append(source)

    # --- results -------------------------------------------------------------------------

    def _accept(
        self, tool: str, out: str, trial: _Trial, node: Node, stack: tuple[Key, ...], depth: int
    ) -> Plan | None:
        """Execute a look-up; return the plan with it if its result leaves one row."""
        if self._forbidden(tool, trial.arguments):
            return None
        result = self.mind.scene.read(tool, trial.arguments)
        rows = result if isinstance(result, list) else [result]
        key = stack[-1]
        rows = [row for row in rows if isinstance(row, dict) and row.get(out) is not None]
        truth = next((row for row in rows if row[out] == key[1]), None)
        if truth is None:
            return None
        plan = self._tell_apart(
            Choice(self.graph, tool, out, rows, truth), trial.plan, node, stack, depth
        )
        if plan is None:
            self._ambiguous = True
            return None
        return self._add(plan, tool, trial, truth, key)

    def _add(
        self, plan: Plan, tool: str, trial: _Trial, truth: Mapping[str, Any], key: Key
    ) -> Plan:
        group = 1 + max((plan.found[k] for k in trial.inputs), default=_USER)
        same = next(
            (c for c in plan.calls if c.tool == tool and c.arguments == trial.arguments), None
        )
        if same is None:
            plan.calls.append(Lookup(tool, trial.arguments, group))
        else:
            group = same.group
        plan.found[key] = group
        for column, origin in self.graph.outputs[tool].items():
            if origin is not None and self.graph.is_key(root := self.graph.root(origin)):
                plan.found.setdefault((root, truth.get(column)), group)
        return plan

    def _forbidden(self, tool: str, arguments: Mapping[str, Any]) -> bool:
        if tool not in self._ruled:
            return False
        mind = self.mind
        query = mind.scene.select
        return forbidden(mind.application, tool, arguments, mind.user, query=query) is not None

    def _tell_apart(
        self, choice: Choice, plan: Plan, node: Node, stack: tuple[Key, ...], depth: int
    ) -> Plan | None:
        if choice.unique(()):
            return plan
        usable = choice.usable(self._facts_about(node))
        stated = [c for c, fact in usable.items() if fact.name in plan.said]
        stated += [c for c, key in choice.references() if key in plan.found]
        added = choice.smallest(stated, usable)
        if added is not None:
            if added:
                plan = plan.copy()
                plan.said.update({usable[c].name: usable[c] for c in added})
            return plan
        return self._by_parents(choice, [*stated, *usable], plan, node, stack, depth)

    def _facts_about(self, node: Node) -> Iterator[Known]:
        """Yield what the user knows of a row, themselves included if it refers to them."""
        yield from self._known(node)
        me = self.mind.me
        if me is not None and me is not node and me in node.around():
            yield from self._known(me)

    def _by_parents(
        self,
        choice: Choice,
        stated: list[str],
        plan: Plan,
        node: Node,
        stack: tuple[Key, ...],
        depth: int,
    ) -> Plan | None:
        """Look up a row that the wanted one refers to, and compare its key."""
        if depth <= 1:
            return None
        for parent in node.around()[1:]:
            key = (f"{parent.table}.id", parent.row["id"])
            columns = [c for c, k in choice.references() if k == key]
            if not columns or not choice.unique([*stated, *columns]):
                continue
            found = self._solve(plan, parent, "id", stack, depth - 1)
            if found is not None:
                return self._tell_apart(choice, found.copy(), node, stack, 0)
        return None


def _simple(leaf: Leaf) -> bool:
    """Whether a look-up can fill this place: a parameter, or an array of one value."""
    return leaf.path[1:] in {(), ("*",)}


def _put(arguments: dict[str, Any], leaf: Leaf, value: Any) -> None:
    arguments[leaf.path[0]] = [value] if len(leaf.path) > 1 else value


def _suits(parameter: Parameter, value: Any) -> bool:
    if parameter.enum is not None and value not in parameter.enum:
        return False
    if parameter.type == "string":
        return isinstance(value, str) and len(value) >= (parameter.minLength or 0)
    if parameter.type == "boolean":
        return isinstance(value, bool)
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and (parameter.type != "integer" or isinstance(value, int))
