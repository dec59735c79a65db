"""Reads many rows with one call, by their keys."""

from __future__ import annotations

import random
import re

from synth.core.application import Parameter, Tool
from tool_registry.edits import free, step, with_tools
from tool_registry.operator import Edit, Operator, Subject


def _apply(subject: Subject, rng: random.Random) -> Edit | None:
    found = []
    for name, tool in subject.reads.items():
        keys = [(n, p) for n, p in tool.parameters.items() if p.entity]
        if len(tool.parameters) != 1 or len(keys) != 1 or len(tool.steps) != 1:
            continue
        key, parameter = keys[0]
        sql = tool.steps[0].returns or ""
        uses = re.findall(rf":{key}\b", sql)
        if len(uses) == 1 and re.search(rf"=\s*:{key}\b", sql) and "id" in subject.results[name]:
            found.append((name, key, parameter))
    if not found:
        return None
    name, key, parameter = rng.choice(found)
    tool, many = subject.reads[name], f"{key}s"
    new = f"{name}_of_many" if name.startswith("list") else f"{name}_batch"
    if not free(subject.application, new):
        return None
    last = tool.steps[0]
    sql = re.sub(rf"=\s*:{key}\b", f"IN (SELECT value FROM json_each(:{many}))", last.returns or "")
    sql = f"SELECT * FROM ({sql}) ORDER BY id"
    keys_ = Parameter(
        type="array",
        minItems=1,
        maxItems=20,
        items=parameter,
        description=f"{parameter.description or key}; one or more",
    )
    made = Tool(
        description=f"{tool.description.rstrip('.')}, for several at once.",
        effect="read",
        parameters={many: keys_},
        steps=(step(returns=sql, shape="list", columns=last.columns),),
    )
    return Edit(
        with_tools(subject.application, {new: made}), f"{new} is {name} for many rows", (new,)
    )


OPERATOR = Operator("input", "A read for many rows at once.", _apply)
