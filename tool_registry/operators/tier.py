"""Gives users a tier and lets the policy reserve a write for the higher ones."""

from __future__ import annotations

import random

from synth.core.application import Generator, PolicyRule, Tool
from tool_registry.composer.phrases import a, states_told
from tool_registry.edits import free, remade, step, with_column, with_tools
from tool_registry.operator import Edit, Operator, Subject, singular, vocabulary


def _apply(subject: Subject, rng: random.Random) -> Edit | None:
    application = subject.application
    users = application.user.table
    wanted = [n for n, tool in subject.writes.items() if tool.intent]
    lead = subject.subjects.get(users or "")
    if users is None or lead is None or not wanted or application.handoff is None:
        return None
    tiers, column = rng.choice(vocabulary()["tiers"]), "tier"
    noun, key = singular(users), lead[0]
    getter = f"get_{noun.replace(' ', '_')}_{column}"
    if column in subject.tables[users] or not free(application, getter):
        return None
    name = rng.choice(wanted)
    listed = ", ".join(f"'{tier}'" for tier in tiers)
    rest = f"TEXT NOT NULL DEFAULT '{tiers[0]}' CHECK ({column} IN ({listed}))"
    generator = Generator(kind="choice", argument=dict(zip(tiers, (30, 45, 25), strict=True)))
    changed = with_column(application, users, column, rest, generator)
    if changed is None:
        return None
    said = column.replace("_", " ")
    rule = PolicyRule(
        name=f"{column}_for_{name}"[:60],
        tool=name,
        when=f"SELECT {column} = '{tiers[0]}' FROM {users} WHERE id = :user_id",
        text=f"Nobody whose {said} is {tiers[0]} may {name.replace('_', ' ')}; see {getter}.",
    )
    shown = Tool(
        description=(
            f"Show the {said} of {a(noun)}: {states_told(tiers)}. Some requests are "
            "for the higher ones only."
        ),
        effect="read",
        parameters={key: subject.row(users)},
        steps=(
            step(returns=f"SELECT id, {column} FROM {users} WHERE id = :{key}", shape="object"),
        ),
        questions={column: {"en": f"what my {said} is"}},
    )
    changed = remade(changed, policy_rules=(*changed.policy_rules, rule))
    words = f"{name} is reserved for users whose {said} is not {tiers[0]}"
    return Edit(with_tools(changed, {getter: shown}), words, (getter, name))


OPERATOR = Operator("constrain", "A write that is reserved for some users.", _apply)
