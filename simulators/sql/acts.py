"""Tasks in which the user has to do something with a tool of their own (dual control, tau2-bench).

A write is drawn that cannot be made yet, or that takes a value which only the user can see; the
user's act is executed, and then the write. What the user can do beside that, to other things of
theirs, is part of the task: an agent has to say which one it means.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from simulators.sql.aids import Aid, looked_at
from simulators.sql.asking import Asked, Asking
from simulators.sql.attempt import Attempt, Move, Plot
from simulators.sql.decoys import over_write, wrong_entity
from simulators.sql.facts import Node, in_words, unwrapped
from simulators.sql.goals import bind, first, names_in, shaped
from simulators.sql.owners import owned
from simulators.sql.program import USER
from simulators.sql.solve import Solver
from simulators.sql.words import Unsaid, noun, occurs
from synth.core.errors import NotSuitable
from synth.core.types import Act, Diff, Effect, TaskKind

USERS = 12
"""Users met until one can mean the wanted call: few have a lamp that is offline."""
OTHERS = 2
"""Other things, for each tool of the user, that it could be used on."""


def user_act(attempt: Attempt, aid: Aid | None = None) -> Plot:
    """Sample a write that waits for the user (in the way of `aid`, if given)."""
    aid = aid or _aid(attempt)
    if aid.require is not None:
        return _established(attempt, aid, aid.require)
    return _shown(attempt, aid, str(aid.parameter))


def _aid(attempt: Attempt) -> Aid:
    intents = attempt.stage.intents
    found = [a for a in attempt.stage.aids if a.tool in attempt.tools and a.tool in intents]
    if not found:
        raise NotSuitable("no_act")
    found = [aid for aid in found if attempt.can_find(aid.tool)]
    if not found:
        raise NotSuitable("no_tools")
    by = attempt.pick(sorted({aid.by for aid in found}))
    return attempt.pick([aid for aid in found if aid.by == by])


def _established(attempt: Attempt, aid: Aid, require: str) -> Plot:
    """Draw a write that fails for one condition, which the user can bring about."""
    stage = attempt.stage
    arguments = attempt.meet_and_draw(aid.tool, require, USERS)
    stage.start(attempt.seed)
    early = stage.call(aid.tool, arguments)
    if early.error is None or early.error.code != aid.error:
        raise NotSuitable("tool_error")
    asked = attempt.ask(aid.tool, arguments)
    needed: list[Move] = []
    done, before = False, stage.diff()
    for move in _moves(attempt, aid.by, asked):
        if not stage.call(*move, attempt.user).ok or stage.diff() == before:
            continue
        needed.append(move)
        before = stage.diff()
        done = stage.call(aid.tool, arguments).ok
        if done:
            break
    if not done:
        raise NotSuitable("tool_error")
    needed = _least(attempt, needed, (aid.tool, arguments))
    done_by_user = stage.play(attempt.seed, needed, attempt.user)
    diff = stage.diff() if stage.call(aid.tool, arguments).ok else None
    if diff is None or diff == done_by_user:
        raise NotSuitable("empty_diff")
    solver = attempt.solve([asked])
    # Who asks somebody to plug in a lamp has seen that it is offline.
    solver.see(looked_at(require, stage.graph.columns))
    return _plot(attempt, asked, solver, [*needed, (aid.tool, arguments)], diff)


def _least(attempt: Attempt, acts: Sequence[Move], write: Move) -> list[Move]:
    """Leave out the acts that the write does not wait for."""
    left = list(acts)
    for act in acts[:-1]:
        rest = [other for other in left if other != act]
        if attempt.stage.replay(attempt.seed, [*rest, write], attempt.user):
            left = rest
    return left


def _shown(attempt: Attempt, aid: Aid, parameter: str) -> Plot:
    """Draw a write that takes a value which only the user can see."""
    stage = attempt.stage
    arguments = attempt.meet_and_draw(aid.tool, users=USERS)
    value, hidden = arguments.get(parameter), frozenset({parameter})
    asked = attempt.ask(aid.tool, arguments, Asking(attempt.mind, hidden))
    stage.start(attempt.seed)
    for move in _moves(attempt, aid.by, asked):
        result = stage.call(*move, attempt.user)
        shown = unwrapped(result) if result.ok else None
        if isinstance(shown, dict) and shown.get(aid.column) == value:
            break
    else:
        raise NotSuitable("no_goal")
    attempt.call(aid.tool, arguments)
    diff = stage.diff()
    if not diff:
        raise NotSuitable("empty_diff")
    solver = attempt.solve([asked], withheld=hidden)
    texts = (asked.clause, *(fact.spoken for fact in solver.plan.said.values()))
    looked_up = [v for call in solver.plan.calls for v in call.arguments.values()]
    if value in looked_up or any(occurs(str(value), text) for text in texts):
        raise NotSuitable("told_already")
    return _plot(attempt, asked, solver, [move, (aid.tool, arguments)], diff)


def _plot(
    attempt: Attempt, asked: Asked, solver: Solver, moves: Sequence[Move], diff: Diff
) -> Plot:
    """Return the worked-out task; the current state must be the wanted one."""
    plot = Plot(TaskKind.USER_ACT, [asked], solver, [[move] for move in moves], (diff,))
    found = {
        "over_write": over_write(attempt, plot.moves, plot.diffs),
        "wrong_entity": wrong_entity(attempt, plot.moves, plot.diffs),
    }
    plot.decoys = {name: other for name, other in found.items() if other is not None}
    plot.acts = _acts(attempt, moves[:-1])
    return plot


# --- what a user can do ----------------------------------------------------------------------


def _moves(attempt: Attempt, tool: str, asked: Asked) -> Iterator[Move]:
    """Yield uses of the user's tool on the things that a wish is about."""
    seen: list[dict[str, Any]] = []
    own = () if attempt.mind.me is None else (attempt.mind.me,)
    for nodes in (*(node.around() for node, _ in asked.targets), own):
        arguments = _filled(attempt, tool, (*nodes, *own))
        if arguments is not None and arguments not in seen:
            seen.append(arguments)
            yield tool, arguments


