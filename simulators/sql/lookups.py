"""Tasks that only ask: the value of a result column, told to the user."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

from simulators.sql.asking import Asked
from simulators.sql.attempt import Attempt, Move, Plot
from simulators.sql.decoys import others, over_write
from simulators.sql.facts import Mind
from simulators.sql.solve import Solver
from simulators.sql.words import is_date, is_datetime, occurs, spoken
from synth.core.errors import NotSuitable
from synth.core.types import OutputValue, Scalar, TaskKind

OutputType: TypeAlias = Literal["text", "integer", "number", "boolean", "date", "datetime", "money"]

COMMON = 12
"""Numbers up to this are known by the name of their column (see the judge's outputs)."""
MOST_VALUES = 5
"""Values of a list that one answer may have to name."""


def lookup(attempt: Attempt, question: tuple[str, str] | None = None) -> Plot:
    """Sample one question (of this tool and column, if given)."""
    tool, column = question or _pick(attempt)
    attempt.meet(tool)
    asked, outputs = _question(attempt, tool, column)
    return _plot(attempt, TaskKind.LOOKUP, [asked], outputs, [column])


def parallel(attempt: Attempt) -> Plot:
    """Sample two questions whose answers do not depend on each other."""
    tool, column = _pick(attempt)
    attempt.meet(tool)
    first, values = _question(attempt, tool, column)
    attempt.asking.note(first)
    other, other_column = _pick(attempt, beside=tool)
    second, more = _question(attempt, other, other_column)
    if (first.tool, first.arguments) == (second.tool, second.arguments):
        raise NotSuitable("dependent")
    told = {(output.type, output.value) for output in values}
    if any((output.type, output.value) in told for output in more):
        raise NotSuitable("same_answer")
    return _plot(
        attempt, TaskKind.PARALLEL, [first, second], [*values, *more], [column, other_column]
    )


def askable(attempt: Attempt) -> list[tuple[str, str]]:
    """Return the questions that the toolset answers: tool and result column."""
    questions = attempt.stage.questions
    return [(tool, column) for tool in attempt.tools for column in questions[tool]]


def _pick(attempt: Attempt, beside: str | None = None) -> tuple[str, str]:
    """Draw a question; `beside`: the tool of another one, which its answer must not depend on."""
    return attempt.pick(
        [
            (tool, column)
            for tool, column in askable(attempt)
            if attempt.can_find(tool) and (beside is None or _independent(attempt, tool, beside))
        ]
    )


def _independent(attempt: Attempt, one: str, other: str) -> bool:
    """Whether each tool can be used without the other; one tool twice is: on different rows."""
    if one == other:
        graph, user = attempt.stage.graph, attempt.application.user.table
        meant = [leaf.meaning for leaf in graph.leaves[one] if leaf.required and leaf.meaning]
        return any(column.split(".")[0] != user for column in meant)
    return all(
        attempt.stage.can_find(tuple(t for t in attempt.tools if t != without), tool, None)
        for tool, without in ((one, other), (other, one))
    )


def _question(attempt: Attempt, tool: str, column: str) -> tuple[Asked, list[OutputValue]]:
    words = attempt.stage.questions[tool][column]
    arguments = attempt.draw(tool, words=words, fit=attempt.succeeding(tool))
    result = attempt.scene.read(tool, arguments)
    if result is None:
        raise NotSuitable("tool_error")
    parameters = attempt.application.tools[tool].parameters
    asked = attempt.asking.ask(tool, parameters, arguments, words)
    outputs = answers(attempt, tool, column, result)
    if not 1 <= len(outputs) <= MOST_VALUES:
        raise NotSuitable("no_answer")
    return asked, outputs


def answers(attempt: Attempt, tool: str, column: str, result: Any) -> list[OutputValue]:
    """Return the distinct values that answer a question."""
    rows = result if isinstance(result, list) else [result]
    values = dict.fromkeys(row.get(column) for row in rows)
    origin = attempt.stage.graph.outputs[tool][column]
    found = [_output(attempt, column, origin, v) for v in values if v is not None]
    if not attempt.mind.english and any(_is_word(attempt, output) for output in found):
        raise NotSuitable("no_words")
    return found


def _is_word(attempt: Attempt, output: OutputValue) -> bool:
    """Return whether a value is told in words of English, or known by an English name only."""
    value = output.value
    if isinstance(value, str):
        return value in attempt.application.values or len(value) <= 2
    return isinstance(value, bool) or (value is not None and abs(value) <= COMMON)


def _output(attempt: Attempt, column: str, origin: str | None, value: Scalar) -> OutputValue:
    application = attempt.application
    label = application.label(origin) if origin else column.replace("_", " ")
    money = origin in application.money and isinstance(value, int)
    return OutputValue(
        label=label,
        type="money" if money else _type(value),
        value=value,
        currency=application.currency if money else None,
    )


def _type(value: Scalar) -> OutputType:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "number"
    if is_date(value):
        return "date"
    return "datetime" if is_datetime(value) else "text"


def _plot(
    attempt: Attempt,
    kind: TaskKind,
    asked: list[Asked],
    outputs: list[OutputValue],
    columns: Sequence[str],
) -> Plot:
    solver = attempt.solve(asked)
    if _given_away(outputs, asked, solver, attempt.mind):
        raise NotSuitable("told_already")
    finals: list[Move] = [(wish.tool, wish.arguments) for wish in asked]
    if any((call.tool, call.arguments) in finals for call in solver.plan.calls):
        raise NotSuitable("dependent")  # one question is answered on the way to the other
    moves = [finals]
    plot = Plot(kind, asked, solver, moves, ((),), outputs=tuple(outputs))
    attempt.stage.start(attempt.seed)
    found = {
        "over_write": over_write(attempt, moves, plot.diffs),
        "wrong_entity": _wrong_entity(attempt, moves, columns[-1]),
    }
    plot.decoys = {name: wrong for name, wrong in found.items() if wrong is not None}
    return plot


def _given_away(
    outputs: Sequence[OutputValue], asked: Sequence[Asked], solver: Solver, mind: Mind
) -> bool:
    """Whether the request itself contains the answer, so that echoing it would do."""
    texts = [wish.clause for wish in asked]
    texts += [fact.spoken for fact in solver.plan.said.values()]
    texts += [known.fact.spoken for known in (mind.me.facts()[:1] if mind.me else ())]
    for output in outputs:
        if output.type != "boolean":
            form = spoken(output.value, currency=output.currency, speech=mind.speech)
            if any(occurs(form, text) for text in texts):
                return True
    return False


def _wrong_entity(
    attempt: Attempt, moves: Sequence[Sequence[Move]], column: str
) -> list[list[Move]] | None:
    """Ask the last question about something else whose answer is another one."""
    *before, (tool, arguments) = moves[-1]
    right = answers(attempt, tool, column, attempt.scene.read(tool, arguments))
    for other in others(attempt, tool, arguments):
        result = attempt.scene.read(tool, other)
        wrong = [] if result is None else answers(attempt, tool, column, result)
        if wrong and wrong != right:
            return [[*before, (tool, other)]]
    return None
