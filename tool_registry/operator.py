"""What an operator of evolution is: a plug-in, one file in `tool_registry/operators/`.

An operator rewrites an application into a child, by rule and from a seed; no model is asked. The
kinds are those of Evol-Instruct, in their form for tools (WizardLM, section 3.2; `docs/papers.md`).
What an operator makes may be unsound: `tool_registry.elimination` and the checks handed to it say.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from importlib.resources import files
from typing import Any, Literal, TypeAlias

import yaml

from synth.core.application import Application, Parameter, Tool
from synth.core.plugins import Plugins
from synth.core.seeds import rng as seeded

OPERATORS = Plugins("operator", "tool_registry.operators", "OPERATOR")

Kind: TypeAlias = Literal["constrain", "deepen", "concretise", "steps", "input", "breadth"]
"""Five ways in depth (add constraints, deepen, concretise, more steps, complicate the input), and
in breadth."""

_CHOICES = r"\b{}\b[^,]*?CHECK\s*\(\s*{}\s+IN\s*\(([^()]*)\)\s*\)"
_KEY = re.compile(r"\b[A-Z]{1,6}-?[0-9]{2,6}\b")
_TABLE = r"CREATE TABLE\s+{}\s*\(.*?\)\s*STRICT"


@dataclass(frozen=True, slots=True)
class Field:
    """One column of a table, as the engine read it."""

    type: str
    """TEXT, INTEGER or REAL."""
    not_null: bool = False
    boolean: bool = False
    references: str | None = None
    """The table whose `id` it holds."""


@dataclass(frozen=True)
class Subject:
    """An application that compiles, and what compiling it told."""

    application: Application
    tables: Mapping[str, Mapping[str, Field]]
    results: Mapping[str, Mapping[str, str | None]]
    """Tool -> column of its result -> the `table.column` it comes from, if any."""

    def choices(self, column: str) -> tuple[str, ...]:
        """Return the words that the schema lets `table.column` hold; empty if it may hold any."""
        table, _, name = column.partition(".")
        text = re.search(_TABLE.format(table), self.application.table_sql, re.DOTALL)
        found = re.search(_CHOICES.format(name, name), text[0]) if text else None
        return tuple(re.findall(r"'([^']+)'", found[1])) if found else ()

    @cached_property
    def reads(self) -> dict[str, Tool]:
        """The agent's tools that only read."""
        return {n: t for n, t in self._agents() if t.effect == "read"}

    @cached_property
    def writes(self) -> dict[str, Tool]:
        """The agent's tools that change something, without the hand-off."""
        handoff = self.application.handoff
        return {n: t for n, t in self._agents() if t.effect != "read" and n != handoff}

    def _agents(self) -> Iterator[tuple[str, Tool]]:
        return ((n, t) for n, t in self.application.tools.items() if t.by == "agent")

    @cached_property
    def lists(self) -> dict[str, Tool]:
        """Reads that are one SELECT of rows with an order and no limit."""
        return {n: t for n, t in self.reads.items() if _is_list(t)}

    @cached_property
    def subjects(self) -> dict[str, tuple[str, Parameter]]:
        """Table -> a required parameter of a write that names one of its rows, and its name.

        Only tables whose rows people can name (`named`), and that a read leads to.
        """
        found: dict[str, tuple[str, Parameter]] = {}
        shown = {o for columns in self.results.values() for o in columns.values()}
        for tool in self.writes.values():
            for name, parameter in tool.parameters.items():
                table = (parameter.entity or "").partition(".")[0]
                fits = parameter.entity == f"{table}.id" and not parameter.optional
                if fits and f"{table}.id" in shown and self.named(table, name):
                    found.setdefault(table, (name, parameter))
        return found

    def named(self, table: str, parameter: str) -> str | None:
        """Return how a template names the row that `parameter` holds; None if nobody could."""
        application = self.application
        if table == application.user.table:
            return "me"
        for column in application.known.get(table, ()):
            target = self.tables[table][column].references
            if target is None:
                return f"the {singular(table)} {{{{ {parameter}.{column} }}}}"
        for column in application.known.get(table, ()):
            target = self.tables[table][column].references
            for inner in application.known.get(target or "", ()):
                if target and self.tables[target][inner].references is None:
                    path = f"{parameter}.{column.removesuffix('_id')}.{inner}"
                    return f"the {singular(table)} of {{{{ {path} }}}}"
        return None

    def nature(self, table: str) -> str:
        """Return what rows of a table are: a person (the user), a record, a detail or a thing.

        Records belong to a user, at however many removes; where there is none, they lead to rows.
        Details are the satellites of other rows: nothing more is made of them.
        """
        user = self.application.user.table
        if table == user:
            return "person"
        if any(table.endswith(f"_{kind}") for kind in vocabulary()["satellites"]):
            return "detail"
        return "record" if self._leads(table, user, frozenset()) else "thing"

    def _leads(self, table: str, user: str | None, seen: frozenset[str]) -> bool:
        to = {field.references for field in self.tables[table].values() if field.references}
        if user is None:
            return bool(to)
        seen |= {table}
        return user in to or any(self._leads(other, user, seen) for other in to - seen)

    def having(self, entry: Mapping[str, Any]) -> list[str]:
        """Return the tables whose rows may have what the vocabulary gives this entry."""
        return [
            t for t in self.subjects if self.nature(t) in entry["of"] and t in self.application.seed
        ]

    def row(self, table: str, what: str = "") -> Parameter:
        """Return a parameter that takes the key of a row, described with an example.

        Args:
            table: whose row.
            what: the row in words, where `the parcel` is not enough.
        """
        what = what or f"the {singular(table)}"
        about = f"Identifier of {what}"
        for tool in self.application.tools.values():
            for parameter in tool.parameters.values():
                if parameter.entity == f"{table}.id":
                    example = _KEY.search(parameter.description)
                    if example:
                        about += f", such as {example[0]}"
                        return Parameter(type="string", entity=f"{table}.id", description=about)
        return Parameter(type="string", entity=f"{table}.id", description=about)

    def filtered(self, tool: str) -> dict[str, str]:
        """Return result column -> origin, for the columns of a list that have one."""
        return {name: origin for name, origin in self.results[tool].items() if origin}


