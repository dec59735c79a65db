"""Lets whoever reads a list choose its order."""

from __future__ import annotations

import random

from synth.core.application import Parameter
from tool_registry.edits import remade, step, with_tools
from tool_registry.operator import Edit, Operator, Subject


def _apply(subject: Subject, rng: random.Random) -> Edit | None:
    fit = [
        n
        for n in subject.lists
        if len(subject.results[n]) > 2 and "sort_by" not in subject.lists[n].parameters
    ]
    if not fit:
        return None
    name = rng.choice(fit)
    tool, columns = subject.lists[name], [c for c in subject.results[name] if c != "id"]
    keys = sorted(rng.sample(columns, min(len(columns), rng.choice([2, 3, 4]))))
    last = tool.steps[-1]
    case = " ".join(f"WHEN '{key}' THEN {key}" for key in keys)
    first = f"CASE :sort_by {case} END"
    down = f"CASE WHEN :descending THEN {first} END DESC"
    sql = (
        f"SELECT * FROM ({last.returns}) ORDER BY {down}, {first}, "
        f"{next(iter(subject.results[name]))}"
    )
    parameters = {
        "sort_by": Parameter(
            type="string",
            enum=tuple(keys),
            optional=True,
            description="Column that decides the order",
        ),
        "descending": Parameter(
            type="boolean", optional=True, description="Largest or latest first"
        ),
    }
    changed = remade(
        tool,
        parameters={**tool.parameters, **parameters},
        steps=(step(returns=sql, shape="list", columns=last.columns),),
    )
    words = f"{name} can be sorted by {', '.join(keys)}"
    return Edit(with_tools(subject.application, {name: changed}), words, (name,))


OPERATOR = Operator("input", "A choice of order for a list.", _apply)
