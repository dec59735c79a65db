"""What evolution has brought so far, and what is to be made next: thin fields first."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import orjson

from simulators.sql.load import applications, load_application
from synth.core import jsonl
from synth.core.application import Application
from synth.core.seeds import rng, seed
from synth.core.store import Workspace
from synth.pipeline.evolving import Candidate
from synth.pipeline.inventing import Around, counts, crawled
from tool_registry.composer import categories
from tool_registry.composer.vocabulary import vocabulary
from tool_registry.coverage import Cell, thinnest_first
from tool_registry.edits import portable, remade
from tool_registry.elimination import Pool

ROUND = 96
"""Candidates that are planned at once, from what was kept before."""
FRESH = 0.7
"""Share of candidates that are composed anew; the others have a parent that was kept."""
CHANGES = (8, 9, 10, 11, 12)
"""How many operators a composed candidate gets: what is composed is soon known, what operators
make of it is not."""
MORE = (5, 6, 7)
"""How many a candidate gets whose parent was kept."""
EFFECTS = ("destructive", "write", "read")


@dataclass(slots=True)
class Kept:
    """What evolution has brought so far; made of the files alone."""

    pool: Pool = field(default_factory=Pool)
    parents: dict[str, list[tuple[str, int]]] = field(default_factory=lambda: defaultdict(list))
    """Category -> applications that may have children, with their generation."""
    documents: dict[str, bytes] = field(default_factory=dict)
    done: int = 0
    """Candidates that were examined."""
    applications: int = 0
    tools: int = 0
    new: int = 0
    """Tools that are for something no other tool is for (`tool_registry.purpose`)."""
    cells: Counter[tuple[str, str]] = field(default_factory=Counter)
    """(category, effect) -> new tools."""
    summaries: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """Category -> what its applications are."""
    repaired: Counter[str] = field(default_factory=Counter)
    """Rule -> how often a model mended what it had broken."""
    eliminated: Counter[tuple[str, str]] = field(default_factory=Counter)
    """(rule, operator) -> how often; of a whole candidate, its last operator."""
    used: Counter[str] = field(default_factory=Counter)
    """Operator -> changes that were kept."""

    def note(self, row: Mapping[str, Any]) -> int:
        """Take a row of the files in; return how many new tools it brings."""
        self.done = max(self.done, row["number"] + 1)
        for one in row["dropped"]:
            self.eliminated[one["rule"], one["operator"]] += 1
        if "document" not in row:
            operator = row["steps"][-1]["operator"] if row["steps"] else "none"
            self.eliminated[row["rule"], operator] += 1
            return 0
        self.used.update(step["operator"] for step in row["steps"])
        self.repaired.update(one["rule"] for one in row.get("repaired", ()))
        application = Application.model_validate(row["document"])
        new = self.pool.add(application)
        self.applications += 1
        self.tools += len(application.specs)
        self.new += len(new)
        self.cells.update((row["category"], application.specs[name].effect) for name in new)
        self.summaries[row["category"]].append(application.summary)
        self.parents[row["category"]].append((row["application"], row["generation"]))
        self.documents[row["application"]] = orjson.dumps(row["document"])
        return len(new)

    @property
    def sizes(self) -> Counter[str]:
        """Return category -> new tools."""
        found: Counter[str] = Counter()
        for (category, _), count in self.cells.items():
            found[category] += count
        return found

    def report(self) -> dict[str, Any]:
        """Return the counts."""
        eliminated: dict[str, Counter[str]] = defaultdict(Counter)
        for (rule, operator), count in self.eliminated.items():
            eliminated[rule][operator] += count
        return {
            "candidates": self.done,
            "applications": self.applications,
            "tools": self.tools,
            "different_tools": self.new,
            "eliminated": {rule: dict(c.most_common()) for rule, c in sorted(eliminated.items())},
            "operators": dict(self.used.most_common()),
            "repaired": dict(self.repaired.most_common()),
            "categories": dict(self.sizes.most_common()),
        }


def kept_in(folder: Path, before: int | None = None) -> Kept:
    """Read what an evolution has written; `before`: of the candidates before this one."""
    kept = Kept()
    rows = [*jsonl.read(folder / "applications.jsonl"), *jsonl.read(folder / "eliminated.jsonl")]
    for row in sorted(rows, key=lambda row: int(row["number"])):
        if before is None or row["number"] < before:
            kept.note(row)
    return kept


# --- the plan --------------------------------------------------------------------------------


class Field:
    """What there is to evolve from beside what is kept: our own applications, crawled tools."""

    def __init__(self, workspace: Path) -> None:
        self.workspace = workspace
        with Workspace(workspace).read() as con:
            self.real, self.foreign = counts(con), crawled(con)
        self.composed = categories()
        self.written = _written()
        self.open_to_all = False
        """Whether categories may be filled that the composer has no words for."""

    def order(self, kept: Kept) -> list[str]:
        """Return the categories that candidates are made for, thin ones first."""
        known = {*self.composed, *self.written, *kept.parents}
        if self.open_to_all:
            known.update(category for category, _ in self.real)
        return thinnest(kept.cells, self.real, known)

    def around(self, candidate: Candidate, kept: Kept) -> Around:
        """Return what a model is told of the category of a candidate."""
        category = candidate.category
        documents = map(Application.model_validate_json, self.written.get(category, ()))
        written = [document.summary for document in documents]
        return Around(
            thinnest_effect(kept.cells, self.real, category),
            tuple(self.foreign.get(category, ())),
            (*written, *kept.summaries.get(category, ())),
            tuple(sorted({*self.composed, *self.written, *kept.parents})),
            self.nouns,
        )

    @cached_property
    def nouns(self) -> tuple[str, ...]:
        """Return the things of all fields that the composer knows."""
        known = (vocabulary(name).entities.values() for name in self.composed)
        return tuple(sorted({entity.noun for entities in known for entity in entities}))


def _written() -> dict[str, list[bytes]]:
    """Return category -> applications that people wrote: parents from the first round on."""
    found: dict[str, list[bytes]] = defaultdict(list)
    for name in applications():
        application = portable(remade(load_application(name), languages={}))
        found[application.category].append(application.model_dump_json(by_alias=True).encode())
    return found


Cells = Mapping[tuple[str, str], int]
"""(category, effect) -> tools."""


def thin(new: Cells, real: Cells, known: Iterable[str]) -> list[Cell]:
    """Return the cells of some categories, thinnest first; evolved and crawled tools both count.

    Args:
        new: evolved tools.
        real: crawled ones.
        known: the categories.
    """
    return thinnest_first(
        Cell(category, effect, real.get((category, effect), 0), new.get((category, effect), 0))
        for category in known
        for effect in EFFECTS
    )


def thinnest(new: Cells, real: Cells, known: Iterable[str]) -> list[str]:
    """Return categories in the order of their thinnest cells."""
    return list(dict.fromkeys(cell.category for cell in thin(new, real, known)))


def thinnest_effect(new: Cells, real: Cells, category: str) -> str:
    """Return the effect of which a category has the fewest tools."""
    return thin(new, real, [category])[0].effect


def plan(kept: Kept, known: Field, run_seed: int, start: int) -> list[Candidate]:
    """Return the candidates of a round: thin categories first, parents from what is kept."""
    order = known.order(kept)
    first = order[: max(1, (len(order) + 1) // 2)]
    fillable = set(order) if known.open_to_all else set(known.composed)
    found: list[Candidate] = []
    for number in range(start, start + ROUND):
        chance = rng("evolve", run_seed, number)
        category = first[number % len(first)]
        fresh = category in fillable and chance.random() < FRESH
        parent, generation = _parent(kept, known.written.get(category, []), category, chance)
        if fresh or parent is None:
            category = category if category in fillable else chance.choice(known.composed)
            parent, generation = None, 0
        changes = chance.choice(CHANGES if parent is None else MORE)
        own = seed("candidate", run_seed, number) % 2**31
        found.append(Candidate(number, own, category, changes, generation, parent))
    return found


def _parent(
    kept: Kept, written: list[bytes], category: str, chance: random.Random
) -> tuple[bytes | None, int]:
    pool = kept.parents.get(category, [])
    place = int(chance.random() * (len(pool) + len(written)))
    if place < len(written):
        return written[place], 0
    if not pool:
        return None, 0
    name, generation = pool[place - len(written)]
    return kept.documents[name], generation
