"""Parameters that write, conditions that have to hold, and what a write returns."""

from __future__ import annotations

from typing import Any

from tool_registry.composer import phrases, tables
from tool_registry.composer.plan import Part, Plan
from tool_registry.composer.reads import key_parameter, shown_columns
from tool_registry.composer.vocabulary import Attribute

_TYPES = {"int": "integer", "money": "integer", "num": "number", "flag": "boolean"}


def given(plan: Plan, record: Part, attribute: Attribute, *, new: bool) -> dict[str, Any]:
    """Return the parameter for a new value of an attribute."""
    column = f"{record.table}.{attribute.name}"
    about = phrases.told(attribute, plan.style)
    parameter: dict[str, Any] = {
        "type": _TYPES.get(attribute.kind, "string"),
        "sets": column,
        "generate": tables.generator(attribute, past=False),
        "description": about if new else f"New value: {about[0].lower()}{about[1:]}",
        "label": attribute.label if new else f"new {attribute.label}",
    }
    if attribute.kind in ("one", "time"):
        parameter["enum"] = list(attribute.values)
    if attribute.kind == "day":
        parameter["format"] = "date"
    if attribute.kind == "text":
        parameter["maxLength"] = 200
        parameter["minLength"] = 1
    if attribute.kind in ("int", "money", "num"):
        low = attribute.low if attribute.kind == "num" else int(attribute.low)
        parameter["minimum"] = min(low, 1) if attribute.low > 0 else low
        parameter["maximum"] = attribute.high if attribute.kind == "num" else int(attribute.high)
    if attribute.kind in ("one", "flag"):
        del parameter["generate"]
    return parameter


def own_key(plan: Plan, record: Part, sources: tuple[str, ...]) -> dict[str, Any]:
    """Return the parameter for a record of the user that is in one of some states."""
    parameter = key_parameter(plan, record)
    state = plan.style.state
    condition = f"{state} IN ({tables.quoted(sources)})" if sources else ""
    return parameter | {"sample": plan.own(record, condition)}


# --- conditions --------------------------------------------------------------------------------


def in_state(plan: Plan, record: Part, sources: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return the condition that a record is in one of some states, if it can be in others."""
    if not sources or set(sources) == set(record.entity.states):
        return []
    key, state = plan.key(record), plan.style.state
    told = phrases.states_told(sources)
    one = f"not_{sources[0]}" if len(sources) == 1 else f"wrong_{state}"
    return [
        {
            "require": f"SELECT {state} IN ({tables.quoted(sources)}) FROM {record.table} "
            f"WHERE id = :{key}",
            "error": one,
            "message": f"{record.entity.noun.capitalize()} {{{key}!r}} is not {told}.",
        }
    ]


def not_past(attribute: Attribute) -> list[dict[str, Any]]:
    """Return the condition that a new day lies on the side of the clock where it makes sense."""
    name = attribute.name
    if attribute.kind != "day" or (attribute.low < 0 < attribute.high):
        return []
    ahead = attribute.low >= 0
    return [
        {
            "require": f"SELECT coalesce(:{name}, today()) {'>=' if ahead else '<='} today()",
            "error": f"{name}_in_the_{'past' if ahead else 'future'}",
            "message": f"{{{name}!r}} lies in the {'past' if ahead else 'future'}.",
        }
    ]


def suits(
    plan: Plan, record: Part, thing: Part, owner: str, besides: str = "NULL"
) -> list[dict[str, Any]]:
    """Return what must hold for a record to refer to a thing.

    Args:
        plan: the application.
        record: the record.
        thing: what it shall refer to.
        owner: SQL of the key of its holder.
        besides: SQL of the key of the record itself, where it exists.
    """
    key, entity, steps = plan.key(thing), record.entity, []
    noun = thing.entity.noun
    if record.needs.startswith(f"{thing.name}."):
        flag = record.needs.partition(".")[2]
        steps.append(
            {
                "require": f"SELECT {flag} = 1 FROM {thing.table} WHERE id = :{key}",
                "error": f"not_{flag}",
                "message": f"{noun.capitalize()} {{{key}!r}} is not {flag.replace('_', ' ')} "
                f"at the moment.",
            }
        )
    if record.once == thing.name:
        steps.append(
            {
                "require": f"SELECT NOT EXISTS (SELECT 1 FROM {record.table} r WHERE "
                f"r.{record.holder}_id = {owner} AND r.{thing.name}_id = :{key} AND "
                f"r.id IS NOT {besides} AND {tables.live(plan, record, 'r')})",
                "error": f"{record.name}_exists",
                "message": f"There is {phrases.a(entity.noun)} for {noun} {{{key}!r}} already.",
            }
        )
    if record.fills.startswith(f"{thing.name}."):
        places = record.fills.partition(".")[2]
        steps.append(
            {
                "require": f"SELECT (SELECT count(*) FROM {record.table} r WHERE r.{thing.name}_id "
                f"= t.id AND r.id IS NOT {besides} AND {tables.live(plan, record, 'r')}) < "
                f"t.{places} FROM {thing.table} t WHERE t.id = :{key}",
                "error": "full",
                "message": f"{noun.capitalize()} {{{key}!r}} takes no more {entity.nouns}.",
            }
        )
    return steps


def recomputed(plan: Plan, record: Part, names: set[str]) -> list[dict[str, Any]]:
    """Return the writes of what is computed from attributes or references called `names`."""
    key, steps = plan.key(record), []
    for attribute in record.computed:
        used = {name.split(".")[0] for name in phrases.fields(attribute.formula)}
        if used & names:
            value = tables.formula(plan, record, attribute)
            steps.append(
                {"write": f"UPDATE {record.table} SET {attribute.name} = {value} WHERE id = :{key}"}
            )
    return steps


def result(plan: Plan, record: Part, key: str) -> dict[str, Any]:
    """Return the step that shows what became of a record."""
    names, joins = shown_columns(plan, record, brief=True)
    names += [f"r.{a.name}" for a in record.computed if f"r.{a.name}" not in names]
    return {
        "return": f"SELECT {', '.join(names)} FROM {record.table} r{joins} WHERE r.id = :{key}",
        "shape": "object",
    }


def limited(plan: Plan, record: Part, key: str) -> list[dict[str, Any]]:
    """Return the condition that an owner has room for one more record, where there is a limit."""
    limit, entity = plan.style.limit, record.entity
    if not limit or record.holder != plan.owner.name or not entity.states:
        return []
    return [
        {
            "require": f"SELECT count(*) < {limit} FROM {record.table} r WHERE "
            f"r.{record.holder}_id = :{key} AND {tables.live(plan, record, 'r')}",
            "error": "too_many",
            "message": f"{plan.owner.entity.noun.capitalize()} {{{key}!r}} has {limit} open "
            f"{entity.nouns} already.",
        }
    ]
