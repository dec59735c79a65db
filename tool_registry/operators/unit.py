"""Changes unit and type of a number: cents to a decimal sum, minutes to hours."""

from __future__ import annotations

import random
import re

from synth.core.application import Generator, Parameter, Step
from tool_registry.edits import around, bound, in_rules, remade, renamed_parameter, with_tools
from tool_registry.operator import Edit, Operator, Subject

_UNIT = re.compile(r",? in [^,]*$")
"""What a description ends with that names another unit."""


def _unit(subject: Subject, name: str, p: Parameter) -> tuple[int, str, str] | None:
    if p.type != "integer" or p.enum or p.sample or p.entity or p.match:
        return None
    if p.generate is None or p.generate.kind not in ("integer", "choice"):
        return None
    if p.sets in subject.application.money:
        return 100, f"{name}_{subject.application.currency.lower()}", subject.application.currency
    if "minutes" in name:
        return 60, name.replace("minutes", "hours"), "hours"
    return None


def _apply(subject: Subject, rng: random.Random) -> Edit | None:
    found = [
        (name, parameter, unit)
        for name, tool in subject.writes.items()
        for parameter, p in tool.parameters.items()
        for unit in [_unit(subject, parameter, p)]
        if unit
        and unit[1] not in tool.parameters
        and not any(f":{parameter}" in (q.sample or "") for q in tool.parameters.values())
    ]
    if not found:
        return None
    name, parameter, (scale, new, unit) = rng.choice(found)
    tool = subject.application.tools[name]
    old = tool.parameters[parameter]
    assert old.generate is not None
    argument = old.generate.argument
    values = (
        [argument[0] / scale, argument[1] / scale, 2]
        if old.generate.kind == "integer"
        else [round(v / scale, 2) for v in argument]
    )
    kind = "number" if old.generate.kind == "integer" else "choice"
    low, high = (None if v is None else round(v / scale, 2) for v in (old.minimum, old.maximum))
    made = Parameter(
        type="number",
        minimum=low,
        maximum=high,
        optional=old.optional,
        label=f"{old.label or parameter.replace('_', ' ')} in {unit}",
        generate=Generator(kind=kind, argument=values),
        description=f"{_UNIT.sub('', old.description).rstrip('.')}, in {unit}",
    )
    whole = f"CAST(round(:{new} * {scale}) AS INTEGER)"
    changed = renamed_parameter(tool, parameter, new)
    steps = tool.steps
    changed = remade(changed, parameters={**changed.parameters, new: made}, steps=steps)
    changed = around(changed, before=[Step(let={parameter: f"SELECT {whole}"})])
    intent = {
        k: v.replace(f"{{{{ {new} }}}}", f"{{{{ {new} }}}} {unit}")
        for k, v in changed.intent.items()
    }
    changed = remade(changed, intent=intent)
    rules = in_rules(subject.application, name, lambda sql: bound(sql, parameter, whole))
    words = f"{name} takes {new} in {unit} instead of {parameter}"
    return Edit(
        with_tools(subject.application, {name: changed}, policy_rules=rules), words, (name,)
    )


OPERATOR = Operator("input", "A number in another unit and type.", _apply)
