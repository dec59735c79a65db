"""Adds an entity that belongs to rows of a table: notes, tags, ratings, …"""

from __future__ import annotations

import random
from typing import Any

from synth.core.application import Generator, Parameter, SeedTable, Tool
from tool_registry.edits import free, step, with_table, with_tools
from tool_registry.operator import Edit, Operator, Subject, singular, vocabulary


def _apply(subject: Subject, rng: random.Random) -> Edit | None:
    application = subject.application
    parents = [t for t in subject.subjects if t in application.seed]
    if not parents:
        return None
    parent = rng.choice(parents)
    key, _ = subject.subjects[parent]
    kind, entry = rng.choice(list(vocabulary()["satellites"].items()))
    one, thing, field = singular(parent).replace(" ", "_"), singular(kind), entry["field"]
    table, fk = f"{one}_{kind}", f"{one}_id"
    lister, adder, remover = (
        f"list_{table}",
        f"add_{one}_{singular(kind).replace(' ', '_')}",
        f"remove_{one}_{singular(kind).replace(' ', '_')}",
    )
    if table in subject.tables or not all(free(application, n) for n in (lister, adder, remover)):
        return None
    number = "range" in entry
    ddl = (
        f"CREATE TABLE {table} (\n    id TEXT PRIMARY KEY,\n    {fk} TEXT NOT "
        f"NULL REFERENCES {parent},\n"
        f"    {field} {'INTEGER' if number else 'TEXT'} NOT NULL,\n    added "
        f"TEXT NOT NULL\n  ) STRICT;"
    )
    made = (
        Generator(kind="integer", argument=entry["range"])
        if number
        else Generator(kind="choice", argument=entry["words"])
    )
    seed = SeedTable(
        each=parent,
        count=(0, 2),
        columns={
            "id": Generator(kind="serial", argument=f"{kind[:2].upper()}X{{n:04d}}"),
            fk: Generator(kind="parent", argument="id"),
            field: made,
            "added": Generator(kind="date", argument=[-40, -1]),
        },
    )
    application = with_table(
        application, ddl, table, seed, known={**application.known, table: (field, fk)}
    )
    tools = _tools(
        (parent, key, singular(parent)),
        (table, fk, field, thing),
        entry,
        subject.named(parent, key) or "",
    )
    named = {lister: tools[0], adder: tools[1], remover: tools[2]}
    if rng.random() < 0.3 and parent != subject.application.user.table:
        del named[remover]
    words = f"rows of {parent} have {kind.replace('_', ' ')}"
    return Edit(with_tools(application, named), words, tuple(named))


def _tools(
    owner: tuple[str, str, str],
    own: tuple[str, str, str, str],
    entry: dict[str, Any],
    named: str,
) -> tuple[Tool, Tool, Tool]:
    parent, key, noun = owner
    table, fk, field, thing = own
    said = field.replace("_", " ")
    row = Parameter(type="string", entity=f"{parent}.id", description=f"The {noun} concerned")
    where = "" if named == "me" else f" of {named}"
    rows = step(
        returns=(
            f"SELECT id, {fk}, {field}, added FROM {table} WHERE {fk} = :{key} ORDER BY added, id"
        ),
        shape="list",
    )
    new = _value(own, entry)
    prefix = table[:2].upper() + "N"
    lister = Tool(
        description=f"List the {table.replace('_', ' ')} of a {noun}, the oldest first.",
        effect="read",
        parameters={key: row},
        steps=(rows,),
    )
    to = "" if named == "me" else f" to {named}"
    adder = Tool(
        description=f"Add a {thing} to a {noun}. The same one is not added twice.",
        effect="write",
        parameters={key: row, field: new},
        steps=(
            step(
                require=(
                    f"SELECT NOT EXISTS (SELECT 1 FROM {table} WHERE {fk} = :{key} "
                    f"AND {field} = :{field})"
                ),
                error="exists_already",
                message=f"{{{key}!r}} has {{{field}!r}} already.",
            ),
            step(let={"new_id": f"SELECT next_id('{prefix}')"}),
            step(
                write=(
                    f"INSERT INTO {table} (id, {fk}, {field}, added) VALUES "
                    f"(:new_id, :{key}, :{field}, today())"
                )
            ),
            step(
                returns=f"SELECT id, {field}, added FROM {table} WHERE id = :new_id", shape="object"
            ),
        ),
        intent={
            "en": (
                f"add a {thing}{{% if {field} %}} with the {said} "
                f'"{{{{ {field} }}}}"{{% endif %}}{to}'
            )
        },
    )
    return lister, adder, _remover(owner, own, where)


def _value(own: tuple[str, str, str, str], entry: dict[str, Any]) -> Parameter:
    table, _, field, _ = own
    said = field.replace("_", " ")
    if "range" in entry:
        low, high = entry["range"]
        return Parameter(
            type="integer",
            minimum=low,
            maximum=high,
            sets=f"{table}.{field}",
            label=said,
            description=entry["about"],
            generate=Generator(kind="integer", argument=[low, high]),
        )
    return Parameter(
        type="string",
        minLength=2,
        maxLength=200,
        sets=f"{table}.{field}",
        label=said,
        description=entry["about"],
        generate=Generator(kind="choice", argument=entry["words"]),
    )


def _remover(owner: tuple[str, str, str], own: tuple[str, str, str, str], where: str) -> Tool:
    _, key, noun = owner
    table, fk, field, thing = own
    mine = f"{singular(table).replace(' ', '_')}_id"
    return Tool(
        description=f"Remove a {thing} from a {noun} for good.",
        effect="destructive",
        parameters={
            mine: Parameter(
                type="string", entity=f"{table}.id", description=f"The {thing} to remove"
            )
        },
        steps=(step(write=f"DELETE FROM {table} WHERE id = :{mine}"),),
        intent={
            "en": f'remove the {thing} "{{{{ {mine}.{field} }}}}"'
            + (where.replace(f"{key}.", f"{mine}.{fk.removesuffix('_id')}.") if where else "")
        },
    )


OPERATOR = Operator("breadth", "A related entity with tools to list, add and remove it.", _apply)
