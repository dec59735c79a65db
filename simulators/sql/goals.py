"""Goals: arguments a user could mean, drawn from the seeded state.

An argument is drawn by its meaning: an existing row (the user's own where a chain of references
leads to the user), a value to search for, new content, a choice. Nothing here decides whether the
call succeeds; that is found out by executing it.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, Protocol, TypeAlias

import orjson

from simulators.sql.engine import Engine
from simulators.sql.facts import Mind
from simulators.sql.owners import owned
from simulators.sql.program import USER
from simulators.sql.words import is_datetime
from synth.core.application import Application, Parameter
from synth.core.errors import NotSuitable
from synth.core.types import Scalar

MOST_ITEMS = 3
"""Elements drawn for an array at most."""
REDRAWS = 12
"""Values drawn for one parameter until one fits."""
ROUNDS = 3
"""Times that all arguments are drawn anew where no value of one of them fits the others."""


@dataclass(frozen=True, slots=True)
class Binding:
    """One plain value of a call's arguments."""

    name: str
    """`items.0.book_id`"""
    parameter: Parameter
    value: Scalar


def bindings(parameters: Mapping[str, Parameter], values: Mapping[str, Any]) -> Iterator[Binding]:
    """Yield every plain value of `values`, in the order of the parameters."""
    for name, parameter in parameters.items():
        if name in values:
            yield from _bindings(name, parameter, values[name])


def _bindings(name: str, parameter: Parameter, value: Any) -> Iterator[Binding]:
    if isinstance(value, list) and parameter.items is not None:
        for index, element in enumerate(value):
            yield from _bindings(f"{name}.{index}", parameter.items, element)
    elif isinstance(value, dict):
        inner = parameter.properties or {}
        for key, element in value.items():
            if key in inner:
                yield from _bindings(f"{name}.{key}", inner[key], element)
    else:
        yield Binding(name, parameter, value)


def bind(value: Any) -> Scalar:
    """Return an argument as SQL sees it: absent is NULL, arrays and objects are JSON text."""
    if isinstance(value, list | dict):
        return orjson.dumps(value).decode()
    return int(value) if isinstance(value, bool) else value


_NAME = re.compile(r"(?<![:\w]):([a-z_][a-z0-9_]*)")


@lru_cache(maxsize=1_000)
def _names(sql: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_NAME.findall(sql)))


def names_in(sql: str, known: Collection[str]) -> tuple[str, ...]:
    """Return the names that a statement uses, in order; `known` are the possible ones."""
    return tuple(name for name in _names(sql) if name in known)


Query: TypeAlias = Callable[[str, Mapping[str, Scalar]], list[dict[str, Scalar]]]


def forbidden(
    application: Application,
    tool: str,
    arguments: Mapping[str, Any],
    user: Scalar,
    *,
    query: Query,
    rule: str | None = None,
) -> str | None:
    """Return the text of the first policy rule that forbids a call, or None.

    Args:
        application: has the rules.
        tool: the tool to be called.
        arguments: the arguments of the call.
        user: key of who speaks.
        query: answers SELECTs on the state in which the call would be made.
        rule: look at the rule of this name only.
    """
    for candidate in application.policy_rules:
        if candidate.tool == tool and rule in {None, candidate.name}:
            names = names_in(candidate.when, application.tools[tool].parameters)
            seen = {name: bind(arguments.get(name)) for name in names}
            rows = query(candidate.when, {**seen, USER: user} if USER in candidate.when else seen)
            if rows and first(rows[0]):
                return candidate.text
    return None


def first(row: Mapping[str, Scalar]) -> Scalar:
    """Return the value of the first column of a row."""
    return next(iter(row.values()))


class Fits(Protocol):
    """Says of arguments, one after the other, whether they can be part of the wanted call."""

    def decide(self, name: str, value: Any) -> bool:
        """Note an argument (None: left out); return whether it fits those noted before."""

    def clear(self) -> None:
        """Forget every argument."""


