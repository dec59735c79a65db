"""What an application says never happens: looked for in seeded states, and after calls of any kind.

The calls are those of `Wild`, of all writing tools in turn and one upon the other: what breaks a
promise is mostly the second tool, which does not know what the first one left behind.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from simulators.sql.finding import Finding
from simulators.sql.stage import Stage
from simulators.sql.wild import Wild
from synth.core.errors import ToolloomError
from synth.core.seeds import rng
from synth.core.types import Effect

WALK = 40
"""Calls in a row before the state starts over."""


def broken(stage: Stage) -> str | None:
    """Return the first promise of the application that the current state breaks, if any.

    Raises:
        ToolloomError: its SELECT fails when it is run.
    """
    for what, sql in stage.application.never.items():
        if stage.query(sql, {}):
            return what
    return None


def lint_promises(stage: Stage, *, seeds: Sequence[int], walks: int) -> Iterator[Finding]:
    """Yield the promises that do not hold, with the call that broke them.

    Args:
        stage: the application.
        seeds: seeded states to start from.
        walks: how often to walk away from them, `WALK` calls each time.
    """
    if not stage.application.never:
        return
    try:
        for seed in seeds:
            stage.start(seed)
            if what := broken(stage):
                yield _finding(stage, what, f"state {seed} is seeded so", "repair it in after_seed")
                return
        for number in range(walks):
            if found := _walk(stage, seeds[number % len(seeds)], number):
                yield found
                return
    except ToolloomError as error:
        yield Finding.of(error)


def _walk(stage: Stage, seed: int, number: int) -> Finding | None:
    chance = rng("promises", stage.where, seed, number)
    tools = [name for name, effect in stage.effects.items() if effect is not Effect.READ]
    wild = [Wild(stage, tool, chance) for tool in tools]
    stage.start(seed)
    for step in range(WALK if tools else 0):
        player = chance.choice(wild)
        arguments = player.draw(seed, step)
        if arguments is None or not stage.call(player.tool, arguments, player.owner).ok:
            continue
        if what := broken(stage):
            told = f"after {player.tool}({arguments}), call {step + 1} from state {seed}"
            return _finding(stage, what, told, "add a require")
    return None


def _finding(stage: Stage, what: str, told: str, remedy: str) -> Finding:
    return Finding("error", f"{stage.where}: never.{what}", told, remedy)
