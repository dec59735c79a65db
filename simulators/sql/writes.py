"""Tasks that change something.

One write, writes that build on each other, independent writes, and a write for which one fact has
to be asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import orjson

from simulators.sql.asking import Asked, Asking
from simulators.sql.attempt import Attempt, Move, Plot
from simulators.sql.decoys import over_write, wrong_entity
from simulators.sql.facts import unwrapped
from simulators.sql.solve import Solver
from simulators.sql.words import occurs
from synth.core.errors import NotSuitable
from synth.core.types import Diff, Effect, Fact, Scalar, TaskKind, ToolResult

THIRD = 0.3
"""Share of chains that go on for a third write."""
SAME_TOOL = 0.5
"""Share of independent writes that use one tool twice."""
PREFER_NEW = 0.8
"""Share of chains that go on with a row the chain has made, where there is one."""
DETAILS = 0.7
"""Share of missing facts that are looked for among the details of the wish first."""
TRIES = 8
"""Draws of a further write; a failed one leaves the state as it was, so trying again is cheap."""
Link: TypeAlias = tuple[str, dict[str, Any]]
"""A write that goes on with a row, and the argument that holds its key."""

_EXECUTED = frozenset({"empty_diff", "no_words", "stale", "superseded"})
"""Reasons that are found out after the write was executed."""


@dataclass(slots=True)
class _Done:
    """One executed write."""

    asked: Asked
    result: ToolResult
    diff: Diff
    """Net change since the start, this write included."""
    rows: dict[tuple[str, Scalar], dict[str, Scalar] | None]
    """The rows behind it, by table and key."""

    @property
    def move(self) -> Move:
        return self.asked.tool, self.asked.arguments


def _write(attempt: Attempt, tool: str | None = None) -> _Done:
    """Draw a user and a write, put it into words and execute it on the seeded state."""
    tool = tool or attempt.wish()
    arguments = attempt.meet_and_draw(tool)
    attempt.stage.start(attempt.seed)
    done = _execute(attempt, tool, arguments, ())
    attempt.asking.note(done.asked)
    return done


def _further(
    attempt: Attempt,
    draw: Callable[[], Move],
    before: Sequence[_Done],
    check: Callable[[_Done], None] = lambda done: None,
) -> _Done:
    """Execute a write that `draw` draws after those `before`; try again where it does not suit.

    Args:
        attempt: the task.
        draw: draws it.
        before: what was executed.
        check: raises `NotSuitable` for a write that does not suit after all.

    Raises:
        NotSuitable: the reason of the last draw.
    """
    left = TRIES
    while True:
        left -= 1
        try:
            done = _execute(attempt, *draw(), before[-1].diff)
            check(done)
        except NotSuitable as reason:
            if reason.what in _EXECUTED:
                attempt.stage.replay(attempt.seed, [done.move for done in before])
            if not left:
                raise
        else:
            attempt.asking.note(done.asked)
            return done


def _execute(attempt: Attempt, tool: str, arguments: dict[str, Any], before: Diff) -> _Done:
    """Execute a write and put it into words; it must change the state again.

    Words come last: every other call fails, and that is found out sooner.
    """
    result = attempt.call(tool, arguments)
    diff = attempt.stage.diff()
    if not diff or diff == before:
        raise NotSuitable("empty_diff")
    asked = attempt.ask(tool, arguments)
    if before and not asked.uses.isdisjoint(_changed(before)):
        raise NotSuitable("stale")
    return _Done(asked, result, diff, attempt.stage.changed())


def _changed(diff: Diff) -> set[tuple[str, Scalar, str]]:
    """Return table, key and column of what a change took away from rows that were there before."""
    found: set[tuple[str, Scalar, str]] = set()
    for line in diff:
        table, _, old, _ = orjson.loads(line)
        found.update((table, old["id"], column) for column in old or ())
    return found


def _add_decoys(attempt: Attempt, plot: Plot) -> Plot:
    """Add the decoys of a write; the current state must be the wanted one."""
    found = {
        "over_write": over_write(attempt, plot.moves, plot.diffs),
        "wrong_entity": wrong_entity(attempt, plot.moves, plot.diffs),
    }
    plot.decoys = {name: moves for name, moves in found.items() if moves is not None}
    return plot


def single(attempt: Attempt, tool: str | None = None) -> Plot:
    """Sample one write (with `tool`, if given)."""
    done = _write(attempt, tool)
    solver = attempt.solve([done.asked])
    plot = Plot(TaskKind.SINGLE_WRITE, [done.asked], solver, [[done.move]], (done.diff,))
    return _add_decoys(attempt, plot)


# --- a fact to ask for -----------------------------------------------------------------------


def missing_fact(attempt: Attempt) -> Plot:
    """Sample one write whose request leaves out one fact that nothing but the user can tell."""
    done = _write(attempt)
    solver = attempt.solve([done.asked])
    names = list(solver.plan.said)
    attempt.rng.shuffle(names)
    if attempt.rng.random() < DETAILS:
        names.sort(key=lambda name: name.startswith("user."))
    for name in names:
        shorter = without(attempt, done.asked, solver, name)
        if shorter is not None:
            fact = solver.plan.said[name]
            plot = Plot(
                TaskKind.MISSING_FACT,
                [shorter],
                solver,
                [[done.move]],
                (done.diff,),
                withheld=(fact,),
            )
            return _add_decoys(attempt, plot)
    raise NotSuitable("nothing_to_ask")


def without(attempt: Attempt, asked: Asked, solver: Solver, name: str) -> Asked | None:
    """Return the wish without one fact, or None if it cannot be said so or needs no asking.

    Args:
        attempt: the task.
        asked: the wish.
        solver: of the whole wish.
        name: of the fact, as `solver.plan.said` has it.
    """
    parameter = attempt.application.tools[asked.tool].parameters.get(name.split(".")[0])
    if parameter is not None and parameter.optional:
        return None  # nobody asks for what need not be given
    withheld = frozenset({name})
    try:
        shorter = attempt.ask(asked.tool, asked.arguments, Asking(attempt.mind, withheld))
    except NotSuitable:
        return None
    if _told(solver.plan.said, name, shorter):
        return None
    if any(binding.name == name for binding in attempt.bindings(asked.tool, asked.arguments)):
        return shorter
    try:
        attempt.solve([shorter], withheld=withheld)
    except NotSuitable:
        return shorter
    return None  # a look-up tells, or other facts do


def _told(said: dict[str, Fact], name: str, shorter: Asked) -> bool:
    """Whether the request gives the fact away all the same."""
    others = [fact.spoken for other, fact in said.items() if other != name]
    return any(occurs(said[name].spoken, text) for text in (shorter.clause, *others))


# --- several writes --------------------------------------------------------------------------


def chained(attempt: Attempt) -> Plot:
    """Sample two or three writes of one user, later ones building on earlier ones."""
    chain = [_write(attempt)]
    wanted = 3 if attempt.rng.random() < THIRD else 2
    while len(chain) < wanted:
        try:
            chain.append(_next(attempt, chain))
        except NotSuitable:
            if len(chain) < 2:
                raise
            break
    solver = attempt.solve([done.asked for done in chain])
    asked = [done.asked for done in chain]
    moves = [[done.move] for done in chain]
    plot = Plot(TaskKind.CHAINED_WRITES, asked, solver, moves, (chain[-1].diff,))
    return _add_decoys(attempt, plot)


def _check_each_counts(attempt: Attempt, chain: list[_Done]) -> None:
    """Refuse a chain in which a later write makes an earlier one pointless.

    The current state is that after the whole chain, before and afterwards.
    """
    moves = [done.move for done in chain]
    if _undoes(attempt, chain[:-1], chain[-1]):
        raise NotSuitable("superseded")
    for dropped in range(len(moves) - 1):
        attempt.stage.start(attempt.seed)
        for tool, arguments in moves[:dropped] + moves[dropped + 1 :]:
            # A call that fails without the dropped one is no proof: the two may cancel out.
            attempt.stage.call(tool, arguments)
        if attempt.stage.diff() == chain[-1].diff:
            raise NotSuitable("superseded")
    attempt.stage.replay(attempt.seed, moves)


def _undoes(attempt: Attempt, before: Sequence[_Done], done: _Done) -> bool:
    """Say whether a write ends what an earlier one made or set, or sets another value there.

    Nobody asks for a ride and then for that it be cancelled. Numbers that a write counts up or down
    (a balance) may change twice: only values that an earlier call named are settled by it.
    """
    named = {value for one in before for value in _scalars(one.asked.arguments)}
    ends = attempt.stage.effects[done.asked.tool] is Effect.DESTRUCTIVE
    for key, row in before[-1].rows.items():
        now = done.rows.get(key)
        if now == row:
            continue
        if row is None or now is None:
            return True
        other = [was for column, was in row.items() if now[column] != was]
        if any(was in named or (ends and isinstance(was, str)) for was in other if was is not None):
            return True
    return False


def _scalars(value: Any) -> Iterator[Scalar]:
    """Yield the texts and numbers in arguments."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _scalars(item)
    elif value is not None and not isinstance(value, bool):
        yield value


