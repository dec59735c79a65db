"""Deepens the life cycle of a table: a reversible state in which writes on a row are refused."""

from __future__ import annotations

import random
from collections.abc import Mapping

from synth.core.application import Generator, Tool
from tool_registry.composer.phrases import a
from tool_registry.edits import around, free, step, told, with_column, with_tools
from tool_registry.operator import Edit, Operator, Subject, singular, vocabulary


def _apply(subject: Subject, rng: random.Random) -> Edit | None:
    states = {s: v for s, v in vocabulary()["holds"].items() if subject.having(v)}
    if not states:
        return None
    state, verbs = rng.choice(list(states.items()))
    table = rng.choice(subject.having(verbs))
    one = singular(table).replace(" ", "_")
    on, off, getter = f"{verbs['begin']}_{one}", f"{verbs['end']}_{one}", f"check_if_{one}_{state}"
    fresh = all(free(subject.application, name) for name in (on, off, getter))
    if state in subject.tables[table] or not fresh:
        return None
    rest = f"INTEGER NOT NULL DEFAULT 0 CHECK ({state} IN (0, 1))"
    generator = Generator(kind="choice", argument={0: 70, 1: 30})
    application = with_column(subject.application, table, state, rest, generator)
    if application is None:
        return None
    held = _held(subject, table, state, singular(table), rng) if verbs.get("blocks") else {}
    tools = _tools(subject, table, state, verbs["about"], held)
    words = f"rows of {table} can be {state.replace('_', ' ')}" + (
        f"; {next(iter(held))} is refused for those" if held else ""
    )
    named = dict(zip((getter, on, off), tools, strict=True))
    return Edit(with_tools(application, {**named, **held}), words, (*named, *held))


def _tools(
    subject: Subject, table: str, state: str, about: str, held: Mapping[str, Tool]
) -> tuple[Tool, Tool, Tool]:
    """Return the tools that read the state, begin it and end it."""
    key, _ = subject.subjects[table]
    noun, said = singular(table), state.replace("_", " ")
    named, row = subject.named(table, key), subject.row(table)
    shown = step(returns=f"SELECT id, {state} FROM {table} WHERE id = :{key}", shape="object")
    effect = "".join(f"; `{name}` is refused meanwhile" for name in held)

    def switch(value: int, refusal: str) -> Tool:
        return Tool(
            description=(
                f"Mark {a(noun)} as {said}: {about}{effect}. Refused if it is so already."
                if value
                else f"End the state in which {a(noun)} is {said}. Refused if it is not."
            ),
            effect="write",
            parameters={key: row},
            steps=(
                step(
                    require=f"SELECT {state} = {1 - value} FROM {table} WHERE id = :{key}",
                    error=refusal,
                    message=(
                        f"The {noun} {{{key}!r}} is {said if value else 'not ' + said} already."
                    ),
                ),
                step(write=f"UPDATE {table} SET {state} = {value} WHERE id = :{key}"),
                shown,
            ),
            intent={"en": f"have {named} {'marked as' if value else 'no longer marked as'} {said}"},
        )

    read = Tool(
        description=(f"Tell whether {a(noun)} is {said} (1) or not (0): {about}."),
        effect="read",
        parameters={key: row},
        steps=(shown,),
    )
    return read, switch(1, f"{state}_already"), switch(0, f"not_{state}")


def _held(
    subject: Subject, table: str, state: str, noun: str, rng: random.Random
) -> dict[str, Tool]:
    """Return one of the writes on such a row, now refused while the row is in that state."""
    found = [
        (name, parameter)
        for name, tool in subject.writes.items()
        for parameter, p in tool.parameters.items()
        if p.entity == f"{table}.id" and not p.optional
    ]
    if not found:
        return {}
    name, parameter = rng.choice(found)
    guard = step(
        require=f"SELECT NOT {state} FROM {table} WHERE id = :{parameter}",
        error=f"is_{state}",
        message=f"The {noun} {{{parameter}!r}} is {state.replace('_', ' ')}.",
    )
    refused = f"Refused while the {noun} is {state.replace('_', ' ')}."
    return {name: told(around(subject.writes[name], before=[guard]), refused)}


OPERATOR = Operator("deepen", "A reversible state that blocks another write.", _apply, times=2)
