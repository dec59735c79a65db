"""Counts what a list would show, in all or by the words of a column."""

from __future__ import annotations

import random

from synth.core.application import Tool
from tool_registry.edits import free, step, with_tools
from tool_registry.operator import Edit, Operator, Subject


def _counted(subject: Subject, name: str) -> str:
    """Return the table whose rows a list shows."""
    found = [o.partition(".")[0] for c, o in subject.filtered(name).items() if c == "id"]
    return found[0] if found else name.partition("_")[2] or name


def _apply(subject: Subject, rng: random.Random) -> Edit | None:
    names = [n for n, tool in subject.lists.items() if "sort_by" not in tool.parameters]
    rng.shuffle(names)
    for name in names:
        tool = subject.lists[name]
        sql = tool.steps[-1].returns
        what = _counted(subject, name)
        said = what.replace("_", " ")
        grouped = [c for c, o in subject.filtered(name).items() if subject.choices(o)]
        if grouped and rng.random() < 0.5:
            column = rng.choice(grouped)
            new, shape = f"count_{what}_by_{column}", "list"
            sql = (
                f"SELECT {column}, count(*) AS total FROM ({sql}) GROUP BY {column} "
                f"ORDER BY {column}"
            )
            about = (
                f"Count the {said} that `{name}` lists, for each {column.replace('_', ' ')} "
                "that occurs."
            )
        else:
            new, shape = f"count_{what}", "object"
            sql = f"SELECT count(*) AS total FROM ({sql})"
            about = f"Count the {said} that `{name}` lists, without listing them."
        if not free(subject.application, new):
            continue
        made = Tool(
            description=about,
            effect="read",
            parameters=tool.parameters,
            steps=(step(returns=sql, shape=shape),),
        )
        return Edit(
            with_tools(subject.application, {new: made}), f"{new} counts what {name} lists", (new,)
        )
    return None


OPERATOR = Operator("breadth", "A count of what a list shows.", _apply)
