"""Tools of one application that do the same, found by calling both on the same state.

Elimination compares SQL; two statements of other words may do one thing. Tools that take the same
kinds of values are called in pairs with the same values on the same seeded state: if results and
states agree in every call, and at least one call showed something, they are one tool.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

from simulators.sql.environment import SqlEnvironment
from synth.core.application import Application, Parameter, Tool

Calls = Mapping[str, Sequence[Mapping[str, Any]]]
"""Tool -> arguments of calls that succeed."""

_EMPTY = frozenset({"[]", '{"result":[]}', "{}", ""})
"""Results that are no evidence."""
MOST_PAIRS = 200
"""Pairs of one application that are called; of 40 tools that are all alike there would be 780."""
MOST_CALLS = 3
"""Calls of each of two tools that the other one is given too."""


def alike(
    environment: SqlEnvironment, application: Application, calls: Calls, seed: int
) -> Iterator[tuple[str, str]]:
    """Yield pairs of tools that behave alike, in the order in which the application has them.

    Args:
        environment: of the application; its state is lost.
        application: the document.
        calls: what is tried.
        seed: of the state.
    """
    groups: dict[Any, list[str]] = defaultdict(list)
    for name in application.specs:
        tool = application.tools[name]
        groups[tool.effect == "read", tuple(_kinds(tool).values())].append(name)
    pairs = [pair for group in groups.values() for pair in combinations(group, 2)]
    for one, other in pairs[:MOST_PAIRS]:
        kinds = [list(_kinds(application.tools[name])) for name in (one, other)]
        tried = list(calls.get(one, ()))[:MOST_CALLS]
        names = dict(zip(kinds[1], kinds[0], strict=True))
        for arguments in list(calls.get(other, ()))[:MOST_CALLS]:
            tried.append({names[n]: value for n, value in arguments.items()})
        back = {first: second for second, first in names.items()}
        if _same(environment, (one, other), tried, back, seed):
            yield one, other


def _kinds(tool: Tool) -> dict[str, str]:
    """Return parameter -> what it takes, sorted by that: those of two tools then correspond."""
    found = {name: _kind(parameter) for name, parameter in tool.parameters.items()}
    return dict(sorted(found.items(), key=lambda item: (item[1], item[0])))


def _kind(parameter: Parameter) -> str:
    tied = parameter.entity or parameter.match or parameter.sets
    inner = parameter.items and _kind(parameter.items)
    deeper = {n: _kind(p) for n, p in (parameter.properties or {}).items()}
    return str([parameter.type, tied, parameter.op, parameter.enum, inner, deeper])


def _same(
    environment: SqlEnvironment,
    tools: tuple[str, str],
    tried: Sequence[Mapping[str, Any]],
    names: Mapping[str, str],
    seed: int,
) -> bool:
    shown = False
    for arguments in tried:
        outcomes = []
        for name in tools:
            own = {names[n]: v for n, v in arguments.items()} if name == tools[1] else arguments
            environment.reset_now(seed)
            result = environment.call_now(name, own)
            outcomes.append((result.ok, result.content, environment.diff_now()))
        (ok, content, diff), second = outcomes
        if ok != second[0] or (ok and outcomes[0] != second):
            return False
        shown = shown or (ok and (bool(diff) or content not in _EMPTY))
    return shown
