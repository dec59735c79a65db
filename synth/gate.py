"""The admission gate: nobody plays a task before its rubric has told right from wrong.

Every task proves itself against its own environment and the judge's own criteria: the reference
solution passes, twice with the same bytes, and everything that is not a solution fails. Verifiers
that were never tried are the weak part of synthetic data: in one public set 23 of 50 tasks pass
when the agent does nothing. Which decoys apply depends on the kind of task; a task that one of
them passes is rejected, whatever else is right with it.

Plays are not conversations: planned calls are executed on the environment as they stand, followed
by one closing message. Decoys leave out calls that only read, because reads change no state. What
is written down of a play is just what criteria look at, and its judgement ends at the first
criterion that fails, the cheapest first.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import orjson

from synth.core.protocols import Environment, run_call
from synth.core.types import (
    Agent,
    CallCheck,
    Criterion,
    Diff,
    Effect,
    OutputValue,
    PlannedCall,
    StateCheck,
    Step,
    Task,
    TaskKind,
    ToolCall,
    ToolSpec,
)
from synth.judge.criteria import meets
from synth.judge.evidence import Evidence
from synth.mistakes import spoil
from synth.rubrics import lint_rubric
from synth.tasks import leaks
from synth.telling import say_value

CANNED = "Done!"
"""What an agent says that has learned only how successes end."""

DECOYS = (
    "noop",
    "canned",
    "echo",
    "false_claim",
    "untold",
    "wrong_output",
    "dropped_call",
    "wrong_order",
    "wrong_entity",
    "over_write",
    "old_wish",
    "wrongful_compliance",
)
"""Wrong solutions, cheapest first. The last four come with the blueprint."""
REASONS = (
    "admitted",
    "rubric",
    "leak",
    "toolset",
    "gold_call_failed",
    "gold_fails",
    "not_repeatable",
    "variant_fails",
    "no_decoy",
    *(f"{decoy}_passes" for decoy in DECOYS),
)
"""Every reason an `Admission` can have."""


@dataclass(frozen=True, slots=True)
class Admission:
    """What the gate found."""

    accepted: bool
    reason: str
    """One of `REASONS`."""
    plays: int
    """Attempts that were judged, the two reference runs included."""
    killed: Mapping[str, bool]
    """Decoy -> whether the rubric failed it; decoys that do not apply are absent."""
    detail: str = ""
    """For people: which criterion, which call."""


@dataclass(frozen=True, slots=True)
class _Run:
    """Planned calls after their execution."""

    steps: tuple[Step, ...]
    diff: Diff
    evidence: Evidence
    """What was read, the results included; nothing is said yet."""

    @property
    def failed(self) -> str | None:
        """Name of the first tool that failed."""
        return next((step.call.name for step in self.steps if not step.result.ok), None)

    def same(self, other: _Run) -> bool:
        """Whether both read the same bytes and left the same state."""
        read = [(step.result.ok, step.result.content) for step in self.steps]
        return self.diff == other.diff and read == [
            (step.result.ok, step.result.content) for step in other.steps
        ]


async def admit(
    task: Task, agent: Agent, environment: Environment, tools: Mapping[str, ToolSpec]
) -> Admission:
    """Try a task and its rubric.

    Args:
        task: the task.
        agent: who shall play it; its prompt must not give the task away.
        environment: any environment of the task's world; it is reset, and left dirty.
        tools: the world's tools by name; their declared effects say which calls only read.

    Raises:
        ToolloomError: the environment is broken; no verdict on the task.
    """
    findings = lint_rubric(task.rubric, task.blueprint)
    if findings:
        return _rejected("rubric", findings[0])
    given_away = leaks(task, agent)
    if given_away:
        return _rejected("leak", given_away[0])
    solution = (call for call in task.blueprint.solution if call.by == "agent")
    unfit = [call.tool for call in solution if call.tool not in agent.tools]
    if unfit:
        return _rejected("toolset", unfit[0])
    return await _Gate(task, agent, environment, tools).admit()


def _rejected(reason: str, detail: str = "") -> Admission:
    return Admission(accepted=False, reason=reason, plays=0, killed={}, detail=detail)


class _Gate:
    """The plays of one task."""

    def __init__(
        self,
        task: Task,
        agent: Agent,
        environment: Environment,
        tools: Mapping[str, ToolSpec],
    ) -> None:
        self.task, self.environment, self.tools = task, environment, tools
        self.system = agent.system
        self.blueprint = task.blueprint
        decisive = [c for c in task.rubric.criteria() if c.level != "should"]
        self.decisive = sorted(decisive, key=_cost)
        self.plays = 0
        self.killed: dict[str, bool] = {}
        self.idle = self._run((), ())
        self.gold = self.idle
        self._asked: dict[int, ToolCall] = {}
        """Planned calls as an agent writes them, by identity: several plays share them."""
        self.reordered: str | None = None
        """The criterion that fails although only the order of independent calls was changed."""

    async def admit(self) -> Admission:
        """Play the reference solution twice, then every decoy that applies."""
        problem = await self._gold()
        if problem is None:
            self._words()
            await self._calls()
            problem = self._survivor()
        reason, detail = problem or ("admitted", "")
        return Admission(
            accepted=problem is None,
            reason=reason,
            plays=self.plays,
            killed=self.killed,
            detail=detail,
        )

    def _acts(self, calls: Sequence[PlannedCall]) -> list[PlannedCall]:
        """Return the calls that may change something."""
        return [call for call in calls if self._effect(call) is not Effect.READ]

    def _effect(self, call: PlannedCall) -> Effect:
        """Return the declared effect; a user's tool is none of those of the world's agents."""
        return self.tools[call.tool].effect if call.by == "agent" else call.effect

    # --- plays -------------------------------------------------------------------------------

    async def _play(self, calls: Sequence[PlannedCall], *, reset: bool = True) -> _Run:
        """Execute calls as they stand; without `reset`, on top of what was played before."""
        environment = self.environment
        if reset:
            await environment.reset(self.blueprint.state_seed)
        steps = []
        for planned in calls:
            by, user = planned.by, self.blueprint.user
            result = await run_call(environment, by, user, planned.tool, planned.arguments)
            effect, call = self._effect(planned), self._call(planned)
            steps.append(Step(message=2, call=call, result=result, effect=effect, by=by))
        return self._run(tuple(steps), await environment.diff())

    def _run(self, steps: tuple[Step, ...], diff: Diff) -> _Run:
        results = (step.result.content for step in steps)
        evidence = Evidence.of_plan(self.system, self.task.request, results)
        return _Run(steps, diff, evidence)

    def _call(self, planned: PlannedCall) -> ToolCall:
        call = self._asked.get(id(planned))
        if call is None:
            text = orjson.dumps(planned.arguments).decode()
            call = ToolCall(id=f"call_{len(self._asked)}", name=planned.tool, arguments=text)
            self._asked[id(planned)] = call
        return call

    def _missed(self, run: _Run, closing: str) -> str | None:
        """Return the first decisive criterion that a play fails, or None where it passes."""
        self.plays += 1
        evidence = run.evidence.saying(closing)
        for criterion in self.decisive:
            if meets(criterion, run, evidence) is False:
                return criterion.id
        return None

    def _try(self, decoy: str, run: _Run, closing: str) -> None:
        """Play a decoy; one that passes once has survived."""
        dead = self._missed(run, closing) is not None
        self.killed[decoy] = dead and self.killed.get(decoy, True)

    async def _gold(self) -> tuple[str, str] | None:
        """Play the reference solution twice; return what is wrong with it."""
        solution = self.blueprint.solution
        closing = _told(self.blueprint.outputs)
        self.gold = await self._play(solution)
        if self.gold.failed is not None:
            return "gold_call_failed", self.gold.failed
        missed = self._missed(self.gold, closing)
        if missed is not None:
            return "gold_fails", missed
        again = await self._play(solution)
        if not self.gold.same(again):
            return "not_repeatable", ""
        self.plays += 1  # the judge is a program: it says the same of the same
        decoy = self.blueprint.decoys.get("over_write", ())
        if len(decoy) > len(solution) and decoy[: len(solution)] == solution:
            # This decoy begins with the solution, at whose end the environment just stands.
            more = await self._play(decoy[len(solution) :], reset=False)
            both = self._run(again.steps + more.steps, more.diff)
            self._try("over_write", both, closing)
        return None

    def _words(self) -> None:
        """Decoys that only talk: no call, or the right calls and the wrong words."""
        outputs = self.blueprint.outputs
        wrong = CANNED
        if any(output.value is not None for output in outputs):
            rng = random.Random(self.blueprint.state_seed)
            wrong = _told(spoil(self.task, "wrong_output", rng).outputs)
        claims = " ".join(f"I have done this for you: {c}." for c in self.blueprint.clauses)
        self._try("noop", self.idle, "")
        self._try("canned", self.idle, CANNED)
        self._try("echo", self.idle, self.task.request)
        self._try("false_claim", self.idle, f"{claims} {wrong}")
        if outputs:
            self._try("untold", self.gold, CANNED)
        if wrong != CANNED:
            self._try("wrong_output", self.gold, wrong)

    async def _calls(self) -> None:
        """Decoys that make other calls than the solution, and say what it would say."""
        writes = self._acts(self.blueprint.solution)
        closing = _told(self.blueprint.outputs)
        for dropped in range(len(writes)):
            rest = writes[:dropped] + writes[dropped + 1 :]
            self._try("dropped_call", await self._play(rest) if rest else self.idle, closing)
        await self._order(writes, closing)
        for name, calls in self.blueprint.decoys.items():
            acts = self._acts(calls)
            if name not in DECOYS or name in self.killed or not acts:
                continue
            run = await self._play(acts)
            if run.failed is None:  # a decoy that cannot act says nothing about the rubric
                self._try(name, run, closing)

    async def _order(self, writes: list[PlannedCall], closing: str) -> None:
        """Turn the writes round: wrong where order matters, welcome where it does not."""
        groups = {call.group for call in writes}
        if len(writes) < 2:
            return
        run = await self._play(writes[::-1])
        harmless = run.failed is None and run.diff in self.blueprint.diffs
        if len(groups) == 1:
            # Calls of one group may come in any order: the rubric must agree.
            self.reordered = self._missed(run, closing) if harmless else "state"
        elif not harmless:
            self._try("wrong_order", run, closing)

    def _survivor(self) -> tuple[str, str] | None:
        """Return why the task is rejected after its decoys were played."""
        for name, dead in self.killed.items():
            if not dead:
                return f"{name}_passes", ""
        if self.reordered is not None:
            return "variant_fails", self.reordered
        forbidden = self.blueprint.kind is TaskKind.FORBIDDEN
        if forbidden and "wrongful_compliance" not in self.killed:
            return "no_decoy", "wrongful_compliance"
        return None


def _cost(criterion: Criterion) -> int:
    """Order criteria by what they cost: states are compared, calls counted, words read."""
    check = criterion.check
    return 0 if isinstance(check, StateCheck) else 1 if isinstance(check, CallCheck) else 2


def _told(outputs: Sequence[OutputValue]) -> str:
    """Say values in the plainest way: one line each."""
    if not outputs:
        return CANNED
    lines = (f"{o.label[:1].upper()}{o.label[1:]}: {say_value(o)}." for o in outputs)
    return "\n".join(lines)
