"""Turns a value that anybody could write into one of a list."""

from __future__ import annotations

import random

from tool_registry.edits import remade, with_tools
from tool_registry.operator import Edit, Operator, Subject


def _apply(subject: Subject, rng: random.Random) -> Edit | None:
    found = [
        (name, parameter, tuple(p.generate.argument))
        for name, tool in subject.writes.items()
        for parameter, p in tool.parameters.items()
        if p.generate
        and p.generate.kind == "choice"
        and p.enum is None
        and p.type in ("string", "integer")
        and p.sample is None
        and p.minLength is None  # free text, of which the values are examples
        and all(isinstance(v, str if p.type == "string" else int) for v in p.generate.argument)
    ]
    if not found:
        return None
    name, parameter, values = rng.choice(found)
    tool = subject.writes[name]
    old = tool.parameters[parameter]
    new = remade(
        old,
        enum=tuple(dict.fromkeys(values)),
        minimum=None,
        maximum=None,
        minLength=None,
        maxLength=None,
        pattern=None,
        format=None,
        description=f"{old.description.rstrip('.')}, one of those on offer".lstrip(", "),
    )
    changed = remade(tool, parameters={**tool.parameters, parameter: new})
    words = f"{parameter} of {name} is one of {len(new.enum or ())} values"
    return Edit(with_tools(subject.application, {name: changed}), words, (name,))


OPERATOR = Operator("constrain", "A value that has to be one of a list.", _apply)
