"""What a model may say of a call: changes of rows, and an observation. Read strictly, never run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import jsonschema_rs

from synth.core.canonical import canonical
from synth.core.messages import ToolCall
from synth.core.types import Diff, Scalar

MOST_CHANGES = 50
"""Changes of one call."""
MOST_TEXT = 100_000
"""Characters of a reply."""
_OPS = ("insert", "update", "delete")
_MEMBERS = frozenset({"op", "table", "id", "values"})
_SHOWN = 160

Row = dict[str, Any]


class Refused(Exception):
    """A reply is not taken.

    Args:
        code: one word for the record: `json`, `shape`, `read_writes`, `table`, `row`, `key`,
            `type`, `reference`, `constraint`, `promise`, `no_change`, `observation`, `error_code`,
            `made_up`, `contradiction`, `cut_off`, `withheld`.
        why: what the model is told.
    """

    def __init__(self, code: str, why: str) -> None:
        super().__init__(f"{code}: {why}")
        self.code, self.why = code, why


@dataclass(frozen=True, slots=True)
class Change:
    """One change of one row."""

    op: Literal["insert", "update", "delete"]
    table: str
    id: str
    """Empty for a new row that takes the next key there is."""
    values: Row

    def json(self) -> dict[str, Any]:
        """Return it as a model writes it."""
        out: dict[str, Any] = {"op": self.op, "table": self.table, "id": self.id}
        return out if self.op == "delete" else out | {"values": self.values}


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a tool."""

    name: str
    arguments: dict[str, Any]
    user: Scalar = None
    """Key of the user's row, where it is a call with a tool of theirs."""
    by_user: bool = False

    @property
    def key(self) -> str:
        """Return what tells it from others, as canonical JSON."""
        by = [self.user] if self.by_user else []
        return canonical([self.name, self.arguments, *by])


@dataclass(frozen=True, slots=True)
class Shape:
    """The type of a table's rows."""

    name: str
    row: Mapping[str, Any]
    """JSON Schema of a whole row: an object with `properties`, `required`, nothing else allowed."""
    references: Mapping[str, str]
    """Column -> the table whose keys it holds."""

    @property
    def columns(self) -> Mapping[str, Any]:
        """Column -> JSON Schema of its values."""
        found: Mapping[str, Any] = self.row["properties"]
        return found


class State(Protocol):
    """Rows by table and key: typed, consistent, and the same whoever looks.

    `apply` may leave a part of the changes behind when it refuses; whoever calls it goes back to
    the snapshot from before.
    """

    shapes: Mapping[str, Shape]

    def reset(self, seed: int) -> None:
        """Start over from the rows that `seed` names."""

    def rows(self, table: str) -> Sequence[Row]:
        """Return the rows of a table, by key."""

    def row(self, table: str, key: Any) -> Row | None:
        """Return one row."""

    def holds(self, table: str, column: str, value: Scalar) -> bool:
        """Say whether a row of the table has that value."""

    def fresh(self, table: str, count: int) -> list[str]:
        """Return the keys that the next new rows of a table get."""

    def apply(self, changes: Sequence[Change]) -> None:
        """Make changes.

        Raises:
            Refused: the state would not be typed, or not be consistent.
        """

    def diff(self) -> Diff:
        """Return the net change since `reset`."""

    def key(self) -> str:
        """Return what tells this state from others, in any process."""

    def snapshot(self) -> bytes:
        """Return all of it, counters of keys included."""

    def restore(self, state: bytes) -> None:
        """Go back to a snapshot.

        Raises:
            BadInput: it is none.
        """

    def fork(self) -> State:
        """Return an independent copy."""

    def close(self) -> None:
        """Give everything back. Harmless when called twice."""


def read_reply(text: str | None) -> tuple[tuple[Change, ...], Any]:
    """Return the changes and the observation of a reply.

    Text around the object (a fence, a word before it) is left out; an object in it is read as
    strictly as an agent's arguments: no key twice, no NaN, no half of a surrogate pair.

    Raises:
        Refused: it is no such object.
    """
    text = text or ""
    start, end = text.find("{"), text.rfind("}")
    if len(text) > MOST_TEXT:
        raise Refused("json", f"it is longer than {MOST_TEXT} characters")
    value = ToolCall(id="", name="", arguments=text[start : end + 1]).value if start >= 0 else None
    if value is None:
        raise Refused("json", "it is not one JSON object")
    if "observation" not in value or not value.keys() <= {"patch", "observation"}:
        raise Refused("shape", 'it has not exactly the members "patch" and "observation"')
    patch = value.get("patch", [])
    if not isinstance(patch, list) or len(patch) > MOST_CHANGES:
        raise Refused("shape", f"the patch is no list of at most {MOST_CHANGES} changes")
    return tuple(_change(item, number) for number, item in enumerate(patch)), value["observation"]


def _change(item: Any, number: int) -> Change:
    where = f"change {number} of the patch"
    if not isinstance(item, dict) or not item.keys() <= _MEMBERS:
        raise Refused("shape", f"{where} is no object of op, table, id and values")
    op, table, key = item.get("op"), item.get("table"), item.get("id")
    if op not in _OPS or not isinstance(table, str):
        raise Refused("shape", f"{where} lacks an op (insert, update, delete) or a table")
    values = item.get("values") or {}
    if not isinstance(values, dict):
        raise Refused("shape", f"the values of {where} are no object")
    key = values.get("id") if key is None else key
    if op == "insert" and key is None:
        key = ""
    if not isinstance(key, str) or (not key and op != "insert"):
        raise Refused("shape", f"{where} lacks the id of its row")
    if values.get("id", key) != key:
        raise Refused("key", f"{where} would change the id of a row")
    values = {name: value for name, value in values.items() if name != "id"}
    if op == "update" and not values:
        raise Refused("shape", f"{where} changes no column")
    if op == "delete" and values:
        raise Refused("shape", f"{where} deletes a row and gives values")
    return Change(op, table, key, values)


def shown(value: Any) -> str:
    """Return a value for a message, cut to a bearable length."""
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


def first_problem(validator: jsonschema_rs.Validator, value: Any) -> str:
    """Return the first objection of a schema, naming the place; empty where there is none."""
    try:
        for error in validator.iter_errors(value):
            where = ".".join(str(part) for part in error.instance_path)
            return f"{where}: {error.message[:200]}" if where else error.message[:200]
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        return str(error).splitlines()[0][:200]
    return ""


def is_text(value: str) -> bool:
    """Say whether a text can be written: half of a surrogate pair cannot."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
