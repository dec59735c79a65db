"""What users have to do before an agent can, derived from what tools read and write.

A user's tool aids a write of the agent's in one of two ways: it writes a column that a `require` of
the write reads (a device is plugged in and can then be switched), or it shows a value that the
write takes and that no tool of the agent returns (the number on a label). Too many rather than too
few: whether an act helps is found out by executing it (`acts`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from simulators.sql.graph import Graph
from synth.core.application import Application, Tool

_WORD = re.compile(r"[a-z_][a-z0-9_]*")
_STRING = re.compile(r"'(?:[^']|'')*'")
_UPDATE = re.compile(r"\bupdate\s+(\w+)\s+set\s+(.*?)(?:\bwhere\b|\breturning\b|$)", re.I | re.S)
_ASSIGNED = re.compile(r"(\w+)\s*=(?!=)")
_WHOLE = re.compile(r"\b(?:insert\s+(?:or\s+\w+\s+)?into|delete\s+from)\s+(\w+)", re.I)


@dataclass(frozen=True, slots=True)
class Aid:
    """A write of the agent's and the user's tool that it may wait for."""

    tool: str
    by: str
    """The user's tool."""
    require: str | None = None
    """The condition of the write that may hold only afterwards."""
    error: str = ""
    """Code of the call that is made too early."""
    parameter: str | None = None
    """The parameter of the write whose value the user's tool shows."""
    column: str = ""
    """The result column that holds it."""


def aids(application: Application, graph: Graph, askable: Collection[str]) -> tuple[Aid, ...]:
    """Return what may aid what.

    Args:
        application: has the tools.
        graph: its derived structure.
        askable: the user's tools that agents have words for.
    """
    writes = {
        name: application.tools[name]
        for name in application.specs
        if application.tools[name].effect != "read" and name != application.handoff
    }
    found: list[Aid] = []
    for by in application.user_specs:
        if by in askable:
            changed = _written(application.tools[by], graph.columns)
            for name, tool in writes.items():
                if _things(application, by) <= _about(application, graph, name):
                    found += _establishing(name, tool, by, changed, graph)
                    found += _showing(name, by, graph)
    return tuple(found)


def _things(application: Application, by: str) -> set[str]:
    """Return the tables of what a user's tool is used on."""
    matched = (p.match for p in application.tools[by].parameters.values() if p.sample is None)
    return {column.split(".")[0] for column in matched if column}


def _about(application: Application, graph: Graph, name: str) -> set[str]:
    """Return the tables of the rows that a tool is about, and of all that they refer to."""
    found = {
        leaf.parameter.entity.split(".")[0] for leaf in graph.leaves[name] if leaf.parameter.entity
    }
    found |= {application.user.table} if application.user.table else set()
    waiting = list(found)
    while waiting:
        table = waiting.pop()
        targets = {graph.foreign[f"{table}.{c}"].split(".")[0] for c in graph.references[table]}
        waiting += targets - found
        found |= targets
    return found


def _establishing(
    name: str, tool: Tool, by: str, changed: Collection[str], graph: Graph
) -> Iterator[Aid]:
    for step in tool.steps:
        if step.require and not looked_at(step.require, graph.columns).isdisjoint(changed):
            yield Aid(name, by, require=step.require, error=step.error or "")


def _showing(name: str, by: str, graph: Graph) -> Iterator[Aid]:
    for column, origin in graph.outputs[by].items():
        if origin is None or not graph.reads(by) or graph.producers.get(graph.root(origin)):
            continue
        for leaf in graph.leaves[name]:
            parameter = leaf.parameter
            meanings = (parameter.entity, parameter.match, parameter.sets)
            if len(leaf.path) == 1 and leaf.required and origin in meanings:
                yield Aid(name, by, parameter=leaf.name, column=column)


def looked_at(sql: str, columns: Mapping[str, Collection[str]]) -> set[str]:
    """Return the columns that a statement looks at (by name: every column it may mean)."""
    words = set(_WORD.findall(_STRING.sub("''", sql.lower())))
    return {f"{t}.{c}" for t in columns if t in words for c in columns[t] if c in words}


def _written(tool: Tool, columns: Mapping[str, Collection[str]]) -> set[str]:
    found: set[str] = set()
    for step in tool.steps:
        sql = _STRING.sub("''", (step.write or step.returns or ""))
        for table in _WHOLE.findall(sql):
            found.update(f"{table}.{column}" for column in columns.get(table, ()))
        for table, assigned in _UPDATE.findall(sql):
            found.update(f"{table}.{column}" for column in _ASSIGNED.findall(assigned))
    return found
