"""Tools that write: records are made, changed, moved on and ended; things are kept in mind."""

from __future__ import annotations

from typing import Any

from tool_registry.composer import phrases, tables
from tool_registry.composer.plan import Part, Plan
from tool_registry.composer.reads import Tools, key_parameter, shown_columns
from tool_registry.composer.vocabulary import Act, Attribute

_TYPES = {"int": "integer", "money": "integer", "num": "number", "flag": "boolean"}


def write_tools(plan: Plan) -> Tools:
    """Return the tools that write, by name."""
    tools = _owner(plan)
    for record in plan.records:
        tools |= _create(plan, record) | _update(plan, record) | _moves(plan, record)
        for act in record.entity.acts.values():
            tools |= _act(plan, record, act)
        tools |= _remove(plan, record)
    for thing in tables.saved(plan):
        tools |= _save(plan, thing)
    return tools


def handoff(plan: Plan) -> tuple[str, dict[str, Any]]:
    """Return the tool that requests end in which no other serves: its name, and itself."""
    owner, whom = plan.owner, plan.category.handoff
    key = plan.key(owner)
    parameters = {
        key: key_parameter(plan, owner, f"the {owner.entity.noun} whose request it is"),
        "reason": {
            "type": "string",
            "enum": ["not_allowed", "no_tool"],
            "description": "`not_allowed` where a rule forbids the request, `no_tool` where no "
            "tool serves it",
        },
        "summary": {
            "type": "string",
            "sets": "handovers.summary",
            "description": f"What the {owner.entity.noun} wants, in a sentence or two",
        },
    }
    write = f"INSERT INTO handovers VALUES (:new_id, :{key}, :reason, :summary, today())"
    about = (
        f"Hand a request over to the {whom}, who answers by e-mail. For what a rule forbids or no "
        "tool can do; once for each request."
    )
    tool = {
        "description": about,
        "effect": "write",
        "parameters": parameters,
        "steps": [
            {"let": {"new_id": "SELECT next_id('HO')"}},
            {"write": write},
            {"return": "SELECT id, reason FROM handovers WHERE id = :new_id", "shape": "object"},
        ],
    }
    verb = plan.rng.choice(("hand_over_to", "escalate_to", "refer_to", "pass_on_to"))
    return f"{verb}_{whom.replace(' ', '_').replace('-', '_')}", tool


# --- parameters --------------------------------------------------------------------------------


def _given(plan: Plan, record: Part, attribute: Attribute, *, new: bool) -> dict[str, Any]:
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


def _own_key(plan: Plan, record: Part, sources: tuple[str, ...]) -> dict[str, Any]:
    parameter = key_parameter(plan, record)
    state = plan.style.state
    condition = f"{state} IN ({tables.quoted(sources)})" if sources else ""
    return parameter | {"sample": plan.own(record, condition)}


# --- conditions --------------------------------------------------------------------------------


def _in_state(plan: Plan, record: Part, sources: tuple[str, ...]) -> list[dict[str, Any]]:
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


def _not_past(attribute: Attribute) -> list[dict[str, Any]]:
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


