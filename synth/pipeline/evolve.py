"""Evolution: rounds of candidates, of which those are kept that bring something new.

Candidates are made and examined in processes of their own and written down in the order of the
plan, so the same seed gives the same files however many processes there are. The files are the
truth (decision 2): `evolved/applications.jsonl` has whole documents, `evolved/eliminated.jsonl`
what was dropped and why. A run that was killed goes on where it was. Where a model is asked
(`synth.pipeline.inventing`), it writes the candidates; all else is the same.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import orjson

from synth.core import jsonl
from synth.core.application import Application
from synth.core.config import Budget, Models
from synth.core.llm.journal import Journal
from synth.core.llm.open import OpenModels
from synth.core.locks import lock_folder
from synth.core.protocols import Edge
from synth.core.store import Workspace, insert
from synth.pipeline.candidates import ROUND, Field, Kept, kept_in, plan
from synth.pipeline.evolved import folder_of
from synth.pipeline.evolving import Candidate, die_with, make
from synth.pipeline.inventing import ROLE, TOKENS, Inventor, ask_for
from tool_registry.ingest import register_applications

GAIN = 1.0
BATCH = 100
"""Applications that enter the registry at once."""

Told = Callable[[int, str], None]


@dataclass(frozen=True, slots=True)
class Goal:
    """When an evolution is done."""

    tools: int
    """Tools, each for something no other one is for (`tool_registry.purpose`)."""
    applications: int = 1
    gain: float = GAIN
    """New tools a candidate below which a round ends the evolution."""

    def reached(self, kept: Kept) -> bool:
        """Say whether this is enough."""
        return kept.new >= self.tools and kept.applications >= self.applications


@dataclass(frozen=True, slots=True)
class How:
    """How an evolution is carried out."""

    processes: int | None = None
    """Candidates examined at once; None is one for each CPU."""
    models: Models = field(default_factory=Models)
    """Where `evolver` is given, it writes the candidates; our own operators do otherwise."""
    budget: Budget = field(default_factory=Budget)
    concurrency: int = 8
    """Candidates that a model is asked for at once."""


Rows = Callable[[list[Candidate], Kept, Callable[[], bool]], Iterator[bytes]]


def evolve(
    workspace: Path,
    goal: Goal,
    *,
    run_seed: int = 0,
    how: How = How(),
    tell: Told = lambda tools, note: None,
    ended: Callable[[], bool] = lambda: False,
) -> tuple[Kept, str]:
    """Evolve until the workspace has so many different tools; what is there counts.

    Args:
        workspace: the folder.
        goal: when it is enough.
        run_seed: decides everything together with what is there already.
        how: who makes the candidates, and how many at once.
        tell: hears of the tools so far, with a note.
        ended: says whether to end early.

    Returns:
        What was kept, and why it ended.

    Raises:
        ToolloomError: another process evolves in this workspace; a model gave no reply.
    """
    folder = folder_of(workspace)
    with ExitStack() as stack:
        stack.callback(os.close, lock_folder(folder, "evolution"))
        good = stack.enter_context(jsonl.Appender(folder / "applications.jsonl"))
        bad = stack.enter_context(jsonl.Appender(folder / "eliminated.jsonl"))
        kept, known = kept_in(folder), Field(workspace)
        made = _rows(stack, folder, known, how)
        while not goal.reached(kept):
            start = kept.done // ROUND * ROUND
            base = kept if start == kept.done else kept_in(folder, before=start)
            before, todo = base.new, plan(base, known, run_seed, start)
            for text in made(todo[kept.done - start :], base, ended):
                row = _admitted(orjson.loads(text), kept)
                (good if "document" in row else bad).append(row)
                kept.note(row)
                tell(kept.new, f"{kept.applications} applications, {kept.done} candidates")
                if goal.reached(kept) or ended():
                    break
            if goal.reached(kept) or ended():
                break
            if kept.new - before < goal.gain * len(todo):
                return kept, f"the last {len(todo)} candidates brought {kept.new - before} tools"
    return kept, "enough" if goal.reached(kept) else "interrupted"


def _rows(stack: ExitStack, folder: Path, known: Field, how: How) -> Rows:
    """Return what makes the rows of a plan, in its order."""
    pool = ProcessPoolExecutor(
        how.processes or os.cpu_count() or 1,
        mp_context=get_context("spawn"),
        initializer=die_with,
        initargs=(os.getpid(),),
    )
    stack.callback(pool.shutdown, cancel_futures=True)
    config = how.models.evolver
    if config is None:
        return lambda some, base, ended: pool.map(make, some, chunksize=2)
    journal = Journal(folder)
    stack.callback(journal.close)
    alone = Models(evolver=config)
    models = OpenModels(
        alone, budget=how.budget, journal=journal, folders=[known.workspace / "cache" / "models"]
    )
    sampler = models.sampler(ROLE)
    if "max_tokens" not in config.model_fields_set:
        sampler = replace(sampler, max_tokens=TOKENS)
    inventor = Inventor(models, sampler, pool, how.concurrency)
    stack.callback(inventor.close)
    known.open_to_all = True

    def rows(some: list[Candidate], base: Kept, ended: Callable[[], bool]) -> Iterator[bytes]:
        return inventor.rows([ask_for(one, known.around(one, base)) for one in some], ended)

    return rows


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
            "parents": [*row["parents"], *row.get("inspired", ())],
            "generation": row["generation"],
            "seed": step["seed"],
            "model": step.get("model"),
            "prompt": step.get("prompt"),
        }
