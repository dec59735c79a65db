"""Tools that only read: the owner's row, things, records, counts and sums."""

from __future__ import annotations

import re
from typing import Any

from tool_registry.composer import phrases, tables
from tool_registry.composer.plan import Part, Plan
from tool_registry.composer.vocabulary import Attribute

Tools = dict[str, Any]
_ADDED = frozenset({"amount", "balance", "worth"})
"""Sums given by people that make sense together; a price at which to be told does not."""


def read_tools(plan: Plan) -> Tools:
    """Return the tools that read, by name."""
    tools = _owner(plan)
    for thing in plan.things:
        tools |= _search(plan, thing) | _get(plan, thing) | _free(plan, thing)
        tools |= _count_things(plan, thing)
    for record in plan.records:
        tools |= _list(plan, record) | _get(plan, record)
        if record.holder == plan.owner.name:
            tools |= _count(plan, record) | _sum(plan, record)
    return tools


def read(description: str, parameters: dict[str, Any], sql: str, **more: Any) -> dict[str, Any]:
    """Return a tool of one SELECT; `shape` is a list unless `more` says otherwise."""
    step = {"return": sql, "shape": more.pop("shape", "list")}
    if "columns" in more:
        step["columns"] = more.pop("columns")
    before = more.pop("before", [])
    return {
        "description": description,
        "effect": "read",
        "parameters": parameters,
        "steps": [*before, step],
        **more,
    }


def key_parameter(plan: Plan, part: Part, what: str = "") -> dict[str, Any]:
    """Return a parameter that takes the key of a part."""
    about = phrases.key_told(part.entity, plan.example(part), plan.style, what)
    return {"type": "string", "entity": f"{part.table}.id", "description": about}


def _owner(plan: Plan) -> Tools:
    owner = plan.owner
    noun = owner.entity.noun
    shown = ["id", "name", "phone", *owner.attributes]
    listed = phrases.listed(["name", "phone number", *_labels(owner)])
    about = (
        f"Look up {phrases.a(noun)} by e-mail address. Gives identifier, {listed}.",
        f"Find the {noun} who has an e-mail address, with identifier, {listed}.",
        f"Return the profile of {phrases.a(noun)} by e-mail address: identifier, {listed}.",
    )[plan.style.voice]
    missing = {
        "require": f"SELECT EXISTS (SELECT 1 FROM {owner.table} WHERE email = lower(:email))",
        "error": f"no_such_{owner.name}",
        "message": f"No {noun} has the e-mail address {{email!r}}.",
    }
    questions = {"phone": "which phone number you have for me"}
    for attribute in owner.attributes.values():
        asked = attribute.ask or f"what my {attribute.label} {phrases.verb(attribute)}"
        if attribute.kind != "flag" or attribute.ask:
            questions[attribute.name] = asked
    name = plan.style.tool(plan.rng.choice(("find", "look_up", "identify")), owner.name)
    email = {
        "type": "string",
        "match": f"{owner.table}.email",
        "description": f"E-mail address of the {noun}, in full",
    }
    sql = f"SELECT {', '.join(shown)} FROM {owner.table} WHERE email = lower(:email)"
    return {
        name: read(
            about, {"email": email}, sql, shape="object", before=[missing], questions=questions
        )
    }


def _labels(part: Part) -> list[str]:
    return [attribute.label for attribute in part.attributes.values()]


# --- things ------------------------------------------------------------------------------------


