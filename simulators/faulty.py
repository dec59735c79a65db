"""An environment whose calls go wrong now and then, as those of real services do.

K2 report 3.1.1: the tool simulator has controlled stochasticity. What happens to a call is drawn
from the episode's seed and the call's number, so that the same calls meet the same faults again,
in a replay too. Recovery is always possible: what fails for a moment works soon, what was cut short
can be asked for again, and what is out of order is never a tool that the task needs.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal

import orjson

from synth.core.canonical import content_key
from synth.core.errors import BadInput
from synth.core.outcomes import Outcomes, Regime
from synth.core.protocols import Environment, Shared, run_call
from synth.core.seeds import rng
from synth.core.types import CallError, Diff, Effect, Scalar, ToolResult, ToolSpec

MOST_IN_A_ROW = 2
"""Times that one call may fail for a moment before it works."""
TRANSIENT = {
    "timeout": "The service did not answer in time. Nothing was changed; try again.",
    "service_unavailable": "The service is busy. Nothing was changed; try again.",
    "rate_limited": "Too many requests. Nothing was changed; try again in a moment.",
}
"""Errors that pass, by code."""
PERMANENT = CallError(
    code="out_of_order", message="This tool is out of order today and will not work if tried again."
)
CUT = "Only a part of the result came. Ask again for all of it."
EDGE = (
    "This version of the tool is deprecated and will be switched off next year.",
    "Some of this may be up to a minute old.",
    "Served by a backup system.",
)
_Drawn = Literal["success", "partial", "transient", "edge"]


class Faulty:
    """Another environment, with faults.

    Args:
        environment: where the calls run; it is closed with this one.
        outcomes: how often what happens.
        seed: of the episode: decides what goes wrong.
        needed: tools that never are out of order: those of the reference solution, the hand-off.
        before: what decides over the first calls, if anything else does. The counters go on.
    """

    def __init__(
        self,
        environment: Environment,
        outcomes: Outcomes,
        *,
        seed: int,
        needed: Collection[str] = (),
        before: Sequence[Regime] = (),
    ) -> None:
        self.real = environment.real
        self._environment = environment
        self._needed = frozenset(needed)
        self._regimes = [(r.until, (r.outcomes, r.seed)) for r in before]
        self._last = (outcomes, seed)
        self._outcomes, self._seed = self._ruling(0)
        self._broken: frozenset[str] = frozenset()
        self._calls = 0
        """Calls that did not fail of themselves: chance is drawn anew for each."""
        self._failures: Counter[str] = Counter()
        """Key of a call -> how often it failed for a moment since it last worked."""
        self._cut: set[str] = set()
        """Keys of the calls whose result was cut short once."""

    async def reset(self, seed: int) -> None:
        """Start over: the state of `seed`, and the faults from the first one on."""
        await self._environment.reset(seed)
        self._calls = 0
        self._failures.clear()
        self._cut = set()
        self._rule(*self._ruling(0))

    def _ruling(self, calls: int) -> tuple[Outcomes, int]:
        """Return what decides over the call after so many."""
        return next((rule for until, rule in self._regimes if calls < until), self._last)

    def _rule(self, outcomes: Outcomes, seed: int) -> None:
        """Let something else decide from now on."""
        self._outcomes, self._seed = outcomes, seed
        self._broken = frozenset(
            tool.name
            for tool in self._environment.tools()
            if tool.name not in self._needed
            and rng(self._seed, "out_of_order", tool.name).random() < self._outcomes.permanent
        )

    def tools(self) -> tuple[ToolSpec, ...]:
        """Return the tools on offer; one that is out of order does not look it."""
        return self._environment.tools()

    async def call(self, name: str, arguments: Mapping[str, Any]) -> ToolResult:
        """Run one call; what would fail anyway fails as it would.

        A call that is to fail is made and taken back: whether it would succeed is known only then.
        """
        if self._regimes and (rule := self._ruling(self._calls)) != (self._outcomes, self._seed):
            self._rule(*rule)
        chance = rng(self._seed, "call", self._calls)
        key = _key(name, arguments)
        drawn = self._draw(chance, key)
        undo = drawn == "transient" or name in self._broken
        state = await self._environment.snapshot() if undo else b""
        result = await self._environment.call(name, arguments)
        if not result.ok:
            return result
        self._calls += 1
        if name in self._broken:
            await self._environment.restore(state)
            return _failed(PERMANENT, "permanent")
        if drawn == "transient":
            await self._environment.restore(state)
            self._failures[key] += 1
            code = chance.choice(list(TRANSIENT))
            return _failed(CallError(code=code, message=TRANSIENT[code]), "transient")
        self._failures.pop(key, None)
        if drawn == "partial":
            return self._shortened(name, key, result)
        return _noticed(result, chance.choice(EDGE)) if drawn == "edge" else result

    def user_tools(self) -> tuple[ToolSpec, ...]:
        """Return the tools that users hold; what people do with their hands does not go wrong."""
        inner = self._environment
        return inner.user_tools() if isinstance(inner, Shared) else ()

    async def act(self, user: Scalar, name: str, arguments: Mapping[str, Any]) -> ToolResult:
        """Run one call of a user, as the environment does."""
        return await run_call(self._environment, "user", user, name, arguments)

    def _draw(self, chance: random.Random, key: str) -> _Drawn:
        outcomes, point = self._outcomes, chance.random()
        if point < outcomes.transient:
            return "success" if self._failures[key] >= MOST_IN_A_ROW else "transient"
        point -= outcomes.transient
        if point < outcomes.partial:
            return "partial"
        return "edge" if point - outcomes.partial < outcomes.edge else "success"

    def _shortened(self, name: str, key: str, result: ToolResult) -> ToolResult:
        """Return the first rows of a list, the first time that it is asked for."""
        effects = {tool.name: tool.effect for tool in self._environment.tools()}
        value = _json(result.content)
        rows = value.get("result")
        if effects[name] is not Effect.READ or key in self._cut:
            return result
        if not isinstance(rows, list) or len(rows) < 2:
            return result
        self._cut.add(key)
        short = {**value, "result": rows[: len(rows) // 2], "partial": True, "notice": CUT}
        update = {"content": orjson.dumps(short).decode(), "outcome": "partial"}
        return result.model_copy(update=update)

    # --- the state ---------------------------------------------------------------------------

    async def diff(self) -> Diff:
        """Return the net change since `reset`; a call that failed is no part of it."""
        return await self._environment.diff()

    async def snapshot(self) -> bytes:
        """Return the whole state, and how far the faults have come."""
        told = [self._calls, self._failures, sorted(self._cut)]
        head = orjson.dumps(told, option=orjson.OPT_SORT_KEYS)
        return head + b"\n" + await self._environment.snapshot()

    async def restore(self, state: bytes) -> None:
        """Go back to a snapshot.

        Raises:
            BadInput: it is none of this kind.
        """
        head, _, inner = state.partition(b"\n")
        try:
            calls, failed, cut = orjson.loads(head)
        except ValueError as error:
            what = "not a snapshot of an environment with faults"
            raise BadInput(what, where="restore", remedy="give one that it made") from error
        await self._environment.restore(inner)
        self._calls, self._failures, self._cut = calls, Counter(failed), set(cut)
        self._rule(*self._ruling(calls))

    async def fork(self) -> Faulty:
        """Return an independent copy, which meets the same faults."""
        inner = await self._environment.fork()
        twin = Faulty(inner, self._last[0], seed=self._last[1], needed=self._needed)
        twin._regimes = self._regimes
        twin._calls, twin._failures = self._calls, Counter(self._failures)
        twin._cut = set(self._cut)
        twin._outcomes, twin._seed, twin._broken = self._outcomes, self._seed, self._broken
        return twin

    async def close(self) -> None:
        """Close the environment. Harmless when called twice."""
        await self._environment.close()


def _key(name: str, arguments: Any) -> str:
    """Return what tells a call from others, whatever a model gave as arguments."""
    try:
        return content_key([name, arguments])
    except ValueError:  # no JSON: it fails anyway
        return name


def _failed(error: CallError, outcome: Literal["transient", "permanent"]) -> ToolResult:
    content = orjson.dumps({"error": error.code, "message": error.message}).decode()
    return ToolResult(ok=False, content=content, error=error, outcome=outcome)


def _noticed(result: ToolResult, notice: str) -> ToolResult:
    value = _json(result.content)
    if not value or "notice" in value:
        return result
    content = orjson.dumps({**value, "notice": notice}).decode()
    return result.model_copy(update={"content": content, "outcome": "edge"})


def _json(content: str) -> dict[str, Any]:
    """Return the object that a result is; an empty one where it is none."""
    try:
        value = orjson.loads(content)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
