"""Renames the tools of an application in another style of API: verbs, order of words, prefixes."""

from __future__ import annotations

import random
import re

from synth.core.application import Application
from tool_registry.edits import remade, renamed_parameter
from tool_registry.effect import VERBS
from tool_registry.operator import Edit, Operator, Subject, vocabulary

_PARTICLES = frozenset({"up", "on", "off", "out", "over", "all", "to", "for", "of", "in", "if"})
"""After a verb: part of it (`give_up`)."""


def _synonyms(names: list[str], application: Application, rng: random.Random) -> dict[str, str]:
    chosen = {verb: rng.choice(others) for verb, others in sorted(vocabulary()["verbs"].items())}
    return {
        name: f"{chosen[verb]}_{rest}"
        for name in names
        for verb, _, rest in [name.partition("_")]
        if verb in chosen and rest
    }


def _noun_first(names: list[str], application: Application, rng: random.Random) -> dict[str, str]:
    return {
        name: f"{rest}_{verb}"
        for name in names
        for verb, _, rest in [name.partition("_")]
        if verb in VERBS and rest and rest.split("_")[0] not in _PARTICLES
    }


def _prefixed(names: list[str], application: Application, rng: random.Random) -> dict[str, str]:
    prefix = application.application.split("_")[0][:12]
    return {name: f"{prefix}_{name}" for name in names if not name.startswith(f"{prefix}_")}


_STYLES = {
    "synonyms": _synonyms,
    "noun first": _noun_first,
    "prefixed": _prefixed,
}
_KEYS = ("{}", "{}_ref", "{}_key", "{}_number")


def renamed(application: Application, names: dict[str, str]) -> Application:
    """Return an application whose tools have other names, wherever they are mentioned."""

    def text(sentence: str) -> str:
        return re.sub(r"\b[a-z]+(?:_[a-z0-9]+)+\b", lambda m: names.get(m[0], m[0]), sentence)

    tools = {}
    for name, tool in application.tools.items():
        steps = tuple(remade(s, message=text(s.message)) if s.message else s for s in tool.steps)
        tools[names.get(name, name)] = remade(tool, description=text(tool.description), steps=steps)
    rules = tuple(
        remade(r, tool=names.get(r.tool, r.tool), text=text(r.text))
        for r in application.policy_rules
    )
    handoff = application.handoff and names.get(application.handoff, application.handoff)
    policy = text(application.policy)
    return remade(application, tools=tools, policy_rules=rules, handoff=handoff, policy=policy)


def _apply(subject: Subject, rng: random.Random) -> Edit | None:
    application = subject.application
    own = [*subject.reads, *subject.writes]
    style = rng.choice(list(_STYLES))
    wanted = _STYLES[style](own, application, rng)
    kept = set(application.tools) - set(wanted)
    names: dict[str, str] = {}
    for old, new in wanted.items():
        if new not in kept and new not in names.values() and len(new) <= 62:
            names[old] = new
        else:
            kept.add(old)
    if len(names) < len(own) / 3 or len({*kept, *names.values()}) < len(application.tools):
        return None
    child = renamed(application, names)
    if any(tool.by == "user" for tool in application.tools.values()):
        return Edit(child, f"tools are named in another style: {style}", tuple(names.values()))
    pattern = rng.choice(_KEYS)
    tools = dict(child.tools)
    for name, tool in child.tools.items():
        for parameter, p in tool.parameters.items():
            new = pattern.format(parameter.removesuffix("_id"))
            ruled = any(rule.tool == name for rule in child.policy_rules)
            sampled = any(f":{parameter}" in (q.sample or "") for q in tool.parameters.values())
            if (
                p.entity
                and parameter.endswith("_id")
                and tool.by == "agent"
                and not ruled
                and not sampled
                and new not in tool.parameters
            ):
                tools[name] = renamed_parameter(tools[name], parameter, new)
    child = remade(child, tools=tools)
    return Edit(child, f"tools are named in another style: {style}", tuple(names.values()))


OPERATOR = Operator("breadth", "Names in another style of API.", _apply)
