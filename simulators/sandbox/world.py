"""Coding tasks as a world: chores in a sandbox, whose ground truth are hidden tests.

What counts as the state of such an episode is what the hidden tests say, together with the files
that nobody asked to change. So every program that passes is right, however it is written.
"""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Sequence

from simulators.sandbox.chores import MAKERS, Chore, Question, question
from simulators.sandbox.environment import POLICY, SandboxEnvironment
from simulators.sandbox.hidden import run_hidden_tests
from simulators.sandbox.project import Project
from synth.core.canonical import canonical, content_key
from synth.core.errors import NotSuitable
from synth.core.protocols import Edge
from synth.core.seeds import rng as seeded
from synth.core.types import (
    Blueprint,
    Diff,
    Effect,
    OutputValue,
    PlannedCall,
    TaskKind,
    ToolSpec,
)

SEEDS = 2**31
README = "README.md"
_README = "# A project\n\nEverything here is kept under version control.\n"
_KEPT = 256
"""Outcomes of hidden tests that are remembered: an episode and its replay ask for the same."""


def chores(seed: int) -> tuple[Chore, ...]:
    """Return the chores of a project: two, in folders of their own, of different makers."""
    rng = seeded(seed, "chores")
    places = rng.sample(("billing", "tools", "imports", "ops", "stats", "shop"), 2)
    return tuple(
        maker(rng, place) for maker, place in zip(rng.sample(MAKERS, 2), places, strict=True)
    )


def asked(seed: int) -> Question:
    """Return the question that a project answers."""
    return question(seeded(seed, "question"), "days")


def project(seed: int) -> Project:
    """Return the project of a seed: both chores, and the files of the question."""
    both, ask = chores(seed), asked(seed)
    files = {README: _README, **ask.files}
    for chore in both:
        files |= chore.files
    hidden = {f"test_chore_{n}.py": chore.test.encode() for n, chore in enumerate(both)}
    request = "; ".join(chore.clause for chore in both)
    content = {path: text.encode() for path, text in files.items()}
    return Project(f"chores_{seed}", request, content, hidden, {})


class TestedEnvironment(SandboxEnvironment):
    """A sandbox whose diff is what hidden tests say of it, and which other files were changed.

    Files that the chores are about are theirs to change, and new files are no damage.
    """

    __test__ = False

    def __init__(self) -> None:
        super().__init__(project)
        self._seed = 0
        self._said: OrderedDict[tuple[int, Diff], dict[str, bool]] = OrderedDict()

    async def reset(self, seed: int) -> None:
        """Start over from the project of `seed`."""
        self._seed = seed
        await super().reset(seed)

    async def diff(self) -> Diff:
        """Return which hidden tests hold that did not, or no more, and unasked changes."""
        changed = await super().diff()
        if not changed:
            return ()
        now, before = await self._outcomes(changed), await self._outcomes(())
        lines = [
            canonical(["hidden tests", name, {"holds": before.get(name, False)}, {"holds": holds}])
            for name, holds in sorted(now.items())
            if holds != before.get(name, False)
        ]
        return (*lines, *self._unasked())

    def _unasked(self) -> list[str]:
        """Return the changes of files that no chore is about."""
        made = project(self._seed).files
        free = {path.split("/")[0] for chore in chores(self._seed) for path in chore.files}
        tree = self._now().tree.entries
        return [
            canonical(
                ["files", path, {"as": "it was"}, None if path not in tree else {"as": "new"}]
            )
            for path, content in sorted(made.items())
            if path.split("/")[0] not in free and tree.get(path) != content
        ]

    async def _outcomes(self, changed: Diff) -> dict[str, bool]:
        key = self._seed, changed
        if key not in self._said:
            state = await self.snapshot()
            if not changed:
                idle = SandboxEnvironment(project)
                await idle.reset(self._seed)
                state = await idle.snapshot()
            tested = await run_hidden_tests(state, project(self._seed).hidden, seconds=20)
            self._said[key] = dict(tested.tests)
            while len(self._said) > _KEPT:
                self._said.popitem(last=False)
        self._said.move_to_end(key)
        return self._said[key]

    async def fork(self) -> TestedEnvironment:
        """Return an independent copy of the current state; its `diff` counts from `reset` too."""
        twin = TestedEnvironment()
        await twin.reset(self._seed)
        await twin.restore(await self.snapshot())
        return twin