def _search(plan: Plan, thing: Part) -> Tools:
    entity, style = thing.entity, plan.style
    filters = [a for a in thing.attributes.values() if a.kind in ("one", "int", "money", "city")]
    picked = plan.rng.sample(filters, min(len(filters), plan.rng.choice((1, 2, 2, 3))))
    parameters: dict[str, Any] = {
        "name": {
            "type": "string",
            "optional": True,
            "match": f"{thing.table}.name",
            "op": "contains",
            "description": f"Part of the name of the {entity.noun}; capitals do not matter",
        }
    }
    tests = ["(:name IS NULL OR instr(lower(name), lower(:name)))"]
    for attribute in filters:
        if attribute in picked:
            name, parameter, test = _filter(plan, thing, attribute)
            parameters[name] = parameter
            tests.append(f"(:{name} IS NULL OR {test})")
    shown = ["id", "name", *thing.attributes]
    if not style.wide_lists and len(shown) > 5:
        shown = shown[:5]
    by = phrases.listed(["name", *(a.label for a in filters if a in picked)])
    about = (
        f"Search {entity.nouns} by {by}. All filters are optional and have to hold together.",
        f"Find {entity.nouns} by {by}; without a filter all of them are listed by name.",
        f"{phrases.sentence(entity.about)} Lists those that suit the filters given: {by}.",
    )[style.voice]
    sql = f"SELECT {', '.join(shown)} FROM {thing.table} WHERE {' AND '.join(tests)} ORDER BY name"
    return {style.tool("search", thing.table): read(about, parameters, sql)}


def _filter(plan: Plan, thing: Part, attribute: Attribute) -> tuple[str, dict[str, Any], str]:
    column, about = f"{thing.table}.{attribute.name}", attribute.about
    base: dict[str, Any] = {"optional": True, "match": column}
    if attribute.kind in ("int", "money"):
        most = plan.rng.random() < 0.5 or attribute.kind == "money"
        name = f"{'max' if most else 'min'}_{attribute.name}"
        limit = "at most" if most else "at least"
        told = phrases.told(attribute, plan.style)
        test = f"{attribute.name} {'<=' if most else '>='} :{name}"
        return (
            name,
            base
            | {
                "type": "integer",
                "op": "le" if most else "ge",
                "minimum": 0,
                "description": f"{told}: {limit} this",
                "label": f"{'highest' if most else 'lowest'} {attribute.label}",
            },
            test,
        )
    kind: dict[str, Any] = {
        "type": "string",
        "description": f"{about}: only those with exactly this value",
    }
    if attribute.kind == "one":
        kind["enum"] = list(attribute.values)
        kind["description"] = f"{about}: only those of this kind"
    return attribute.name, base | kind, f"{attribute.name} = :{attribute.name}"


def _free(plan: Plan, thing: Part) -> Tools:
    """How much room is left at a thing that records fill."""
    tools: Tools = {}
    for record in plan.records:
        if not record.fills.startswith(f"{thing.name}."):
            continue
        places = record.fills.partition(".")[2]
        key, entity = plan.key(thing), thing.entity
        label = places.replace("_", " ")
        taken = (
            f"SELECT count(*) FROM {record.table} r WHERE r.{thing.name}_id = t.id "
            f"AND {tables.live(plan, record, 'r')}"
        )
        sql = (
            f"SELECT t.id, t.name, t.{places}, ({taken}) AS taken, t.{places} - ({taken}) AS free "
            f"FROM {thing.table} t WHERE t.id = :{key}"
        )
        about = (
            f"Check how many {record.entity.nouns} {phrases.a(entity.noun)} still takes: "
            f"its {label}, how many are taken and how many are free."
        )
        it = thing.called(key)
        tools[plan.style.tool("check", f"{thing.name}_availability")] = read(
            about,
            {key: key_parameter(plan, thing)},
            sql,
            shape="object",
            questions={"free": f"for how many more {record.entity.nouns} {it} has room"},
        )
        break
    return tools


def _count_things(plan: Plan, thing: Part) -> Tools:
    groups = [a for a in thing.attributes.values() if a.kind == "one"]
    if not groups or plan.rng.random() < 0.5:
        return {}
    attribute = plan.rng.choice(groups)
    name, entity = attribute.name, thing.entity
    parameter = {
        "type": "string",
        "enum": list(attribute.values),
        "description": f"{attribute.about}: those with this value are counted",
        "label": attribute.label,
    }
    sql = f"SELECT count(*) AS number FROM {thing.table} WHERE {name} = :{name}"
    about = f"Count the {entity.nouns} whose {attribute.label} has a given value."
    asked = f"how many {entity.nouns} there are whose {attribute.label} is {{{{ {name} }}}}"
    tool = plan.style.tool("count", f"{thing.table}_by_{name}")
    return {tool: read(about, {name: parameter}, sql, shape="object", questions={"number": asked})}


