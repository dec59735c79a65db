"""Wrong solutions that really run: another row, one change too many, compliance where none is due.

A rubric has to fail each of them before anybody plays the task, so each must succeed as a series of
calls and end in a state (or an answer) that is not the wanted one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from simulators.sql.attempt import Attempt, Move
from simulators.sql.goals import Binding, owned, shaped
from synth.core.errors import NotSuitable
from synth.core.types import Diff, Scalar

_TRIES = 4


def over_write(
    attempt: Attempt, moves: Sequence[Sequence[Move]], gold: Sequence[Diff]
) -> list[list[Move]] | None:
    """Add one superfluous successful write; the current state must be that after `moves`.

    Returns:
        The moves with the write after them, or None if no write changed the state.
    """
    extra = _extra(attempt, gold)
    return None if extra is None else [*map(list, moves), [extra]]


def _extra(attempt: Attempt, gold: Sequence[Diff]) -> Move | None:
    stage = attempt.stage
    options = stage.writes(attempt.tools)
    for _ in range(_TRIES if options else 0):
        tool = attempt.pick(options)
        try:
            arguments = attempt.draw(tool)
        except NotSuitable:
            continue
        if stage.call(tool, arguments).ok and stage.diff() not in gold:
            return tool, arguments
    try:
        tool, arguments = attempt.handoff("no_tool", "The customer wants to be called back.")
    except NotSuitable:
        return None
    done = stage.call(tool, arguments).ok and stage.diff() not in gold
    return (tool, arguments) if done else None


def compliance(attempt: Attempt, tools: Sequence[str]) -> list[list[Move]] | None:
    """Return a successful write with one of `tools`, from the seeded state."""
    stage = attempt.stage
    for _ in range(_TRIES if tools else 0):
        tool = attempt.pick(tools)
        try:
            arguments = attempt.draw(tool)
        except NotSuitable:
            continue
        stage.start(attempt.seed)
        if stage.call(tool, arguments).ok and stage.diff():
            return [[(tool, arguments)]]
    return None


def wrong_entity(
    attempt: Attempt, moves: Sequence[Sequence[Move]], gold: Sequence[Diff]
) -> list[list[Move]] | None:
    """Replace one row that the last call is about by another one.

    Returns:
        Moves that all succeed and end in another state than `gold`, or None.
    """
    *before, last = moves
    tool, arguments = last[-1]
    for other in others(attempt, tool, arguments):
        changed: list[list[Move]] = [*map(list, before), [*last[:-1], (tool, other)]]
        diff = attempt.stage.play(attempt.seed, [move for group in changed for move in group])
        if diff and diff not in gold:
            return changed
    return None


def others(attempt: Attempt, tool: str, arguments: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a few variations of a call: another row first, then other values altogether."""
    swaps = list(_swaps(attempt, attempt.bindings(tool, arguments)))
    attempt.rng.shuffle(swaps)
    # The user's own row is exchanged only where the call is about nothing else.
    swaps.sort(key=lambda swap: swap[2])
    for binding, value, _ in swaps[:_TRIES]:
        yield _replaced(arguments, binding.name.split("."), value)
    for _ in range(_TRIES):
        try:
            drawn = attempt.draw(tool)
        except NotSuitable:
            continue
        if drawn != arguments:
            yield drawn


def _swaps(attempt: Attempt, found: Sequence[Binding]) -> Iterator[tuple[Binding, Scalar, bool]]:
    me = attempt.mind.me
    used = {binding.value for binding in found}
    for binding in found:
        entity = binding.parameter.entity
        if entity is None:
            continue
        table, column = entity.split(".")
        own = me is not None and me.table == table and me.row[column] == binding.value
        mine = [] if own else owned(attempt.scene, table, attempt.user)
        values = [row[column] for row in mine if row[column] not in used]
        if not values:
            everything = attempt.scene.column(f'SELECT "{column}" FROM "{table}" ORDER BY id')
            values = [value for value in everything if value not in used]
        for value in attempt.rng.sample(values, min(2, len(values))):
            yield binding, shaped(binding.parameter, value), own


def _replaced(value: Any, path: Sequence[str], new: Scalar) -> Any:
    if not path:
        return new
    head, rest = path[0], path[1:]
    if isinstance(value, list):
        index = int(head)
        return [*value[:index], _replaced(value[index], rest, new), *value[index + 1 :]]
    return {**value, head: _replaced(value[head], rest, new)}
