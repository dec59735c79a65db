"""Goals on a live file server: the shared folder of a small office, on real disk.

Made for the npm package `@modelcontextprotocol/server-filesystem`; any server with tools of the
same names and parameters will do. Every goal is carried out on the live server while it is
sampled, and what counts as done is what that left on disk.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

from simulators.live.environment import LiveEnvironment
from simulators.live.errands import Desk, Errand, Recipe, Stages
from simulators.live.folder import Tree
from simulators.live.host import WORK, HostPool, LiveServer, Probe
from simulators.live.office import office
from simulators.live.recipes import CHAINS, OPEN_FACTS, QUESTIONS, WRITES
from synth.core.errors import BadInput, NotSuitable
from synth.core.protocols import Edge
from synth.core.types import (
    Blueprint,
    Diff,
    Effect,
    OutputValue,
    PlannedCall,
    TaskKind,
    ToolSpec,
)

ROOT = "/data"
EFFECTS = {
    "read_text_file": Effect.READ,
    "read_multiple_files": Effect.READ,
    "write_file": Effect.DESTRUCTIVE,
    "edit_file": Effect.WRITE,
    "create_directory": Effect.WRITE,
    "list_directory": Effect.READ,
    "list_directory_with_sizes": Effect.READ,
    "directory_tree": Effect.READ,
    "move_file": Effect.WRITE,
    "search_files": Effect.READ,
    "get_file_info": Effect.READ,
    "list_allowed_directories": Effect.READ,
}
"""Tools of the package that the world offers (not: `read_file`, deprecated; `read_media_file`)."""
NEEDED = ("read_text_file", "write_file", "edit_file", "create_directory", "move_file")
PATHS = frozenset({"path", "paths", "source", "destination"})
_FINDERS = ("search_files", "directory_tree", "list_directory")
_FED = (
    ("read_text_file", "path"),
    ("edit_file", "path"),
    ("move_file", "source"),
    ("read_multiple_files", "paths"),
    ("get_file_info", "path"),
)
_RECIPES: dict[TaskKind, tuple[Recipe, ...]] = {
    TaskKind.SINGLE_WRITE: WRITES,
    TaskKind.CHAINED_WRITES: CHAINS,
    TaskKind.LOOKUP: QUESTIONS,
    TaskKind.PARALLEL: (*QUESTIONS, *WRITES),
    TaskKind.MISSING_FACT: OPEN_FACTS,
}
_SCRUB = (
    # Times of files are the machine's; the folder's own time stands still.
    (re.compile(r"[A-Z][a-z]{2} [A-Z][a-z]{2} \d\d \d{4} \d\d:\d\d:\d\d GMT\S*( \([^)]*\))?"),
     "Mon Mar 02 2026 09:00:00 GMT+0000 (Coordinated Universal Time)"),
    (re.compile(r"\.[0-9a-f]{32}\.tmp\b"), ".tmp"),
)  # fmt: skip

POLICY = f"""All files are below {ROOT}, the shared folder of a small office. Its layout:
- {ROOT}/archive: what is finished, by year
- {ROOT}/contacts/suppliers.csv: suppliers (company,contact,phone,email)
- {ROOT}/invoices/open and {ROOT}/invoices/paid: one text file an invoice, INV-NUMBER.txt
- {ROOT}/invoices/register.csv: all invoices (number,company,payable_by,total,status)
- {ROOT}/notes/YEAR: minutes of meetings, DATE-TOPIC.md
- {ROOT}/projects/NAME: one folder a project
- {ROOT}/reports: monthly figures, visitors-MONTH.csv
- {ROOT}/todo/NAME.txt: one to-do list a person, lines "- [ ] what (due YYYY-MM-DD)", [x] when done

