"""Gives the rows of a table an attribute, with a tool that sets it and one that reads it."""

from __future__ import annotations

import random
from typing import Any

from synth.core.application import Generator, Parameter, Tool
from tool_registry.composer.phrases import a
from tool_registry.edits import free, step, with_column, with_tools
from tool_registry.operator import Edit, Operator, Subject, singular, vocabulary


def _apply(subject: Subject, rng: random.Random) -> Edit | None:
    kinds = {c: e for c, e in vocabulary()["attributes"].items() if subject.having(e)}
    if not kinds:
        return None
    column, entry = rng.choice(list(kinds.items()))
    table = rng.choice(subject.having(entry))
    key, _ = subject.subjects[table]
    values, one = entry["values"], singular(table).replace(" ", "_")
    setter, getter = f"set_{one}_{column}", f"get_{one}_{column}"
    if column in subject.tables[table] or not free(subject.application, setter):
        return None
    said, listed = column.replace("_", " "), ", ".join(f"'{v}'" for v in values)
    rest = f"TEXT NOT NULL DEFAULT '{values[0]}' CHECK ({column} IN ({listed}))"
    weights = dict(zip(values, rng.sample(range(15, 60), len(values)), strict=True))
    application = with_column(
        subject.application, table, column, rest, Generator(kind="choice", argument=weights)
    )
    if application is None:
        return None
    named = subject.named(table, key) or ""
    tools = dict(
        zip((getter, setter), _tools(subject.row(table), key, column, entry, named), strict=True)
    )
    words = f"rows of {table} have a {said}"
    return Edit(with_tools(application, tools), words, (getter, setter))


def _tools(
    row: Parameter, key: str, column: str, entry: dict[str, Any], named: str
) -> tuple[Tool, Tool]:
    table = str(row.entity).partition(".")[0]
    noun, about = singular(table), f"{entry['about'][0].lower()}{entry['about'][1:]}"
    said = column.replace("_", " ")
    whose = "my" if named == "me" else "the"
    tail = "" if named == "me" else f" of {named}"
    shown = step(returns=f"SELECT id, {column} FROM {table} WHERE id = :{key}", shape="object")
    new = Parameter(
        type="string",
        enum=tuple(entry["values"]),
        sets=f"{table}.{column}",
        label=said,
        description=entry["about"],
    )
    get = Tool(
        description=f"Show the {said} of {a(noun)}: {about}.",
        effect="read",
        parameters={key: row},
        steps=(shown,),
        questions={column: {"en": f"what {whose} {said}{tail} is"}},
    )
    put = Tool(
        description=(
            f"Set the {said} of {a(noun)}: {about}. Refused if that is its value already."
        ),
        effect="write",
        parameters={key: row, column: new},
        steps=(
            step(
                require=f"SELECT {column} <> :{column} FROM {table} WHERE id = :{key}",
                error="no_change",
                message=f"The {said} of {{{key}!r}} is {{{column}!r}} already.",
            ),
            step(write=f"UPDATE {table} SET {column} = :{column} WHERE id = :{key}"),
            shown,
        ),
        intent={
            "en": (
                f"have {whose} {said}{tail} set{{% if {column} %}} to "
                f"{{{{ {column} }}}}{{% endif %}}"
            )
        },
    )
    return get, put


OPERATOR = Operator(
    "deepen", "An attribute of a table with tools to read and set it.", _apply, times=3
)
