"""An application derived from the tools of a crawled server: tables, rows, SQL and words.

Every parameter that a tool of one noun takes becomes a column of that noun's table. What a tool of
five verbs does to such a table is plain: show one row, list rows, create, update or delete one.
Tools that mean anything else have no twin; they stay beside as distractors.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from simulators.twin.making import MANY, generator
from simulators.twin.nouns import ATTRIBUTES, Noun, nouns_of
from simulators.twin.reading import Reading, read_tool, snake, words_of
from simulators.twin.writing import Writer
from synth.core.application import Application
from synth.core.errors import NotSuitable
from synth.core.types import ToolSpec

LEAST = 2
"""Tools below which a server has no twin."""
MOST = 24
"""Tools of one twin; the others are distractors."""


@dataclass(frozen=True, slots=True)
class Derived:
    """A twin: an application, and how its names stand for the crawled ones."""

    application: Application
    tools: Mapping[str, ToolSpec]
    """Name in the application -> the crawled tool, its schema and words untouched."""
    parameters: Mapping[str, Mapping[str, str]]
    """Name in the application -> parameter there -> parameter of the crawled tool."""
    distractors: tuple[ToolSpec, ...]
    """Tools of the server that have no twin."""
    reasons: Mapping[str, str]
    """Crawled name of each of those -> why it has none."""


def derive(name: str, specs: Sequence[ToolSpec], *, without: Iterable[str] = ()) -> Derived:
    """Derive the twin of a server.

    Args:
        name: of the application.
        specs: the tools of the server, as crawled.
        without: crawled names of tools that shall have no twin.

    Raises:
        NotSuitable: fewer than `LEAST` of the tools can have one.
    """
    readings, reasons = _readings(specs, frozenset(without))
    nouns = nouns_of(readings)
    tools: dict[str, dict[str, Any]] = {}
    known: dict[str, Reading] = {}
    for reading in readings:
        try:
            tool = Writer(nouns, reading).tool()
        except NotSuitable as reason:
            reasons[reading.spec.name] = reason.what
            continue
        inner = _free(reading, tools)
        tools[inner], known[inner] = tool, reading
    if len(tools) < LEAST:
        raise NotSuitable("few_tools")
    used = {known[inner].noun for inner in tools}
    used |= {other for noun in used for other in nouns[noun].refers.values()}
    document = _document(name, specs, [n for n in nouns.values() if n.name in used], tools)
    return Derived(
        Application.model_validate(document),
        {inner: reading.spec for inner, reading in known.items()},
        {inner: {p.name: p.crawled for p in r.parameters} for inner, r in known.items()},
        tuple(spec for spec in specs if spec.name in reasons),
        reasons,
    )


def _free(reading: Reading, taken: Collection[str]) -> str:
    """Return a name for a tool here: people may hear it, where two parameters are called alike."""
    name = snake(words_of(reading.spec.name)) or f"{reading.verb}_{reading.noun}"
    return next(n for n in (name, *(f"{name}_{i}" for i in range(2, 99))) if n not in taken)


def _readings(
    specs: Sequence[ToolSpec], without: frozenset[str]
) -> tuple[list[Reading], dict[str, str]]:
    found: list[Reading] = []
    reasons: dict[str, str] = {}
    for spec in specs:
        try:
            if spec.name in without:
                raise NotSuitable("lint")
            if len(found) == MOST:
                raise NotSuitable("many")
            found.append(read_tool(spec))
        except NotSuitable as reason:
            reasons[spec.name] = reason.what
    return found, reasons


def _document(
    name: str, specs: Sequence[ToolSpec], nouns: Sequence[Noun], tools: dict[str, dict[str, Any]]
) -> dict[str, Any]:
    ordered = sorted(nouns, key=lambda noun: _depth(noun, {n.name: n for n in nouns}))
    words = name.replace("_", " ")
    return {
        "application": name,
        "category": next((s.category for s in specs if s.category), "software development"),
        "summary": f"Stands in for a server with {len(specs)} tools.",
        "clock": "2026-03-02T09:00:00",
        "schema": "\n".join(_table(noun, nouns) for noun in ordered),
        "seed": {noun.table: _seed(noun, nouns) for noun in ordered},
        "known": {n.table: ["name", *(c for c in n.columns if c not in n.refers)] for n in ordered},
        "policy": f"You work with the tools of {words}. Do what is asked, and nothing beyond it.",
        "tools": tools,
    }


def _depth(noun: Noun, nouns: Mapping[str, Noun]) -> int:
    return 1 + max((_depth(nouns[other], nouns) for other in noun.refers.values()), default=0)


_TYPES = {"string": "TEXT", "integer": "INTEGER", "boolean": "INTEGER", "number": "REAL"}


def _table(noun: Noun, nouns: Sequence[Noun]) -> str:
    tables = {other.name: other.table for other in nouns}
    lines = ["id TEXT PRIMARY KEY"]
    for column in ("name", *noun.columns, *ATTRIBUTES):
        one = noun.columns.get(column)
        if any(line.startswith(f"{column} ") for line in lines):
            continue
        line = f"{column} {_TYPES[one.type] if one else 'TEXT'}"
        if column in noun.refers:
            line += f" REFERENCES {tables[noun.refers[column]]}"
        elif one is not None and one.type == "boolean":
            line += f" CHECK ({column} IN (0, 1))"
        lines.append(line)
    return f"CREATE TABLE {noun.table} ({', '.join(lines)}) STRICT;"


def _seed(noun: Noun, nouns: Sequence[Noun]) -> dict[str, Any]:
    tables = {other.name: other.table for other in nouns}
    columns: dict[str, Any] = {"id": {"serial": f"{noun.prefix}{{n:03d}}"}}
    columns["name"] = {"code": f"{noun.words} ??-###", "unique": True}
    for column, one in noun.columns.items():
        if column == "name" and one.type == "string" and "enum" not in one.schema:
            continue
        refers = noun.refers.get(column)
        columns[column] = (
            {"ref": tables[refers]} if refers else generator(one, unique=column in noun.unique)
        )
    for column, made in ATTRIBUTES.items():
        columns.setdefault(column, made)
    return {"count": MANY, "columns": columns}
