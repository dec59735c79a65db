"""Puts plain parameters of a write into an object."""

from __future__ import annotations

import random
import re

from synth.core.application import Parameter, Step
from tool_registry.composer.phrases import listed
from tool_registry.edits import around, bound, in_rules, in_words, remade, with_tools
from tool_registry.operator import Edit, Operator, Subject

_NAMES = ("details", "options", "request", "data", "settings", "fields", "payload", "spec")


def _apply(subject: Subject, rng: random.Random) -> Edit | None:
    application = subject.application
    fit = {}
    for name, tool in subject.writes.items():
        plain = [
            n
            for n, p in tool.parameters.items()
            if p.type not in ("array", "object", "boolean") and not p.entity and not p.match
        ]
        read = " ".join(p.sample or "" for p in tool.parameters.values())
        plain = [n for n in plain if not re.search(rf":{n}\b", read)]
        if len(plain) >= 2:
            fit[name] = plain
    if not fit:
        return None
    name = rng.choice(list(fit))
    inside, holder = (
        fit[name],
        rng.choice([n for n in _NAMES if n not in application.tools[name].parameters]),
    )
    tool = application.tools[name]
    about = f"Object with {listed([n.replace('_', ' ') for n in inside])}"
    made = Parameter(
        type="object",
        description=about,
        optional=all(tool.parameters[n].optional for n in inside),
        properties={n: tool.parameters[n] for n in inside},
    )
    parameters = {n: p for n, p in tool.parameters.items() if n not in inside} | {holder: made}
    lets = [Step(let={n: f"SELECT json_extract(:{holder}, '$.{n}')"}) for n in inside]
    changed = remade(tool, parameters=parameters)
    for n in inside:
        pattern = re.compile(rf"(?<![.\w'\"]){n}(?![\w'\"])")
        changed = in_words(changed, lambda text, p=pattern, n=n: p.sub(f"{holder}.{n}", text))  # type: ignore[misc]

    def outside(sql: str) -> str:
        for n in inside:
            sql = bound(sql, n, f"json_extract(:{holder}, '$.{n}')")
        return sql

    rules = in_rules(application, name, outside)
    changed = around(changed, before=lets)
    words = f"{name} takes {', '.join(inside)} in an object {holder}"
    return Edit(with_tools(application, {name: changed}, policy_rules=rules), words, (name,))


OPERATOR = Operator("input", "Parameters nested in an object.", _apply)
