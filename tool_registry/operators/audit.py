"""Writes down what was changed: a table of entries that writes fill, and a tool that lists them."""

from __future__ import annotations

import random

from synth.core.application import Tool
from tool_registry.composer.phrases import a
from tool_registry.edits import around, free, step, told, with_table, with_tools
from tool_registry.operator import Edit, Operator, Subject, singular


def _apply(subject: Subject, rng: random.Random) -> Edit | None:
    parents = [t for t in subject.subjects if subject.nature(t) in ("person", "record")]
    if not parents:
        return None
    parent = rng.choice(parents)
    one, noun = singular(parent).replace(" ", "_"), singular(parent)
    key, _ = subject.subjects[parent]
    table, fk = f"{one}_history", f"{one}_id"
    lister = f"get_{table}"
    written = [
        (name, parameter)
        for name, tool in subject.writes.items()
        for parameter, p in tool.parameters.items()
        if p.entity == f"{parent}.id" and not p.optional and tool.effect != "destructive"
    ]
    if table in subject.tables or not free(subject.application, lister) or not written:
        return None
    tools: dict[str, Tool] = {}
    for name, parameter in written:
        line = step(
            write=(
                f"INSERT INTO {table} (id, {fk}, act, at) VALUES (next_id('AU'), "
                f":{parameter}, '{name}', now())"
            )
        )
        noted = f"It is noted, see `{lister}`."
        tools.setdefault(name, told(around(subject.writes[name], after=[line]), noted))
    ddl = (
        f"CREATE TABLE {table} (\n    id TEXT PRIMARY KEY,\n    {fk} TEXT NOT "
        f"NULL REFERENCES {parent},\n"
        f"    act TEXT NOT NULL,\n    at TEXT NOT NULL\n  ) STRICT;"
    )
    sql = f"SELECT id, act, at FROM {table} WHERE {fk} = :{key} ORDER BY id"
    tools[lister] = Tool(
        description=(
            f"List what was changed on {a(noun)}, the first change first: the tool that was used "
            "and the moment, as YYYY-MM-DDTHH:MM:SS."
        ),
        effect="read",
        parameters={key: subject.row(parent)},
        steps=(step(returns=sql, shape="list"),),
    )
    words = f"what is done to rows of {parent} is written down in {table}"
    application = with_table(subject.application, ddl, table)
    return Edit(with_tools(application, tools), words, tuple(tools))


OPERATOR = Operator("deepen", "An audit table that writes fill.", _apply)
