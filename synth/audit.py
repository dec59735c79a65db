"""Task files of other projects, looked at for what an agent can pass without doing anything.

The form is that of tau2-bench: `evaluation_criteria` with the calls of a solution, texts that have
to be said, assertions for a judge, and `reward_basis`, which says what counts. What is found here
is told by the file alone: a task whose solution changes nothing is one whose final state an idle
agent reaches, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import orjson
from pydantic import BaseModel, BeforeValidator, Field, ValidationError

from synth.core.errors import BadRow
from synth.core.inputs import read_input
from synth.core.types import Effect

MOST = 256 << 20
"""Bytes of a task file."""
Idle: TypeAlias = Literal["passes", "judged", "fails"]
"""What becomes of an agent that does nothing; judged: only assertions for a model stand in its
way."""
_Listed = BeforeValidator(lambda value: [] if value is None else value)


class Action(BaseModel):
    """A call of a solution."""

    name: str
    arguments: dict[str, Any] = {}
    requestor: Literal["assistant", "user"] = "assistant"


class Criteria(BaseModel):
    """How a task is scored."""

    actions: Annotated[list[Action], _Listed] = []
    communicate_info: Annotated[list[str], _Listed] = []
    nl_assertions: Annotated[list[str], _Listed] = []
    env_assertions: Annotated[list[dict[str, Any]], _Listed] = []
    reward_basis: Annotated[list[str], _Listed] = Field(default=["DB", "COMMUNICATE"])


class ForeignTask(BaseModel):
    """A task, as far as it is looked at."""

    id: str | int
    user_scenario: Any = None
    evaluation_criteria: Criteria


@dataclass(frozen=True, slots=True)
class Audit:
    """What was found about one task."""

    task: str
    idle: Idle
    why: str
    """What an idle agent meets, criterion by criterion."""
    writes: tuple[str, ...]
    """Tools of the solution that may change something."""
    notes: tuple[str, ...] = ()
    """What else is odd about it."""


def read_tasks(path: Path) -> list[ForeignTask]:
    """Read a task file.

    Args:
        path: JSON; a list of tasks, or an object with one under `tasks`.

    Raises:
        BadInput: it cannot be read.
        BadRow: it is no such list, or a task of it is none.
    """
    try:
        data = orjson.loads(read_input(path, most=MOST))
    except orjson.JSONDecodeError as error:
        raise BadRow(f"not JSON: {error}", where=str(path), remedy="name a task file") from error
    tasks = data.get("tasks") if isinstance(data, dict) else data
    if not isinstance(tasks, list) or not tasks:
        remedy = "a list of tasks with `evaluation_criteria`, as tau2-bench writes them"
        raise BadRow("no list of tasks", where=str(path), remedy=remedy)
    found = []
    for number, task in enumerate(tasks):
        try:
            found.append(ForeignTask.model_validate(task))
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            what = f"{'.'.join(map(str, first['loc'])) or 'the whole'}: {first['msg']}"
            raise BadRow(what, where=f"{path}, task {number}") from error
    return found


def audit(task: ForeignTask, effect: Callable[[str], Effect], changes: bool | None = None) -> Audit:
    """Say what an idle agent gets for a task.

    Args:
        task: the task.
        effect: what a tool does, by its name; an unknown one is taken to change something.
        changes: whether the solution was seen to change data; None where it was not executed.
    """
    criteria = task.evaluation_criteria
    writes = tuple(
        dict.fromkeys(a.name for a in criteria.actions if effect(a.name) is not Effect.READ)
    )
    met = dict(_met(criteria, bool(writes) if changes is None else changes))
    idle: Idle = "judged" if None in met.values() else "passes"
    if False in met.values():
        idle = "fails"
    words = {True: "met", False: "not met", None: "judged"}
    why = ", ".join(f"{name} {words[value]}" for name, value in met.items()) or "nothing counts"
    return Audit(str(task.id), idle, why, writes, tuple(_notes(task, writes, effect)))


def _met(criteria: Criteria, changes: bool) -> list[tuple[str, bool | None]]:
    """Return what counts, and whether doing nothing meets it; None where that is not known."""
    empty: Mapping[str, bool | None] = {
        "DB": not changes,
        "ACTION": not criteria.actions,
        "COMMUNICATE": not criteria.communicate_info,
        "NL_ASSERTION": None if criteria.nl_assertions else True,
        "ENV_ASSERTION": None if criteria.env_assertions else True,
    }
    return [(name, empty.get(name)) for name in dict.fromkeys(criteria.reward_basis)]


def _notes(task: ForeignTask, writes: Sequence[str], effect: Callable[[str], Effect]) -> list[str]:
    criteria, notes = task.evaluation_criteria, []
    if unknown := [name for name in writes if effect(name) is Effect.UNKNOWN]:
        notes.append(f"what it does is unknown: {', '.join(unknown)}")
    counts = set(criteria.reward_basis)
    for name, values in (
        ("COMMUNICATE", criteria.communicate_info),
        ("NL_ASSERTION", criteria.nl_assertions),
        ("ENV_ASSERTION", criteria.env_assertions),
    ):
        if values and name not in counts:
            notes.append(f"{len(values)} of {name} are written down and do not count")
    said = orjson.dumps(task.user_scenario).decode().casefold()
    told = criteria.communicate_info
    if told and "COMMUNICATE" in counts and all(text.casefold() in said for text in told):
        notes.append("all that has to be said stands in the user's instructions: an echo says it")
    short = [text for text in told if len(text.strip()) < 3]
    if short and "COMMUNICATE" in counts:
        notes.append(f"said by chance: {', '.join(map(repr, short))}")
    return notes
