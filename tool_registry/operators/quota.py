"""Limits a number: the policy forbids what lies beyond it."""

from __future__ import annotations

import random
from collections.abc import Iterator

from synth.core.application import Parameter, PolicyRule
from tool_registry.edits import remade
from tool_registry.operator import Edit, Operator, Subject


def _values(parameter: Parameter) -> list[float]:
    made = parameter.generate
    if made is None:
        return []
    values = made.argument
    if made.kind == "choice":
        return sorted(float(v) for v in values if isinstance(v, int | float))
    if made.kind in ("integer", "number"):
        low, high = values[0], values[1]
        return [low + (high - low) * part / 10 for part in range(11)]
    return []


def _limits(subject: Subject) -> Iterator[tuple[str, str, list[float]]]:
    ruled = {rule.tool for rule in subject.application.policy_rules}
    for name, tool in subject.writes.items():
        for parameter, p in tool.parameters.items():
            values = _values(p)
            if p.type == "integer" and len(values) > 3 and tool.intent and name not in ruled:
                yield name, parameter, values


def _apply(subject: Subject, rng: random.Random) -> Edit | None:
    application = subject.application
    found = list(_limits(subject))
    if not found or application.handoff is None:
        return None
    name, parameter, values = rng.choice(found)
    most = int(values[int(len(values) * rng.choice([0.5, 0.6, 0.7]))])
    said = parameter.replace("_", " ")
    rule = PolicyRule(
        name=f"most_{parameter}_of_{name}"[:60],
        tool=name,
        when=f"SELECT :{parameter} > {most}",
        text=(
            f"`{name}` is for {said} up to {most} only; anything above is a supervisor's to decide."
        ),
    )
    changed = remade(application, policy_rules=(*application.policy_rules, rule))
    return Edit(changed, f"{name} is limited to {said} {most}", (name,))


OPERATOR = Operator("constrain", "A limit that the policy sets and no tool enforces.", _apply)
