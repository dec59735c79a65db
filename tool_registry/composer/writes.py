"""Tools that write: records are made, changed, moved on and ended."""

from __future__ import annotations

from typing import Any

from tool_registry.composer import making, phrases, tables
from tool_registry.composer.plan import Part, Plan
from tool_registry.composer.reads import Tools, key_parameter
from tool_registry.composer.vocabulary import Act, Attribute


def write_tools(plan: Plan) -> Tools:
    """Return the tools that write, by name."""
    tools = _owner(plan)
    for record in plan.records:
        tools |= _create(plan, record) | _update(plan, record) | _moves(plan, record)
        for act in record.entity.acts.values():
            tools |= _act(plan, record, act)
        tools |= _remove(plan, record)
    return tools


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
        parameters[key] = making.own_key(plan, over, over.entity.live)
        steps += making.in_state(plan, over, over.entity.live)
    conditions = making.limited(plan, record, key)
    steps += conditions
    for name in record.references:
        thing = plan.parts[name]
        parameters[plan.key(thing)] = key_parameter(plan, thing)
        steps += making.suits(plan, record, thing, f":{key}")
    for attribute in record.given:
        parameters[attribute.name] = making.given(plan, record, attribute, new=True)
        if attribute.kind == "text":
            parameters[attribute.name]["optional"] = True
        steps += making.not_past(attribute)
    steps += [{"let": {"new_id": f"SELECT next_id('{record.prefix}')"}}, _insert(plan, record, key)]
    steps.append(making.result(plan, record, "new_id"))
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
    parameters: dict[str, Any] = {key: making.own_key(plan, record, sources)}
    several = len(changing) > 1
    for attribute in changing:
        parameters[attribute.name] = making.given(plan, record, attribute, new=False)
        if several:
            parameters[attribute.name]["optional"] = True
    steps = making.in_state(plan, record, sources)
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
        steps += making.not_past(attribute)
    sets = ", ".join(
        f"{a.name} = coalesce(:{a.name}, {a.name})" if several else f"{a.name} = :{a.name}"
        for a in changing
    )
    steps.append({"write": f"UPDATE {record.table} SET {sets} WHERE id = :{key}"})
    steps += making.recomputed(plan, record, {a.name for a in changing})
    steps.append(making.result(plan, record, key))
    labels = phrases.listed([a.label for a in changing])
    until = f" while it is {phrases.states_told(sources)}" if sources else ""
    left = " What is left out stays as it is." if several else ""
    about = f"Change the {labels} of {phrases.a(entity.noun)}{until}.{left}"
    if not several:
        about = _setting(changing[0], entity.noun, until)
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


def _setting(attribute: Attribute, noun: str, until: str) -> str:
    """Return what a tool does that changes one attribute."""
    about = attribute.about[0].lower() + attribute.about[1:]
    if attribute.kind == "flag":
        return f"Change for {phrases.a(noun)} {about}{until and ','}{until}."
    return f"Change the {attribute.label} of {phrases.a(noun)} ({about}){until}."


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
            key: making.own_key(plan, record, sources),
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
            *making.in_state(plan, record, sources),
            same,
            *making.suits(plan, record, thing, holder, f":{key}"),
            {"write": f"UPDATE {record.table} SET {name}_id = :{new} WHERE id = :{key}"},
            *making.recomputed(plan, record, {name}),
            making.result(plan, record, key),
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
    parameters: dict[str, Any] = {key: making.own_key(plan, record, act.sources)}
    steps = making.in_state(plan, record, act.sources)
    for attribute in given:
        parameters[attribute.name] = making.given(plan, record, attribute, new=True)
        steps += making.not_past(attribute)
    sets = [f"{style.state} = '{act.target}'"] if (act.target,) != act.sources else []
    sets += [f"{a.name} = :{a.name}" for a in given]
    if style.closed in tables.stamps(plan, record):
        ends, goes_on = act.target in entity.ended, set(act.sources) & set(entity.ended)
        if ends:
            sets.append(f"{style.closed} = today()")
        elif goes_on:
            sets.append(f"{style.closed} = NULL")
    steps.append({"write": f"UPDATE {record.table} SET {', '.join(sets)} WHERE id = :{key}"})
    steps += making.recomputed(plan, record, set(act.sets))
    steps.append(making.result(plan, record, key))
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
    if set(act.sources) == set(entity.states):
        return about
    if style.voice == 1:
        return f"{about} Fails unless it is {phrases.states_told(act.sources)}."
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
            "parameters": {key: making.own_key(plan, record, ())},
            "steps": [
                {"write": f"DELETE FROM {record.table} WHERE id = :{key}"},
            ],
            "intent": say.replace("{it}", record.called(key)),
        }
    }