def _filled(attempt: Attempt, tool: str, nodes: Sequence[Node]) -> dict[str, Any] | None:
    """Return the arguments of the user's tool as these rows give them; None where they do not."""
    parameters = attempt.application.tools[tool].parameters
    arguments: dict[str, Any] = {}
    for name, parameter in parameters.items():
        if parameter.sample is not None:
            seen = {n: bind(arguments.get(n)) for n in names_in(parameter.sample, parameters)}
            seen |= {USER: attempt.user} if USER in parameter.sample else {}
            rows = attempt.scene.select(parameter.sample, seen)
            values = [first(row) for row in rows]
        else:
            table, _, column = (parameter.match or "").partition(".")
            values = [node.row[column] for node in nodes if node.table == table]
        if values and values[0] is not None:
            arguments[name] = shaped(parameter, values[0])
        elif not parameter.optional:
            return None
    return arguments


def _acts(attempt: Attempt, needed: Sequence[Move]) -> tuple[Act, ...]:
    """Return what is needed and what else the user could do, in no order that gives it away."""
    found = {act.words: act for move in needed for act in _worded(attempt, *move)}
    if len(found) < len(needed):
        raise NotSuitable("no_words")
    for tool in attempt.stage.requests:
        others = {a.words: a for move in _others(attempt, tool) for a in _worded(attempt, *move)}
        new = [act for words, act in sorted(others.items()) if words not in found]
        found.update({act.words: act for act in attempt.rng.sample(new, min(OTHERS, len(new)))})
    acts = list(found.values())
    attempt.rng.shuffle(acts)
    return tuple(acts)


def _others(attempt: Attempt, tool: str) -> Iterator[Move]:
    """Yield uses of the user's tool on whatever they have of that kind."""
    matched = (p.match for p in attempt.application.tools[tool].parameters.values() if p.match)
    table = next(matched, "").partition(".")[0]
    if not table:
        arguments = _filled(attempt, tool, ())
        if arguments is not None:
            yield tool, arguments
        return
    for row in owned(attempt.scene, table, attempt.user):
        node = attempt.mind.node(f"{table}.id", row["id"], table, noun(table))
        arguments = _filled(attempt, tool, node.around()) if node is not None else None
        if arguments is not None:
            yield tool, arguments


def _worded(attempt: Attempt, tool: str, arguments: dict[str, Any]) -> Iterator[Act]:
    """Yield the act as people call it; nothing where nobody has words for it."""
    parameters = attempt.application.tools[tool].parameters
    said = {
        name: in_words(attempt.mind.argument(name, parameter, arguments[name]))
        if name in arguments
        else None
        for name, parameter in parameters.items()
    }
    try:
        words = attempt.stage.requests[tool].render(said)
    except Unsaid:
        return
    labels: dict[str, str] = {}
    if attempt.stage.effects[tool] is Effect.READ:
        for column, origin in attempt.stage.graph.outputs[tool].items():
            label = attempt.application.label(origin) if origin else column.replace("_", " ")
            labels[column] = label
    yield Act(tool=tool, arguments=arguments, words=words, labels=labels)
