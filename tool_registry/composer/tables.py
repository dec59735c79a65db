"""The schema and the seed of a plan, and what holds in every state."""

from __future__ import annotations

import re
from typing import Any

from tool_registry.composer import phrases
from tool_registry.composer.plan import Part, Plan
from tool_registry.composer.vocabulary import Attribute

OWNERS, MOST = (18, 30), 4
"""Rows of owners, and records that one has of a kind at most."""


def schema(plan: Plan) -> str:
    """Return the CREATE TABLE statements."""
    tables = [_create(plan, part) for part in (plan.owner, *plan.things, *plan.records)]
    for thing in saved(plan):
        tables.append(
            f"CREATE TABLE {saved_table(thing)} (\n  id TEXT PRIMARY KEY,\n  {plan.owner.name}_id "
            f"TEXT NOT NULL REFERENCES {plan.owner.table},\n  {thing.name}_id TEXT NOT NULL "
            f"REFERENCES {thing.table}\n) STRICT;"
        )
    tables.append(
        f"CREATE TABLE handovers (\n  id TEXT PRIMARY KEY,\n  {plan.owner.name}_id TEXT NOT NULL "
        f"REFERENCES {plan.owner.table},\n  reason TEXT NOT NULL,\n  summary TEXT NOT NULL,\n"
        "  handed_over_on TEXT NOT NULL\n) STRICT;"
    )
    return "\n".join(tables)


def saved(plan: Plan) -> list[Part]:
    """Return the things that owners can keep in mind."""
    return [thing for thing in plan.things if thing.entity.saved]


def saved_table(thing: Part) -> str:
    """Return the table of what owners keep in mind of a kind of thing."""
    return f"saved_{thing.table}"


def columns(plan: Plan, part: Part) -> list[str]:
    """Return the columns of a table in order, the key left out."""
    found = [f"{part.holder}_id"] if part.holder else []
    found += [f"{name}_id" for name in part.references]
    if part is plan.owner:
        found += ["name", "email", "phone"]
    elif part.entity.thing:
        found += ["name"]
    found += list(part.attributes)
    if part.entity.states:
        found.append(plan.style.state)
    return found + stamps(plan, part)


def stamps(plan: Plan, part: Part) -> list[str]:
    """Return the columns that say when a record was made, and when it ended."""
    entity, style = part.entity, plan.style
    if not part.holder:
        return []
    made = [style.made] if style.made else []
    return made + ([style.closed] if style.closed and entity.ended else [])


def _create(plan: Plan, part: Part) -> str:
    lines = ["id TEXT PRIMARY KEY"]
    for name in columns(plan, part):
        lines.append(f"{name} {_type(plan, part, name)}")
    body = ",\n  ".join(lines)
    return f"CREATE TABLE {part.table} (\n  {body}\n) STRICT;"


def _type(plan: Plan, part: Part, name: str) -> str:
    if name == "email":
        return "TEXT NOT NULL UNIQUE"
    if name in part.attributes:
        return _kind(part.attributes[name])
    if name == plan.style.state:
        listed = ", ".join(f"'{state}'" for state in part.entity.states)
        return f"TEXT NOT NULL CHECK ({name} IN ({listed}))"
    if name == plan.style.closed:
        return "TEXT"
    if name.endswith("_id"):
        to = name.removesuffix("_id")
        return f"TEXT NOT NULL REFERENCES {plan.part(to).table}"
    return "TEXT NOT NULL"


def _kind(attribute: Attribute) -> str:
    if attribute.kind == "one":
        listed = ", ".join(f"'{value}'" for value in attribute.values)
        return f"TEXT NOT NULL CHECK ({attribute.name} IN ({listed}))"
    if attribute.kind == "flag":
        return f"INTEGER NOT NULL CHECK ({attribute.name} IN (0, 1))"
    if attribute.kind in ("int", "money"):
        return f"INTEGER NOT NULL CHECK ({attribute.name} >= {min(0, int(attribute.low))})"
    if attribute.kind == "num":
        return "REAL NOT NULL"
    return "TEXT" if attribute.kind == "text" else "TEXT NOT NULL"


