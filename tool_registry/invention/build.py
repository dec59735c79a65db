"""What a model wrote, as an application. Code adds what is the same in all of them.

Ids, types, constraints and seeds follow from the kinds of columns; every application gets the same
hand-off, and a policy that lists its rules. What does not fit together is a `Misfit`, in words that
a model can mend it by.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import ValidationError

from synth.core.application import Application
from tool_registry.invention.form import Change, Parameter, Rule, Sketch, Step, Tool
from tool_registry.invention.tables import (
    Misfit,
    ddl,
    known_columns,
    problems,
    seeded,
    with_new_column,
)

CLOCK = "2026-03-02T09:00:00"
HANDOFF, HANDED = "refer_to_a_colleague", "referrals"
_POLICY = """{policy}

It is {{{{ clock }}}}. Find out who you talk to before you act for them.
{{% for rule in rules %}}
- {{{{ rule }}}}
{{% endfor %}}
Pass on what a rule forbids with the reason `not_allowed`, and what no tool can do with `no_tool`.
"""
_TEMPLATE = re.compile(r"\{\{|\{%|\{#")
_PARTLY = {"equals": "eq", "contains": "contains", "at_least": "ge", "at_most": "le"}
_BOXES = ("post", "office", "contact", "hello", "mail")
_OF_ROWS = frozenset({"ref", "parent", "sql", "template", "email", "serial", "value"})
"""Generators that make no value without a row."""


def application_of(sketch: Sketch, number: int) -> Application:
    """Return the application of a sketch.

    Args:
        sketch: what a model wrote.
        number: of the candidate; makes the name its own.

    Raises:
        Misfit: tables, columns or tools do not fit together.
    """
    tables = {table.name: table for table in sketch.tables}
    if sketch.users not in tables:
        raise Misfit(f"users: there is no table {sketch.users!r}; tables: {', '.join(tables)}")
    if HANDED in tables or any(tool.name == HANDOFF for tool in sketch.tools):
        raise Misfit(f"the table {HANDED} and the tool {HANDOFF} are there already: leave them out")
    for words in (sketch.policy, sketch.summary, *(rule.text for rule in sketch.rules)):
        _plain(words)
    seed = {table.name: seeded(table, tables) for table in sketch.tables}
    owner = tables[sketch.users]
    key = f"{singular(sketch.users)}_id"
    tools = {tool.name: _tool(tool, seed) for tool in sketch.tools}
    return _checked(
        {
            "application": f"{sketch.name[:48]}_m{number}",
            "category": sketch.category.lower(),
            "summary": sketch.summary,
            "clock": CLOCK,
            "schema": "\n".join([*map(ddl, sketch.tables), _handed_table(key, sketch.users)]),
            "seed": seed,
            "user": {"table": sketch.users},
            "identify": [c.name for c in owner.columns if c.kind in ("person", "email")],
            "known": known_columns(sketch.tables),
            "money": [
                f"{t.name}.{c.name}" for t in sketch.tables for c in t.columns if c.kind == "money"
            ],
            "compare": {f"{HANDED}.summary": "ignore"},
            "never": {one.text: one.sql for one in sketch.never},
            "policy": _POLICY.format(policy=sketch.policy),
            "policy_rules": [_rule(rule) for rule in sketch.rules],
            "handoff": HANDOFF,
            "out_of_scope": sketch.out_of_scope,
            "tools": {**tools, HANDOFF: _handoff(key, sketch.users)},
        }
    )


def changed(parent: Application, change: Change, shown: Iterable[str], number: int) -> Application:
    """Return the parent with a change made to it.

    Args:
        parent: the application.
        change: what a model wrote.
        shown: tools that it was shown in full, and may write anew.
        number: of the candidate.

    Raises:
        Misfit: the change does not fit the parent.
    """
    for rule in change.rules:
        _plain(rule.text)
    hidden = [t.name for t in change.tools if t.name in parent.tools and t.name not in shown]
    if hidden:
        raise Misfit(f"{hidden[0]!r} exists and was not shown: choose another name for a new tool")
    child = parent
    for addition in change.columns:
        child = with_new_column(child, addition.to, addition.column)
    document = child.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    tables = {table.name: table for table in change.tables}
    seed = dict(document["seed"])
    for name, table in tables.items():
        if name in seed:
            raise Misfit(f"the table {name!r} exists already")
        seed[name] = seeded(table, {**dict.fromkeys(parent.seed), **tables})
    tools = {
        tool.name: _kept(_tool(tool, seed), document["tools"].get(tool.name))
        for tool in change.tools
        if not _same(tool, parent)
    }
    sql = "\n".join([document["schema"].rstrip(), *map(ddl, change.tables)])
    added = {f"{t.name}.{c.name}" for t in change.tables for c in t.columns if c.kind == "money"}
    document |= {
        "application": f"{re.sub(r'_[em][0-9]+$', '', parent.application)[:48]}_m{number}",
        "schema": sql,
        "seed": seed,
        "known": document.get("known", {}) | known_columns(change.tables),
        "money": [*document.get("money", ()), *sorted(added)],
        "policy_rules": [*document.get("policy_rules", ()), *map(_rule, change.rules)],
        "tools": {**document["tools"], **tools},
    }
    return _checked(document)


def _same(tool: Tool, parent: Application) -> bool:
    """Say whether a tool is written as it was shown."""
    shown = shown_tool(tool.name, parent) if tool.name in parent.tools else None
    return shown is not None and Tool.model_validate(shown) == tool


def shown_tool(name: str, application: Application) -> dict[str, Any] | None:
    """Return a tool in the form in which a model writes one; None if it has no such form."""
    tool = application.tools[name]
    simple = ("string", "integer", "number", "boolean")
    if any(p.type not in simple for p in tool.parameters.values()):
        return None
    parameters = []
    for key, p in tool.parameters.items():
        means = next((m for m, op in _PARTLY.items() if p.match and op == p.op), "setting")
        means = "id" if p.entity else "new_value" if p.sets else means
        column = p.entity or p.match or p.sets or ""
        said = {"column": column, "optional": p.optional, "minimum": p.minimum,
                "maximum": p.maximum, "words": [str(word) for word in p.enum or ()]}  # fmt: skip
        parameters.append(
            {"name": key, "type": p.type, "description": p.description, "means": means}
            | {name: value for name, value in said.items() if value not in ("", False, None, [])}
        )
    return {
        "name": name,
        "description": tool.description,
        "effect": tool.effect,
        "parameters": parameters,
        "steps": [one for step in tool.steps for one in _shown_step(step)],
        "intent": tool.intent.get("en", ""),
        "questions": [
            {"column": column, "words": words["en"]}
            for column, words in tool.questions.items()
            if "en" in words
        ],
    }


def _shown_step(step: Any) -> list[dict[str, Any]]:
    if step.let is not None:
        return [{"do": "let", "name": name, "sql": sql} for name, sql in step.let.items()]
    if step.require is not None:
        named = {"error": step.error, "message": step.message}
        return [{"do": "require", "sql": step.require, **named}]
    if step.write is not None:
        return [{"do": "write", "sql": step.write}]
    return [{"do": "return", "sql": step.returns, "many": step.shape == "list"}]


def singular(table: str) -> str:
    """Return the noun of one row, as part of a name."""
    if table.endswith("ies"):
        return table[:-3] + "y"
    return table[:-1] if table.endswith("s") and not table.endswith("ss") else table


# --- tools -----------------------------------------------------------------------------------


def _tool(tool: Tool, seed: Mapping[str, Any]) -> dict[str, Any]:
    names = [p.name for p in tool.parameters]
    if len(set(names)) < len(names):
        raise Misfit(f"{tool.name}: two parameters share a name")
    found: dict[str, Any] = {
        "description": tool.description,
        "effect": tool.effect,
        "parameters": {p.name: _parameter(p, tool.name, seed) for p in tool.parameters},
        "steps": [_step(step, f"{tool.name}.steps[{n}]") for n, step in enumerate(tool.steps)],
    }
    if tool.intent and tool.effect != "read":
        found["intent"] = tool.intent
    if tool.questions and tool.effect == "read":
        found["questions"] = {q.column: q.words for q in tool.questions}
    return found


def _parameter(p: Parameter, tool: str, seed: Mapping[str, Any]) -> dict[str, Any]:
    where = f"{tool}.{p.name}"
    found: dict[str, Any] = {"type": p.type, "description": p.description}
    if p.optional:
        found["optional"] = True
    if p.words:
        found["enum"] = [_valued(word, p, where) for word in p.words]
    for name in ("minimum", "maximum"):
        if getattr(p, name) is not None and p.type in ("integer", "number"):
            found[name] = getattr(p, name)
    if p.means == "setting":
        return found
    table, _, column = p.column.partition(".")
    columns = (seed.get(table) or {}).get("columns") or {}
    if p.means == "id":
        found["entity"] = f"{table}.id"
    elif p.means == "new_value":
        found |= {"sets": p.column} | _drawn(columns.get(column), where, bool(p.words))
    else:
        found |= {"match": p.column, "op": _PARTLY[p.means]}
    return found


def _valued(word: str, p: Parameter, where: str) -> Any:
    """Return one of the values of a parameter, of its type."""
    if p.type not in ("integer", "number"):
        return word
    try:
        return int(word) if p.type == "integer" else float(word)
    except ValueError:
        raise Misfit(f"{where}.words: {word!r} is no {p.type}") from None


def _drawn(made: Any, where: str, listed: bool) -> dict[str, Any]:
    """Return how a new value is made: as the seed makes those of the column."""
    if made is None or listed:
        return {}
    kind = made.get("kind") or next(iter(made))
    if kind in ("ref", "parent"):
        raise Misfit(f"{where}: the column holds ids: this parameter means an id")
    if kind == "email":
        return {"generate": {"choice": [f"{name}@example.org" for name in _BOXES]}}
    if kind in _OF_ROWS:
        return {}
    rest = {name: value for name, value in made.items() if name not in ("unique", "null")}
    return {"generate": rest}


def _step(step: Step, where: str) -> dict[str, Any]:
    if step.do == "let":
        if step.name is None:
            raise Misfit(f"{where}: a let needs a name")
        return {"let": {step.name: step.sql}}
    if step.do == "require":
        if not (step.error and step.message):
            raise Misfit(f"{where}: a require needs an error and a message")
        return {"require": step.sql, "error": step.error, "message": step.message}
    if step.do == "write":
        return {"write": step.sql}
    return {"return": step.sql, "shape": "list" if step.many else "object"}


def _kept(tool: dict[str, Any], old: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return a tool with what the form cannot say of parameters that it had before."""
    before = (old or {}).get("parameters", {})
    for name, parameter in tool["parameters"].items():
        same = before.get(name, {})
        for key in ("sample", "generate", "label", "pattern", "format", "minLength", "maxLength"):
            if key in same and same.get("type") == parameter["type"]:
                parameter[key] = same[key]
    return tool