def _suits(
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


def _recomputed(plan: Plan, record: Part, names: set[str]) -> list[dict[str, Any]]:
    key, steps = plan.key(record), []
    for attribute in record.computed:
        used = {name.split(".")[0] for name in phrases.fields(attribute.formula)}
        if used & names:
            value = tables.formula(plan, record, attribute)
            steps.append(
                {"write": f"UPDATE {record.table} SET {attribute.name} = {value} WHERE id = :{key}"}
            )
    return steps


def _result(plan: Plan, record: Part, key: str) -> dict[str, Any]:
    names, joins = shown_columns(plan, record, brief=True)
    names += [f"r.{a.name}" for a in record.computed if f"r.{a.name}" not in names]
    return {
        "return": f"SELECT {', '.join(names)} FROM {record.table} r{joins} WHERE r.id = :{key}",
        "shape": "object",
    }


# --- the owner ---------------------------------------------------------------------------------


def _owner(plan: Plan) -> Tools:
    owner = plan.owner
    key, noun = plan.key(owner), owner.entity.noun
    parameters = {
        key: key_parameter(plan, owner),
        "phone": {
            "type": "string",
            "sets": f"{owner.table}.phone",
            "generate": {"phone": ["+49 30 ### ####", "+49 171 ### ####"]},
            "pattern": r"^\+?[0-9 ]{6,20}$",
            "description": "New phone number with country code, digits and spaces only",
            "label": "new phone number",
        },
    }
    same = {
        "require": f"SELECT phone <> :phone FROM {owner.table} WHERE id = :{key}",
        "error": "same_number",
        "message": f"{noun.capitalize()} {{{key}!r}} has that phone number already.",
    }
    return {
        plan.style.tool("update", f"{owner.name}_phone"): {
            "description": f"Replace the phone number under which {phrases.a(noun)} is called.",
            "effect": "write",
            "parameters": parameters,
            "steps": [
                same,
                {"write": f"UPDATE {owner.table} SET phone = :phone WHERE id = :{key}"},
                {
                    "return": f"SELECT id, name, phone FROM {owner.table} WHERE id = :{key}",
                    "shape": "object",
                },
            ],
            "intent": "have my phone number changed{% if phone %} to {{ phone }}{% endif %}",
        }
    }


# --- records -----------------------------------------------------------------------------------


def _create(plan: Plan, record: Part) -> Tools:
    entity, style = record.entity, plan.style
    verb, say, about = entity.create
    if not verb:
        return {}
    over = plan.part(record.holder)
    key, steps = plan.key(over), []
    parameters: dict[str, Any] = {
        key: key_parameter(
            plan, over, f"the {over.entity.noun} for whom it is" if over is plan.owner else ""
        )
    }
    if over is not plan.owner and over.entity.states:
        parameters[key] = _own_key(plan, over, over.entity.live)
        steps += _in_state(plan, over, over.entity.live)
    conditions = _limit(plan, record, key)
    steps += conditions
    for name in record.references:
        thing = plan.parts[name]
        parameters[plan.key(thing)] = key_parameter(plan, thing)
        steps += _suits(plan, record, thing, f":{key}")
    for attribute in record.given:
        parameters[attribute.name] = _given(plan, record, attribute, new=True)
        if attribute.kind == "text":
            parameters[attribute.name]["optional"] = True
        steps += _not_past(attribute)
    steps += [{"let": {"new_id": f"SELECT next_id('{record.prefix}')"}}, _insert(plan, record, key)]
    steps.append(_result(plan, record, "new_id"))
    if conditions:
        about += f" {phrases.a(over.entity.noun).capitalize()} has at most {style.limit} open ones."
    return {
        style.tool(verb, record.name): {
            "description": about,
            "effect": "write",
            "parameters": parameters,
            "steps": steps,
            "intent": _wish(plan, record, say, over, key),
        }
    }


def _wish(plan: Plan, record: Part, say: str, over: Part, key: str) -> str:
    """Return the template of the wish for a new record."""
    said = say.replace("{it}", over.called(key)) if over is not plan.owner else say
    for name, reference in record.references.items():
        path = f"{plan.key(plan.parts[name])}.name"
        if f"{{{name}}}" in said:
            noun = phrases.a(plan.parts[name].entity.noun)
            value = f"{{% if {path} %}}{{{{ {path} }}}}{{% else %}}{noun}{{% endif %}}"
            said = said.replace(f"{{{name}}}", value)
        elif reference.say:
            text = reference.say.replace("{}", f"{{{{ {path} }}}}")
            said += f"{{% if {path} %}} {text}{{% endif %}}"
    return said + "".join(phrases.stated(a, a.name) for a in record.given)


def _limit(plan: Plan, record: Part, key: str) -> list[dict[str, Any]]:
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


def _insert(plan: Plan, record: Part, key: str) -> dict[str, Any]:
    values = {"id": ":new_id", f"{record.holder}_id": f":{key}"}
    for name in record.references:
        values[f"{name}_id"] = f":{plan.key(plan.parts[name])}"
    for attribute in record.given:
        values[attribute.name] = f":{attribute.name}"
    for attribute in record.computed:
        values[attribute.name] = tables.formula(plan, record, attribute, values)
    if record.entity.states:
        values[plan.style.state] = f"'{record.entity.live[0]}'"
    if plan.style.made:
        values[plan.style.made] = "today()"
    names, made = ", ".join(values), ", ".join(values.values())
    return {"write": f"INSERT INTO {record.table} ({names}) VALUES ({made})"}


def _update(plan: Plan, record: Part) -> Tools:
    """Tools that change attributes of a record while it is in its first state."""
    changing = [a for a in record.given if a.change]
    if not changing:
        return {}
    if plan.style.one_update and len(changing) > 1:
        return _update_of(plan, record, changing, record.name)
    tools: Tools = {}
    for attribute in changing:
        tools |= _update_of(plan, record, [attribute], f"{record.name}_{attribute.name}")
    return tools


def _update_of(plan: Plan, record: Part, changing: list[Attribute], noun: str) -> Tools:
    key, entity = plan.key(record), record.entity
    sources = entity.live[:2]
    parameters: dict[str, Any] = {key: _own_key(plan, record, sources)}
    several = len(changing) > 1
    for attribute in changing:
        parameters[attribute.name] = _given(plan, record, attribute, new=False)
        if several:
            parameters[attribute.name]["optional"] = True
    steps = _in_state(plan, record, sources)
    if several:
        tests = " OR ".join(f":{a.name} IS NOT NULL" for a in changing)
        steps.append(
            {
                "require": f"SELECT {tests}",
                "error": "nothing_to_change",
                "message": f"Give a new value for {entity.noun} {{{key}!r}}.",
            }
        )
    for attribute in changing:
        steps += _not_past(attribute)
    sets = ", ".join(
        f"{a.name} = coalesce(:{a.name}, {a.name})" if several else f"{a.name} = :{a.name}"
        for a in changing
    )
    steps.append({"write": f"UPDATE {record.table} SET {sets} WHERE id = :{key}"})
    steps += _recomputed(plan, record, {a.name for a in changing})
    steps.append(_result(plan, record, key))
    labels = phrases.listed([a.label for a in changing])
    until = f" while it is {phrases.states_told(sources)}" if sources else ""
    left = " What is left out stays as it is." if several else ""
    means = "" if several else f" ({_meaning(changing[0])})"
    about = f"Change the {labels} of {phrases.a(entity.noun)}{means}{until}.{left}"
    said = phrases.changed(changing, {a.name: a.name for a in changing})
    return {
        plan.style.tool("update" if several else "set", noun): {
            "description": about,
            "effect": "write",
            "parameters": parameters,
            "steps": steps,
            "intent": f"have {record.called(key)} changed{said}",
        }
    }


def _meaning(attribute: Attribute) -> str:
    return attribute.about[0].lower() + attribute.about[1:]


def _moves(plan: Plan, record: Part) -> Tools:
    """Tools by which a record gets another thing."""
    tools: Tools = {}
    entity, key = record.entity, plan.key(record)
    for name, reference in record.references.items():
        if not reference.move:
            continue
        thing = plan.parts[name]
        new, sources = plan.key(thing), entity.live[:2]
        current = f"SELECT {name}_id FROM {record.table} WHERE id = :{key}"
        parameters = {
            key: _own_key(plan, record, sources),
            new: key_parameter(plan, thing, f"the new {thing.entity.noun}")
            | {
                "sample": f"SELECT id FROM {thing.table} WHERE id <> ({current})",
                "label": f"new {thing.entity.noun}",
            },
        }
        holder = f"(SELECT {record.holder}_id FROM {record.table} WHERE id = :{key})"
        same = {
            "require": f"SELECT {name}_id <> :{new} FROM {record.table} WHERE id = :{key}",
            "error": f"same_{name}",
            "message": f"{entity.noun.capitalize()} {{{key}!r}} has that {thing.entity.noun} "
            "already.",
        }
        steps = [
            *_in_state(plan, record, sources),
            same,
            *_suits(plan, record, thing, holder, f":{key}"),
            {"write": f"UPDATE {record.table} SET {name}_id = :{new} WHERE id = :{key}"},
            *_recomputed(plan, record, {name}),
            _result(plan, record, key),
        ]
        anew = (
            " What is computed from it is computed anew."
            if len(steps) > 4 and any(name in a.formula for a in record.computed)
            else ""
        )
        path = f"{new}.name"
        other = (
            f"{{% if {path} %}}{{{{ {path} }}}}{{% else %}}another {thing.entity.noun}{{% endif %}}"
        )
        said = reference.move.replace("{it}", record.called(key)).replace("{}", other)
        told = f" that is {phrases.states_told(sources)}" if sources else ""
        about = f"Give {phrases.a(entity.noun)}{told} another {thing.entity.noun}.{anew}"
        verb = plan.rng.choice(("change", "switch", "replace"))
        tools[plan.style.tool(verb, f"{record.name}_{name}")] = {
            "description": about,
            "effect": "write",
            "parameters": parameters,
            "steps": steps,
            "intent": said,
        }
    return tools


def _act(plan: Plan, record: Part, act: Act) -> Tools:
    key, entity, style = plan.key(record), record.entity, plan.style
    given = [record.attributes[name] for name in act.sets]
    parameters: dict[str, Any] = {key: _own_key(plan, record, act.sources)}
    steps = _in_state(plan, record, act.sources)
    for attribute in given:
        parameters[attribute.name] = _given(plan, record, attribute, new=True)
        steps += _not_past(attribute)
    sets = [f"{style.state} = '{act.target}'"] if (act.target,) != act.sources else []
    sets += [f"{a.name} = :{a.name}" for a in given]
    if style.closed in tables.stamps(plan, record):
        ends, goes_on = act.target in entity.ended, set(act.sources) & set(entity.ended)
        if ends:
            sets.append(f"{style.closed} = today()")
        elif goes_on:
            sets.append(f"{style.closed} = NULL")
    steps.append({"write": f"UPDATE {record.table} SET {', '.join(sets)} WHERE id = :{key}"})
    steps += _recomputed(plan, record, set(act.sets))
    steps.append(_result(plan, record, key))
    said = act.say.replace("{it}", record.called(key))
    said += phrases.changed(given, {a.name: a.name for a in given}) if given else ""
    return {
        style.tool(act.name, record.name): {
            "description": _act_told(plan, record, act),
            "effect": "destructive" if act.final else "write",
            "parameters": parameters,
            "steps": steps,
            "intent": said,
        }
    }


def _act_told(plan: Plan, record: Part, act: Act) -> str:
    entity, style = record.entity, plan.style
    about = phrases.sentence(act.about)
    if set(act.sources) == set(entity.states) or style.voice == 1:
        return about
    states = phrases.listed([f"`{state}`" for state in act.sources]).replace(" and ", " or ")
    if style.voice == 0:
        return f"{about} The {entity.noun} has to be {states}."
    return f"{about} Only for {entity.nouns} whose {style.state} is {states}."


def _remove(plan: Plan, record: Part) -> Tools:
    verb, say, about = record.entity.remove
    if not verb or any(part.entity.of == record.name for part in plan.records):
        return {}
    key = plan.key(record)
    return {
        plan.style.tool(verb, record.name): {
            "description": about,
            "effect": "destructive",
            "parameters": {key: _own_key(plan, record, ())},
            "steps": [
                {"write": f"DELETE FROM {record.table} WHERE id = :{key}"},
            ],
            "intent": say.replace("{it}", record.called(key)),
        }
    }


# --- things kept in mind -----------------------------------------------------------------------


def _save(plan: Plan, thing: Part) -> Tools:
    owner, entity, verb = plan.owner, thing.entity, thing.entity.saved
    key, of = plan.key(owner), plan.key(thing)
    table, noun = tables.saved_table(thing), entity.noun
    there = (
        f"EXISTS (SELECT 1 FROM {table} WHERE {owner.name}_id = :{key} AND {thing.name}_id = :{of})"
    )
    past = verb + ("d" if verb.endswith("e") else "ed")
    name = f"{{% if {of}.name %}}{{{{ {of}.name }}}}{{% else %}}{phrases.a(noun)}{{% endif %}}"
    mine = f"SELECT {thing.name}_id FROM {table} WHERE {owner.name}_id = :user_id"
    parameters = {key: key_parameter(plan, owner), of: key_parameter(plan, thing)}
    narrowed = {**parameters, of: parameters[of] | {"sample": mine}}
    fresh = f"SELECT id FROM {thing.table} WHERE id NOT IN ({mine})"
    parameters[of] = parameters[of] | {"sample": fresh}
    add = {
        "require": f"SELECT NOT {there}",
        "error": f"already_{past}",
        "message": f"{noun.capitalize()} {{{of}!r}} is {past} already.",
    }
    drop = {
        "require": f"SELECT {there}",
        "error": f"not_{past}",
        "message": f"{noun.capitalize()} {{{of}!r}} is not {past}.",
    }
    insert = f"INSERT INTO {table} VALUES (next_id('SV{thing.prefix[0]}'), :{key}, :{of})"
    delete = f"DELETE FROM {table} WHERE {owner.name}_id = :{key} AND {thing.name}_id = :{of}"
    return {
        plan.style.tool(verb, thing.name): {
            "description": f"{verb.capitalize()} {phrases.a(noun)} for "
            f"{phrases.a(owner.entity.noun)}, so that it is on their list of {past} {entity.nouns}.",
            "effect": "write",
            "parameters": parameters,
            "steps": [add, {"write": insert}],
            "intent": f"{verb} {name}",
        },
        plan.style.tool(f"un{verb}", thing.name): {
            "description": f"Take {phrases.a(noun)} off the list of {entity.nouns} that "
            f"{phrases.a(owner.entity.noun)} has {past}.",
            "effect": "destructive",
            "parameters": narrowed,
            "steps": [drop, {"write": delete}],
            "intent": f"have {name} taken off my list of {past} {entity.nouns}",
        },
    }
