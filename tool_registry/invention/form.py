"""The form in which a model writes an application, or a change of one.

Lists of named things and no free keys, so that any endpoint's constrained decoding can hold a model
to it. Types, constraints and seeds of tables follow from what a column is (`Column.kind`): a model
writes SQL only where SQL is the meaning, in the steps of tools and in rules.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field

from synth.core.application import Name
from synth.core.types import Frozen

Text: TypeAlias = Annotated[str, Field(min_length=1, max_length=600)]
Sql: TypeAlias = Annotated[str, Field(min_length=1, max_length=1_500)]
Kind: TypeAlias = Literal[
    "name", "person", "email", "phone", "city", "street", "company", "code", "phrase", "choice",
    "yes_no", "integer", "money", "number", "date", "datetime", "reference",
]  # fmt: skip
"""What a column holds. Names, choices and phrases are those in `words`; a code is a pattern there,
such as `??-####`; money is in cents; days are counted from today; a reference is a row's id."""


class Column(Frozen):
    """A column of a table; `id` is there by itself."""

    name: Name
    kind: Kind
    words: Annotated[tuple[Text, ...], Field(max_length=40)] = ()
    low: float | None = None
    high: float | None = None
    table: Name | None = None
    """Of a reference: whose row."""
    known: bool = False
    """Whether a user of the service can name a row by it."""


class Table(Frozen):
    """A table and how it is filled."""

    name: Name
    prefix: Annotated[str, Field(pattern=r"^[A-Z]{1,4}$")]
    """What its ids begin with."""
    rows: Annotated[int, Field(ge=1, le=60)]
    each: Name | None = None
    """A table seeded before: `rows` at most for each of its rows, which a reference points to."""
    columns: Annotated[tuple[Column, ...], Field(min_length=1, max_length=20)]


class Parameter(Frozen):
    """A parameter of a tool."""

    name: Name
    type: Literal["string", "integer", "number", "boolean"]
    description: Text
    optional: bool = False
    words: Annotated[tuple[Text, ...], Field(max_length=40)] = ()
    """All values it may have."""
    minimum: float | None = None
    maximum: float | None = None
    means: Literal["id", "equals", "contains", "at_least", "at_most", "new_value", "setting"]
    """What its value is: the id of a row, what a column is searched for, a new value of a column;
    a setting is none of these."""
    column: Annotated[str, Field(max_length=130)] = ""
    """`table.column`; of an id, `table.id`; of a setting, none."""


class Step(Frozen):
    """One step of a tool."""

    do: Literal["require", "let", "write", "return"]
    sql: Sql
    name: Name | None = None
    """Of a let: what its value is bound to."""
    error: Name | None = None
    """Of a require: the code of the error."""
    message: Text | None = None
    many: bool = False
    """Of a return: a list of rows instead of one."""


class Question(Frozen):
    """What a user asks for whom a read shows a column."""

    column: Name
    words: Text


class Tool(Frozen):
    """A tool with its meaning."""

    name: Name
    description: Text
    effect: Literal["read", "write", "destructive"]
    parameters: Annotated[tuple[Parameter, ...], Field(max_length=12)]
    steps: Annotated[tuple[Step, ...], Field(min_length=1, max_length=20)]
    intent: Annotated[str, Field(max_length=1_000)] = ""
    """Of a write: what a user would like to do."""
    questions: Annotated[tuple[Question, ...], Field(max_length=6)] = ()


class Rule(Frozen):
    """What the policy forbids although the tools would do it."""

    name: Name
    tool: Name
    forbidden_when: Sql
    """A SELECT of one value over the tool's parameters."""
    text: Text


class Invariant(Frozen):
    """What never happens, and a SELECT that finds it where it did."""

    text: Text
    sql: Sql


class Sketch(Frozen):
    """A whole application."""

    name: Name
    category: Annotated[str, Field(pattern=r"^[A-Za-z]+( [A-Za-z]+){0,2}$", max_length=40)]
    """Later prompts name it: one to three words."""
    summary: Text
    users: Name
    """The table whose rows are the users of the service."""
    tables: Annotated[tuple[Table, ...], Field(min_length=2, max_length=8)]
    tools: Annotated[tuple[Tool, ...], Field(min_length=3, max_length=16)]
    rules: Annotated[tuple[Rule, ...], Field(max_length=4)]
    never: Annotated[tuple[Invariant, ...], Field(max_length=4)] = ()
    policy: Annotated[str, Field(min_length=20, max_length=2_000)]
    out_of_scope: Annotated[tuple[Text, ...], Field(min_length=1, max_length=6)]


class Addition(Frozen):
    """A column that a table of the parent gets."""

    to: Name
    column: Column


class Change(Frozen):
    """What is added to an application or written anew in it."""

    words: Text
    """What is new, in a sentence."""
    tables: Annotated[tuple[Table, ...], Field(max_length=3)] = ()
    columns: Annotated[tuple[Addition, ...], Field(max_length=4)] = ()
    tools: Annotated[tuple[Tool, ...], Field(max_length=6)] = ()
    rules: Annotated[tuple[Rule, ...], Field(max_length=2)] = ()


Form: TypeAlias = type[Sketch] | type[Change]


def response_format(form: Form) -> dict[str, Any]:
    """Return what an endpoint is asked to hold a reply to.

    References are written out and remarks left out: engines of constrained decoding bound the depth
    of a schema, count references in it, and let pass anything below.
    """
    schema = form.model_json_schema()
    bare = _inlined(schema, schema.get("$defs", {}))
    return {"type": "json_schema", "json_schema": {"name": form.__name__.lower(), "schema": bare}}


_REMARKS = frozenset({"title", "description", "default", "$defs"})


def _inlined(schema: Any, known: dict[str, Any]) -> Any:
    if isinstance(schema, list):
        return [_inlined(one, known) for one in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return _inlined(known[schema["$ref"].rpartition("/")[2]], known)
    found = {}
    for key, value in schema.items():
        if key == "properties":
            found[key] = {name: _inlined(one, known) for name, one in value.items()}
        elif key not in _REMARKS:
            found[key] = _inlined(value, known)
    return found
