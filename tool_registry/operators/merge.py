"""Merges two acts on the same row into one tool that is told which."""

from __future__ import annotations

import random
import re
from itertools import combinations

from synth.core.application import Parameter, Step, Tool
from tool_registry.composer.phrases import a
from tool_registry.edits import free, remade, replaced
from tool_registry.operator import Edit, Operator, Subject, singular

_UPDATE = re.compile(r"\s*(UPDATE\s.*?\bWHERE\b)(.*)", re.DOTALL | re.IGNORECASE)


def _act(tool: Tool) -> str | None:
    """Return the only parameter of a tool that only guards and updates; None if it does more."""
    fit = len(tool.parameters) == 1 and tool.intent
    for one in tool.steps:
        plain = one.write and _UPDATE.fullmatch(one.write) and one.rows is None
        inner = one.write and _UPDATE.sub(r"\2", one.write)
        if not (one.require or one.returns or (plain and "RETURNING" not in str(inner).upper())):
            return None
    return next(iter(tool.parameters)) if fit else None


def _guarded(tool: Tool, act: str) -> list[Step]:
    found = []
    for one in tool.steps:
        if one.require:
            found.append(remade(one, require=f"SELECT :action <> '{act}' OR ({one.require})"))
        elif one.write:
            parts = _UPDATE.fullmatch(one.write)
            assert parts is not None
            sql = f"{parts[1]} ({parts[2].strip()}) AND :action = '{act}'"
            found.append(remade(one, write=sql, rows="any"))
    return found


def _apply(subject: Subject, rng: random.Random) -> Edit | None:
    application = subject.application
    ruled = {rule.tool for rule in application.policy_rules}
    acts = {n: key for n, tool in subject.writes.items() if n not in ruled and (key := _act(tool))}
    pairs = [
        (x, y)
        for x, y in combinations(acts, 2)
        if acts[x] == acts[y]
        and application.tools[x].parameters[acts[x]].entity
        == application.tools[y].parameters[acts[y]].entity
    ]
    if not pairs:
        return None
    first, second = rng.choice(pairs)
    one, two, key = application.tools[first], application.tools[second], acts[first]
    entity = str(one.parameters[key].entity)
    noun = singular(entity.split(".")[0])
    new = f"{rng.choice(['manage', 'handle', 'process'])}_{noun.replace(' ', '_')}"
    if not free(application, new):
        return None
    last = [s for s in one.steps if s.returns]
    made = Tool(
        description=(
            f"Do one of two things with {a(noun)}. `{first}`: "
            f"{one.description} `{second}`: {two.description}"
        ),
        effect="destructive" if "destructive" in (one.effect, two.effect) else "write",
        parameters={
            "action": Parameter(
                type="string", enum=(first, second), description="Which of the two"
            ),
            key: remade(one.parameters[key], sample=None),
        },
        steps=(*_guarded(one, first), *_guarded(two, second), *last),
        intent={
            "en": f"{{% if action == '{first}' %}}{one.intent['en']}"
            f"{{% else %}}{two.intent['en']}{{% endif %}}"
        },
    )
    child = replaced(application, first, {new: made})
    child = replaced(child, second, {})
    return Edit(child, f"{first} and {second} are one tool, {new}", (new,))


OPERATOR = Operator("steps", "Two acts on a row in one tool.", _apply)
