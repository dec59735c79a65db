"""An executable application as data: tables, seed, tools whose semantics are SQL, policy.

One YAML file, written by a person or by a model; `simulators.sql` runs it. The format is described
in `docs/extending.md`; this module only says what the file may hold. What the SQL means is checked
where it is run (`simulators.sql.lint`), because checking needs a database.
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BeforeValidator, Field, model_validator

from synth.core.happenings import Event
from synth.core.types import Effect, Frozen, Holder, Provenance, Scalar, ToolSpec

Name: TypeAlias = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,62}$")]
Column: TypeAlias = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*\.[a-z][a-z0-9_]*$")]
"""`table.column`."""
Words: TypeAlias = Annotated[
    dict[str, str], BeforeValidator(lambda v: {"en": v} if isinstance(v, str) else v)
]
"""A Jinja2 template for each language; a bare string is English."""


# --- seed ------------------------------------------------------------------------------------

GENERATORS = frozenset(
    {
        "serial",  # "M{n:03d}": the row's number, from 1
        "choice",  # [a, b] or {a: 3, b: 1} (weights)
        "integer",  # [low, high] or [low, high, step]
        "number",  # [low, high, decimals]
        "date",  # [from, to] in days from the clock -> 2026-03-02
        "datetime",  # [from, to, minutes]: days from the clock, on a grid of minutes
        "person",  # full | first | last
        "email",  # name of the column with the person's name
        "phone",  # a pattern such as "+49 30 #######"
        "address",  # street | city | postcode | country
        "company",  # true
        "ref",  # a table, or {table: t, where: "SQL condition", unique: true}
        "parent",  # column of the parent row (tables with `each`)
        "template",  # "{name} at {city}": earlier columns of the same row
        "words",  # [phrase, phrase]: free text
        "code",  # "??-####": ? a capital letter, # a digit
        "value",  # a constant
        "sql",  # a SELECT with the row's earlier columns as :parameters
    }
)


class Generator(Frozen):
    """How one column (or a new value) is made. YAML: `{choice: [S, M, L], null: 0.1}`."""

    kind: str
    argument: Any = None
    null: float = Field(default=0.0, ge=0, le=1)
    """Share of NULLs."""
    unique: bool = False

    @model_validator(mode="before")
    @classmethod
    def _one_key(cls, value: Any) -> Any:
        if isinstance(value, dict) and "kind" not in value:
            kinds = [key for key in value if key in GENERATORS]
            if len(kinds) != 1:
                known = ", ".join(sorted(GENERATORS))
                raise ValueError(f"a generator has exactly one of: {known}; found {list(value)}")
            rest = {key: item for key, item in value.items() if key != kinds[0]}
            return {"kind": kinds[0], "argument": value[kinds[0]], **rest}
        if isinstance(value, (str, int, float)) and not isinstance(value, bool):
            return {"kind": "value", "argument": value}
        return value


class SeedTable(Frozen):
    """Rows of one table: `count` generated ones, some for `each` parent row, or literal `rows`."""

    count: int | tuple[int, int] = 0
    """Rows in all, or (with `each`) the range of children for each parent row."""
    each: Name | None = None
    rows: tuple[dict[str, Scalar], ...] = ()
    columns: dict[Name, Generator] = {}
    """In order: later generators see earlier columns."""


# --- tools -----------------------------------------------------------------------------------


class Parameter(Frozen):
    """One parameter. At most one of `entity`, `match` and `sets` says what its value means."""

    type: Literal["string", "integer", "number", "boolean", "array", "object"]
    description: str = ""
    optional: bool = False
    enum: tuple[Scalar, ...] | None = None
    minimum: float | None = None
    maximum: float | None = None
    pattern: str | None = None
    format: str | None = None
    minLength: int | None = None
    maxLength: int | None = None
    minItems: int | None = None
    maxItems: int | None = None
    items: Parameter | None = None
    properties: dict[Name, Parameter] | None = None
    entity: Column | None = None
    """The value is an existing key; an unknown one is an implicit `not_found`."""
    match: Column | None = None
    """The value searches that column."""
    op: Literal["eq", "contains", "ge", "le"] = "eq"
    sets: Column | None = None
    """The value is new content for that column, made by `generate`."""
    generate: Generator | None = None
    sample: str | None = None
    """SELECT of one column that goals draw this value from; sees `:user_id` and earlier
    parameters."""
    label: str | None = None
    """How a person names it ("new phone number"); default: the name with spaces."""

    @model_validator(mode="after")
    def _one_meaning(self) -> Parameter:
        meanings = [m for m in (self.entity, self.match, self.sets) if m]
        if len(meanings) > 1:
            raise ValueError("give at most one of entity, match, sets")
        return self

    def json_schema(self) -> dict[str, Any]:
        """Return the JSON Schema an agent sees: no meanings, no sampling."""
        out: dict[str, Any] = {"type": self.type}
        if self.description:
            out["description"] = self.description
        plain = ("minimum", "maximum", "pattern", "format", "minLength", "maxLength")
        for name in (*plain, "minItems", "maxItems"):
            value = getattr(self, name)
            if value is not None:
                out[name] = (
                    int(value) if isinstance(value, float) and value == int(value) else value
                )
        if self.enum is not None:
            out["enum"] = list(self.enum)
        if self.items is not None:
            out["items"] = self.items.json_schema()
            if self.items.entity:
                out["uniqueItems"] = True
        if self.properties is not None:
            out.update(_object_schema(self.properties))
        return out


def _object_schema(parameters: dict[str, Parameter]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {name: p.json_schema() for name, p in parameters.items()},
        "required": [name for name, p in parameters.items() if not p.optional],
        "additionalProperties": False,
    }


class Step(Frozen):
    """One step of a tool: exactly one of `require`, `let`, `write`, `return`."""

    require: str | None = None
    """SELECT whose first value must be true; otherwise the call fails with `error`."""
    error: Name | None = None
    message: str | None = None
    """Plain `{parameter}` or `{parameter!r}` fields only."""
    let: dict[Name, str] | None = None
    """Names bound for later steps, each by a SELECT of one value."""
    write: str | None = None
    rows: Literal["any"] | int | None = None
    """How many rows a write must change; default at least one."""
    returns: str | None = Field(default=None, alias="return")
    shape: Literal["object", "list"] | None = None
    columns: dict[Name, Column] | None = None
    """Origin of result columns that SQLite cannot tell (expressions, compound SELECTs)."""

    @model_validator(mode="after")
    def _one_verb(self) -> Step:
        verbs = [self.require, self.let, self.write, self.returns]
        if sum(v is not None for v in verbs) != 1:
            raise ValueError("a step has exactly one of require, let, write, return")
        if self.require is not None and not (self.error and self.message):
            raise ValueError("require needs error and message")
        if self.returns is not None and self.shape is None:
            raise ValueError("return needs shape: object or shape: list")
        return self


class Tool(Frozen):
    """One tool of an application: what its holder sees, and what it does."""

    description: str
    by: Holder = Field(default="agent", exclude_if=lambda by: by == "agent")
    """Who holds it. In the SQL of a user's tool `:user_id` is the key of whoever calls it; their
    parameters are what people know by sight (`match`), never keys."""
    effect: Literal["read", "write", "destructive"]
    parameters: dict[Name, Parameter] = {}
    steps: tuple[Step, ...]
    intent: Words = {}
    """How a customer says it, after "I would like to": `borrow {{ book_id.title }}`. Names are
    parameter + path of columns; foreign keys are followed without their `_id`. Of a user's tool,
    how the agent asks for it, after "could you"."""
    questions: dict[Name, Words] = {}
    """For reads: result column -> what a customer asks, after "I would like to know": `when my loan
    of {{ loan_id.book.title }} is due`. Makes look-up tasks."""


# --- the application -------------------------------------------------------------------------


class PolicyRule(Frozen):
    """What the policy forbids and no `require` enforces."""

    name: Name
    tool: Name
    when: str
    """SELECT of one value over the tool's parameters and `:user_id`; true means forbidden."""
    text: str
    """The rule in one sentence, as the policy states it."""


