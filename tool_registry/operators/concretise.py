"""Makes a special tool of a general one: one word of a list of words is decided."""

from __future__ import annotations

import random
import re

from synth.core.application import Tool
from tool_registry.edits import bound, free, in_sql, in_words, remade, replaced, told, with_tools
from tool_registry.operator import Edit, Operator, Subject


def decided(tool: Tool, name: str, word: str) -> Tool:
    """Return a tool in which the parameter `name` is always `word`."""
    tool = in_sql(tool, lambda sql: bound(sql, name, f"'{word}'"))

    def settle(text: str) -> str:
        text = re.sub(
            rf"(?<![.\w]){name}\s*(==|!=)\s*'([^']*)'",
            lambda m: str((m[2] == word) == (m[1] == "==")).lower(),
            text,
        )
        return re.sub(rf"(?<![.\w'\"]){name}(?![\w'\"])", f"'{word.replace('_', ' ')}'", text)

    tool = in_words(tool, settle)
    steps = tuple(
        remade(s, message=re.sub(rf"\{{{name}(!r)?\}}", word, s.message)) if s.message else s
        for s in tool.steps
    )
    parameters = {n: p for n, p in tool.parameters.items() if n != name}
    return remade(tool, parameters=parameters, steps=steps)


def _narrowed(tool: Tool, parameter: str, word: str) -> str:
    said = parameter.replace("_", " ")
    only = tool.effect == "read"
    given = re.sub(rf"\b(whose {said}) has a given value", rf"\1 is `{word}`", tool.description)
    given = re.sub(rf"\b(that are) in a given {said}", rf"\1 `{word}`", given)
    if given != tool.description:
        return given
    extra = f"Only those whose {said} is `{word}`." if only else f"The {said} is always `{word}`."
    return told(tool, extra).description


def _apply(subject: Subject, rng: random.Random) -> Edit | None:
    application = subject.application
    ruled = {rule.tool for rule in application.policy_rules}
    found = [
        (name, parameter, str(word))
        for name, tool in {**subject.reads, **subject.writes}.items()
        for parameter, p in tool.parameters.items()
        if p.type == "string"
        and p.enum
        and len(p.enum) > 1
        and name not in ruled
        and not (p.optional and tool.effect != "read")
        for word in p.enum
        if free(application, f"{name}_{word}")
    ]
    if not found:
        return None
    name, parameter, word = rng.choice(found)
    tool = application.tools[name]
    enum = tool.parameters[parameter].enum or ()
    new, said = f"{name}_{word}", f"{parameter.replace('_', ' ')} {word.replace('_', ' ')}"
    special = decided(tool, parameter, word)
    special = remade(special, description=_narrowed(tool, parameter, word))
    if len(enum) == 2 and not tool.parameters[parameter].optional:
        other = str(next(w for w in enum if w != word))
        second = remade(
            decided(tool, parameter, other),
            description=_narrowed(tool, parameter, other),
        )
        both = {new: special, f"{name}_{other}": second}
        words = f"{name} is split by its {parameter}"
        return Edit(replaced(application, name, both), words, tuple(both))
    words = f"{new} is {name} with the {said}"
    return Edit(with_tools(application, {new: special}), words, (new,))


OPERATOR = Operator("concretise", "A special tool where a parameter is decided.", _apply)
