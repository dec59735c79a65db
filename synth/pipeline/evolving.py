"""One candidate of evolution, made and examined; nothing is written here."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import orjson

from simulators.sql.engine import Engine
from simulators.sql.graph import Graph
from synth.core.application import Application
from synth.core.errors import ToolloomError
from synth.core.seeds import rng
from synth.pipeline.proving import prove, subject_of
from tool_registry.composer import compose
from tool_registry.edits import portable, remade
from tool_registry.elimination import Elimination, Proof, examine
from tool_registry.operator import Change, drawn, evolve


@dataclass(frozen=True, slots=True)
class Candidate:
    """What is to be made."""

    number: int
    seed: int
    category: str
    changes: int
    """How many operators are to be applied."""
    generation: int = 0
    parent: bytes | None = None
    """The application it is made from, as JSON; None composes a new one."""


def die_with(parent: int) -> None:
    """End this process soon after its parent: it would wait for work forever if that is killed."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@dataclass(slots=True)
class _Made:
    """A candidate under way."""

    base: Application
    """What the operators began with."""
    child: Application
    changes: list[Change] = field(default_factory=list)
    dropped: list[dict[str, str]] = field(default_factory=list)
    """Changes that came to nothing: operator, rule, detail."""


def make(candidate: Candidate) -> bytes:
    """Make a candidate; return its row, as JSON, whether it is to be kept or not."""
    if candidate.parent is None:
        base = portable(compose(candidate.category, candidate.seed))
        origin: dict[str, Any] = {"operator": "compose", "kind": "breadth", "words": base.summary}
    else:
        base = remade(Application.model_validate_json(candidate.parent), languages={})
        origin = {}
    order = drawn(rng("evolution", candidate.number, candidate.seed))
    found, proof, made = None, None, _chain(candidate, base, order)
    for _ in range(2):  # once more without the change that made it unsound
        parent = base if candidate.parent else None
        changed = {name for change in made.changes for name in change.tools} if parent else None
        found, proof = examine(made.child, parent, partial(prove, only=changed))
        blamed = _blamed(made.changes, found)
        if found is None or not blamed:
            break
        left = [c.operator for c in made.changes if c not in blamed]
        dropped = [_dropped(c.operator, found) for c in blamed]
        made = _chain(candidate, base, left, len(left))
        made.dropped += dropped
    return _row(candidate, made, origin, (found, proof))


def _chain(
    candidate: Candidate, base: Application, order: Sequence[str], most: int | None = None
) -> _Made:
    """Apply operators in this order until so many changed something."""
    made = _Made(base, base)
    most = candidate.changes if most is None else most
    engine = Engine(base) if most else None
    for name in order:
        if engine is None or len(made.changes) >= most:
            break
        try:
            evolved = evolve(name, subject_of(engine), candidate.seed)
            if evolved is None:
                continue
            engine = Engine(evolved.application)
        except (ToolloomError, ValueError) as error:
            made.dropped.append(_dropped(name, Elimination("crash", str(error)[:300])))
            continue
        made.child = evolved.application
        made.changes += evolved.changes
    if made.changes:
        name = f"{re.sub(r'_[em][0-9]+$', '', base.application)[:50]}_e{candidate.number}"
        made.child = portable(remade(made.child, application=name))
    return made


def _blamed(changes: Sequence[Change], found: Elimination | None) -> list[Change]:
    """Return the changes whose tools an elimination speaks of; all but the first if of none."""
    if found is None or found.rule == "no_gain" or not changes:
        return []
    words = set(re.findall(r"\w+", found.detail))
    named = [c for c in changes if words & set(c.tools)]
    return named or list(changes[1:])


def _dropped(operator: str, why: Elimination) -> dict[str, str]:
    return {"operator": operator, "rule": why.rule, "detail": why.detail[:300]}


def _row(
    candidate: Candidate, made: _Made, origin: dict[str, Any], result: tuple[Any, Any]
) -> bytes:
    found, proof = result
    steps = [change.record() for change in made.changes]
    if origin:
        steps.insert(0, origin | {"seed": candidate.seed, "parents": [], "tools": []})
    row: dict[str, Any] = {
        "number": candidate.number,
        "application": made.child.application,
        "category": made.child.category,
        "generation": candidate.generation + len(made.changes),
        "parents": [made.base.application] if candidate.parent else [],
        "steps": steps,
        "dropped": made.dropped,
    }
    if found is not None:
        return orjson.dumps(row | {"rule": found.rule, "detail": found.detail[:500]})
    return orjson.dumps(row | kept_document(made.child, proof))


def kept_document(child: Application, proof: Proof) -> dict[str, Any]:
    """Return what a row has of an application that is kept: itself, example calls, edges."""
    return {
        "examples": {
            name: {"succeeds": e.succeeds, "fails": e.fails, "error": e.error}
            for name, e in proof.examples.items()
        },
        "edges": [list(edge) for edge in _edges(Graph(Engine(child)))],
        "document": child.model_dump(mode="json", by_alias=True, exclude_defaults=True),
    }


def _edges(graph: Graph) -> Iterator[tuple[str, str, str, str]]:
    for edge in graph.edges():
        yield edge.source, edge.column, edge.target, edge.parameter
