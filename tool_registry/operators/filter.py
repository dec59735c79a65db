"""Lets a list be narrowed by one of its columns."""

from __future__ import annotations

import random
import re

from synth.core.application import Parameter
from tool_registry.composer.style import CENTS
from tool_registry.edits import remade, step, with_tools
from tool_registry.operator import Edit, Operator, Subject

_DAY = re.compile(r"(^|_)(day|date|on|added|since|until|due)$")
"""Columns that hold days."""


def narrowed(subject: Subject, name: str, rng: random.Random) -> tuple[str, Parameter, str] | None:
    """Return a parameter, what it is, and the condition that it stands for."""
    taken = subject.lists[name].parameters
    columns = [
        (column, origin)
        for column, origin in subject.filtered(name).items()
        if column not in taken and not column.endswith("id")
    ]
    if not columns:
        return None
    column, origin = rng.choice(columns)
    words = subject.choices(origin)
    if words:
        said = column.replace("_", " ")
        about = f"Only rows with this {said}"
        return (
            column,
            Parameter(type="string", enum=words, optional=True, match=origin, description=about),
            f"{column} = :{column}",
        )
    return _by_type(subject, column, origin, rng)


def _by_type(
    subject: Subject, column: str, origin: str, rng: random.Random
) -> tuple[str, Parameter, str] | None:
    """Return the parameter for a column that may hold anything of its type."""
    table, field = origin.split(".")
    kind, said = subject.tables[table][field], column.replace("_", " ")
    if kind.boolean:
        about = f"Only rows where {said} is so"
        return (
            column,
            Parameter(type="boolean", optional=True, description=about),
            f"{column} = :{column}",
        )
    if kind.type == "INTEGER":
        bound, sign = rng.choice([("min", ">="), ("max", "<=")])
        parameter = f"{bound}_{column}"
        about = f"Only rows whose {said} is {'at least' if bound == 'min' else 'at most'} this"
        if origin in subject.application.money:
            currency = subject.application.currency
            about += f", in {CENTS.get(currency, f'hundredths of {currency}')}"
        made = Parameter(
            type="integer",
            optional=True,
            match=origin,
            op="ge" if bound == "min" else "le",
            description=about,
        )
        return parameter, made, f"{column} {sign} :{parameter}"
    if kind.type == "TEXT" and _DAY.search(column):
        bound, sign = rng.choice([("from", ">="), ("until", "<=")])
        parameter = f"{column}_{bound}"
        late = "or later" if bound == "from" else "or earlier"
        made = Parameter(
            type="string",
            format="date",
            optional=True,
            match=origin,
            op="ge" if bound == "from" else "le",
            description=f"Only rows whose {said} is this {late}, as YYYY-MM-DD",
        )
        return parameter, made, f"{column} {sign} :{parameter}"
    if kind.type == "TEXT":
        parameter = f"{column}_contains"
        made = Parameter(
            type="string",
            minLength=2,
            optional=True,
            match=origin,
            op="contains",
            description=f"Only rows with this in their {said}",
        )
        return parameter, made, f"instr(lower({column}), lower(:{parameter}))"
    return None


def _apply(subject: Subject, rng: random.Random) -> Edit | None:
    names = list(subject.lists)
    rng.shuffle(names)
    for name in names:
        found = narrowed(subject, name, rng)
        if found is None or found[0] in subject.lists[name].parameters:
            continue
        parameter, made, condition = found
        tool = subject.lists[name]
        last = tool.steps[-1]
        key = "id" if "id" in subject.results[name] else next(iter(subject.results[name]))
        sql = (
            f"SELECT * FROM ({last.returns}) "
            f"WHERE :{parameter} IS NULL OR {condition} ORDER BY {key}"
        )
        changed = remade(
            tool,
            parameters={**tool.parameters, parameter: made},
            steps=(step(returns=sql, shape="list", columns=last.columns),),
        )
        words = f"{name} can be narrowed by {parameter}"
        return Edit(with_tools(subject.application, {name: changed}), words, (name,))
    return None


OPERATOR = Operator("input", "An optional filter on a column of a list.", _apply)