@dataclass(frozen=True, slots=True)
class Edit:
    """What an operator made of an application."""

    application: Application
    words: str
    """What is new, in a sentence."""
    tools: tuple[str, ...]
    """The tools that are new or changed."""


Apply: TypeAlias = Callable[[Subject, random.Random], Edit | None]


@dataclass(frozen=True, slots=True)
class Operator:
    """A way to evolve an application."""

    kind: Kind
    about: str
    """What it does, in a sentence."""
    apply: Apply
    """Returns None where the application gives it nothing to work on."""
    times: int = 1
    """How often one candidate may get it: several times where each brings something else."""


@dataclass(frozen=True, slots=True)
class Change:
    """One step of a lineage: what was done to which parent, and how to do it again."""

    operator: str
    kind: str
    seed: int
    parents: tuple[str, ...]
    """Content keys of the applications it was made from."""
    words: str
    tools: tuple[str, ...]

    def record(self) -> dict[str, Any]:
        """Return it as it is written down."""
        return {
            "operator": self.operator, "kind": self.kind, "seed": self.seed,
            "parents": list(self.parents), "words": self.words, "tools": list(self.tools),
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Evolved:
    """A child, and how it came about."""

    application: Application
    changes: tuple[Change, ...] = field(default=())


@lru_cache(maxsize=256)
def operator_called(name: str) -> Operator:
    """Return an operator by its name; looking for plug-ins costs more than most of them."""
    operator: Operator = OPERATORS.get(name)
    return operator


def drawn(rng: random.Random) -> list[str]:
    """Return the operators in an order to try them in, each as often as it may be applied."""
    order = [name for name in OPERATORS.names() for _ in range(operator_called(name).times)]
    rng.shuffle(order)
    return order


def evolve(name: str, subject: Subject, seed: int) -> Evolved | None:
    """Apply the operator `name`; None where it has nothing to work on.

    Args:
        name: of the operator.
        subject: the parent.
        seed: the same seed gives the same child.

    Raises:
        UnknownName: no such operator.
    """
    operator = operator_called(name)
    parent = subject.application
    edit = operator.apply(subject, seeded("evolve", name, parent.key, seed))
    if edit is None:
        return None
    change = Change(name, operator.kind, seed, (parent.key,), edit.words, edit.tools)
    return Evolved(edit.application, (change,))


# --- words -----------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def vocabulary() -> dict[str, Any]:
    """Return the words that operators draw from: `evolution.yaml`."""
    text = files("tool_registry").joinpath("evolution.yaml").read_text(encoding="utf-8")
    found: dict[str, Any] = yaml.safe_load(text)
    return found


def singular(table: str) -> str:
    """Return the noun of one row: `loan_items` -> `loan item`."""
    word = table.replace("_", " ")
    endings = (("ies", "y"), ("sses", "ss"), ("xes", "x"), ("ches", "ch"), ("shes", "sh"))
    for ending, instead in (*endings, ("men", "man")):
        if word.endswith(ending):
            return word[: -len(ending)] + instead
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


def _is_list(tool: Tool) -> bool:
    last = tool.steps[-1]
    if len(tool.steps) != 1 or last.returns is None or last.shape != "list":
        return False
    sql = last.returns.lower()
    outer = re.sub(r"\([^()]*(\([^()]*(\([^()]*\)[^()]*)*\)[^()]*)*\)", "", sql)
    return bool(re.search(r"\border\s+by\b", outer)) and not re.search(r"\blimit\b", outer)
