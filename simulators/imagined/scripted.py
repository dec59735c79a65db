"""A player of tools that is a program: answers as the executable twin does, wrongly where told to.

It makes runs with imagined tools possible without a model, and shows what the environment refuses.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

import orjson

from simulators.imagined.asking import PROGRAM, Asked
from simulators.imagined.drift import run
from simulators.imagined.patch import Call
from simulators.sql.engine import Engine
from simulators.sql.environment import SqlEnvironment
from synth.core.errors import BadInput
from synth.core.protocols import ChatRequest, Finish, Reply
from synth.core.seeds import rng
from synth.core.types import Message, ToolResult, Usage

Answer = dict[str, Any]


class _Books(SqlEnvironment):
    """The twin, asked what one call changed."""

    def made(self, call: Call) -> tuple[ToolResult, list[Answer]]:
        """Make a call; return its result and what it wrote, row by row, as a model says it."""
        store = self._ready()
        before = len(store._events)
        result = run(self, call)
        found: dict[tuple[str, str], list[Any]] = {}
        for table, old, new in store._events[before:] if result.ok else ():
            was, now = self._named(table, old), self._named(table, new)
            found.setdefault((table, (was or now)["id"]), [was, now])[1] = now
        changes = [_change(place, was, now) for place, (was, now) in found.items()]
        return result, [change for change in changes if change is not None]

    def _named(self, table: str, row: tuple[Any, ...] | None) -> Any:
        columns = self.engine.tables[table].columns
        if row is None:
            return None
        return {
            name: bool(value) if column.boolean and value is not None else value
            for (name, column), value in zip(columns.items(), row, strict=True)
        }


class TwinPlayer:
    """Implements `LLM` for one application's tools.

    Args:
        engine: the compiled application.
        wrong: kind of mistake (a key of `MISTAKES`) -> how often it is made.
        seed: decides when.
    """

    name = PROGRAM

    def __init__(
        self, engine: Engine, wrong: Mapping[str, float] | None = None, seed: int = 0
    ) -> None:
        self._twin = _Books(engine)
        self._wrong, self._seed, self._asked = dict(wrong or {}), seed, 0
        if unknown := self._wrong.keys() - MISTAKES.keys():
            known = ", ".join(MISTAKES)
            raise BadInput(f"no such mistake: {', '.join(sorted(unknown))}", remedy=known)

    async def complete(self, request: ChatRequest) -> Reply:
        """Return what the twin does and returns, or a mistaken form of it."""
        if not isinstance(request, Asked):
            raise BadInput("it plays tools only, and is asked for something else", where=self.name)
        answer = self._answer(request)
        chance = rng(self._seed, request.call or "", self._asked)
        self._asked += 1
        finish: str = Finish.STOP
        text = orjson.dumps(answer).decode()
        for kind, rate in self._wrong.items():
            if chance.random() < rate:
                text = MISTAKES[kind](answer, chance)
                finish = Finish.LENGTH if kind == "cut_off" else finish
                break
        return Reply(Message(role="assistant", content=text), finish, self.name, Usage())

    def _answer(self, request: Asked) -> Answer:
        self._twin.restore_now(request.state)
        result, patch = self._twin.made(request.what)
        return {"patch": patch, "observation": orjson.loads(result.content)}


def _change(place: tuple[str, str], was: Any, now: Any) -> Answer | None:
    change: Answer = {"table": place[0], "id": place[1]}
    if was is None and now is None:
        return None  # made and taken back
    if now is None:
        return {"op": "delete", **change}
    if was is None:
        return {"op": "insert", **change, "values": now}
    # A value that is set to what it was is written all the same.
    values = {k: v for k, v in now.items() if was[k] != v} or {
        list(now)[-1]: list(now.values())[-1]
    }
    return {"op": "update", **change, "values": values}


# --- mistakes --------------------------------------------------------------------------------


def _with(change: Callable[[Answer, random.Random], None]) -> Callable[..., str]:
    def make(answer: Answer, chance: random.Random) -> str:
        copy: Answer = orjson.loads(orjson.dumps(answer))
        change(copy, chance)
        return orjson.dumps(copy).decode()

    return make


def _add(change: Answer) -> Callable[..., str]:
    return _with(lambda answer, _: answer["patch"].append(change))


def _other_type(answer: Answer, _: random.Random) -> None:
    for change in answer["patch"]:
        values = change.get("values", {})
        values.update({name: {"of": "another type"} for name in list(values)[-1:]})


def _other_key(answer: Answer, _: random.Random) -> None:
    for change in answer["patch"]:
        if change["op"] == "insert":
            change["id"] = change["values"]["id"] = "ZZ999"
        else:
            change["id"] = "ZZ999"


def _nowhere(answer: Answer, _: random.Random) -> None:
    for change in answer["patch"]:
        values = change.get("values", {})
        values.update({n: "ZZ999" for n in values if n.endswith("_id") and values[n] is not None})


def _rows(observation: Any) -> list[Answer]:
    rows = observation.get("result", [observation])
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def _other_words(answer: Answer, _: random.Random) -> None:
    for row in _rows(answer["observation"]):
        row.update(
            {
                n: f"{v} indeed"
                for n, v in row.items()
                if isinstance(v, str) and not n.endswith("id")
            }
        )


def _another_row(answer: Answer, _: random.Random) -> None:
    for row in _rows(answer["observation"]):
        row.update({name: "ZZ999" for name in row if name == "id" or name.endswith("_id")})


def _forgets(answer: Answer, _: random.Random) -> None:
    answer["patch"] = []


def _gives_up(answer: Answer, _: random.Random) -> None:
    answer |= {"patch": [], "observation": {"error": "not_found", "message": "Nothing there."}}


def _odd_error(answer: Answer, _: random.Random) -> None:
    answer |= {"patch": [], "observation": {"error": "unknown_tool", "message": "?"}}


MISTAKES: Mapping[str, Callable[..., str]] = {
    "prose": lambda answer, _: f"I would say that {answer['observation']} comes of it.",
    "cut_off": lambda answer, _: orjson.dumps(answer).decode()[:-5],
    "extra_member": _with(lambda answer, _: answer.update(thoughts="none")),
    "unknown_table": _add({"op": "delete", "table": "nobodys", "id": "1"}),
    "other_type": _with(_other_type),
    "other_key": _with(_other_key),
    "broken_reference": _with(_nowhere),
    "forgets": _with(_forgets),
    "odd_error": _with(_odd_error),
    "bare_observation": _with(lambda answer, _: answer.update(observation="done")),
    "made_up_row": _with(_another_row),
    "other_words": _with(_other_words),
    "gives_up": _with(_gives_up),
}
"""What a model may do wrong, by name; the last two can pass for right."""
