"""Candidates of evolution that a model writes: planned, asked for, examined in processes apart.

Replies are journalled beside what was kept (`evolved/calls-0.jsonl`): an evolution that was killed
asks for none of them twice.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import duckdb
import orjson

from synth.core.application import Application
from synth.core.errors import ModelFailed
from synth.core.llm.open import OpenModels
from synth.core.protocols import Sampler
from synth.core.seeds import rng
from synth.pipeline.evolving import Candidate, kept_document
from synth.pipeline.proving import prove
from tool_registry.elimination import Elimination, Proof, examine
from tool_registry.invention.asking import WAYS, Foreign, Invented, Wish, invent, prompt_key
from tool_registry.invention.build import shown_tool
from tool_registry.invention.form import Sketch

T = TypeVar("T")
ROLE = "evolver"
TOKENS = 8_192
"""Of a reply, where the configuration does not say: a whole application."""
LOOK_S = 0.5
"""Seconds between two looks at whether to end early."""
SHOWN = 3
"""Tools of a parent that a model is shown in full and may write anew."""
FOREIGN, POOL = 3, 40
"""Crawled tools that a model is shown, of so many of a category."""
HINTS = 3
"""Things that a new application may have to do with, so that no two are asked for alike."""
OTHERS = 8
"""Applications of a category that a model is told of."""
_FILTERED = re.compile(r"content.?filter|content.?policy|invalid.?prompt", re.IGNORECASE)
"""What endpoints say that refuse a prompt for what is in it, and not for who asks."""
_CHANCES = {"new_application": 4}
"""How often an operator is asked for beside the others of its form."""
_CRAWLED = """
SELECT t.category, t.tool, t.name, v.description, v.parameters
FROM tools t JOIN tool_versions v USING (tool, version)
WHERE t.listed AND t.application IS NULL AND t.category IS NOT NULL
QUALIFY row_number() OVER (PARTITION BY t.category ORDER BY hash(t.tool), t.tool) <= ?
ORDER BY t.category, hash(t.tool), t.tool
"""


@dataclass(frozen=True, slots=True)
class Asked:
    """A candidate, and what a model is asked for it."""

    candidate: Candidate
    wish: Wish


@dataclass(frozen=True, slots=True)
class Around:
    """What a model is told of the field of a candidate."""

    effect: str | None
    """Which kind of tools is lacking there."""
    foreign: tuple[Foreign, ...]
    others: tuple[str, ...]
    """Summaries of the applications that are there."""
    categories: tuple[str, ...]
    """All fields that have applications."""
    nouns: tuple[str, ...] = ()
    """Things of all fields."""


def ask_for(candidate: Candidate, around: Around) -> Asked:
    """Return what a model is asked for a candidate: a new application, or a change of its parent.

    Args:
        candidate: what is to be made.
        around: its field.
    """
    chance = rng("invention", candidate.number, candidate.seed)
    parent = Application.model_validate_json(candidate.parent) if candidate.parent else None
    shown = _shown(parent, chance) if parent else ()
    if not shown:
        parent = None
    ways = [name for name, way in WAYS.items() if (way.form is Sketch) == (parent is None)]
    way = chance.choices(ways, [_CHANCES.get(name, 1) for name in ways])[0]
    wish = Wish(
        number=candidate.number,
        way=way,
        category=candidate.category,
        effect=around.effect,
        parent=parent,
        shown=shown,
        foreign=_some(around.foreign, FOREIGN, chance) if way != "new_category" else (),
        others=_some(around.others, OTHERS, chance) if way == "new_application" else (),
        categories=around.categories,
        hints=_some(around.nouns, HINTS, chance) if parent is None else (),
    )
    return Asked(candidate, wish)


def _some(values: Sequence[T], count: int, chance: random.Random) -> tuple[T, ...]:
    return tuple(chance.sample(values, min(count, len(values))))


def _shown(parent: Application, chance: random.Random) -> tuple[str, ...]:
    held = [
        name
        for name, tool in parent.tools.items()
        if tool.by == "agent" and name != parent.handoff and shown_tool(name, parent)
    ]
    return tuple(sorted(_some(held, SHOWN, chance)))


def crawled(con: duckdb.DuckDBPyConnection) -> dict[str, list[Foreign]]:
    """Return category -> some of its crawled tools: the same for the same registry."""
    found: dict[str, list[Foreign]] = defaultdict(list)
    for category, tool, name, description, schema in con.execute(_CRAWLED, [POOL]).fetchall():
        parameters = tuple(orjson.loads(schema).get("properties", {}))
        found[category].append(Foreign(tool, name, description or "", parameters))
    return found


class Inventor:
    """Asks a model for candidates, several at once, and gives their rows in the order of the plan.

    Args:
        models: has the role `evolver`.
        sampler: how its tokens are drawn.
        pool: where applications are executed.
        concurrency: candidates under way at once.
    """

    def __init__(
        self, models: OpenModels, sampler: Sampler, pool: Executor, concurrency: int
    ) -> None:
        self._models, self._sampler, self._pool = models, sampler, pool
        self._runner = asyncio.Runner()
        self._free = asyncio.Semaphore(concurrency)

    def rows(self, plan: Iterable[Asked], ended: Callable[[], bool]) -> Iterator[bytes]:
        """Yield a row for each candidate, until all are done or `ended` says so.

        Raises:
            ModelFailed: a model gave no reply.
            BudgetSpent: it may not be asked any more.
        """
        loop = self._runner.get_loop()
        tasks = [loop.create_task(self._row(asked)) for asked in plan]
        try:
            for task in tasks:
                while not task.done():
                    if ended():
                        return
                    self._runner.run(_look(task))
                yield task.result()
        finally:
            self._runner.run(_cancel(tasks))

    def close(self) -> None:
        """Close the connections."""
        self._runner.run(self._models.close())
        self._runner.close()

    async def _row(self, asked: Asked) -> bytes:
        async with self._free:
            wish = asked.wish
            llm = self._models.bound(ROLE, f"candidate-{wish.number}")
            try:
                invented = await invent(llm, self._sampler, wish, partial(self._examine, wish))
            except ModelFailed as error:
                if error.outcome != "rejected" or not _FILTERED.search(str(error)):
                    raise
                why = Elimination("withheld", str(error))  # asked again, it would be refused again
                invented = Invented(prompt_key(wish.way), why=why)
            return await self._on(_row_of, asked, invented, llm.name)

    async def _examine(self, wish: Wish, made: Application) -> tuple[Elimination | None, Proof]:
        parent = _json(wish.parent) if wish.parent else None
        return await self._on(examined, _json(made), parent)

    async def _on(self, do: Callable[..., T], *given: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, do, *given)


async def _look(task: asyncio.Task[bytes]) -> None:
    await asyncio.wait({task}, timeout=LOOK_S)


async def _cancel(tasks: Sequence[asyncio.Task[bytes]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _json(application: Application) -> bytes:
    return application.model_dump_json(by_alias=True).encode()


def examined(made: bytes, parent: bytes | None) -> tuple[Elimination | None, Proof]:
    """Hold an application to the rules, in a process that may take its time."""
    child = Application.model_validate_json(made)
    known = Application.model_validate_json(parent) if parent else None
    changed = None
    if known is not None:
        changed = {name for name, tool in child.tools.items() if known.tools.get(name) != tool}
    # New tables and columns reach tools that say the same as before: then all of it is proved.
    same = known is not None and known.table_sql == child.table_sql
    return examine(child, known, partial(prove, only=changed if same else None))


def _row_of(asked: Asked, invented: Invented, model: str) -> bytes:
    candidate, wish = asked.candidate, asked.wish
    made, parent = invented.application, wish.parent
    step = {
        "operator": wish.way,
        "kind": WAYS[wish.way].kind,
        "seed": candidate.seed,
        "parents": [parent.key] if parent else [],
        "words": invented.words,
        "tools": list(invented.tools),
        "model": model,
        "prompt": invented.prompt,
    }
    row: dict[str, Any] = {
        "number": candidate.number,
        "application": made.application if made else f"none_m{candidate.number}",
        "category": made.category if made else wish.category,
        "generation": candidate.generation + 1 if parent else 0,
        "parents": [parent.application] if parent else [],
        "steps": [step],
        "inspired": [one.tool for one in wish.foreign],
        "dropped": [],
        "repaired": [{"rule": one.rule, "detail": one.detail[:300]} for one in invented.refused],
    }
    if invented.why is not None or made is None:
        why = invented.why or Elimination("form", "nothing came")
        return orjson.dumps(row | {"rule": why.rule, "detail": why.detail[:500]})
    return orjson.dumps(row | kept_document(made, invented.proof))


def counts(con: duckdb.DuckDBPyConnection) -> Mapping[tuple[str, str], int]:
    """Return how many crawled tools the registry has in each cell."""
    found = con.execute("SELECT category, effect, real FROM coverage WHERE real > 0").fetchall()
    return {(category, effect): real for category, effect, real in found}
