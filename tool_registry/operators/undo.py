"""Makes a deletion reversible: what is deleted goes to a bin, from which it can be restored."""

from __future__ import annotations

import random
import re

from synth.core.application import Parameter, Tool
from tool_registry.composer.phrases import a
from tool_registry.edits import around, free, remade, step, told, with_table, with_tools
from tool_registry.operator import Edit, Operator, Subject, singular

_DELETE = re.compile(r"\s*DELETE\s+FROM\s+(\w+)\s+WHERE\s+id\s*=\s*:(\w+)\s*", re.IGNORECASE)

_FOR_GOOD = re.compile(r"; it is gone for good| Cannot be undone\.")


def _unforgotten(tool: Tool) -> Tool:
    """Return a tool whose description does not say that what it deletes is lost."""
    return remade(tool, description=_FOR_GOOD.sub("", tool.description))


def _apply(subject: Subject, rng: random.Random) -> Edit | None:
    application = subject.application
    found = [
        (name, match[1], match[2])
        for name, tool in subject.writes.items()
        for one in tool.steps
        if one.write and (match := _DELETE.fullmatch(one.write)) and match[1] in subject.tables
    ]
    if not found:
        return None
    name, table, key = rng.choice(found)
    columns = subject.tables[table]
    if any(f.references == table for fields in subject.tables.values() for f in fields.values()):
        return None
    noun = singular(table)
    bin_, restore = f"deleted_{table}", f"restore_{noun.replace(' ', '_')}"
    lister = f"list_{bin_}"
    if bin_ in subject.tables or not (free(application, restore) and free(application, lister)):
        return None
    body = ",\n    ".join(f"{c} {f.type}" for c, f in columns.items() if c != "id")
    ddl = f"CREATE TABLE {bin_} (\n    id TEXT PRIMARY KEY,\n    {body}\n  ) STRICT;"
    names = ", ".join(columns)
    keep = step(write=f"INSERT INTO {bin_} ({names}) SELECT {names} FROM {table} WHERE id = :{key}")
    shown = [c for c, f in columns.items() if f.references is None][:5]
    back = f"It can be brought back with `{restore}`."
    tools = {
        name: told(_unforgotten(around(subject.writes[name], before=[keep])), back),
        lister: Tool(
            description=(
                f"List the {table.replace('_', ' ')} that were deleted and can be brought back "
                f"with `{restore}`."
            ),
            effect="read",
            steps=(
                step(returns=f"SELECT {', '.join(shown)} FROM {bin_} ORDER BY id", shape="list"),
            ),
        ),
        restore: _restored(name, table, bin_, names),
    }
    some = f"FROM {table} WHERE id LIKE '%3'"  # something is in the bin from the start
    seeded = (f"INSERT INTO {bin_} ({names}) SELECT {names} {some}", f"DELETE {some}")
    after = (*application.after_seed, *seeded)
    child = with_table(application, ddl, bin_, after_seed=after)
    return Edit(with_tools(child, tools), f"what {name} deletes can be restored", tuple(tools))


def _restored(delete: str, table: str, bin_: str, names: str) -> Tool:
    """Return the tool that brings a row back; `names` are its columns."""
    noun = singular(table)
    gone = f"{noun.replace(' ', '_')}_id"
    return Tool(
        description=f"Bring back {a(noun)} that was deleted with `{delete}`, as it was.",
        effect="write",
        parameters={
            gone: Parameter(
                type="string",
                entity=f"{bin_}.id",
                description=f"Identifier of the deleted {noun}",
            )
        },
        steps=(
            step(
                write=(
                    f"INSERT INTO {table} ({names}) SELECT {names} FROM {bin_} WHERE id = :{gone}"
                )
            ),
            step(write=f"DELETE FROM {bin_} WHERE id = :{gone}"),
        ),
    )


OPERATOR = Operator("steps", "A deletion that can be undone.", _apply)