# --- one row -----------------------------------------------------------------------------------


def shown_columns(plan: Plan, part: Part, *, brief: bool) -> tuple[list[str], str]:
    """Return the result columns of a part, and the joins they need; its alias is `r`."""
    style, names = plan.style, ["r.id"]
    joins = ""
    for number, name in enumerate(part.references):
        names.append(f"t{number}.name AS {name}")
        joins += f" JOIN {plan.parts[name].table} t{number} ON t{number}.id = r.{name}_id"
    if part.entity.of:
        over = plan.parts[part.entity.of]
        inner = [n for n in phrases.fields(part.entity.mention) if n.startswith(f"{over.name}.")]
        joins += f" JOIN {over.table} h ON h.id = r.{over.name}_id" if inner else ""
        for field in inner:
            column = field.split(".")[1]
            if column in over.references:
                joins += f" JOIN {plan.parts[column].table} hr ON hr.id = h.{column}_id"
                names.append(f"hr.name AS {over.name}_{column}")
            else:
                names.append(f"h.{column} AS {over.name}_{column}")
    if part.entity.thing:
        names.append("r.name")
    kept = list(part.attributes)
    if brief:
        day = part.entity.day
        kept = [n for n in kept if n in part.known or (day is not None and n == day.name)]
    names += [f"r.{name}" for name in kept]
    if part.entity.states:
        names.append(f"r.{style.state}")
    if not brief:
        names += [f"r.{name}" for name in tables.stamps(plan, part)]
    return names, joins


def _get(plan: Plan, part: Part) -> Tools:
    key, entity, style = plan.key(part), part.entity, plan.style
    names, joins = shown_columns(plan, part, brief=False)
    sql = f"SELECT {', '.join(names)} FROM {part.table} r{joins} WHERE r.id = :{key}"
    labels = [name.replace("_", " ") for name in part.references] + _labels(part)
    if entity.states:
        labels.append(style.state)
    listed = phrases.listed(labels)
    about = (
        f"Show one {entity.noun} in full: {listed}.",
        f"Return everything about {phrases.a(entity.noun)}: {listed}.",
        f"{phrases.sentence(entity.about)} Returns one with its {listed}.",
    )[style.voice]
    if any(attribute.kind == "money" for attribute in part.attributes.values()):
        about += f" Sums are in {style.cents}."
    it = part.called(key)
    questions = {}
    for attribute in part.attributes.values():
        asked = phrases.question(attribute, it)
        if asked and attribute.name not in part.known:
            questions[attribute.name] = asked
    return {
        style.tool("get", part.name): read(
            about, {key: key_parameter(plan, part)}, sql, shape="object", questions=questions
        )
    }


# --- records -----------------------------------------------------------------------------------


