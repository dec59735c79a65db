"""Small changes to applications that operators are made of. All return new documents."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel

from synth.core.application import Application, Generator, Parameter, SeedTable, Step, Tool

M = TypeVar("M", bound=BaseModel)
_EXPRESSION = re.compile(r"(\{\{|\{%)(.*?)(\}\}|%\})", re.DOTALL)


def remade(model: M, **changes: Any) -> M:
    """Return a copy with other values, validated, and without what the old one had cached."""
    values = {
        (info.alias or name): changes.get(name, getattr(model, name))
        for name, info in type(model).model_fields.items()
    }
    return type(model).model_validate(values)


def portable(application: Application) -> Application:
    """Return an application that JSON holds as it is: weights of numbers become repeated values.

    `choice: {1: 20, 2: 10}` would come back as a choice of texts.
    """
    return Application.model_validate(_listed(application.model_dump(by_alias=True)))


def _listed(value: Any) -> Any:
    if isinstance(value, dict):
        weights = value.get("argument")
        choice = value.get("kind") == "choice"
        if choice and isinstance(weights, dict) and any(not isinstance(k, str) for k in weights):
            most = max(weights.values())
            times = ((key, max(1, round(12 * n / most))) for key, n in weights.items())
            return value | {"argument": [key for key, n in times for _ in range(n)]}
        return {key: _listed(item) for key, item in value.items()}
    return [_listed(item) for item in value] if isinstance(value, list | tuple) else value


def step(**values: Any) -> Step:
    """Return a step from its YAML keys; `returns` stands for `return`."""
    if "returns" in values:
        values["return"] = values.pop("returns")
    return Step.model_validate(values)


# --- tools -----------------------------------------------------------------------------------


def with_tools(application: Application, tools: Mapping[str, Tool], **changes: Any) -> Application:
    """Return an application with further tools, or with others in the place of theirs."""
    return remade(application, tools={**application.tools, **tools}, **changes)


def replaced(
    application: Application, old: str, tools: Mapping[str, Tool], **changes: Any
) -> Application:
    """Return an application with `tools` in the place of the tool `old`."""
    found: dict[str, Tool] = {}
    for name, tool in application.tools.items():
        found.update(tools if name == old else {name: tool})
    rules = tuple(rule for rule in application.policy_rules if rule.tool in found)
    return remade(application, **{"tools": found, "policy_rules": rules, **changes})


def free(application: Application, name: str) -> bool:
    """Say whether no tool has the name, and whether one may have it."""
    return name not in application.tools and bool(re.fullmatch(r"[a-z][a-z0-9_]{0,62}", name))


def in_sql(tool: Tool, change: Callable[[str], str]) -> Tool:
    """Return a tool with every statement changed, those of its parameters too."""
    parameters = {n: _sampled(p, change) for n, p in tool.parameters.items()}
    return remade(tool, parameters=parameters, steps=tuple(_step(s, change) for s in tool.steps))


def _sampled(parameter: Parameter, change: Callable[[str], str]) -> Parameter:
    if parameter.items is not None:
        return remade(parameter, items=_sampled(parameter.items, change))
    return remade(parameter, sample=change(parameter.sample)) if parameter.sample else parameter


def _step(one: Step, change: Callable[[str], str]) -> Step:
    return remade(
        one,
        require=one.require and change(one.require),
        write=one.write and change(one.write),
        returns=one.returns and change(one.returns),
        let=one.let and {name: change(sql) for name, sql in one.let.items()},
    )


def in_words(tool: Tool, change: Callable[[str], str]) -> Tool:
    """Return a tool with the expressions of its templates changed, their text left alone."""

    def template(text: str) -> str:
        return _EXPRESSION.sub(lambda m: m[1] + change(m[2]) + m[3], text)

    questions = {
        column: {language: template(text) for language, text in words.items()}
        for column, words in tool.questions.items()
    }
    intent = {language: template(text) for language, text in tool.intent.items()}
    return remade(tool, intent=intent, questions=questions)


def bound(sql: str, name: str, instead: str) -> str:
    """Return SQL with `instead` in the place of the parameter `:name`."""
    return re.sub(rf"(?<![:\w]):{name}\b", lambda _: instead, sql)


def renamed_parameter(tool: Tool, old: str, new: str) -> Tool:
    """Return a tool one of whose parameters has another name."""
    tool = in_sql(tool, lambda sql: bound(sql, old, f":{new}"))
    tool = in_words(tool, lambda text: _word(text, old, new))
    steps = tuple(
        remade(s, message=re.sub(rf"\{{{old}(?=[!}}])", f"{{{new}", s.message)) if s.message else s
        for s in tool.steps
    )
    parameters = {new if n == old else n: p for n, p in tool.parameters.items()}
    return remade(tool, steps=steps, parameters=parameters)


def _word(text: str, old: str, new: str) -> str:
    """Replace a name in an expression, not an attribute and not text in quotes of that name."""
    return re.sub(rf"(?<![.\w'\"]){old}(?![\w'\"])", new, text)


def in_rules(application: Application, tool: str, change: Callable[[str], str]) -> tuple[Any, ...]:
    """Return the policy rules with the conditions of those for `tool` changed."""
    return tuple(
        remade(rule, when=change(rule.when)) if rule.tool == tool else rule
        for rule in application.policy_rules
    )


def around(tool: Tool, *, before: Iterable[Step] = (), after: Iterable[Step] = ()) -> Tool:
    """Return a tool with steps before all others, and steps before its result."""
    steps = list(tool.steps)
    at = len(steps) - 1 if steps and steps[-1].returns is not None else len(steps)
    return remade(tool, steps=(*before, *steps[:at], *after, *steps[at:]))


def told(tool: Tool, sentence: str) -> Tool:
    """Return a tool whose description ends with a further sentence."""
    return remade(tool, description=f"{tool.description.strip().rstrip('.')}. {sentence}")


# --- tables ----------------------------------------------------------------------------------


def with_table(
    application: Application, ddl: str, name: str, seed: SeedTable | None = None, **changes: Any
) -> Application:
    """Return an application with a further table."""
    rows = {**application.seed, name: seed} if seed else application.seed
    sql = f"{application.table_sql.rstrip()}\n{ddl}\n"
    return remade(application, table_sql=sql, seed=rows, **changes)


def with_column(
    application: Application, table: str, column: str, rest: str, generator: Generator | None
) -> Application | None:
    """Return an application with a column more; None where rows are written without naming columns.

    Args:
        application: the document.
        table: which table.
        column: name of the column.
        rest: type and constraints, with a default: `TEXT NOT NULL DEFAULT 'x'`.
        generator: how seeded rows get it, a choice; literal rows get its values in turn.
    """
    bare = re.compile(rf"\bINTO\s+{table}\s+(VALUES|SELECT|DEFAULT)\b", re.IGNORECASE)
    if any(bare.search(sql) for sql in statements(application)):
        return None
    made = re.search(rf"CREATE TABLE\s+{table}\s*\(", application.table_sql)
    if made is None:
        return None
    parts = _definitions(application.table_sql, made.end())
    last = [end for text, end in parts if not _CONSTRAINT.match(text)][-1]
    sql = application.table_sql
    sql = f"{sql[:last]},\n    {column} {rest}{sql[last:]}"
    seed = dict(application.seed)
    if generator is not None and table in seed:
        own = seed[table]
        columns = {**own.columns, column: generator} if own.columns else own.columns
        values = list(generator.argument)
        rows = [row | {column: values[n % len(values)]} for n, row in enumerate(own.rows)]
        seed[table] = remade(own, columns=columns, rows=tuple(rows))
    return remade(application, table_sql=sql, seed=seed)


_CONSTRAINT = re.compile(r"\s*(CONSTRAINT|UNIQUE|CHECK|FOREIGN|PRIMARY)\b", re.IGNORECASE)


def _definitions(sql: str, start: int) -> list[tuple[str, int]]:
    """Return the text and the end of each definition of a table that begins at `start`."""
    found, depth, begin, quoted = [], 0, start, False
    for place in range(start, len(sql)):
        char = sql[place]
        quoted = quoted != (char == "'")
        if quoted:
            continue
        if depth == 0 and char in ",)":
            text = sql[begin:place]
            found.append((text, begin + len(text.rstrip())))
            begin = place + 1
            if char == ")":
                break
        depth += {"(": 1, ")": -1}.get(char, 0)
    return found


def statements(application: Application) -> Iterable[str]:
    """Yield every statement by which the application changes rows."""
    for tool in application.tools.values():
        yield from (s.write for s in tool.steps if s.write)
        yield from (s.returns for s in tool.steps if s.returns)
    yield from application.after_seed
    for event in application.events.values():
        yield from event.write


def orphans(application: Application, table: str, column: str, parent: str) -> tuple[str, ...]:
    """Return what makes rows of a new table agree with `after_seed`, which may delete parents."""
    deletes = re.compile(rf"\bDELETE\s+FROM\s+{parent}\b", re.IGNORECASE)
    if not any(deletes.search(sql) for sql in application.after_seed):
        return ()
    return (f"DELETE FROM {table} WHERE {column} NOT IN (SELECT id FROM {parent})",)