Always use full paths. Look before you write: files may lie elsewhere than expected. Change only
what was asked for, keep everything else of a file as it is, and never overwrite another file."""


class FileWorld:
    """The world of one installed file server.

    Args:
        argv: command of the server, `{work}` standing for the folder it may use.
        specs: its tools, as crawled.
        readable: folders in which its program is installed.
        keep: warm processes kept while nobody uses them.
        allow_weaker: run it on machines that cannot confine it.

    Raises:
        BadInput: the server lacks tools that every goal is made of.
    """

    name = "files"
    category = "file management"
    real = True
    handoff = None
    clock = "2026-03-02T09:00:00"

    def __init__(
        self,
        argv: Sequence[str],
        specs: Sequence[ToolSpec],
        *,
        readable: Sequence[Path] = (),
        keep: int = 2,
        allow_weaker: bool = False,
    ) -> None:
        if not any(WORK in part for part in argv):
            argv = (*argv, WORK)
        self._specs = tuple(_declared(spec) for spec in specs if spec.name in EFFECTS)
        names = {spec.name for spec in self._specs}
        missing = [name for name in NEEDED if name not in names]
        if missing:
            raise BadInput(
                f"not a file server: it has no {', '.join(missing)}",
                where=" ".join(argv),
                remedy="use npm:@modelcontextprotocol/server-filesystem",
            )
        self.server = LiveServer(
            name="files",
            argv=tuple(argv),
            alias=ROOT,
            paths=PATHS,
            scrub=_SCRUB,
            probes=_probes if "directory_tree" in names else None,
            readable=tuple(readable),
            allow_weaker=allow_weaker,
        )
        self.pool = HostPool(self.server, keep=keep)

    def tools(self) -> tuple[ToolSpec, ...]:
        """Return the tools on offer."""
        return self._specs

    def edges(self) -> tuple[Edge, ...]:
        """Return which results feed which parameters: found paths, and texts to be edited."""
        names = {spec.name for spec in self._specs}
        edges = [
            Edge(finder, "path", target, parameter)
            for finder in _FINDERS
            for target, parameter in _FED
        ]
        edges.append(Edge("read_text_file", "content", "edit_file", "edits"))
        return tuple(edge for edge in edges if {edge.source, edge.target} <= names)

    def kinds(self) -> tuple[TaskKind, ...]:
        """Return the kinds of task that can be sampled."""
        return tuple(_RECIPES)

    def policy(self) -> str:
        """Return the house rules."""
        return POLICY

    def environment(self) -> LiveEnvironment:
        """Return an environment; its process comes from the world's warm ones."""
        return LiveEnvironment(self.server, self._specs, _template, pool=self.pool)

    async def blueprint(
        self, kind: TaskKind, tools: Sequence[str], state_seed: int, rng: random.Random
    ) -> Blueprint:
        """Sample a goal, carry it out on the live server, keep what it left on disk.

        Raises:
            NotSuitable: `kind` (never here), `toolset` (no goal with these tools), `no_goal`
                (nothing of that kind in this state), `solution_fails` (the server disagrees).
            ServerFailed: the server broke down.
        """
        if kind not in _RECIPES:
            raise NotSuitable("kind")
        effects = {spec.name: spec.effect for spec in self._specs if spec.name in set(tools)}
        desk = Desk(office=office(state_seed), root=ROOT, effects=effects, rng=rng)
        errands = _draw(desk, kind)
        solution = _merged([errand.stages for errand in errands])
        environment = self.environment()
        try:
            diffs = await _outcomes(environment, state_seed, errands, solution)
        finally:
            await environment.close()
        outputs = tuple(output for errand in errands for output in errand.outputs)
        if (diffs == ((),)) == (not outputs):
            raise NotSuitable("no_change")
        facts = tuple(fact for errand in errands for fact in errand.facts)
        withheld = facts[:1] if kind is TaskKind.MISSING_FACT else ()
        return Blueprint(
            kind=kind,
            world=self.name,
            state_seed=state_seed,
            tools=tuple(tools),
            clauses=tuple(clause for errand in errands for clause in errand.clauses),
            opening=tuple(fact for fact in facts if fact not in withheld),
            withheld=withheld,
            solution=solution,
            diffs=diffs,
            outputs=outputs,
            decoys=_decoys(desk, errands, solution),
        )

    async def close(self) -> None:
        """End every process."""
        await self.pool.close()


def _template(seed: int) -> Tree:
    return office(seed).tree()


def _declared(spec: ToolSpec) -> ToolSpec:
    """Return the spec with what this world knows of the tool; annotations are only hints."""
    return spec.model_copy(
        update={
            "effect": EFFECTS[spec.name],
            "effect_source": "declared",
            "application": FileWorld.name,
            "category": FileWorld.category,
        }
    )


# --- sampling --------------------------------------------------------------------------------


def _draw(desk: Desk, kind: TaskKind) -> list[Errand]:
    """Draw the errands of a goal: one, or two that do not touch the same thing."""
    recipes = list(_RECIPES[kind])
    desk.rng.shuffle(recipes)
    found: list[Errand] = []
    reason = "no_goal"
    for errand in _errands(desk, recipes * (2 if kind is TaskKind.PARALLEL else 1)):
        if isinstance(errand, str):
            reason = errand
            continue
        if any(_clash(errand, other) for other in found):
            continue
        found.append(errand)
        if len(found) == (2 if kind is TaskKind.PARALLEL else 1):
            return found
    raise NotSuitable(reason)