# --- seed ------------------------------------------------------------------------------------


def seed(plan: Plan) -> dict[str, Any]:
    """Return how the tables are filled."""
    low = plan.rng.randint(*OWNERS)
    number = f"{{n:0{plan.style.digits}d}}"
    tables: dict[str, Any] = {
        plan.owner.table: {
            "count": low,
            "columns": {
                "id": {"serial": plan.owner.prefix + number},
                "name": {"person": "full"},
                "email": {"email": "name", "unique": True},
                "phone": {"phone": "+49 30 ### ####"},
                **{a.name: generator(a, past=True) for a in plan.owner.attributes.values()},
            },
        }
    }
    for thing in plan.things:
        tables[thing.table] = _things(plan, thing, number)
    for record in plan.records:
        tables[record.table] = _records(plan, record, number)
    for thing in saved(plan):
        ref = {
            "table": thing.table,
            "where": f"id NOT IN (SELECT {thing.name}_id FROM {saved_table(thing)} "
            f"WHERE {plan.owner.name}_id = :{plan.owner.name}_id)",
        }
        tables[saved_table(thing)] = {
            "each": plan.owner.table,
            "count": [0, 3],
            "columns": {
                "id": {"serial": f"SV{thing.prefix[0]}{number}"},
                f"{plan.owner.name}_id": {"parent": "id"},
                f"{thing.name}_id": {"ref": ref},
            },
        }
    return tables


def _things(plan: Plan, thing: Part, number: str) -> dict[str, Any]:
    names = list(thing.entity.names)
    count = plan.rng.randint(min(6, len(names)), len(names))
    drawn = set(plan.rng.sample(names, count))
    picked = [name for name in names if name in drawn]
    quoted = " ".join(
        f"WHEN {index} THEN '{name.replace(chr(39), chr(39) * 2)}'"
        for index, name in enumerate(picked)
    )
    named = f"SELECT CASE (SELECT count(*) FROM {thing.table}) {quoted} END"
    return {
        "count": count,
        "columns": {
            "id": {"serial": thing.prefix + number},
            "name": {"sql": named},
            **{a.name: generator(a, past=False) for a in thing.attributes.values()},
        },
    }


def _records(plan: Plan, record: Part, number: str) -> dict[str, Any]:
    holder, entity, style = f"{record.holder}_id", record.entity, plan.style
    made: dict[str, Any] = {"id": {"serial": record.prefix + number}, holder: {"parent": "id"}}
    for name in record.references:
        table = plan.parts[name].table
        ref: Any = table
        if name == (record.once or _first_named(record)):
            where = f"id NOT IN (SELECT {name}_id FROM {record.table} WHERE {holder} = :{holder})"
            ref = {"table": table, "where": where}
        made[f"{name}_id"] = {"ref": ref}
    for attribute in record.attributes.values():
        made[attribute.name] = 0 if attribute.formula else generator(attribute, past=True)
    if (telling := _telling(record)) is not None:
        made[telling.name] = _in_turn(plan, telling)
    if entity.states:
        made[style.state] = {"choice": {state: _weight(record, state) for state in entity.states}}
    if style.made:
        made[style.made] = {"date": [-90, -20]}
    own = record.holder == plan.owner.name
    count = [style.limit - 1, style.limit] if style.limit else [1, MOST]
    count = count if own else [0, 2]
    return {"each": plan.part(record.holder).table, "count": count, "columns": made}


def _first_named(record: Part) -> str:
    """Return the reference by which records are told apart: no owner has two with one thing."""
    named = [column.removesuffix("_id") for column in record.known]
    return next((name for name in named if name in record.references), "")


def _telling(record: Part) -> Attribute | None:
    """Return the attribute that has to tell the records of one owner apart, if one has to."""
    if record.once or _first_named(record):
        return None
    named = [record.attributes[n] for n in record.known if n in record.attributes]
    if any(a.kind in ("code", "person", "street") for a in named):
        return None
    named = [a for a in named if a.kind in ("one", "text")]
    return max(named, key=lambda a: len(a.values), default=None)