def _next(attempt: Attempt, chain: list[_Done]) -> _Done:
    """Draw and execute a write that uses what the chain has made or touched."""
    made, touched = _keys(attempt, chain)
    new = list(_links(attempt, chain, made, new=True))
    old = list(_links(attempt, chain, touched))
    if not new and not old:
        old = [(tool, {}) for tool in attempt.wishes()]

    def draw() -> Move:
        prefer = new if new and attempt.rng.random() < PREFER_NEW else old
        options = prefer or new
        link = attempt.pick(options)
        tool, fixed = link
        try:
            arguments = attempt.draw(tool, fixed, fit=attempt.succeeding(tool, live=True))
            if any(done.move == (tool, arguments) for done in chain):
                raise NotSuitable("no_goal")
        except NotSuitable:
            options.remove(link)
            raise
        return tool, arguments

    return _further(attempt, draw, chain, lambda done: _check_each_counts(attempt, [*chain, done]))


def _keys(
    attempt: Attempt, chain: list[_Done]
) -> tuple[dict[str, list[Scalar]], dict[str, list[Scalar]]]:
    """Return the keys of rows the chain has made, and of rows it touched, by column."""
    graph, user = attempt.stage.graph, attempt.application.user.table
    new: dict[str, list[Scalar]] = {}
    old: dict[str, list[Scalar]] = {}
    for done in chain:
        for column, value in _values(attempt, done):
            key = graph.root(column)
            table = key.split(".")[0]
            if not graph.is_key(key) or table == user or value is None:
                continue
            if attempt.scene.row(table, "id", value) is not None:
                old.setdefault(key, []).append(value)
            elif rows := attempt.stage.query(
                f'SELECT * FROM "{table}" WHERE id = :id', {"id": value}
            ):
                attempt.mind.born[table, value] = rows[0]
                new.setdefault(key, []).append(value)
    return new, old