def _errands(desk: Desk, recipes: Sequence[Recipe]) -> Iterator[Errand | str]:
    for recipe in recipes:
        try:
            yield recipe(desk)
        except NotSuitable as reason:
            yield reason.what


def _clash(one: Errand, other: Errand) -> bool:
    """Side by side, both look or both write, and each at something of its own."""
    return one.about == other.about or bool(one.outputs) != bool(other.outputs)


def _merged(parts: Sequence[Stages]) -> tuple[PlannedCall, ...]:
    """Merge errands stage by stage; stages become groups, equal look-ups are made once."""
    calls: list[PlannedCall] = []
    for group, stages in enumerate(zip_longest(*parts, fillvalue=())):
        for stage in stages:
            for call in stage:
                placed = call.model_copy(update={"group": group})
                if placed not in calls:
                    calls.append(placed)
    return tuple(calls)


async def _outcomes(
    environment: LiveEnvironment,
    state_seed: int,
    errands: Sequence[Errand],
    solution: tuple[PlannedCall, ...],
) -> tuple[Diff, ...]:
    """Carry out the solution and every variant of it; return what each left on disk."""
    evidence = [text for errand in errands for text in errand.evidence]
    evidence += [_as_written(output) for errand in errands for output in errand.outputs]
    found = [await _outcome(environment, state_seed, solution, evidence)]
    for place, errand in enumerate(errands):
        for variant in errand.variants:
            parts = [other.stages for other in errands]
            parts[place] = variant
            found.append(await _outcome(environment, state_seed, _merged(parts), ()))
    if len(errands) > 1 and all(errand.variants for errand in errands):
        parts = [errand.variants[0] for errand in errands]
        found.append(await _outcome(environment, state_seed, _merged(parts), ()))
    return tuple(dict.fromkeys(found))


async def _outcome(
    environment: LiveEnvironment,
    state_seed: int,
    calls: Sequence[PlannedCall],
    evidence: Sequence[str],
) -> Diff:
    await environment.reset(state_seed)
    said = []
    for call in calls:
        result = await environment.call(call.tool, call.arguments)
        if not result.ok:
            raise NotSuitable("solution_fails")
        said.append(result.content)
    if any(not any(text in words for words in said) for text in evidence):
        raise NotSuitable("solution_fails")
    return await environment.diff()


def _as_written(output: OutputValue) -> str:
    """Return how a value stands in the office's files."""
    if output.type == "money" and isinstance(output.value, int):
        return f"{output.value // 100:,}.{output.value % 100:02d}"
    return str(output.value)


def _decoys(
    desk: Desk, errands: Sequence[Errand], solution: tuple[PlannedCall, ...]
) -> dict[str, tuple[PlannedCall, ...]]:
    decoys = {"wrong_entity": _merged([errand.wrong for errand in errands])}
    extra = _superfluous(desk)
    if extra is not None:
        last = solution[-1].group + 1
        decoys["over_write"] = (*solution, extra.model_copy(update={"group": last}))
    return decoys


def _superfluous(desk: Desk) -> PlannedCall | None:
    """Return a write that nobody asked for, if the toolset has one that can be used blindly."""
    if "write_file" in desk.effects:
        return desk.write("notes/unasked.txt", "Nobody asked for this.\n")
    if "create_directory" in desk.effects:
        return desk.folder("notes/unasked")
    return None


# --- proof of a reset ------------------------------------------------------------------------


def _probes(tree: Tree) -> Sequence[Probe]:
    """Ask for all names, and for the texts of two files that differ from seed to seed."""
    names = {os.fsencode(path).decode("utf-8", "replace") for path in tree.entries}
    texts: dict[str, str] = {}
    for path, content in tree.entries.items():
        with contextlib.suppress(UnicodeError):
            if isinstance(content, bytes) and path.encode():
                texts[path] = content.decode()
    chosen = sorted(texts, key=lambda path: (len(texts[path]), path))[-2:]
    whole = Probe("directory_tree", {"path": ROOT}, lambda text: _names(text) == names)
    return whole, *(
        Probe("read_text_file", {"path": f"{ROOT}/{path}"}, texts[path].__eq__) for path in chosen
    )


def _names(text: str) -> set[str] | None:
    """Return every path in a `directory_tree`, None where it is none."""
    try:
        return set(_walk(json.loads(text), ""))
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def _walk(entries: Any, prefix: str) -> Iterator[str]:
    for entry in entries:
        path = prefix + entry["name"]
        yield path
        yield from _walk(entry.get("children", ()), path + "/")
