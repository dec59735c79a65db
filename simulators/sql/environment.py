"""One running copy of an application's world.

`reset` borrows a database that holds the seed's image (`store`). A snapshot is the seed, the
net changes since and the counters of `next_id`; restoring makes these changes on the seed's image,
so `diff` still counts from there. Tables are WITHOUT ROWID: equal content behaves equally, however
it came about.

Results are compact JSON. A tool that returns an object gives the row itself, a list is
`{"result": [...]}`, a write without a return step gives `{"done":true}`, a failure
`{"error": code, "message": text}`.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import apsw
import orjson

from simulators.sql.changes import Event, lines, read_changes
from simulators.sql.program import CHANCE, USER, CallFailed, Happening, Program, failure
from simulators.sql.store import Row, Store
from synth.core.errors import BadInput, ToolloomError, UnknownName
from synth.core.happenings import Due
from synth.core.types import CallError, Diff, Happened, Scalar, ToolResult, ToolSpec

if TYPE_CHECKING:
    from simulators.sql.engine import Engine

_FORMAT = "toolloom/sql/3"
_NOTHING: Mapping[str, Scalar] = {}
_Done = tuple[Program | Happening, dict[str, Any], Mapping[str, Scalar], int]
"""What was run, its arguments, what else its SQL saw, and when in seconds."""


class SqlEnvironment:
    """Implements `Environment`, `Shared` and `Timed` of `synth.core.protocols`.

    Everything can be had synchronously, as `_now` methods.

    Args:
        engine: the compiled application.
    """

    real = False

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._name = engine.application.application
        self._store: Store | None = None
        self._start: bytes = b""
        self._log: list[_Done] = []
        self._diff: Diff | None = ()
        self._closed = False

    @property
    def seed(self) -> int | None:
        """Name of the state that `diff` counts from; None before the first `reset`."""
        return self._store.seed if self._store else None

    # --- the protocol ------------------------------------------------------------------------

    async def reset(self, seed: int) -> None:
        """Start over from the state that `seed` names."""
        self.reset_now(seed)

    def tools(self) -> tuple[ToolSpec, ...]:
        """Return the tools on offer."""
        return tuple(self.engine.application.specs.values())

    def user_tools(self) -> tuple[ToolSpec, ...]:
        """Return the tools that users hold."""
        return tuple(self.engine.application.user_specs.values())

    async def call(self, name: str, arguments: Mapping[str, Any]) -> ToolResult:
        """Run one call. All of it happens or none of it."""
        return self.call_now(name, arguments)

    async def act(self, user: Scalar, name: str, arguments: Mapping[str, Any]) -> ToolResult:
        """Run one call of the user whose row has the key `user`."""
        return self.act_now(user, name, arguments)

    async def happen(self, due: Due) -> Happened | None:
        """Let something happen by itself; None where it cannot, or not now."""
        return self.happen_now(due)

    async def diff(self) -> Diff:
        """Return the net change since `reset` that calls made."""
        return self.diff_now()

    async def snapshot(self) -> bytes:
        """Return the whole state, counters included."""
        return self.snapshot_now()

    async def restore(self, state: bytes) -> None:
        """Go back to a snapshot, of this or another environment of the same application."""
        self.restore_now(state)

    async def fork(self) -> SqlEnvironment:
        """Return an independent copy of the current state."""
        return self.fork_now()

    async def close(self) -> None:
        """Give everything back. Harmless when called twice."""
        self.close_now()

    # --- state -------------------------------------------------------------------------------

    def reset_now(self, seed: int) -> None:
        """Start over from the state that `seed` names.

        Raises:
            BadApplication: the seed rules cannot be met.
            ToolloomError: the environment is closed.
        """
        if self._closed:
            raise ToolloomError("the environment is closed", remedy="make a new one")
        seeded = self.engine.seeded(seed)
        store = self._store
        if store is None:
            store = self._store = self.engine.stores.take(seed)
        if store.seed != seed:
            store.load(seed, seeded.image)
        store.start(seeded.highest)
        self._start, self._diff = b"", ()
        self._log.clear()

    def close_now(self) -> None:
        """Give everything back. Harmless when called twice."""
        self._closed = True
        self._let_go()

    def rest(self) -> None:
        """Give the database back until the next `reset`, for others who want the same state."""
        self._let_go()

    def _let_go(self) -> None:
        if self._store is not None:
            self.engine.stores.give_back(self._store)
            self._store = None

    def diff_now(self) -> Diff:
        """Return the net change since `reset` that calls made; see `changes.own`.

        Raises:
            ToolloomError: `reset` did not come first, or the state cannot be written as JSON.
        """
        store = self._ready()
        if self._diff is None:
            try:
                changes = read_changes(store.changes(), self.engine.tables, self.engine.ignored)
                self._diff = lines(changes, store.counters.issued())
            except ValueError as error:
                raise ToolloomError(f"the state is no JSON: {error}", where=self._name) from error
        return self._diff

    def rows_now(self) -> tuple[set[Row], set[Row]]:
        """Return the rows that calls wrote since `reset`, and those that something else did."""
        return self._ready().rows()

    def changed_now(self) -> dict[tuple[str, Scalar], dict[str, Scalar] | None]:
        """Return the rows that changed since `reset`, by table and key; None where one is gone."""
        tables = self.engine.tables
        found: dict[tuple[str, Scalar], dict[str, Scalar] | None] = {}
        for name, old, new in self._ready().changes():
            table = tables[name]
            row = dict(zip(table.columns, new, strict=True)) if new else None
            found[name, (new or old or ())[table.key]] = row
        return found

    def snapshot_now(self) -> bytes:
        """Return seed, counters and changes since `reset`."""
        store = self._ready()
        head = {
            "format": _FORMAT,
            "application": self.engine.application.key,
            "seed": store.seed,
            "counters": store.counters.used,
            "seconds": store.clock.seconds,
        }
        # Sorted: how a state came about is no part of it. The standard library can write infinity.
        changes = json.dumps([sorted(part, key=self._place) for part in store.parts()])
        return orjson.dumps(head) + b"\n" + changes.encode()

    def restore_now(self, state: bytes) -> None:
        """Go back to a snapshot; `diff` counts from the `reset` before the snapshot.

        Raises:
            BadInput: not a snapshot, or one of another application.
        """
        head, _, changes = state.partition(b"\n")
        try:
            facts = orjson.loads(head)
            seed, counters = int(facts["seed"]), dict(facts["counters"])
            seconds, wrong = int(facts["seconds"]), facts["format"] != _FORMAT
        except (ValueError, TypeError, KeyError):
            raise BadInput("this is no snapshot of an application's state") from None
        if wrong or facts["application"] != self.engine.application.key:
            raise BadInput(
                "the snapshot is of another application, or of another version of it",
                where=self._name,
            )
        self.reset_now(seed)
        store = self._ready()
        try:
            store.apply(json.loads(changes))
        except (apsw.Error, ValueError, LookupError, TypeError) as error:
            self._let_go()
            raise BadInput("the snapshot is damaged", where=self._name) from error
        store.counters.start(store.counters.highest, counters)
        store.clock.wind(seconds)
        self._start, self._diff = state, None

    def _place(self, event: Event) -> Row:
        """Return which row a net change is of."""
        table, old, new = event
        return table, (old or new or ())[self.engine.tables[table].key]

    def fork_now(self) -> SqlEnvironment:
        """Return an independent copy of the current state; its `diff` counts from `reset` too."""
        twin = SqlEnvironment(self.engine)
        twin.restore_now(self.snapshot_now())
        return twin

    def query(
        self, sql: str, parameters: Mapping[str, Scalar] | None = None
    ) -> list[dict[str, Scalar]]:
        """Read the current state, under the same guard and bounds as a tool.

        Args:
            sql: one SELECT with `:name` parameters.
            parameters: a value for each of them.

        Returns:
            The rows; boolean columns are true and false.

        Raises:
            BadApplication: the statement does not prepare, or it writes.
            ToolloomError: it fails when run, or lacks a parameter.
        """
        store = self._ready()
        reader = self.engine.reader(sql)
        store.budget.start()
        try:
            rows = store.connection.execute(sql, parameters).fetchall()
        except (apsw.Error, ValueError, TypeError) as error:
            raise ToolloomError(f"{str(error).splitlines()[0]}: {sql}", where=self._name) from error
        return reader.naming.dicts(rows)

    # --- calls -------------------------------------------------------------------------------

    def call_now(self, name: str, arguments: Mapping[str, Any]) -> ToolResult:
        """Run one call of the agent; a failed one is a result and leaves the state as it was.

        Raises:
            ToolloomError: `reset` did not come first.
        """
        return self._call(self.engine.programs.get(name), name, arguments)

    def act_now(self, user: Scalar, name: str, arguments: Mapping[str, Any]) -> ToolResult:
        """Run one call of the user whose row has the key `user`, as `call_now` does an agent's."""
        return self._call(self.engine.user_programs.get(name), name, arguments, {USER: user})

    def _call(
        self,
        program: Program | None,
        name: str,
        arguments: Mapping[str, Any],
        more: Mapping[str, Scalar] = _NOTHING,
    ) -> ToolResult:
        """Run one call; `more` is what its SQL sees beside the parameters."""
        store = self._ready()
        if program is None:
            return _failed(CallFailed("unknown_tool", f"There is no tool {name!r}."))
        if type(arguments) is dict:  # nearly always, and the other questions take a while
            given = arguments
        elif isinstance(arguments, Mapping):
            given = dict(arguments)
        else:
            return _failed(CallFailed("invalid_arguments", "The arguments are no object."))
        try:
            values = program.arguments.bind(given)
        except CallFailed as error:
            return _failed(error)
        values.update(more)
        store.budget.start()
        if program.writes:
            return self._write(store, (program, given, more, store.clock.seconds), values)
        try:
            return ToolResult(ok=True, content=program.run(store.cursor, given, values))
        except (CallFailed, apsw.Error, ValueError, TypeError) as error:
            return _failed(failure(error))

    def wind(self, seconds: int) -> None:
        """Let it be so many seconds after the start; nothing happens by that.

        Raises:
            ToolloomError: `reset` did not come first.
        """
        self._ready().clock.wind(seconds)

    def happen_now(self, due: Due) -> Happened | None:
        """Let something happen by itself, at its time; None where it cannot, or not now.

        Raises:
            UnknownName: the application has no such event.
            ToolloomError: `reset` did not come first.
        """
        result = self.event_now(due)
        if not result.ok:
            return None
        return Happened(event=due.event, second=due.second, text=result.content)

    def event_now(self, due: Due) -> ToolResult:
        """Do as `happen_now`, and say why where it does not happen; raises as that."""
        store, event = self._ready(), self.engine.events.get(due.event)
        if event is None:
            raise UnknownName("event", due.event, self.engine.events)
        store.clock.wind(due.second)
        return self._event(event, {CHANCE: due.chance})

    def changed_by_itself(self) -> bool:
        """Say whether anything that happened by itself changed the state."""
        return any(self._ready().parts()[1::2])

    def _event(self, event: Happening, more: Mapping[str, Scalar]) -> ToolResult:
        store = self._ready()
        store.budget.start()
        return self._write(store, (event, {}, more, store.clock.seconds), dict(more))

    def _write(self, store: Store, done: _Done, values: dict[str, Scalar]) -> ToolResult:
        """Run what may write; `values` is what its SQL sees."""
        program, given, more, seconds = done
        used = store.counters.used.copy()
        store.savepoint(by_itself=isinstance(program, Happening))
        try:
            content = program.run(store.cursor, given, values)
        except (CallFailed, apsw.Error, ValueError, TypeError) as error:
            self._roll_back(store, used)
            return _failed(failure(error))
        except BaseException:
            self._roll_back(store, used)
            raise
        store.release()
        self._diff = None
        self._log.append((program, _copy(given), more, seconds))
        return ToolResult(ok=True, content=content)

    def _roll_back(self, store: Store, used: dict[str, int]) -> None:
        """Undo the call that is running, and its use of identifiers."""
        if store.roll_back():
            store.counters.used = used
            return
        # SQLite ends the whole transaction when a write is interrupted. Do the episode again.
        log, start, seed = self._log.copy(), self._start, store.seed
        now = store.clock.seconds
        if start:
            self.restore_now(start)
        elif seed is not None:
            self.reset_now(seed)
        for program, arguments, more, seconds in log:
            self.wind(seconds)
            if isinstance(program, Happening):
                self._event(program, more)
            else:
                self._call(program, program.name, arguments, more)
        self.wind(now)

    def _ready(self) -> Store:
        if self._store is None:
            what = "the environment is closed" if self._closed else "reset comes first"
            raise ToolloomError(what, where=self._name)
        return self._store


def _copy(arguments: dict[str, Any]) -> dict[str, Any]:
    for value in arguments.values():
        if isinstance(value, (dict, list)):
            return copy.deepcopy(arguments)
    return arguments.copy()


def _failed(error: CallFailed) -> ToolResult:
    content = orjson.dumps({"error": error.code, "message": error.message}).decode()
    return ToolResult(
        ok=False, content=content, error=CallError(code=error.code, message=error.message)
    )