def _rule(rule: Rule) -> dict[str, Any]:
    return {
        "name": rule.name, "tool": rule.tool, "when": rule.forbidden_when, "text": rule.text,
    }  # fmt: skip


# --- what every application has --------------------------------------------------------------


def _handed_table(key: str, users: str) -> str:
    return (
        f"CREATE TABLE {HANDED} (id TEXT PRIMARY KEY, {key} TEXT NOT NULL REFERENCES {users}, "
        "reason TEXT NOT NULL, summary TEXT NOT NULL) STRICT;"
    )


def _handoff(key: str, users: str) -> dict[str, Any]:
    return {
        "description": "Pass a request on to a colleague who answers by e-mail: for what a rule "
        "forbids or no tool can do, once for each request.",
        "effect": "write",
        "parameters": {
            key: {
                "type": "string",
                "entity": f"{users}.id",
                "description": f"Identifier of the {singular(users).replace('_', ' ')} concerned",
            },
            "reason": {
                "type": "string",
                "enum": ["not_allowed", "no_tool"],
                "description": "`not_allowed` where a rule forbids it, `no_tool` where no tool "
                "serves it",
            },
            "summary": {
                "type": "string",
                "sets": f"{HANDED}.summary",
                "description": "What is wanted, in a sentence or two",
            },
        },
        "steps": [
            {"let": {"referral_id": "SELECT next_id('RF')"}},
            {"write": f"INSERT INTO {HANDED} VALUES (:referral_id, :{key}, :reason, :summary)"},
            {"return": f"SELECT id, reason FROM {HANDED} WHERE id = :referral_id",
             "shape": "object"},
        ],
    }  # fmt: skip


# --- checks ----------------------------------------------------------------------------------


def _checked(document: Mapping[str, Any]) -> Application:
    try:
        return Application.model_validate(document)
    except ValidationError as error:
        raise Misfit(problems(error)) from error


def _plain(text: str) -> None:
    if _TEMPLATE.search(text):
        raise Misfit("templates ({{ … }}) stand in intents and questions only")
