"""Evolution: rounds of candidates, of which those are kept that bring something new.

Candidates are made and examined in processes of their own and written down in the order of the
plan, so the same seed gives the same files however many processes there are. The files are the
truth (decision 2): `evolved/applications.jsonl` has whole documents, `evolved/eliminated.jsonl`
what was dropped and why. A run that was killed goes on where it was.
"""

from __future__ import annotations

import os
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import orjson

from simulators.sql.load import applications, load_application
from synth.core import jsonl
from synth.core.application import Application
from synth.core.errors import UnknownName
from synth.core.locks import lock_folder
from synth.core.protocols import Edge
from synth.core.seeds import rng, seed
from synth.core.store import Workspace, insert
from synth.pipeline.evolving import Candidate, die_with, make
from tool_registry.composer import categories
from tool_registry.edits import portable, remade
from tool_registry.elimination import Pool
from tool_registry.ingest import register_applications

ROUND = 96
"""Candidates that are planned at once, from what was kept before."""
FRESH = 0.7
"""Share of candidates that are composed anew; the others have a parent that was kept."""
GAIN = 1.0
"""New tools a candidate below which a round ends the evolution."""
BATCH = 100
"""Applications that enter the registry at once."""

Told = Callable[[int, str], None]


def folder_of(workspace: Path) -> Path:
    """Return where evolved applications are."""
    return workspace / "evolved"


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
    """Tools that no other application shows in the same words with the same parameters."""
    sizes: Counter[str] = field(default_factory=Counter)
    """Category -> tools."""
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
        application = Application.model_validate(row["document"])
        new = self.pool.add(application)
        self.applications += 1
        self.tools += len(application.specs)
        self.new += new
        self.sizes[row["category"]] += new
        self.parents[row["category"]].append((row["application"], row["generation"]))
        self.documents[row["application"]] = orjson.dumps(row["document"])
        return new

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
            "different_behaviours": len(self.pool.behaviours),
            "eliminated": {rule: dict(c.most_common()) for rule, c in sorted(eliminated.items())},
            "operators": dict(self.used.most_common()),
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


@dataclass(frozen=True, slots=True)
class Goal:
    """When an evolution is done."""

    tools: int
    """Tools, each with other words or parameters than all others."""
    applications: int = 1

    def reached(self, kept: Kept) -> bool:
        """Say whether this is enough."""
        return kept.new >= self.tools and kept.applications >= self.applications


def evolve(
    workspace: Path,
    goal: Goal,
    *,
    run_seed: int = 0,
    processes: int | None = None,
    tell: Told = lambda tools, note: None,
    ended: Callable[[], bool] = lambda: False,
) -> tuple[Kept, str]:
    """Evolve until the workspace has so many different tools; what is there counts.

    Args:
        workspace: the folder.
        goal: when it is enough.
        run_seed: decides everything together with what is there already.
        processes: candidates made at once; None is one for each CPU.
        tell: hears of the tools so far, with a note.
        ended: says whether to end early.

    Returns:
        What was kept, and why it ended.

    Raises:
        ToolloomError: another process evolves in this workspace.
    """
    folder = folder_of(workspace)
    with ExitStack() as stack:
        stack.callback(os.close, lock_folder(folder, "evolution"))
        good = stack.enter_context(jsonl.Appender(folder / "applications.jsonl"))
        bad = stack.enter_context(jsonl.Appender(folder / "eliminated.jsonl"))
        kept, written = kept_in(folder), _written()
        pool = stack.enter_context(
            ProcessPoolExecutor(
                processes or os.cpu_count() or 1,
                mp_context=get_context("spawn"),
                initializer=die_with,
                initargs=(os.getpid(),),
            )
        )
        while not goal.reached(kept):
            start = kept.done // ROUND * ROUND
            base = kept if start == kept.done else kept_in(folder, before=start)
            before, plan = base.new, _plan(base, written, run_seed, start)
            for text in pool.map(make, plan[kept.done - start :], chunksize=2):
                row = _admitted(orjson.loads(text), kept)
                (good if "document" in row else bad).append(row)
                kept.note(row)
                tell(kept.new, f"{kept.applications} applications, {kept.done} candidates")
                if goal.reached(kept) or ended():
                    pool.shutdown(cancel_futures=True)
                    return kept, "enough" if goal.reached(kept) else "interrupted"
            if kept.new - before < GAIN * len(plan):
                return kept, f"the last {len(plan)} candidates brought {kept.new - before} tools"
    return kept, "enough"