def _in_turn(plan: Plan, attribute: Attribute) -> dict[str, Any]:
    """Give the values in turn, so that those of one owner, made one after the other, differ."""
    count, digits = len(attribute.values), plan.style.digits
    cases = " ".join(
        f"WHEN {number} THEN '{value.replace(chr(39), chr(39) * 2)}'"
        for number, value in enumerate(plan.rng.sample(attribute.values, count))
    )
    return {"sql": f"SELECT CASE CAST(substr(:id, -{digits}) AS INTEGER) % {count} {cases} END"}


def _weight(record: Part, state: str) -> int:
    leaving = sum(state in act.sources for act in record.entity.acts.values())
    return 20 + 12 * min(leaving, 4) if state in record.entity.live else 15


def generator(attribute: Attribute, *, past: bool) -> Any:
    """Return the generator of an attribute.

    Args:
        attribute: of which entity does not matter.
        past: days may lie behind the clock as well as ahead of it.
    """
    kind, low, high = attribute.kind, attribute.low, attribute.high
    if kind in ("one", "time"):
        return {"choice": list(attribute.values)}
    if kind in ("int", "money"):
        return {"integer": [int(low), int(high), attribute.step]}
    if kind == "num":
        return {"number": [low, high, attribute.step]}
    if kind == "day":
        first = -max(int(high), 14) if past and low >= 0 else int(low)
        return {"date": [first, int(high)]}
    if kind == "text":
        return {"words": list(attribute.values)}
    if kind == "flag":
        share = int(attribute.values[0])
        return {"choice": {1: share, 0: 100 - share}}
    if kind == "code":
        return {"code": attribute.values[0]}
    if kind == "person":
        return {"person": "full"}
    if kind == "phone":
        return {"phone": "+49 40 ### ####"}
    return {"company": True} if kind == "company" else {"address": kind}


def after_seed(plan: Plan) -> list[str]:
    """Return the statements that make seeded rows agree with one another."""
    found: list[str] = []
    for record in plan.records:
        found += _agreeing(plan, record)
    return found


def _agreeing(plan: Plan, record: Part) -> list[str]:
    table, entity, state = record.table, record.entity, plan.style.state
    found = []
    if plan.style.limit and record.holder == plan.owner.name and entity.states:
        found.append(  # some owners have as many as they may have
            f"UPDATE {table} SET {state} = '{entity.live[0]}' "
            f"WHERE CAST(substr({record.holder}_id, -2) AS INTEGER) % 4 = 1"
        )
    if entity.day is not None and entity.states:
        day = entity.day.name
        turned = f"UPDATE {table} SET {day} = date_add(today(), days_between({day}, today()))"
        if entity.ahead:
            found.append(f"{turned} WHERE {state} IN ({quoted(entity.ahead)}) AND {day} < today()")
        if entity.behind:
            found.append(f"{turned} WHERE {state} IN ({quoted(entity.behind)}) AND {day} > today()")
    if record.needs:
        thing, _, flag = record.needs.partition(".")
        found.append(  # whatever chance gave: one of them suits, and one does not
            f"UPDATE {plan.parts[thing].table} SET {flag} = CASE CAST(substr(id, -2) AS INTEGER) "
            f"% 5 WHEN 2 THEN 0 WHEN 3 THEN 1 ELSE {flag} END"
        )
    if record.fills:
        found += _filled(plan, record)
    for attribute in record.computed:
        found.append(f"UPDATE {table} SET {attribute.name} = {formula(plan, record, attribute)}")
    if plan.style.closed in columns(plan, record):
        found.append(
            f"UPDATE {table} SET {plan.style.closed} = date_add(today(), -(CAST(substr(id, -2) AS "
            f"INTEGER) % 19)) WHERE {state} IN ({quoted(entity.ended)})"
        )
    return found


