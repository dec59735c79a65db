"""Demands a step before a write: an approval of the row, with a tool that gives it."""

from __future__ import annotations

import random
from dataclasses import dataclass

from synth.core.application import Generator, Parameter, SeedTable, Tool
from tool_registry.composer.phrases import a
from tool_registry.edits import around, free, orphans, step, told, with_table, with_tools
from tool_registry.operator import Edit, Operator, Subject, singular, vocabulary


def _apply(subject: Subject, rng: random.Random) -> Edit | None:
    application = subject.application
    found = [
        (name, parameter, table)
        for name, tool in subject.writes.items()
        for parameter, p in tool.parameters.items()
        if p.entity and not p.optional
        for table in [p.entity.split(".")[0]]
        if table in subject.subjects
        and table in application.seed
        and subject.nature(table) == "record"
    ]
    if not found:
        return None
    name, parameter, table = rng.choice(found)
    kind, entry = rng.choice(list(vocabulary()["approvals"].items()))
    noun, one = singular(table), singular(table).replace(" ", "_")
    records, fk = f"{one}_{kind}s", f"{one}_id"
    grant, lister = f"{entry['grant']}_{one}", f"list_{records}"
    if records in subject.tables or not (free(application, grant) and free(application, lister)):
        return None
    ddl = (
        f"CREATE TABLE {records} (\n    id TEXT PRIMARY KEY,\n    {fk} TEXT NOT "
        f"NULL REFERENCES {table},\n"
        f"    day TEXT NOT NULL\n  ) STRICT;"
    )
    seed = SeedTable(
        each=table,
        count=(0, 1),
        columns={
            "id": Generator(kind="serial", argument=f"{kind[:1].upper()}V{{n:04d}}"),
            fk: Generator(kind="parent", argument="id"),
            "day": Generator(kind="date", argument=[-20, -1]),
        },
    )
    key, _ = subject.subjects[table]
    wanted = _Wanted(records, fk, key, noun, kind, entry["said"], subject.row(table))
    named = subject.named(table, key) or ""
    tools = {grant: _grant(wanted, named, name), lister: _lister(wanted)}
    guard = step(
        require=f"SELECT EXISTS (SELECT 1 FROM {records} WHERE {fk} = :{parameter})",
        error=f"no_{kind}",
        message=f"The {noun} {{{parameter}!r}} has not been {entry['said']}; use {grant} first.",
    )
    needs = f"Refused unless the {noun} has been {entry['said']}; see `{grant}`."
    changed = told(around(subject.writes[name], before=[guard]), needs)
    after = (*application.after_seed, *orphans(application, records, fk, table))
    application = with_table(application, ddl, records, seed, after_seed=after)
    words = f"{name} needs the {kind.replace('_', ' ')} of the {noun}, which {grant} enters"
    return Edit(with_tools(application, {**tools, name: changed}), words, (*tools, name))


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The record that a write needs."""

    table: str
    fk: str
    key: str
    """The parameter that names the row."""
    noun: str
    kind: str
    said: str
    row: Parameter


def _grant(wanted: _Wanted, named: str, needed_by: str) -> Tool:
    records, fk, key = wanted.table, wanted.fk, wanted.key
    return Tool(
        description=f"Enter that {a(wanted.noun)} has been {wanted.said} today. `{needed_by}` is "
        "refused without it. Refused if it was entered before.",
        effect="write",
        parameters={key: wanted.row},
        steps=(
            step(
                require=f"SELECT NOT EXISTS (SELECT 1 FROM {records} WHERE {fk} = :{key})",
                error="entered_already",
                message=f"The {wanted.noun} {{{key}!r}} is {wanted.said} already.",
            ),
            step(let={"record_id": f"SELECT next_id('{wanted.kind[:1].upper()}W')"}),
            step(
                write=f"INSERT INTO {records} (id, {fk}, day) VALUES (:record_id, :{key}, today())"
            ),
            step(returns=f"SELECT id, day FROM {records} WHERE id = :record_id", shape="object"),
        ),
        intent={"en": f"have {named} {wanted.said}"},
    )


def _lister(wanted: _Wanted) -> Tool:
    where = f"WHERE {wanted.fk} = :{wanted.key} ORDER BY day, id"
    return Tool(
        description=(
            f"Show on which day {a(wanted.noun)} was {wanted.said}; an empty list if it never was."
        ),
        effect="read",
        parameters={wanted.key: wanted.row},
        steps=(step(returns=f"SELECT id, day FROM {wanted.table} {where}", shape="list"),),
    )


OPERATOR = Operator("steps", "A step that has to come before a write.", _apply, times=2)
