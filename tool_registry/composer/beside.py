"""What every application has beside its records: things kept in mind, and the hand-off."""

from __future__ import annotations

from typing import Any

from tool_registry.composer import phrases, tables
from tool_registry.composer.plan import Part, Plan
from tool_registry.composer.reads import Tools, key_parameter, read


def saving_tools(plan: Plan) -> Tools:
    """Return the tools by which owners keep things in mind, by name."""
    tools: Tools = {}
    for thing in tables.saved(plan):
        tools |= _list_saved(plan, thing) | _save(plan, thing)
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


# --- things kept in mind ---


def _past(verb: str) -> str:
    if verb.endswith("e"):
        return f"{verb}d"
    return f"{verb}{verb[-1]}ed" if verb == "star" else f"{verb}ed"


def _list_saved(plan: Plan, thing: Part) -> Tools:
    key, owner, entity = plan.key(plan.owner), plan.owner, thing.entity
    table = tables.saved_table(thing)
    names = ", ".join(f"t.{name}" for name in ("name", *list(thing.attributes)[:3]))
    sql = (
        f"SELECT t.id, {names} FROM {table} s JOIN {thing.table} t ON t.id = s.{thing.name}_id "
        f"WHERE s.{owner.name}_id = :{key} ORDER BY t.name, t.id"
    )
    past = _past(entity.saved)
    about = f"List the {entity.nouns} that {phrases.a(owner.entity.noun)} has {past}, by name."
    return {
        plan.style.tool("list", f"{past}_{thing.table}"): read(
            about, {key: key_parameter(plan, owner)}, sql
        )
    }


def _save(plan: Plan, thing: Part) -> Tools:
    owner, entity, verb = plan.owner, thing.entity, thing.entity.saved
    key, of = plan.key(owner), plan.key(thing)
    table, noun = tables.saved_table(thing), entity.noun
    there = (
        f"EXISTS (SELECT 1 FROM {table} WHERE {owner.name}_id = :{key} AND {thing.name}_id = :{of})"
    )
    past = _past(verb)
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
            f"{phrases.a(owner.entity.noun)}, so that it is on their list of {past} "
            f"{entity.nouns}.",
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
