"""What must hold for a call to succeed and to be allowed, checked while its arguments are drawn.

A tool's `require` steps before its first write and the policy rules about it are SELECTs over the
arguments. Each can be asked as soon as the arguments it names are decided, by a read that leaves
the state alone; so a value that cannot lead to a goal is replaced at once instead of sinking the
whole call after the others were drawn, too. Conditions on computed names (`let`) and what writes
run into are left to the execution, which decides in any case.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, TypeAlias

from simulators.sql.goals import Query, bind, names_in
from simulators.sql.program import USER
from synth.core.application import Application
from synth.core.errors import ToolloomError
from synth.core.types import Scalar

_LOOSE = re.compile(r";|--|/\*")
"""What cannot stand inside parentheses, or might hide their end."""


@dataclass(frozen=True, slots=True, eq=False)
class Condition:
    """A SELECT whose first value must be true, or must not be."""

    sql: str
    names: tuple[str, ...]
    """What it is asked about: parameters of the tool, and perhaps `user_id`."""
    wanted: bool
    rule: bool = False
    """Of the policy: it has an answer to every call, and is wrong where it breaks."""


Waiting: TypeAlias = Mapping[str, Sequence[tuple[Condition, frozenset[str]]]]
"""Parameter -> the conditions that name it, each with all parameters that it names."""


def waiting(conditions: Iterable[Condition], parameters: Iterable[str]) -> Waiting:
    """Return which conditions can be asked once a parameter is decided.

    Args:
        conditions: of one tool.
        parameters: of the tool; what names none of them is asked with the first.
    """
    found: dict[str, list[tuple[Condition, frozenset[str]]]] = {}
    for condition in conditions:
        names = frozenset(condition.names) - {USER}
        for name in names or {next(iter(parameters), "")}:
            found.setdefault(name, []).append((condition, names))
    return found


@lru_cache(maxsize=1_000)
def _joined(conditions: tuple[Condition, ...]) -> tuple[str, tuple[str, ...]] | None:
    """Return one statement for several conditions, each its own column, and all their names."""
    if len(conditions) == 1:
        return conditions[0].sql, conditions[0].names
    if any(_LOOSE.search(condition.sql) for condition in conditions):
        return None
    columns = ", ".join(f"({condition.sql}) AS c{i}" for i, condition in enumerate(conditions))
    names = dict.fromkeys(name for condition in conditions for name in condition.names)
    return f"SELECT {columns}", tuple(names)


def hold(conditions: tuple[Condition, ...], values: Mapping[str, Scalar], query: Query) -> bool:
    """Return whether all conditions hold.

    Args:
        conditions: asked at once where their text allows that.
        values: everything that they name.
        query: answers SELECTs.

    Raises:
        ToolloomError: one never ends, and was stopped; or a rule of the policy breaks.
    """
    joined = _joined(conditions)
    if joined is None:
        return all(hold((condition,), values, query) for condition in conditions)
    sql, names = joined
    try:
        rows = query(sql, {name: values[name] for name in names})
    except ToolloomError as error:
        if error.what.startswith("interrupted"):
            raise  # it never ends, whatever is drawn
        if len(conditions) > 1:
            return all(hold((condition,), values, query) for condition in conditions)
        if conditions[0].rule:
            raise
        return False  # on such arguments the call fails
    if not rows:
        return not conditions[0].wanted
    for condition, found in zip(conditions, rows[0].values(), strict=False):
        if bool(found) is not condition.wanted:
            return False
    return True


class Conditions:
    """The conditions of an application's tools.

    Args:
        application: what to read them from.
    """

    def __init__(self, application: Application) -> None:
        self._known = {name: {*tool.parameters, USER} for name, tool in application.tools.items()}
        self._required = {name: tuple(self._read(application, name)) for name in self._known}
        self._rules = {name: dict[str, str]() for name in self._known}
        for rule in application.policy_rules:
            self._rules[rule.tool][rule.name] = rule.when
        self._parameters = {
            name: tuple(tool.parameters) for name, tool in application.tools.items()
        }
        self.required = {n: waiting(c, self._parameters[n]) for n, c in self._required.items()}
        """Tool -> conditions of its success."""
        self.allowed = {name: self._with(name, rules) for name, rules in self._rules.items()}
        """Tool -> conditions of its success and of its being allowed."""
        self._breaking: dict[str, Waiting] = {}
        self._lacking: dict[tuple[str, str], Waiting] = {}

    def _with(self, tool: str, rules: Mapping[str, str]) -> Waiting:
        allowing = [self._rule(tool, sql, wanted=False) for sql in rules.values()]
        return waiting((*self._required[tool], *allowing), self._parameters[tool])

    def breaking(self, tool: str, rule: str) -> Waiting:
        """Return the conditions of a call that succeeds although this rule forbids it."""
        if rule not in self._breaking:
            broken = self._rule(tool, self._rules[tool][rule], wanted=True)
            found = waiting((*self._required[tool], broken), self._parameters[tool])
            self._breaking[rule] = found
        return self._breaking[rule]

    def lacking(self, tool: str, require: str) -> Waiting:
        """Return the conditions of an allowed call that fails for this `require` and no other."""
        if (tool, require) not in self._lacking:
            wanted = [
                replace(condition, wanted=condition.sql != require)
                for condition in self._required[tool]
            ]
            allowing = [self._rule(tool, sql, wanted=False) for sql in self._rules[tool].values()]
            found = waiting((*wanted, *allowing), self._parameters[tool])
            self._lacking[tool, require] = found
        return self._lacking[tool, require]

    def _rule(self, tool: str, sql: str, *, wanted: bool) -> Condition:
        return Condition(sql, names_in(sql, self._known[tool]), wanted, rule=True)

    def _read(self, application: Application, tool: str) -> Iterator[Condition]:
        computed: set[str] = set()
        for step in application.tools[tool].steps:
            computed.update(step.let or ())
            if step.write is not None:
                return
            sql = step.require
            if sql is None or "next_id" in sql.lower() or names_in(sql, computed):
                continue
            yield Condition(sql, names_in(sql, self._known[tool]), wanted=True)


class Fit:
    """Conditions on one call that is being drawn.

    Args:
        conditions: all of them must hold.
        user: key of who speaks.
        query: answers SELECTs on the state in which the call will be made.
    """

    def __init__(self, conditions: Waiting, user: Scalar, query: Query) -> None:
        self._waiting, self._query = conditions, query
        self._values: dict[str, Scalar] = {USER: user}

    def decide(self, name: str, value: Any) -> bool:
        """Note an argument (None: left out); return whether all holds that can now be asked."""
        values = self._values
        values[name] = bind(value)
        found = self._waiting.get(name)
        if found is None:
            return True
        conditions = tuple([c for c, names in found if names <= values.keys()])
        return not conditions or hold(conditions, values, self._query)

    def clear(self) -> None:
        """Forget every argument."""
        user = self._values[USER]
        self._values.clear()
        self._values[USER] = user
