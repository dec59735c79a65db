"""Shows a row with how many rows of other tables belong to it."""

from __future__ import annotations

import random

from synth.core.application import Tool
from tool_registry.composer.phrases import a, listed
from tool_registry.edits import free, step, with_tools
from tool_registry.operator import Edit, Operator, Subject, singular


def _apply(subject: Subject, rng: random.Random) -> Edit | None:
    children: dict[str, list[tuple[str, str]]] = {}
    seeded = {t: c for t, c in subject.tables.items() if t in subject.application.seed}
    for table, columns in seeded.items():
        for column, field in columns.items():
            if field.references in subject.subjects:
                children.setdefault(str(field.references), []).append((table, column))
    if not children:
        return None
    table = rng.choice(list(children))
    key, _ = subject.subjects[table]
    noun = singular(table)
    new = (
        f"{rng.choice(['summarise', 'overview_of', 'get_statistics_of'])}_{noun.replace(' ', '_')}"
    )
    if not free(subject.application, new):
        return None
    counted = rng.sample(children[table], min(len(children[table]), 3))
    parts = ", ".join(
        f"(SELECT count(*) FROM {child} WHERE {column} = t.id) AS {child}_{column}"[:200]
        for child, column in counted
    )
    sql = f"SELECT t.id, {parts} FROM {table} t WHERE t.id = :{key}"
    said = listed([child.replace("_", " ") for child, _ in counted])
    made = Tool(
        description=f"Count what belongs to {a(noun)}: the number of {said}.",
        effect="read",
        parameters={key: subject.row(table)},
        steps=(step(returns=sql, shape="object"),),
    )
    return Edit(with_tools(subject.application, {new: made}), f"{new} counts {said}", (new,))


OPERATOR = Operator("breadth", "A summary of what belongs to a row.", _apply)