def _admitted(row: dict[str, Any], kept: Kept) -> dict[str, Any]:
    """Return a candidate's row, without its document if it adds nothing to what is kept."""
    if "document" not in row:
        return row
    why = kept.pool.refuses(Application.model_validate(row["document"]))
    if why is None:
        return row
    left_out = ("document", "examples", "edges")
    rest = {name: value for name, value in row.items() if name not in left_out}
    return rest | {"rule": why.rule, "detail": why.detail}


def _written() -> dict[str, list[bytes]]:
    """Return category -> applications that people wrote: parents from the first round on."""
    found: dict[str, list[bytes]] = defaultdict(list)
    for name in applications():
        application = portable(remade(load_application(name), languages={}))
        found[application.category].append(application.model_dump_json(by_alias=True).encode())
    return found


# --- the plan --------------------------------------------------------------------------------


def thinnest(sizes: Mapping[str, int], known: Iterable[str]) -> list[str]:
    """Return the categories, those with the fewest tools first."""
    return sorted(known, key=lambda name: (sizes.get(name, 0), name))


def _plan(
    kept: Kept, written: Mapping[str, list[bytes]], run_seed: int, start: int
) -> list[Candidate]:
    """Return the candidates of a round: thin categories first, parents from what is kept."""
    composed = categories()
    order = thinnest(kept.sizes, {*composed, *written, *kept.parents})
    thin = order[: max(1, (len(order) + 1) // 2)]
    found: list[Candidate] = []
    for number in range(start, start + ROUND):
        chance = rng("evolve", run_seed, number)
        category = thin[number % len(thin)]
        fresh = category in composed and chance.random() < FRESH
        parent, generation = _parent(kept, written.get(category, []), category, chance)
        if fresh or parent is None:
            category = category if category in composed else chance.choice(composed)
            parent, generation = None, 0
        changes = chance.choice((0, 1, 2, 3) if parent is None else (2, 3, 4))
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


# --- use of what is kept ---------------------------------------------------------------------


def evolved(workspace: Path, patterns: Iterable[str]) -> dict[str, Application]:
    """Return the evolved applications of a workspace whose names match, by name.

    Args:
        workspace: the folder.
        patterns: names, with `*` and `?` as in file names.

    Raises:
        UnknownName: a pattern matches none.
    """
    rows = list(jsonl.read(folder_of(workspace) / "applications.jsonl"))
    found: dict[str, Application] = {}
    for pattern in patterns:
        matched = [row for row in rows if fnmatchcase(row["application"], pattern)]
        if not matched:
            names = [row["application"] for row in rows]
            raise UnknownName("evolved application", pattern, names)
        for row in matched:
            if row["application"] not in found:
                found[row["application"]] = Application.model_validate(row["document"])
    return found


# --- the index -------------------------------------------------------------------------------


def enter(workspace: Workspace, tell: Told = lambda tools, note: None) -> int:
    """Enter what the files have and the registry has not; returns how many applications."""
    with workspace.read() as con:
        known = {row[0] for row in con.execute("SELECT application FROM ancestry").fetchall()}
    total = 0
    for rows in _batches(folder_of(workspace.path), known):
        found = [
            (Application.model_validate(row["document"]), [Edge(*edge) for edge in row["edges"]])
            for row in rows
        ]
        with workspace.write() as con:
            register_applications(con, found)
            insert(con, "ancestry", (line for row in rows for line in _ancestry(row)))
        total += len(rows)
        tell(total, "entered in the registry")
    return total


def _batches(folder: Path, known: set[str]) -> Iterator[list[Mapping[str, Any]]]:
    batch: list[Mapping[str, Any]] = []
    for row in jsonl.read(folder / "applications.jsonl"):
        if row["application"] not in known:
            batch.append(row)
        if len(batch) == BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def _ancestry(row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for place, step in enumerate(row["steps"]):
        yield {
            "application": row["application"],
            "step": place,
            "operator": step["operator"],
            "kind": step["kind"],
            "words": step["words"],
            "tools": step["tools"],
            "parents": row["parents"],
            "generation": row["generation"],
            "seed": step["seed"],
            "model": None,
            "prompt": None,
        }