class User(Frozen):
    """Who speaks: one row of `table`, or the operator who owns the whole world (`table: null`)."""

    table: Name | None = None
    where: str | None = None
    """SQL condition on rows who may speak."""


class Wording(Frozen):
    """How one more language says what an application says in English.

    A tool without an intent, or a question without words, is not asked for in it.
    """

    intents: dict[Name, str] = {}
    questions: dict[Name, dict[Name, str]] = {}
    """Tool -> result column -> template."""
    labels: dict[str, str] = {}
    """`table.column`, or `tool.parameter`: what people call it, with its article and with whose it
    is where that is not the user (`der Name des Empfängers`)."""
    values: dict[str, str] = {}
    """Stored word -> how people say it: `weekly: wöchentlich`."""
    rules: dict[Name, str] = {}
    """Policy rule -> its sentence."""
    out_of_scope: tuple[str, ...] = ()


class Application(Frozen):
    """A whole executable application."""

    application: Name
    category: str
    summary: str
    clock: str = Field(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d$")
    table_sql: str = Field(alias="schema")
    """SQLite: STRICT tables, one TEXT primary key called `id` each, no triggers, views or indexes
    on expressions. Foreign keys are `x_id TEXT REFERENCES xs`."""
    seed: dict[Name, SeedTable]
    after_seed: tuple[str, ...] = ()
    """SQL statements that make the seeded rows consistent."""
    user: User = User()
    known: dict[Name, tuple[Name, ...]] = {}
    """What a user can know of the rows of a table; foreign keys expand."""
    identify: tuple[Name, ...] = ()
    """Columns of the user's own row that the first message may state (name, e-mail)."""
    labels: dict[Column, str] = {}
    """How people name a column; default: the column's name with spaces."""
    money: tuple[Column, ...] = ()
    """Columns in integer minor units."""
    currency: str = "EUR"
    compare: dict[Column, Literal["ignore", "judged"]] = {}
    """Free-text columns that do not count in the comparison of states."""
    never: dict[str, str] = {}
    """What no seeded state and no call may bring about: a sentence -> a SELECT without parameters
    that returns a row where it happened: `a balance differs from what was booked`."""
    policy: str
    """Jinja2 template with `user`, `clock`, `rules`; becomes part of the agent's system prompt."""
    policy_rules: tuple[PolicyRule, ...] = ()
    handoff: Name | None = None
    """Write tool for requests that are forbidden or that no tool serves. Its parameter `reason` has
    `not_allowed` and `no_tool` in its enum; its free text goes to columns under `compare`."""
    out_of_scope: tuple[str, ...] = ()
    """Requests no tool serves, after "I would like to": `have my book translated into Latin`."""
    tools: dict[Name, Tool]
    events: dict[Name, Event] = {}
    """What happens by itself where `generate.events` wants it."""
    languages: dict[Annotated[str, Field(pattern=r"^[a-z]{2}$")], Wording] = {}
    """What else than English its users speak."""
    language: str = "en"
    """What its words are in; see `speaking`."""
    values: dict[str, str] = {}
    """Stored word -> how people say it, where that differs."""

    @model_validator(mode="after")
    def _names_exist(self) -> Application:
        for rule in self.policy_rules:
            if rule.tool not in self.tools:
                raise ValueError(f"policy_rules.{rule.name}.tool: no tool {rule.tool!r}")
        if self.handoff and self.handoff not in self.tools:
            raise ValueError(f"handoff: no tool {self.handoff!r}")
        for name in (self.handoff, *(rule.tool for rule in self.policy_rules)):
            if name in self.tools and self.tools[name].by == "user":
                raise ValueError(f"tools.{name}.by: the user's, where a tool of the agent is meant")
        return self

    @cached_property
    def specs(self) -> dict[str, ToolSpec]:
        """Return each tool of the agent's as an agent is shown it."""
        return self._specs("agent")

    @cached_property
    def user_specs(self) -> dict[str, ToolSpec]:
        """Return each tool of the user's as its user is shown it."""
        return self._specs("user")

    def _specs(self, by: Holder) -> dict[str, ToolSpec]:
        source = Provenance(source=f"application:{self.application}")
        return {
            name: ToolSpec(
                name=name,
                description=tool.description,
                parameters=_object_schema(tool.parameters),
                category=self.category,
                application=self.application,
                effect=Effect(tool.effect),
                effect_source="declared",
                provenance=source,
            )
            for name, tool in self.tools.items()
            if tool.by == by
        }

    def speaking(self, language: str) -> Application:
        """Return the same application with its words in another of its languages."""
        words = self.languages[language]
        tools = {
            name: _translated(name, tool, language, words) for name, tool in self.tools.items()
        }
        rules = tuple(
            rule.model_copy(update={"text": words.rules[rule.name]})
            for rule in self.policy_rules
            if rule.name in words.rules
        )
        return self.model_copy(
            update={
                "tools": tools,
                "labels": {k: v for k, v in words.labels.items() if k.split(".")[0] not in tools},
                "values": words.values,
                "policy_rules": rules,
                "out_of_scope": words.out_of_scope,
                "language": language,
            }
        )

    def label(self, column: str) -> str:
        """Return how people name `table.column`."""
        return self.labels.get(column) or re.sub(r"_id$", "", column.split(".")[1]).replace(
            "_", " "
        )


def _translated(name: str, tool: Tool, language: str, words: Wording) -> Tool:
    parameters = {
        key: parameter.model_copy(update={"label": words.labels[f"{name}.{key}"]})
        if f"{name}.{key}" in words.labels
        else parameter
        for key, parameter in tool.parameters.items()
    }
    intent = words.intents.get(name)
    questions = words.questions.get(name, {})
    return tool.model_copy(
        update={
            "parameters": parameters,
            "intent": {language: intent} if intent else {},
            "questions": {column: {language: text} for column, text in questions.items()},
        }
    )
