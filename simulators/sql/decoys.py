"""Wrong solutions that really run: another row, one change too many, compliance where none is due.

A rubric has to fail each of them before anybody plays the task, so each must succeed as a series of
calls and end in a state (or an answer) that is not the wanted one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from simulators.sql.attempt import Attempt, Move
from simulators.sql.goals import Binding, shaped
from simulators.sql.owners import owned
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
            fit = attempt.succeeding(tool, allowed=False)
            arguments = attempt.draw(tool, fit=fit)
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
            arguments = attempt.draw(tool, fit=attempt.succeeding(tool, allowed=False))
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
        calls = [move for group in changed for move in group]
        diff = attempt.stage.play(attempt.seed, calls, attempt.user)
        if diff and diff not in gold:
            return changed
    return None


def others(attempt: Attempt, tool: str, arguments: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a few variations of a call: another row first, then other values altogether."""
    for binding, value in islice(_swaps(attempt, attempt.bindings(tool, arguments)), _TRIES):
        yield _replaced(arguments, binding.name.split("."), value)
    for _ in range(_TRIES):
        try:
            drawn = attempt.draw(tool, fit=attempt.succeeding(tool, allowed=False))
        except NotSuitable:
            continue
        if drawn != arguments:
            yield drawn


def _swaps(attempt: Attempt, found: Sequence[Binding]) -> Iterator[tuple[Binding, Scalar]]:
    """Yield one value for every row that could be another one, then a second one for each."""
    used = {binding.value for binding in found}
    rows = [binding for binding in found if binding.parameter.entity is not None]
    attempt.rng.shuffle(rows)
    # The user's own row is exchanged only where the call is about nothing else.
    rows.sort(key=lambda binding: _own(attempt, binding))
    for _ in range(2):
        for binding in rows:
            values = [value for value in _alike(attempt, binding) if value not in used]
            if values:
                value = attempt.pick(values)
                used.add(value)
                yield binding, shaped(binding.parameter, value)


def _own(attempt: Attempt, binding: Binding) -> bool:
    """Whether a call is about the user's own row here."""
    me = attempt.mind.me
    table, _, column = str(binding.parameter.entity).partition(".")
    return me is not None and me.table == table and me.row[column] == binding.value


def _alike(attempt: Attempt, binding: Binding) -> list[Scalar]:
    """Return what could stand here instead: of the user's own rows, or else of all."""
    table, column = str(binding.parameter.entity).split(".")
    if not _own(attempt, binding):
        mine = [row[column] for row in owned(attempt.scene, table, attempt.user)]
        if len(mine) > 1:
            return mine
    return attempt.scene.column(f'SELECT "{column}" FROM "{table}" ORDER BY id')


def _replaced(value: Any, path: Sequence[str], new: Scalar) -> Any:
    if not path:
        return new
    head, rest = path[0], path[1:]
    if isinstance(value, list):
        index = int(head)
        return [*value[:index], _replaced(value[index], rest, new), *value[index + 1 :]]
    return {**value, head: _replaced(value[head], rest, new)}