class SandboxWorld:
    """Implements `synth.core.protocols.World` for coding and file chores."""

    name, category = "sandbox", "software development"
    real = True
    handoff: str | None = None
    clock: str | None = None

    def __init__(self) -> None:
        self._tools = TestedEnvironment().tools()
        makers = [maker.__name__ for maker in MAKERS]
        self.key = content_key(
            [[spec.key for spec in self._tools], makers, POLICY, project(0).request]
        )

    def tools(self) -> tuple[ToolSpec, ...]:
        """Return the tools on offer."""
        return self._tools

    def edges(self) -> tuple[Edge, ...]:
        """Return the tool dependency graph: paths that one tool lists are read by the others."""
        return tuple(
            Edge("list_files", "path", target, "path")
            for target in ("read_file", "write_file", "edit_file")
        )

    def kinds(self) -> tuple[TaskKind, ...]:
        """Return the kinds of task."""
        return TaskKind.SINGLE_WRITE, TaskKind.LOOKUP, TaskKind.PARALLEL

    def policy(self) -> str:
        """Return the house rules."""
        return POLICY

    def environment(self) -> TestedEnvironment:
        """Return a new environment; call `reset` before use."""
        return TestedEnvironment()

    async def blueprint(
        self, kind: TaskKind, tools: Sequence[str], state_seed: int, rng: random.Random
    ) -> Blueprint:
        """Draw a project and what is wanted in it, and carry it out.

        Raises:
            NotSuitable: `kind` (never here), `toolset`, `solution_fails`.
        """
        if kind not in self.kinds():
            raise NotSuitable("kind")
        seed = rng.randrange(SEEDS)
        if kind is TaskKind.LOOKUP:
            return self._question(seed, tools)
        wanted = chores(seed) if kind is TaskKind.PARALLEL else chores(seed)[:1]
        looks = [_call("read_file", 0, path=chore.look) for chore in wanted]
        solution = (*looks, *_done(wanted, [chore.calls for chore in wanted]))
        wrong = (*looks, *_done(wanted, [chore.wrong for chore in wanted]))
        more = _call("write_file", 2, path=README, content=_README + "\nChanged.\n")
        if any(c.tool not in tools for c in solution):
            raise NotSuitable("toolset")
        diff = await self._carry_out(seed, solution)
        if len(diff) != len(wanted):
            raise NotSuitable("solution_fails")
        over = {"over_write": (*solution, more)} if "write_file" in tools else {}
        return Blueprint(
            kind=kind,
            world=self.name,
            state_seed=seed,
            tools=tuple(tools),
            clauses=tuple(chore.clause for chore in wanted),
            solution=solution,
            diffs=(diff,),
            decoys={"wrong_entity": wrong, **over},
        )

    def _question(self, seed: int, tools: Sequence[str]) -> Blueprint:
        ask = asked(seed)
        if "read_file" not in tools:
            raise NotSuitable("toolset")
        return Blueprint(
            kind=TaskKind.LOOKUP,
            world=self.name,
            state_seed=seed,
            tools=tuple(tools),
            clauses=(ask.clause,),
            solution=(_call("read_file", 0, path=ask.path),),
            diffs=((),),
            outputs=(OutputValue(label=ask.label, type="integer", value=ask.value),),
            decoys={"wrong_entity": (_call("read_file", 0, path=ask.other),)},
        )

    async def _carry_out(self, seed: int, calls: Sequence[PlannedCall]) -> Diff:
        environment = self.environment()
        await environment.reset(seed)
        for call in calls:
            if not (await environment.call(call.tool, call.arguments)).ok:
                raise NotSuitable("solution_fails")
        return await environment.diff()

    async def close(self) -> None:
        """Nothing is kept."""


def _call(tool: str, group: int, **arguments: str) -> PlannedCall:
    effect = Effect.READ if tool == "read_file" else Effect.WRITE
    return PlannedCall(tool=tool, arguments=arguments, group=group, effect=effect)


def _done(
    wanted: Sequence[Chore], calls: Sequence[tuple[tuple[str, dict[str, str]], ...]]
) -> list[PlannedCall]:
    return [_call(tool, 1, **arguments) for some in calls for tool, arguments in some]
