"""What a tool is for: the same for tools that differ in wording, style or what else they show.

Two tools are for one thing if whoever has one does not need the other: they change the same columns
(or read the same rows) and take the same values. Numbers, currencies, names of parameters, days
that are stamped on a row, conditions, lists of allowed values, order and number of shown columns
make no difference, so this is stricter than most people who count tools. Nothing of what an agent
reads is looked at.
"""

from __future__ import annotations

import re
from typing import Any

from synth.core.application import Parameter, Step, Tool
from synth.core.canonical import content_key

_INSERT = re.compile(r"\s*INSERT\s+(?:OR\s+\w+\s+)?INTO\s+(\w+)", re.IGNORECASE)
_UPDATE = re.compile(r"\s*UPDATE\s+(\w+)\s+SET\s+(.*)", re.IGNORECASE | re.DOTALL)
_DELETE = re.compile(r"\s*DELETE\s+FROM\s+(\w+)", re.IGNORECASE)
_FROM = re.compile(r"\bFROM\s+(\w+)", re.IGNORECASE)
_ADDED = re.compile(r"\b(count|sum|avg|min|max|group_concat|total)\s*\(", re.IGNORECASE)
_INNER = re.compile(r"\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)")
"""What is in parentheses, three deep."""
_WHERE = re.compile(r"\bWHERE\b", re.IGNORECASE)
_STAMPS = frozenset({"now()", "today()", "null"})
_SAME = {"state": "status"}
"""Names of columns that say the same."""


def purpose(tool: Tool) -> str:
    """Return a key of what a tool is for.

    Args:
        tool: of an application whose semantics are SQL.
    """
    changes = [_change(s.write) for s in tool.steps if s.write]
    # Rows that are written along, into a log or a bin, are no purpose of their own.
    others = [change for change in changes if change[0] != "insert"]
    changes = others or changes[:1]
    shown = [] if changes else [_shown(s) for s in tool.steps if s.returns]
    taken = sorted(str(value) for p in tool.parameters.values() for value in _taken(p))
    return content_key([tool.effect, tool.by, taken, changes, shown])


def _change(sql: str) -> list[Any]:
    if found := _UPDATE.match(sql):
        pairs = [part.partition("=") for part in _top(_until_where(found[2]))]
        kept = [
            (_column(name), value.strip() if value.strip().startswith("'") else "")
            for name, _, value in pairs
            if value.strip().lower() not in _STAMPS
        ]
        return ["update", found[1], sorted(kept)]
    if found := _DELETE.match(sql):
        return ["delete", found[1]]
    found = _INSERT.match(sql)
    return ["insert", found[1] if found else " ".join(sql.split())]


def _shown(step: Step) -> list[Any]:
    """Return the table that a read is about, what it adds up, and its column if it has only one.

    More columns than one are "the row": whether a note, or the name of what it leads to, is among
    them makes no other tool.
    """
    sql = step.returns or ""
    tables = _FROM.findall(_INNER.sub("", sql))[:1] or _FROM.findall(sql)[:1]
    added = {word.lower() for word in _ADDED.findall(sql)}
    head = re.split(r"\bFROM\b", re.sub(r"^\s*SELECT\b", "", sql, flags=re.IGNORECASE))[0]
    columns = [_column(part) for part in _top(head)]
    told = [name for name in columns if name not in ("id", "name")]
    return [tables, sorted(added), told if len(told) == 1 else step.shape]


def _column(text: str) -> str:
    name = text.strip().rpartition(".")[2]
    return _SAME.get(name, name)


def _taken(parameter: Parameter) -> list[Any]:
    """Return what a parameter is, whatever it is called; of an object, what is in it."""
    if parameter.properties:
        return [value for p in parameter.properties.values() for value in _taken(p)]
    if parameter.items:
        return [["array", *_taken(parameter.items)]]
    tied = parameter.entity or parameter.match or parameter.sets
    if tied:
        table, _, column = tied.partition(".")
        tied = f"{table}.{_column(column)}"
    way = parameter.op if parameter.match else ""
    return [[tied or parameter.type, way, parameter.type == "number"]]


def _until_where(text: str) -> str:
    """Return what comes before the WHERE of a statement, not of a SELECT in it."""
    for found in _WHERE.finditer(text):
        before = text[: found.start()]
        if before.count("(") == before.count(")"):
            return before
    return text


def _top(text: str) -> list[str]:
    """Return the parts of a list in SQL, split at commas outside of parentheses and quotes."""
    found, depth, quoted, part = [], 0, False, ""
    for char in text:
        quoted = quoted != (char == "'")
        if not quoted:
            depth += {"(": 1, ")": -1}.get(char, 0)
        if char == "," and depth == 0 and not quoted:
            found.append(part)
            part = ""
        else:
            part += char
    return [*found, part]
