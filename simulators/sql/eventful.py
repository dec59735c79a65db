"""What happens by itself does happen, changes something, and breaks no promise."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from simulators.sql.engine import Engine
from simulators.sql.environment import SqlEnvironment
from simulators.sql.finding import Finding
from simulators.sql.program import NOT_NOW
from synth.core.happenings import Due
from synth.core.seeds import rng

CHANCES = 4
"""Numbers drawn for each event in each state."""


def lint_events(engine: Engine, *, seeds: Sequence[int]) -> Iterator[Finding]:
    """Yield what is wrong with the events of an application.

    Args:
        engine: the compiled application.
        seeds: seeded states in which they are to happen: alone, and one upon the other.
    """
    if not engine.events:
        return
    environment = engine.environment()
    try:
        for name in engine.events:
            yield from _alone(environment, name, seeds)
        yield from _together(environment, seeds)
    finally:
        environment.close_now()


def _alone(environment: SqlEnvironment, name: str, seeds: Sequence[int]) -> Iterator[Finding]:
    changed, why = False, NOT_NOW
    for seed in seeds:
        for due in _drawn(environment, name, seed):
            environment.reset_now(seed)
            result = environment.event_now(due)
            if result.error is not None:
                why = result.error.code if result.error.code == NOT_NOW else result.error.message
                continue
            changed = changed or environment.changed_by_itself()
            if what := _broken(environment):
                told = f"{what} after it, in state {seed} with the chance {due.chance}"
                yield _finding(environment, name, told, "add to its when")
                return
    if not changed:
        told = f"it changes nothing in the states {', '.join(map(str, seeds))} ({why})"
        yield _finding(environment, name, told, "seed rows that it suits")


def _together(environment: SqlEnvironment, seeds: Sequence[int]) -> Iterator[Finding]:
    for seed in seeds:
        environment.reset_now(seed)
        for name in environment.engine.events:
            for due in _drawn(environment, name, seed):
                environment.event_now(due)
                if what := _broken(environment):
                    told = f"{what} after it, when others have happened in state {seed}"
                    yield _finding(environment, name, told, "add to its when")
                    return


def _drawn(environment: SqlEnvironment, name: str, seed: int) -> Iterator[Due]:
    event = environment.engine.application.events[name]
    for number in range(CHANCES):
        chance = rng("lint", environment.engine.application.application, name, seed, number)
        second = round(60 * chance.uniform(*event.minutes))
        yield Due(event=name, second=second, chance=chance.randrange(1_000_000))


def _broken(environment: SqlEnvironment) -> str | None:
    never = environment.engine.application.never
    return next((what for what, sql in never.items() if environment.query(sql)), None)


def _finding(environment: SqlEnvironment, name: str, told: str, remedy: str) -> Finding:
    where = environment.engine.application.application
    return Finding("error", f"{where}: events.{name}", told, remedy)