def _list(plan: Plan, record: Part) -> Tools:
    entity, style = record.entity, plan.style
    over = plan.part(record.holder)
    key, state = plan.key(over), style.state
    parameters = {
        key: key_parameter(plan, over, f"the {over.entity.noun} whose {entity.nouns} are listed")
    }
    tests = [f"r.{over.name}_id = :{key}"]
    if entity.states:
        parameters[state] = {
            "type": "string",
            "optional": True,
            "enum": list(entity.states),
            "match": f"{record.table}.{state}",
            "description": f"Only {entity.nouns} in this {state}",
        }
        tests.append(f"(:{state} IS NULL OR r.{state} = :{state})")
    narrowing = [a for a in record.attributes.values() if a.kind == "one"]
    if narrowing and plan.rng.random() < 0.4:
        attribute = plan.rng.choice(narrowing)
        parameters[attribute.name] = {
            "type": "string",
            "optional": True,
            "enum": list(attribute.values),
            "match": f"{record.table}.{attribute.name}",
            "description": f"{attribute.about}: only those with this value",
        }
        tests.append(f"(:{attribute.name} IS NULL OR r.{attribute.name} = :{attribute.name})")
    names, joins = shown_columns(plan, record, brief=not style.wide_lists)
    order = f"r.{entity.day.name}, r.id" if entity.day else "r.id"
    sql = (
        f"SELECT {', '.join(names)} FROM {record.table} r{joins} WHERE {' AND '.join(tests)} "
        f"ORDER BY {order}"
    )
    sorted_by = f" by {entity.day.label}" if entity.day else ""
    ended = " Ended ones are among them unless the filter leaves them out." if entity.ended else ""
    about = (
        f"List the {entity.nouns} of {phrases.a(over.entity.noun)}{sorted_by}.{ended}",
        f"Return all {entity.nouns} that belong to {phrases.a(over.entity.noun)}, sorted"
        f"{sorted_by or ' by identifier'}.{ended}",
        f"{phrases.sentence(entity.about)} Lists those of one {over.entity.noun}{sorted_by}.",
    )[style.voice]
    shown = phrases.listed([re.sub(r"^.* AS |^r\.", "", n).replace("_", " ") for n in names[1:]])
    about += f" Each has its identifier, {shown}."
    return {style.tool("list", record.table): read(about, parameters, sql)}


def _count(plan: Plan, record: Part) -> Tools:
    if not record.entity.states or plan.rng.random() < 0.5:
        return {}
    entity, state, key = record.entity, plan.style.state, plan.key(plan.owner)
    owner = plan.owner.entity.noun
    parameters = {
        key: key_parameter(plan, plan.owner, f"the {owner} whose {entity.nouns} are counted"),
        state: {
            "type": "string",
            "enum": list(entity.states),
            "description": f"Only {entity.nouns} in this {state} are counted",
        },
    }
    sql = (
        f"SELECT count(*) AS number FROM {record.table} WHERE {record.holder}_id = :{key} "
        f"AND {state} = :{state}"
    )
    about = f"Count the {entity.nouns} of {phrases.a(owner)} that are in a given {state}."
    asked = f"how many of my {entity.nouns} are {{{{ {state} }}}}"
    tool = plan.style.tool("count", record.table)
    return {tool: read(about, parameters, sql, shape="object", questions={"number": asked})}


def _sum(plan: Plan, record: Part) -> Tools:
    money = [a for a in record.attributes.values() if a.kind == "money"]
    sums = [a for a in money if a.formula or a.name in _ADDED]
    if not sums or plan.rng.random() < 0.4:
        return {}
    attribute, entity, key = sums[-1], record.entity, plan.key(plan.owner)
    open_ones = f" AND {tables.live(plan, record, 'r')}" if entity.states else ""
    which = f"open {entity.nouns}" if entity.states else entity.nouns
    sql = (
        f"SELECT count(*) AS number, coalesce(sum(r.{attribute.name}), 0) AS total "
        f"FROM {record.table} r WHERE r.{record.holder}_id = :{key}{open_ones}"
    )
    owner = plan.owner.entity.noun
    about = (
        f"Add up the {attribute.label} of all {which} of {phrases.a(owner)}. Gives their "
        f"number and the total in {plan.style.cents}."
    )
    if entity.states:
        about += f" Open means {phrases.states_told(entity.live)}."
    parameters = {
        key: key_parameter(plan, plan.owner, f"the {owner} whose {entity.nouns} are added up")
    }
    added = "" if attribute.name in plan.style.verbs.get("sum", "") else f"_{attribute.name}"
    tool = plan.style.tool("sum", f"{record.name}{added}")
    return {
        tool: read(
            about,
            parameters,
            sql,
            shape="object",
            columns={"total": f"{record.table}.{attribute.name}"},
            questions={"total": f"what the {attribute.label} of all my {which} comes to"},
        )
    }
