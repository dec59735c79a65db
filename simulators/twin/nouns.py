"""The tables of a twin: one for each noun that tools are about."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from simulators.twin.reading import Read, Reading

ATTRIBUTES = {
    "status": {"choice": ["open", "in progress", "on hold", "done"]},
    "updated": {"date": [-90, -1]},
    "owner_name": {"person": "full"},
}
"""Columns that every table has beside those of the parameters: something to be told."""


@dataclass(slots=True)
class Noun:
    """One table in the making."""

    name: str
    columns: dict[str, Read] = field(default_factory=dict)
    unique: set[str] = field(default_factory=set)
    """Columns by which one row is told from the others."""
    keyed: bool = False
    """Some tool names its rows by `id`, and some tool lists them."""
    refers: dict[str, str] = field(default_factory=dict)
    """Column -> the noun whose rows it names."""

    @property
    def table(self) -> str:
        """Name of the table: no word of SQL ends so."""
        return f"{self.name}_rows"

    @property
    def prefix(self) -> str:
        """How keys of its rows begin."""
        return self.name[:2].upper()

    @property
    def words(self) -> str:
        """Return how people call one."""
        return self.name.strip("_").replace("_", " ")


def nouns_of(readings: Sequence[Reading]) -> dict[str, Noun]:
    """Return the tables that tools are about, by noun, with the columns their parameters make."""
    nouns: dict[str, Noun] = {}
    by_noun: dict[str, list[Reading]] = defaultdict(list)
    for reading in readings:
        by_noun[reading.noun].append(reading)
        noun = nouns.setdefault(reading.noun, Noun(reading.noun))
        for one in reading.parameters:
            if one.role == "column" and not names_own(noun, one):
                noun.columns.setdefault(one.name, one)
    for noun in nouns.values():
        uses = by_noun[noun.name]
        named = any(names_own(noun, p) for reading in uses for p in reading.parameters)
        lists = any(
            r.verb == "list" and not any(names_own(noun, p) and p.required for p in r.parameters)
            for r in uses
        )
        noun.keyed = named and lists
        for one in () if noun.keyed else (p for r in uses for p in r.parameters):
            if names_own(noun, one):  # nothing tells it, so people who ask know it
                noun.columns.setdefault(one.name, one)
    for noun in nouns.values():
        _refer(noun, nouns)
        for reading in by_noun[noun.name]:
            if keys := row_keys(noun, reading):
                noun.unique.add(keys[-1].name)
    return nouns


def _refer(noun: Noun, nouns: Mapping[str, Noun]) -> None:
    """Find the columns that name rows of other tables which some tool lists."""
    for name, one in noun.columns.items():
        other = re.sub(r"_(id|uuid|guid)$", "", name)
        if not one.is_key or other in (name, noun.name) or other not in nouns:
            continue
        if nouns[other].keyed and noun.name not in nouns[other].refers.values():
            noun.refers[name] = other


def names_own(noun: Noun, one: Read) -> bool:
    """Say whether a parameter is the key of the noun's own row."""
    stem = re.sub(r"_?(id|uuid|guid)_?$", "", one.name)
    last = noun.name.split("_")[-1]
    return one.is_key and stem in ("own", noun.name, last)


def row_keys(noun: Noun, reading: Reading) -> list[Read]:
    """Return the parameters that together name the one row a tool is about."""
    if reading.verb in ("list", "create"):
        return []
    own = [p for p in reading.parameters if p.required and names_own(noun, p)]
    required = [p for p in reading.parameters if p.required and p not in own]
    required = [p for p in required if p.name not in noun.refers]
    if own:
        return [] if noun.keyed else own
    if reading.verb != "update":
        return required
    named = [p for p in required if re.search(r"(name|id|key|number|path|slug|code)_?$", p.name)]
    return named[:2] or required[:1]
