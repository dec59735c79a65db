"""Tasks whose user first wants something else.

The request names another value of the wish (another day, another amount, another card), and the
next message of the user takes it back. It also leaves out a fact that the write needs, as tasks of
kind MISSING_FACT do: the agent has to ask, and the answer comes together with the change. So who
acts on the first wish has acted on a fact that nobody told.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

from simulators.sql import writes
from simulators.sql.asking import Asked, Asking
from simulators.sql.attempt import Attempt, Plot
from simulators.sql.stage import Stage
from synth.core.errors import NotSuitable
from synth.core.hearing import hearing
from synth.core.types import Blueprint, Fact

DRAWS = 8
"""Other values tried for each parameter."""
TRIES = 40
"""Samples until one has another wish; most have no second value that suits."""


def wavering(stage: Stage, tools: Sequence[str], seed: int, rng: random.Random) -> Blueprint:
    """Sample one such task.

    Args:
        stage: the application.
        tools: names of the agent's tools.
        seed: which seeded state.
        rng: the only source of chance.

    Raises:
        NotSuitable: the reason is one of the last try, a key of `simulators.sql.blueprint.REASONS`.
    """
    left = TRIES
    while True:
        left -= 1
        attempt = Attempt(stage, tools, seed, rng)
        try:
            plot = writes.missing_fact(attempt)
            _waver(attempt, plot)
        except NotSuitable as reason:
            if not left or reason.what == "no_tools":
                raise
        else:
            return attempt.blueprint(plot)


def _waver(attempt: Attempt, plot: Plot) -> None:
    """Add what the user wants first, and the wrong solution that goes by it.

    Raises:
        NotSuitable: there is nothing (`no_other_wish`).
    """
    wish, fact = plot.asked[0], plot.withheld[0]
    for arguments in _others(attempt, wish, fact):
        first = _said_alike(attempt, wish, arguments, fact)
        if first is None:
            continue
        diff = attempt.stage.play(attempt.seed, [(wish.tool, arguments)], attempt.user)
        if diff and diff not in plot.diffs:
            plot.retracted = first.clause
            plot.decoys["old_wish"] = [[(wish.tool, arguments)]]
            return
    raise NotSuitable("no_other_wish")


def _others(attempt: Attempt, wish: Asked, withheld: Fact) -> Iterator[dict[str, Any]]:
    """Yield the wish's arguments with another value of one parameter that the user names."""
    names = [
        name
        for name, parameter in attempt.application.tools[wish.tool].parameters.items()
        if name in wish.arguments
        and attempt.stage.intents[wish.tool].names.issuperset({name})
        and withheld.name.split(".")[0] != name
    ]
    attempt.rng.shuffle(names)
    for name in names:
        fixed = {other: value for other, value in wish.arguments.items() if other != name}
        for _ in range(DRAWS):
            try:
                drawn = attempt.draw(wish.tool, fixed, fit=attempt.succeeding(wish.tool))
            except NotSuitable:
                continue
            if drawn.keys() == wish.arguments.keys() and drawn[name] != wish.arguments[name]:
                yield drawn


def _said_alike(
    attempt: Attempt, wish: Asked, arguments: dict[str, Any], withheld: Fact
) -> Asked | None:
    """Return the first wish in words, if its clause says all that is other in it.

    What the opening states must hold for both: nobody repeats who they are. The fact that is left
    out must be as needed, and as untold, as with the wish itself.
    """
    try:
        full = attempt.ask(wish.tool, arguments, Asking(attempt.mind))
        solver = attempt.solve([full])
    except NotSuitable:
        return None
    if solver.plan.said.get(withheld.name) != withheld:
        return None
    first = writes.without(attempt, full, solver, withheld.name)
    if first is None:
        return None
    hears = hearing(attempt.mind.speech.language)
    one, other = (set(hears.words(said.clause)) for said in (first, wish))
    # "Block my card" takes nothing back of "block my card, and send me a new one".
    clear = bool(one - other) and bool(other - one)
    return first if clear and _stated(first) == _stated(wish) else None


def _stated(wish: Asked) -> set[tuple[str, str]]:
    return {(f.label, f.spoken) for name, f in wish.said.items() if name not in wish.implied}