def _filled(plan: Plan, record: Part) -> list[str]:
    """Each third thing is full, the others have room, and none is fuller than it can be."""
    thing, _, places = record.fills.partition(".")
    table, over = record.table, plan.parts[thing]
    taken = (
        f"(SELECT count(*) FROM {table} r WHERE r.{thing}_id = {over.table}.id "
        f"AND {live(plan, record, 'r')})"
    )
    number = "CAST(substr(id, -2) AS INTEGER)"
    return [
        f"UPDATE {over.table} SET {places} = CASE WHEN {number} % 3 = 1 THEN max(1, {taken}) "
        f"ELSE max({places}, {taken} + 1 + {number} % 4) END"
    ]


# --- SQL ---------------------------------------------------------------------------------------


def quoted(states: Any) -> str:
    """Return states as the inside of an SQL list."""
    return ", ".join(f"'{state}'" for state in sorted(states))


def live(plan: Plan, record: Part, alias: str) -> str:
    """Return the condition that a record has not ended."""
    if not record.entity.states:
        return "1"
    return f"{alias}.{plan.style.state} IN ({quoted(record.entity.live)})"


def formula(
    plan: Plan, record: Part, attribute: Attribute, given: dict[str, str] | None = None
) -> str:
    """Return the SQL of a computed attribute.

    Args:
        plan: has the tables.
        record: the table it is in.
        attribute: the attribute.
        given: where values come from that are not in the row yet: parameters, by column.
    """
    given = given or {}

    def value(found: re.Match[str]) -> str:
        name, _, column = found[1].partition(".")
        if not column:
            return given.get(name, name)
        key = given.get(f"{name}_id", f"{record.table}.{name}_id")
        return f"(SELECT q.{column} FROM {plan.parts[name].table} q WHERE q.id = {key})"

    text = re.sub(r"\{([a-z_.0-9]+)\}", value, attribute.formula)
    return text if attribute.kind == "num" else f"CAST(round({text}) AS INTEGER)"


def never(plan: Plan) -> dict[str, str]:
    """Return what no seeded state and no call may bring about."""
    found: dict[str, str] = {}
    for record in plan.records:
        found |= _counted(plan, record) | _agreed(plan, record)
    return found


def _counted(plan: Plan, record: Part) -> dict[str, str]:
    """No thing and no owner has more live records than allowed."""
    found: dict[str, str] = {}
    entity, table, owner = record.entity, record.table, phrases.a(plan.owner.entity.noun)
    if record.fills:
        thing, _, places = record.fills.partition(".")
        over = plan.parts[thing]
        room = places.replace("_", " ")
        found[f"{phrases.a(over.entity.noun)} has more {entity.nouns} than {room}"] = (
            f"SELECT 1 FROM {over.table} t WHERE (SELECT count(*) FROM {table} r WHERE "
            f"r.{thing}_id = t.id AND {live(plan, record, 'r')}) > t.{places}"
        )
    grouped = (
        f"SELECT 1 FROM {table} r WHERE {live(plan, record, 'r')} GROUP BY r.{record.holder}_id"
    )
    if record.once:
        over = plan.parts[record.once]
        found[f"{owner} has two open {entity.nouns} for one {over.entity.noun}"] = (
            f"{grouped}, r.{record.once}_id HAVING count(*) > 1"
        )
    limit = plan.style.limit
    if limit and record.holder == plan.owner.name and entity.states:
        found[f"{owner} has more than {limit} open {entity.nouns}"] = (
            f"{grouped} HAVING count(*) > {limit}"
        )
    return found


def _agreed(plan: Plan, record: Part) -> dict[str, str]:
    """What is computed, and days on which records ended, agree with the rest of the row."""
    found: dict[str, str] = {}
    entity, table, closed = record.entity, record.table, plan.style.closed
    for attribute in record.computed:
        right = formula(plan, record, attribute)
        what = f"the {attribute.label} of {phrases.a(entity.noun)} differs from what gives it"
        found[what] = f"SELECT 1 FROM {table} WHERE {attribute.name} <> {right}"
    if closed in columns(plan, record):
        found[f"{phrases.a(entity.noun)} has ended without a day, or has a day and goes on"] = (
            f"SELECT 1 FROM {table} WHERE ({plan.style.state} IN ({quoted(entity.ended)})) <> "
            f"({closed} IS NOT NULL)"
        )
    return found
