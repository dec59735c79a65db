"""Adds what may belong to rows of a table: notes, reminders, deputies, complaints, …"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from synth.core.application import Generator, Parameter, SeedTable, Step, Tool
from tool_registry.composer.phrases import a
from tool_registry.edits import free, orphans, step, with_table, with_tools
from tool_registry.operator import Edit, Operator, Subject, singular, vocabulary


@dataclass(frozen=True)
class _Satellite:
    """One kind of thing that belongs to rows of a table."""

    row: Parameter
    key: str
    """The parameter that names the row it belongs to."""
    noun: str
    """Of the row."""
    kind: str
    """Plural, as the vocabulary has it."""
    entry: Mapping[str, Any]
    called: str
    """How a user names the row; `me` where it is the user."""

    @property
    def thing(self) -> str:
        """Return the noun of one of them."""
        return singular(self.kind)

    @property
    def one(self) -> str:
        """Return the noun of the row as part of a name."""
        return self.noun.replace(" ", "_")

    @property
    def table(self) -> str:
        """Return its table."""
        return f"{self.one}_{self.kind}"

    @property
    def mine(self) -> str:
        """Return the parameter that names one of them."""
        return f"{self.one}_{self.thing.replace(' ', '_')}_id"

    @property
    def fields(self) -> Mapping[str, Mapping[str, Any]]:
        """Return what is known of each, the field that tells one from another first."""
        return self.entry["fields"]  # type: ignore[no-any-return]

    @property
    def first(self) -> str:
        """Return the field that tells one from another."""
        return next(iter(self.fields))

    def name(self, verb: str) -> str:
        """Return the name of a tool."""
        return f"{verb}_{self.one}_{self.thing.replace(' ', '_')}"

    def of(self, path: str = "") -> str:
        """Return ` of <the row>` in a wish; nothing where it is the user."""
        if self.called == "me":
            return ""
        called = self.called.replace(f"{self.key}.", f"{path}.") if path else self.called
        return f" of {called}"


def _apply(subject: Subject, rng: random.Random) -> Edit | None:
    kinds = {k: e for k, e in vocabulary()["satellites"].items() if subject.having(e)}
    if not kinds:
        return None
    kind, entry = rng.choice(list(kinds.items()))
    parent = rng.choice(subject.having(entry))
    key, _ = subject.subjects[parent]
    called = subject.named(parent, key) or ""
    made = _Satellite(subject.row(parent), key, singular(parent), kind, entry, called)
    tools = _tools(made)
    application = subject.application
    if made.table in subject.tables or not all(free(application, name) for name in tools):
        return None
    fk = f"{made.one}_id"
    columns = {field: _column(field, about) for field, about in made.fields.items()}
    body = "".join(f"    {field} {rest},\n" for field, rest in columns.items())
    ddl = (
        f"CREATE TABLE {made.table} (\n    id TEXT PRIMARY KEY,\n    {fk} TEXT NOT NULL "
        f"REFERENCES {parent},\n{body}    added TEXT NOT NULL\n  ) STRICT;"
    )
    known = {**application.known, made.table: (*made.fields, fk)}
    after = (*application.after_seed, *orphans(application, made.table, fk, parent))
    child = with_table(application, ddl, made.table, _seed(made, parent), known=known)
    child = with_tools(child, tools, after_seed=after)
    return Edit(child, f"rows of {parent} have {kind.replace('_', ' ')}", tuple(tools))


def _column(field: str, about: Mapping[str, Any]) -> str:
    if "values" in about:
        words = ", ".join(f"'{value}'" for value in about["values"])
        return f"TEXT NOT NULL CHECK ({field} IN ({words}))"
    return "INTEGER NOT NULL" if "range" in about else "TEXT NOT NULL"


def _generator(about: Mapping[str, Any]) -> Generator:
    if "range" in about:
        return Generator(kind="integer", argument=about["range"])
    if "days" in about:
        return Generator(kind="date", argument=about["days"])
    return Generator(kind="choice", argument=about.get("words") or about["values"])


def _seed(made: _Satellite, parent: str) -> SeedTable:
    columns = {
        "id": Generator(kind="serial", argument=f"{_letters(made)}{{n:04d}}"),
        f"{made.one}_id": Generator(kind="parent", argument="id"),
        **{field: _generator(about) for field, about in made.fields.items()},
        "added": Generator(kind="date", argument=[-40, -1]),
    }
    return SeedTable(each=parent, count=(0, 2), columns=columns)


def _letters(made: _Satellite) -> str:
    return "".join(word[0] for word in made.table.split("_")).upper() + "X"


def _value(made: _Satellite, field: str, *, new: bool = False) -> Parameter:
    """Return the parameter for a field; `new` where it replaces another value."""
    about, said = made.fields[field], field.replace("_", " ")
    told = str(about["about"])
    if "days" in about:
        told += ", as YYYY-MM-DD"
    more: dict[str, Any] = {}
    if "values" in about:
        more["enum"] = tuple(about["values"])
    else:
        more["generate"] = _generator(about)
    if "range" in about:
        more |= {"minimum": about["range"][0], "maximum": about["range"][1]}
    elif "days" in about:
        more["format"] = "date"
    elif "words" in about:
        more |= {"minLength": 2, "maxLength": 200}
        told += f", for example {about['words'][0]!r}"
    return Parameter(
        type="integer" if "range" in about else "string",
        sets=f"{made.table}.{field}",
        label=f"new {said}" if new else said,
        description=f"New value: {told[0].lower()}{told[1:]}" if new else told,
        **more,
    )


def _tools(made: _Satellite) -> dict[str, Tool]:
    entry = made.entry
    tools = {f"list_{made.table}": _lister(made), made.name(entry["add"]): _adder(made)}
    if "change" in entry:
        tools[f"{made.name('change')}_{entry['change']}"] = _changer(made, entry["change"])
    tools[made.name(entry["remove"])] = _remover(made)
    return tools


def _lister(made: _Satellite) -> Tool:
    fields = [field.replace("_", " ") for field in made.fields]
    listed = ", ".join(["its identifier", *fields]) + " and the day on which it was entered"
    columns = ", ".join(["id", *made.fields, "added"])
    where = f"WHERE {made.one}_id = :{made.key}"
    words = made.kind.replace("_", " ")
    return Tool(
        description=f"List the {words} of {a(made.noun)}, the oldest first. Each has {listed}.",
        effect="read",
        parameters={made.key: made.row},
        steps=(
            step(
                returns=f"SELECT {columns} FROM {made.table} {where} ORDER BY added, id",
                shape="list",
            ),
        ),
    )


def _adder(made: _Satellite) -> Tool:
    verb, fk, first = made.entry["add"], f"{made.one}_id", made.first
    names = ", ".join(["id", fk, *made.fields, "added"])
    values = ", ".join([":new_id", f":{made.key}", *(f":{f}" for f in made.fields), "today()"])
    said = "".join(
        f"{{% if {f} %}}, {f.replace('_', ' ')} {{{{ {f} }}}}{{% endif %}}" for f in made.fields
    )
    to = "" if made.called == "me" else f" for {made.called}"
    once = (
        f"SELECT NOT EXISTS (SELECT 1 FROM {made.table} WHERE {fk} = :{made.key} "
        f"AND {first} = :{first})"
    )
    asked = " and ".join(field.replace("_", " ") for field in made.fields)
    return Tool(
        description=(
            f"{verb.replace('_', ' ').capitalize()} {a(made.thing)} for {a(made.noun)}, with "
            f"{asked}. Refused if there is one with the same {first.replace('_', ' ')} already."
        ),
        effect="write",
        parameters={made.key: made.row, **{f: _value(made, f) for f in made.fields}},
        steps=(
            step(
                require=once,
                error="exists_already",
                message=f"{{{made.key}!r}} has {{{first}!r}} already.",
            ),
            step(let={"new_id": f"SELECT next_id('{_letters(made)}')"}),
            step(write=f"INSERT INTO {made.table} ({names}) VALUES ({values})"),
            step(
                returns=f"SELECT id, {', '.join(made.fields)}, added FROM {made.table} "
                "WHERE id = :new_id",
                shape="object",
            ),
        ),
        intent={"en": f"{verb.replace('_', ' ')} {a(made.thing)}{to}{said}"},
    )


def _named(made: _Satellite) -> str:
    """Return how a user names one of them."""
    return f'the {made.thing} "{{{{ {made.mine}.{made.first} }}}}"{made.of(_up(made))}'


def _up(made: _Satellite) -> str:
    return f"{made.mine}.{made.one}"


def _its_key(made: _Satellite) -> Parameter:
    return Parameter(
        type="string",
        entity=f"{made.table}.id",
        description=f"Identifier of the {made.thing}, such as {_letters(made)}0012",
    )


def _changer(made: _Satellite, field: str) -> Tool:
    said, mine = field.replace("_", " "), made.mine
    new = f"{{% if {field} %}} to {{{{ {field} }}}}{{% endif %}}"
    same = f"SELECT {field} <> :{field} FROM {made.table} WHERE id = :{mine}"
    shown = f"SELECT id, {', '.join(made.fields)} FROM {made.table} WHERE id = :{mine}"
    return Tool(
        description=(
            f"Change the {said} of {a(made.thing)} that belongs to {a(made.noun)}. Refused if it "
            "is the same as before."
        ),
        effect="write",
        parameters={mine: _its_key(made), field: _value(made, field, new=True)},
        steps=(
            step(require=same, error="no_change", message=f"The {said} is {{{field}!r}} already."),
            step(write=f"UPDATE {made.table} SET {field} = :{field} WHERE id = :{mine}"),
            step(returns=shown, shape="object"),
        ),
        intent={"en": f"have the {said} of {_named(made)} changed{new}"},
    )


def _remover(made: _Satellite) -> Tool:
    verb = made.entry["remove"].replace("_", " ")
    gone: Step = step(write=f"DELETE FROM {made.table} WHERE id = :{made.mine}")
    return Tool(
        description=f"{verb.capitalize()} {a(made.thing)} of {a(made.noun)}; it is gone for good.",
        effect="destructive",
        parameters={made.mine: _its_key(made)},
        steps=(gone,),
        intent={"en": f"{verb} {_named(made)}"},
    )


OPERATOR = Operator(
    "breadth", "What may belong to rows: tools to list, add, change and remove it.", _apply, times=4
)
