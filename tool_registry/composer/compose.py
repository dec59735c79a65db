"""From a category and a seed to an application: draw a plan, write it out."""

from __future__ import annotations

import re
from typing import Any

from synth.core.application import Application
from synth.core.seeds import rng
from synth.core.seeds import seed as seed_of
from tool_registry.composer import phrases, tables
from tool_registry.composer.beside import handoff, saving_tools
from tool_registry.composer.plan import Part, Plan, draw
from tool_registry.composer.reads import read_tools
from tool_registry.composer.style import draw_style
from tool_registry.composer.vocabulary import Category, vocabulary
from tool_registry.composer.writes import write_tools

_MIX = 40503
"""Odd, so that the names of 65536 seeds in a row differ."""


def compose(category: str, seed: int) -> Application:
    """Compose an application.

    Args:
        category: one of `categories()`.
        seed: which of its applications; the same one gives the same application.

    Raises:
        UnknownName: the category has no vocabulary.
        BadApplication: its vocabulary does not keep to the notation.
    """
    words = vocabulary(category)
    chance = rng("compose", category, seed)
    style = draw_style(chance)
    desk = chance.choice(list(words.desks))
    return written(draw(words, style, desk, chance), named(words, desk, seed))


def named(category: Category, desk: str, seed: int) -> str:
    """Return the name of an application, unique for its category and seed."""
    turn, low = divmod(seed, 65536)
    mixed = (low * _MIX + seed_of("name", category.name)) % 65536
    return f"{desk}_{mixed:04x}" + (f"{turn:x}" if turn else "")


def written(plan: Plan, name: str) -> Application:
    """Write a plan out as an application called `name`."""
    handoff_name, handoff_tool = handoff(plan)
    tools = {
        **read_tools(plan),
        **write_tools(plan),
        **saving_tools(plan),
        handoff_name: handoff_tool,
    }
    about = plan.category.desks[plan.desk]
    nouns = phrases.listed([part.entity.nouns for part in (*plan.records, *plan.things)])
    style = plan.style
    return Application.model_validate(
        {
            "application": name,
            "category": plan.category.name,
            "summary": f"{about}: {nouns}.",
            "clock": style.clock,
            "schema": tables.schema(plan),
            "seed": tables.seed(plan),
            "after_seed": tables.after_seed(plan),
            "user": {"table": plan.owner.table},
            "identify": ["name", "email"],
            "known": _known(plan),
            "labels": _labels(plan),
            "money": _money(plan),
            "currency": style.currency,
            "compare": {"handovers.summary": "ignore"},
            "never": tables.never(plan),
            "policy": _policy(plan, about, handoff_name, tools),
            "policy_rules": [
                rule for record in plan.records for rule in _rules(plan, record, tools)
            ],
            "handoff": handoff_name,
            "out_of_scope": list(plan.category.out_of_scope),
            "tools": tools,
        }
    )


def _known(plan: Plan) -> dict[str, list[str]]:
    found = {plan.owner.table: ["name", "email"]}
    for part in plan.parts.values():
        found[part.table] = part.known
    return found


def _labels(plan: Plan) -> dict[str, str]:
    found = {f"{plan.owner.table}.name": "full name", f"{plan.owner.table}.email": "e-mail address"}
    found[f"{plan.owner.table}.phone"] = "phone number"
    for part in plan.things:
        found[f"{part.table}.name"] = f"name of the {part.entity.noun}"
    return found


def _money(plan: Plan) -> list[str]:
    return [
        f"{part.table}.{attribute.name}"
        for part in (plan.owner, *plan.parts.values())
        for attribute in part.attributes.values()
        if attribute.kind == "money"
    ]


# --- the policy --------------------------------------------------------------------------------


def _rules(plan: Plan, record: Part, tools: dict[str, Any]) -> list[dict[str, Any]]:
    found = []
    for number, (rule, n) in enumerate(record.rules, start=1):
        entity = record.entity
        verb = entity.create[0] if rule.act == "create" else rule.act
        tool = plan.style.tool(verb, record.name)
        if tool not in tools:
            continue
        when = rule.when.replace("{n}", n)
        when = re.sub(r"\bstatus\b", plan.style.state, when)
        part = plan.part(record.holder) if rule.act == "create" else record
        found.append(
            {
                "name": f"{record.name}_{verb}_{number}",
                "tool": tool,
                "when": f"SELECT {when} FROM {part.table} WHERE id = :{plan.key(part)}",
                "text": rule.text.replace("{n}", n),
            }
        )
    return found


def _policy(plan: Plan, about: str, handoff_name: str, tools: dict[str, Any]) -> str:
    owner, style = plan.owner.entity, plan.style
    finder = next(iter(tools))
    lines = [
        f"You help {owner.nouns} by chat. {about}. It is {{{{ clock }}}}.",
        f"Sums in tools are integers in {style.cents}: 12.50 {style.currency} is 1250.",
        "",
        "## Identify first",
        f"Find the {owner.noun} by e-mail address with `{finder}` before you read or change what "
        f"is theirs, and act for that {owner.noun} only. Identifiers such as "
        f"{plan.example(plan.records[0])} are internal; people do not know them.",
        "",
        "## What there is",
    ]
    for part in (*plan.things, *plan.records):
        entity = part.entity
        line = f"- {entity.nouns.capitalize()}: {phrases.sentence(entity.about)}"
        if entity.states:
            line += f" It is {phrases.states_told(entity.states)}."
        lines.append(line)
    lines += [
        "",
        "## What is not allowed",
        "{% for rule in rules %}",
        "- {{ rule }}",
        "{% endfor %}",
        "Nothing else is forbidden; whatever the tools do within these rules may be done.",
        "",
        "## When to hand over",
        f"Use `{handoff_name}` with the reason `not_allowed` when a rule forbids a request, and "
        "with the reason `no_tool` when no tool serves it. Do that once, change nothing else for "
        f"it, and say that the {plan.category.handoff} answers by e-mail.",
    ]
    return "\n".join(lines)