def _values(attempt: Attempt, done: _Done) -> Iterator[tuple[str, Scalar]]:
    """Yield what a write was called with and returned, by the column it belongs to."""
    result = unwrapped(done.result)
    for row in result if isinstance(result, list) else [result]:
        for column, origin in attempt.stage.graph.outputs[done.asked.tool].items():
            if origin is not None:
                yield origin, row.get(column)
    for binding in attempt.bindings(done.asked.tool, done.asked.arguments):
        if binding.parameter.entity is not None:
            yield binding.parameter.entity, binding.value


def _links(
    attempt: Attempt, chain: list[_Done], keys: dict[str, list[Scalar]], *, new: bool = False
) -> Iterator[Link]:
    """Yield the writes that can go on with one of the keys, and the arguments that hold it."""
    graph = attempt.stage.graph
    used = {done.asked.tool for done in chain}
    for key, values in keys.items():
        for tool in attempt.wishes(key if new else None):
            for leaf in graph.leaves[tool] if tool not in used else ():
                entity = leaf.parameter.entity
                simple = leaf.required and leaf.path[1:] in {(), ("*",)}
                if simple and entity is not None and graph.root(entity) == key:
                    for value in dict.fromkeys(values):
                        yield tool, {leaf.path[0]: [value] if len(leaf.path) > 1 else value}


def parallel(attempt: Attempt) -> Plot:
    """Sample two writes that can be made in either order."""
    first = _write(attempt)

    def draw() -> Move:
        same = attempt.rng.random() < SAME_TOOL
        tool = first.asked.tool if same else attempt.wish()
        arguments = attempt.draw(tool, fit=attempt.succeeding(tool, live=True))
        if _about(attempt, tool, arguments) == _about(attempt, *first.move):
            raise NotSuitable("no_goal")
        return tool, arguments

    second = _further(attempt, draw, [first])
    moves = [first.move, second.move]
    attempt.stage.start(attempt.seed)
    attempt.execute(*second.move)
    if attempt.stage.diff() == second.diff:
        raise NotSuitable("superseded")
    attempt.execute(*first.move)
    if attempt.stage.diff() != second.diff or not second.diff:
        raise NotSuitable("dependent")
    asked = [first.asked, second.asked]
    plot = Plot(TaskKind.PARALLEL, asked, attempt.solve(asked), [moves], (second.diff,))
    return _add_decoys(attempt, plot)


def _about(attempt: Attempt, tool: str, arguments: dict[str, Any]) -> set[tuple[str, Scalar]]:
    """Return the rows a call is about; its values where it is about none but the user's own."""
    user = attempt.application.user.table
    found = attempt.bindings(tool, arguments)
    rows = {
        (attempt.stage.graph.root(b.parameter.entity), b.value)
        for b in found
        if b.parameter.entity is not None and b.parameter.entity.split(".")[0] != user
    }
    return rows or {(f"{tool}.{b.name}", b.value) for b in found}
