"""Gives a list pages."""

from __future__ import annotations

import random

from synth.core.application import Parameter
from tool_registry.edits import remade, step, with_tools
from tool_registry.operator import Edit, Operator, Subject

_STYLES = {
    "limit": ("offset", "Rows to skip", 0, ":offset"),
    "page_size": (
        "page",
        "Number of the page, from 1",
        1,
        "(:page - 1) * coalesce(:page_size, {size})",
    ),
    "max_results": ("start_index", "Rows to skip", 0, ":start_index"),
    "count": ("skip", "Rows to skip", 0, ":skip"),
}


def _apply(subject: Subject, rng: random.Random) -> Edit | None:
    if not subject.lists:
        return None
    name = rng.choice(list(subject.lists))
    limit, size = rng.choice(list(_STYLES)), rng.choice([25, 50, 100])
    skip, about, least, offset = _STYLES[limit]
    tool = subject.lists[name]
    if {limit, skip} & set(tool.parameters):
        return None
    last = tool.steps[-1]
    sql = (
        f"{last.returns} LIMIT coalesce(:{limit}, {size}) OFFSET "
        f"coalesce({offset.format(size=size)}, 0)"
    )
    parameters = {
        limit: Parameter(
            type="integer",
            minimum=1,
            maximum=size * 2,
            optional=True,
            description=f"Rows at most; {size} if left out",
        ),
        skip: Parameter(
            type="integer", minimum=least, maximum=500, optional=True, description=about
        ),
    }
    changed = remade(
        tool,
        parameters={**tool.parameters, **parameters},
        steps=(step(returns=sql, shape="list", columns=last.columns),),
    )
    words = f"{name} gives {size} rows at a time, by {limit} and {skip}"
    return Edit(with_tools(subject.application, {name: changed}), words, (name,))


OPERATOR = Operator("input", "Pages for a list.", _apply)
