"""What may happen by itself in an episode: found out by playing the solution through it.

An event is drawn with its time and its chance, and stays if the solution does not notice it: at
whichever place it happens, every call of the solution returns the same bytes, the changes that
calls made are the same, no row is written by both, the policy forbids what it forbade and nothing
else, and wrong solutions stay as wrong as they were. So the ground truth of the task holds whether
or not it happens, and whenever.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import NamedTuple

from simulators.sql.engine import Engine
from simulators.sql.goals import forbidden
from simulators.sql.guard import Mode
from simulators.sql.program import USER
from synth.core.happenings import MOST_MINUTES, Due, Schedule
from synth.core.seeds import rng
from synth.core.types import Blueprint, Diff, PlannedCall

LATE = MOST_MINUTES * 60
"""Seconds after the start: no event is later, and calls seldom are."""
MOST_CHANCE = 1_000_000


def schedule(engine: Engine, blueprint: Blueprint, share: float, seed: int) -> Schedule | None:
    """Draw what happens in an episode; see `synth.core.protocols.Eventful`."""
    if not engine.events or not share:
        return None
    play = _Play(engine, blueprint)
    try:
        if play.run(blueprint.solution) != play.run(blueprint.solution, at=LATE):
            return None  # something in it depends on the time
        kept = sorted(drawn(engine, share, seed), key=_place)
        if not play.allows(kept):  # mostly it does
            every, kept = kept, []
            for due in every:
                if play.allows(tried := [*kept, due]):
                    kept = tried
        return Schedule(seed=seed, due=tuple(kept))
    finally:
        play.environment.close_now()


def _place(due: Due) -> tuple[int, str]:
    return due.second, due.event


def drawn(engine: Engine, share: float, seed: int) -> Iterator[Due]:
    """Yield what an episode of this seed draws, whatever its task is."""
    for name, event in engine.application.events.items():
        chance = rng(seed, "event", name)
        if chance.random() < share:
            second = round(60 * chance.uniform(*event.minutes))
            yield Due(event=name, second=second, chance=chance.randrange(MOST_CHANCE))


def _ruling(engine: Engine, blueprint: Blueprint) -> set[str | None]:
    """Return the tables by which the policy judges calls of this task for whoever speaks.

    Nobody knows here who that is, so these tables must stay as they are.
    """
    tools = {call.tool for call in chain(blueprint.solution, *blueprint.decoys.values())}
    read: set[str | None] = set()
    for rule in engine.application.policy_rules:
        if rule.tool in tools and USER in rule.when:
            read |= engine.compiler.look(rule.when, Mode.READ, f"policy_rules.{rule.name}").read
    return read


class _Played(NamedTuple):
    """What came of calls."""

    results: tuple[tuple[bool, str, bool], ...]
    """Of each call: whether it succeeded, what it returned, whether the policy forbids it."""
    diff: Diff


class _Play:
    """Plays the calls of one task."""

    def __init__(self, engine: Engine, blueprint: Blueprint) -> None:
        self.environment, self._blueprint = engine.environment(), blueprint
        self._application = engine.application
        self._ruling = _ruling(engine, blueprint)
        self._happened: set[str] = set()
        self._plain = self.run(blueprint.solution)
        self._wrong = {name: self.run(calls) for name, calls in blueprint.decoys.items()}

    def run(
        self, calls: Sequence[PlannedCall], due: Sequence[Due] = (), *, place: int = 0, at: int = 0
    ) -> _Played:
        """Play calls from the start, with something happening before one of them.

        Args:
            calls: to be made.
            due: what happens.
            place: before which call; after all of them if there are no more.
            at: the time of the calls, in seconds.
        """
        environment, results = self.environment, []
        environment.reset_now(self._blueprint.state_seed)
        for number in range(len(calls) + 1):
            if number == place:
                found = [environment.happen_now(one) for one in due]
                self._happened = {one.event for one in found if one is not None}
            environment.wind(at)
            if number < len(calls):
                results.append(self._call(calls[number]))
        return _Played(tuple(results), environment.diff_now())

    def _call(self, call: PlannedCall) -> tuple[bool, str, bool]:
        tool, arguments, query = call.tool, call.arguments, self.environment.query
        wrong = any(
            forbidden(self._application, tool, arguments, None, query=query, rule=rule.name)
            for rule in self._application.policy_rules
            if rule.tool == tool and USER not in rule.when
        )
        if call.by == "user":
            result = self.environment.act_now(self._blueprint.user, tool, arguments)
        else:
            result = self.environment.call_now(tool, arguments)
        return result.ok, result.content, wrong

    def allows(self, tried: Sequence[Due]) -> bool:
        """Say whether the task is the same with all of this, and all of it does happen."""
        solution = self._blueprint.solution
        for place in range(len(solution) + 1):
            if self.run(solution, tried, place=place, at=LATE) != self._plain:
                return False
            by_calls, by_itself = self.environment.rows_now()
            if by_calls & by_itself or self._ruling & {table for table, _ in by_itself}:
                return False
            if place == 0 and len(self._happened) < len(tried):
                return False
        return all(
            self.run(calls, tried, at=LATE) == self._wrong[name]
            for name, calls in self._blueprint.decoys.items()
        )