class Drawer:
    """Draws the arguments of one call.

    Args:
        engine: makes new values with the application's generators.
        mind: the user on whose behalf the call is made.
        tool: which tool.
        rng: the only source of chance.
        fit: what the arguments must fit; None takes any.
    """

    def __init__(
        self,
        engine: Engine,
        mind: Mind,
        tool: str,
        rng: random.Random,
        fit: Fits | None = None,
    ) -> None:
        self.engine, self.mind, self.rng, self.fit = engine, mind, rng, fit
        self.graph, self.scene = mind.graph, mind.scene
        self.parameters = mind.application.tools[tool].parameters
        self.values: dict[str, Any] = {}
        self._taken: dict[str, list[Scalar]] = {}
        """Key -> values of it already drawn, in order."""
        self._rows: dict[str, dict[str, Scalar]] = {}
        """Table -> the row that search values are taken from, so that they fit together."""
        self._free = False
        """Whether anything drawn so far might have been drawn differently."""
        self._choices = 0
        """Values among which the last one was drawn."""
        self._unfit: list[Any] = []
        """Values of the parameter being drawn that did not fit."""

    def arguments(
        self, fixed: Mapping[str, Any] | None = None, wanted: Collection[str] = ()
    ) -> dict[str, Any]:
        """Return drawn arguments.

        Args:
            fixed: values of top-level parameters that are already decided.
            wanted: optional parameters that are drawn whatever chance says.

        Raises:
            NotSuitable: nothing to draw a required value from (`no_goal`).
        """
        fixed = fixed or {}
        for left in range(ROUNDS if self.fit else 1, 0, -1):
            try:
                return self._round(fixed, wanted)
            except NotSuitable:
                if left == 1 or not self._free:
                    raise
                self.values, self._taken, self._rows = {}, {}, {}
        raise AssertionError("the last round returns or raises")

    def _round(self, fixed: Mapping[str, Any], wanted: Collection[str]) -> dict[str, Any]:
        self._free = False
        if self.fit:
            self.fit.clear()
        for name, value in fixed.items():
            self._take(self.parameters[name], value)
            if self.fit and not self.fit.decide(name, value):
                raise NotSuitable("no_goal")
        for name, parameter in self.parameters.items():
            if name in fixed:
                self.values[name] = fixed[name]
                continue
            given = not parameter.optional or name in wanted
            if given or self.rng.random() < 0.5:
                try:
                    self.values[name] = self._fitting(name, parameter)
                    continue
                except NotSuitable:
                    if given:
                        raise
            if self.fit and not self.fit.decide(name, None):
                self._free = True
                raise NotSuitable("no_goal")
        return self.values

    def _fitting(self, name: str, parameter: Parameter) -> Any:
        """Draw a value; draw others in its place until one fits."""
        if self.fit is None:
            return self._draw(parameter)
        self._unfit = []
        self._choices = 2  # what is made up could be something else
        for _ in range(REDRAWS):
            taken, rows = self._taken.copy(), self._rows.copy()
            value = self._draw(parameter)
            if self.fit.decide(name, value):
                self._free = self._free or self._choices > 1
                return value
            self._taken, self._rows = taken, rows
            if not isinstance(value, list | dict):
                self._unfit.append(value)
        raise NotSuitable("no_goal")

    def _take(self, parameter: Parameter, value: Any) -> None:
        for binding in _bindings("", parameter, value):
            if binding.parameter.entity:
                key = self.graph.root(binding.parameter.entity)
                self._taken[key] = [*self._taken.get(key, ()), binding.value]

    def _draw(self, parameter: Parameter) -> Any:
        if parameter.type == "array":
            return self._array(parameter)
        if parameter.properties is not None:
            return {
                name: self._draw(inner)
                for name, inner in parameter.properties.items()
                if not inner.optional or self.rng.random() < 0.5
            }
        value = self._plain(parameter)
        self._take(parameter, value)
        return value

    def _array(self, parameter: Parameter) -> list[Any]:
        item = parameter.items
        if item is None:
            raise NotSuitable("no_goal")
        low = 1 if parameter.minItems is None else parameter.minItems
        high = low + 2 if parameter.maxItems is None else parameter.maxItems
        # Short lists are likelier: a long one hardly ever suits every condition of a tool.
        wanted = self.rng.choice([low, low, *range(low, max(low, min(high, MOST_ITEMS)) + 1)])
        found: list[Any] = []
        for _ in range(wanted + MOST_ITEMS):
            if len(found) == wanted:
                break
            try:
                value = self._draw(item)
            except NotSuitable:
                break
            if value not in found:
                found.append(value)
        if len(found) < low:
            raise NotSuitable("no_goal")
        return found

    def _plain(self, parameter: Parameter) -> Any:
        if parameter.sample is not None:
            return self._sampled(parameter)
        if parameter.entity is not None:
            return self._entity(parameter, parameter.entity)
        if parameter.match is not None:
            return self._matching(parameter, parameter.match)
        if parameter.generate is not None:
            value = self.engine.generate(parameter.generate, self.rng)
            if value is None:
                raise NotSuitable("no_goal")
            return shaped(parameter, value)
        return self._made(parameter)

    def _sampled(self, parameter: Parameter) -> Any:
        sql = str(parameter.sample)
        seen = {name: bind(self.values.get(name)) for name in names_in(sql, self.parameters)}
        values = self.scene.column(sql, {**seen, USER: self.mind.user} if USER in sql else seen)
        taken = self._taken.get(self.graph.root(parameter.entity), ()) if parameter.entity else ()
        return shaped(parameter, self._choice(values, taken))

    def _choice(self, values: Sequence[Any], taken: Sequence[Any] = ()) -> Any:
        """Draw one of the values that are neither taken nor known not to fit."""
        unfit = self._unfit
        if values and (taken or unfit):
            # Lists may be long and what is left out is little: a second draw is seldom needed.
            value = values[int(self.rng.random() * len(values))]
            if value not in taken and value not in unfit:
                self._choices = len(values)
                return value
            values = [value for value in values if value not in taken and value not in unfit]
        self._choices = len(values)
        if not values:
            raise NotSuitable("no_goal")
        return values[int(self.rng.random() * len(values))]

    def _entity(self, parameter: Parameter, column: str) -> Any:
        taken = self._taken.get(self.graph.root(column), ())
        table, name = column.split(".")
        me = self.mind.me
        if me is not None and table == me.table and me.row[name] not in taken:
            return shaped(parameter, self._choice([me.row[name]]))
        values = [row[name] for row in self.candidates(table)]
        return shaped(parameter, self._choice(values, taken))

    def candidates(self, table: str) -> list[dict[str, Scalar]]:
        """Return the rows of `table` that belong to the user and to what was drawn before."""
        rows = owned(self.scene, table, self.mind.user)
        for column, key in self.graph.foreign.items():
            if column.startswith(f"{table}.") and self._taken.get(key):
                name, chosen = column.split(".")[1], self._taken[key]
                rows = [row for row in rows if row[name] in chosen] or rows
        return rows

    def _matching(self, parameter: Parameter, column: str) -> Any:
        table, name = column.split(".")
        if table not in self._rows:
            me = self.mind.me
            own = me is not None and me.table == table
            rows = [me.row] if own and me is not None else self.candidates(table)
            if not rows:
                raise NotSuitable("no_goal")
            self._rows[table] = rows[int(self.rng.random() * len(rows))]
        value = self._rows[table][name]
        if value is None or (parameter.enum is not None and value not in parameter.enum):
            raise NotSuitable("no_goal")
        return shaped(parameter, value)

    def _made(self, parameter: Parameter) -> Any:
        if parameter.enum is not None:
            return self._choice(parameter.enum)
        if parameter.type == "boolean":
            return self.rng.random() < 0.5
        if parameter.type == "integer":
            low = 1 if parameter.minimum is None else int(parameter.minimum)
            high = low + 9 if parameter.maximum is None else int(parameter.maximum)
            return self.rng.randint(low, max(low, high))
        if parameter.type == "number":
            low_n = 1.0 if parameter.minimum is None else parameter.minimum
            high_n = low_n + 9 if parameter.maximum is None else parameter.maximum
            return round(self.rng.uniform(low_n, high_n), 2)
        if parameter.format in {"date", "date-time"}:
            clock = datetime.fromisoformat(self.mind.application.clock)
            day = clock + timedelta(days=self.rng.randint(1, 30))
            whole = day.replace(minute=0, second=0)
            return day.date().isoformat() if parameter.format == "date" else whole.isoformat()
        raise NotSuitable("no_goal")  # free text without `generate`: nobody knows what to write


def shaped(parameter: Parameter, value: Scalar) -> Any:
    """Return a column's value in the type of the parameter it is given to."""
    if parameter.type == "boolean" and isinstance(value, int):
        return bool(value)
    if parameter.format == "date" and is_datetime(value):
        return str(value)[:10]
    return value
