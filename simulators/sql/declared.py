"""The part of the lint that reads an application without running any of its tools."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Literal

from simulators.sql.engine import Engine
from simulators.sql.finding import Finding
from simulators.sql.graph import Leaf, leaves
from simulators.sql.words import Words
from synth.core.application import Application, Tool
from synth.core.errors import BadApplication

_STRING = re.compile(r"'(?:[^']|'')*'")
_INNER = re.compile(r"\([^()]*\)")
_ORDER = re.compile(r"\border\s+by\b", re.IGNORECASE)
_WORD = re.compile(r"[a-z_][a-z0-9_]*")
HANDOFF_REASONS = frozenset({"not_allowed", "no_tool"})


def lint_declared(engine: Engine) -> Iterator[Finding]:
    """Yield what is wrong with the declarations of an application."""
    application = engine.application
    yield from _user(application)
    yield from _handoff(application)
    yield from _unused_tables(engine)
    for name, tool in application.tools.items():
        yield from _parameters(application, name, tool)
        yield from _words(engine, name, tool)
        yield from _users(application, name, tool)
        yield from _order(application, name, tool)
    for rule in application.policy_rules:
        if not application.tools[rule.tool].intent:
            where = f"policy_rules.{rule.name}"
            what = f"{rule.tool!r} has no intent, so nobody asks for what the rule forbids"
            yield _finding(application, "error", where, what, f"give tools.{rule.tool} an intent")


def _finding(
    application: Application,
    level: Literal["error", "warning"],
    path: str,
    what: str,
    remedy: str = "",
) -> Finding:
    return Finding(level, f"{application.application}: {path}", what, remedy)


def _user(application: Application) -> Iterator[Finding]:
    if application.user.table is not None and not application.identify:
        what = "nothing the user can say of themselves"
        yield _finding(application, "error", "identify", what, "list columns such as name, email")


def _handoff(application: Application) -> Iterator[Finding]:
    name = application.handoff
    if name is None:
        if application.policy_rules or application.out_of_scope:
            what = "policy_rules and out_of_scope need a tool that refusals end in"
            yield _finding(application, "error", "handoff", what, "name a write tool")
        return
    tool, path = application.tools[name], f"tools.{name}"
    reason = tool.parameters.get("reason")
    if reason is None or not set(reason.enum or ()) >= HANDOFF_REASONS:
        what = "the hand-off has no reason with both not_allowed and no_tool"
        yield _finding(application, "error", f"{path}.parameters.reason", what, "add them to enum")
    if tool.effect == "read":
        what = "the hand-off only reads, so nobody can tell that it happened"
        yield _finding(application, "error", f"{path}.effect", what, "effect: write")
    for leaf in leaves(tool):
        free = leaf.parameter.type == "string" and leaf.meaning is None
        if free and leaf.parameter.enum is None and leaf.parameter.sets not in application.compare:
            what = "the free text of a hand-off decides whether states are equal"
            remedy = "declare its column with sets and list that under compare"
            yield _finding(application, "error", f"{path}.parameters.{leaf.name}", what, remedy)


def _parameters(application: Application, name: str, tool: Tool) -> Iterator[Finding]:
    for leaf in leaves(tool):
        if _fillable(leaf) or name == application.handoff:
            continue
        level: Literal["error", "warning"] = "error" if leaf.required else "warning"
        path = f"tools.{name}.parameters.{leaf.name}"
        what = "free text without a meaning: no goal can fill it in"
        remedy = "give entity, match, sample, or sets with generate"
        yield _finding(application, level, path, what, remedy)


def _fillable(leaf: Leaf) -> bool:
    parameter = leaf.parameter
    if parameter.type == "array" or parameter.type == "object":
        return False
    given = (leaf.meaning, parameter.sample, parameter.generate, parameter.enum)
    dated = parameter.format in {"date", "date-time"}
    return any(item is not None for item in given) or parameter.type != "string" or dated


def _words(engine: Engine, name: str, tool: Tool) -> Iterator[Finding]:
    application, path = engine.application, f"tools.{name}"
    for language, text in tool.intent.items():
        yield from _template(application, text, f"{path}.intent.{language}", tool)
    for column, words in tool.questions.items():
        for language, text in words.items():
            yield from _template(application, text, f"{path}.questions.{column}.{language}", tool)
        if column not in {result.name for result in engine.results[name]}:
            what = f"the result has no column {column!r}"
            known = ", ".join(result.name for result in engine.results[name])
            yield _finding(application, "error", f"{path}.questions", what, f"columns: {known}")
    if tool.by == "user":
        return
    if tool.effect == "read" and tool.intent:
        what = "a read has an intent, which only writes use"
        yield _finding(application, "warning", f"{path}.intent", what, "write questions")
    if tool.effect != "read" and tool.questions:
        what = "a write has questions, which only reads use"
        yield _finding(application, "error", f"{path}.questions", what, "write an intent")
    if tool.effect != "read" and not tool.intent and name != application.handoff:
        what = "no intent: nobody asks for this write"
        yield _finding(application, "warning", path, what, "add an intent")


def _users(application: Application, name: str, tool: Tool) -> Iterator[Finding]:
    """Find what keeps a user from using a tool of their own, or an agent from asking for it."""
    if tool.by != "user":
        return
    path = f"tools.{name}"
    if not tool.intent:
        remedy = "give an intent, as it follows could you"
        yield _finding(application, "error", path, "no agent can ask for it", remedy)
    if tool.questions:
        remedy = "the agent asks for what it shows; drop them"
        yield _finding(application, "error", path, "a user's tool has questions", remedy)
    for leaf in leaves(tool):
        entity = leaf.parameter.entity
        if entity is not None:
            where = f"{path}.parameters.{leaf.name}.entity"
            what = "no user knows a key"
            yield _finding(application, "error", where, what, "match what people know by sight")


def _template(application: Application, text: str, path: str, tool: Tool) -> Iterable[Finding]:
    where = f"{application.application}: {path}"
    try:
        words = Words(text, where=where)
    except BadApplication as error:
        return [Finding.of(error)]
    unknown = sorted(words.names - set(tool.parameters))
    known = ", ".join(tool.parameters) or "none"
    return [
        Finding("error", where, f"unknown name {name!r}", f"parameters: {known}")
        for name in unknown
    ]


def _order(application: Application, name: str, tool: Tool) -> Iterator[Finding]:
    for number, step in enumerate(tool.steps):
        if step.returns is None or step.shape != "list" or tool.effect != "read":
            continue
        outer = _STRING.sub("''", step.returns)
        while _INNER.search(outer):
            outer = _INNER.sub("", outer)
        if not _ORDER.search(outer):
            path = f"tools.{name}.steps[{number}].return"
            yield _finding(application, "error", path, "a list without ORDER BY", "add ORDER BY")


def _unused_tables(engine: Engine) -> Iterator[Finding]:
    application = engine.application
    used: set[str] = set()
    for tool in application.tools.values():
        for step in tool.steps:
            for sql in (step.require, step.write, step.returns, *(step.let or {}).values()):
                used.update(_WORD.findall((sql or "").lower()))
        used.update((leaf.meaning or "").split(".")[0] for leaf in leaves(tool))
    for table in engine.tables:
        if table not in used:
            what = f"no tool uses table {table!r}"
            yield _finding(application, "warning", "schema", what, "use it or drop it")
