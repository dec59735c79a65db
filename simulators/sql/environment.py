"""One running copy of an application's world.

The seeded image is loaded once and everything an episode does happens in one transaction on top of
it, each writing call in a savepoint of its own. So `reset` to the same seed is a ROLLBACK (3 µs,
and no statement is prepared again), and the session that records changes may go on, because the
rows it compares with are the same. A snapshot is the seed, the changeset since and the counters of
`next_id`; restoring applies the changeset to the seed's image, so `diff` still counts from there.
Tables are WITHOUT ROWID: equal content behaves equally, however it came about.

Results are compact JSON. A tool that returns an object gives the row itself, a list is
`{"result": [...]}`, a write without a return step gives `{"done":true}`, a failure
`{"error": code, "message": text}`.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import apsw
import orjson

from simulators.sql.changes import apply_changes, lines, read_changes
from simulators.sql.guard import Budget, Guard, Mode, add_sources, connect
from simulators.sql.identity import Counters
from simulators.sql.program import CallFailed, Program, as_dicts, failure
from synth.core.errors import BadInput, ToolloomError
from synth.core.types import CallError, Diff, Scalar, ToolResult, ToolSpec

if TYPE_CHECKING:
    from simulators.sql.engine import Engine

_FORMAT = "toolloom/sql/1"
_SESSION_CALLS = 200
"""Writing calls after which the session starts anew: its cost grows with all rows it ever saw."""


class SqlEnvironment:
    """Implements `synth.core.protocols.Environment`; the `_now` methods are the same, synchronous.

    Args:
        engine: the compiled application.
    """

    real = False

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._name = engine.application.application
        self.seed: int | None = None
        self._budget = Budget()
        self._guard = Guard(frozenset(engine.tables))
        self._connection = connect(self._guard, self._budget)
        self._counters = Counters()
        add_sources(self._connection, engine.application.clock, self._counters.next)
        self._session: apsw.Session | None = None
        self._recorded = 0
        self._start: bytes = b""
        self._log: list[tuple[str, dict[str, Any]]] = []
        self._diff: Diff | None = ()
        self._closed = False

    # --- the protocol ------------------------------------------------------------------------

    async def reset(self, seed: int) -> None:
        """Start over from the state that `seed` names."""
        self.reset_now(seed)

    def tools(self) -> tuple[ToolSpec, ...]:
        """Return the tools on offer."""
        return tuple(self.engine.application.specs.values())

    async def call(self, name: str, arguments: Mapping[str, Any]) -> ToolResult:
        """Run one call. All of it happens or none of it."""
        return self.call_now(name, arguments)

    async def diff(self) -> Diff:
        """Return the net change since `reset`."""
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
        self._guard.mode = Mode.ENGINE
        seeded = self.engine.seeded(seed)
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")
        if seed != self.seed:
            self._end_session()
            self.seed = None
            self._connection.deserialize("main", seeded.image)
            self.seed = seed
        elif self._recorded > _SESSION_CALLS:
            self._end_session()
        self._connection.execute("BEGIN")
        if self._session is None:
            self._begin_session()
        self._counters.start(seeded.highest)
        self._start, self._diff = b"", ()
        self._log.clear()
        self._guard.mode = Mode.RUN

    def close_now(self) -> None:
        """Give everything back. Harmless when called twice."""
        if not self._closed:
            self._closed = True
            self.seed = None
            self._end_session()
            self._connection.close(force=True)

    def diff_now(self) -> Diff:
        """Return the net change since `reset`.

        Raises:
            ToolloomError: `reset` did not come first, or the state cannot be written as JSON.
        """
        self._check_ready()
        if self._diff is None:
            try:
                changes = read_changes(self._changeset(), self.engine.tables, self.engine.ignored)
                self._diff = lines(changes, self._counters.issued())
            except ValueError as error:
                raise ToolloomError(f"the state is no JSON: {error}", where=self._name) from error
        return self._diff

    def snapshot_now(self) -> bytes:
        """Return seed, counters and changes since `reset`."""
        self._check_ready()
        head = {
            "format": _FORMAT,
            "application": self.engine.application.key,
            "seed": self.seed,
            "counters": self._counters.used,
        }
        return orjson.dumps(head) + b"\n" + self._changeset()

    def restore_now(self, state: bytes) -> None:
        """Go back to a snapshot; `diff` counts from the `reset` before the snapshot.

        Raises:
            BadInput: not a snapshot, or one of another application.
        """
        head, _, changeset = state.partition(b"\n")
        try:
            facts = orjson.loads(head)
            seed, counters = int(facts["seed"]), dict(facts["counters"])
            wrong = facts["format"] != _FORMAT
        except (ValueError, TypeError, KeyError):
            raise BadInput("this is no snapshot of an application's state") from None
        if wrong or facts["application"] != self.engine.application.key:
            raise BadInput(
                "the snapshot is of another application, or of another version of it",
                where=self._name,
            )
        self.reset_now(seed)
        self._guard.mode = Mode.ENGINE
        try:
            apply_changes(self._connection, changeset, self.engine.tables)
        except (apsw.Error, ValueError, LookupError) as error:
            self.seed = None
            raise BadInput("the snapshot is damaged", where=self._name) from error
        self._guard.mode = Mode.RUN
        self._counters.start(self._counters.highest, counters)
        self._start, self._diff = state, None

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
        self._check_ready()
        reader = self.engine.reader(sql)
        self._budget.start()
        try:
            rows = self._connection.execute(sql, parameters).fetchall()
        except (apsw.Error, ValueError, TypeError) as error:
            raise ToolloomError(f"{str(error).splitlines()[0]}: {sql}", where=self._name) from error
        return as_dicts(rows, reader.columns)

    # --- calls -------------------------------------------------------------------------------

    def call_now(self, name: str, arguments: Mapping[str, Any]) -> ToolResult:
        """Run one call; a failed one is a result and leaves the state as it was.

        Raises:
            ToolloomError: `reset` did not come first.
        """
        self._check_ready()
        program = self.engine.programs.get(name)
        if program is None:
            return _failed(CallFailed("unknown_tool", f"There is no tool {name!r}."))
        if not isinstance(arguments, Mapping):
            return _failed(CallFailed("invalid_arguments", "The arguments are no object."))
        given = arguments if isinstance(arguments, dict) else dict(arguments)
        try:
            values = program.arguments.bind(given)
        except CallFailed as error:
            return _failed(error)
        self._budget.start()
        if program.writes:
            return self._write(program, given, values)
        try:
            return ToolResult(ok=True, content=program.run(self._connection, given, values))
        except (CallFailed, apsw.Error, ValueError, TypeError) as error:
            return _failed(failure(error))

    def _write(
        self, program: Program, given: dict[str, Any], values: dict[str, Scalar]
    ) -> ToolResult:
        used = self._counters.used.copy()
        execute = self._connection.execute
        self._guard.mode = Mode.ENGINE
        execute("SAVEPOINT call")
        self._guard.mode = Mode.RUN
        try:
            content = program.run(self._connection, given, values)
        except (CallFailed, apsw.Error, ValueError, TypeError) as error:
            self._roll_back(used)
            return _failed(failure(error))
        except BaseException:
            self._roll_back(used)
            raise
        self._guard.mode = Mode.ENGINE
        execute("RELEASE call")
        self._guard.mode = Mode.RUN
        self._recorded += 1
        self._diff = None
        self._log.append((program.name, _copy(given)))
        return ToolResult(ok=True, content=content)

    def _roll_back(self, used: dict[str, int]) -> None:
        """Undo the call that is running, and its use of identifiers."""
        self._recorded += 1
        if self._connection.in_transaction:
            self._guard.mode = Mode.ENGINE
            self._connection.execute("ROLLBACK TO call; RELEASE call")
            self._guard.mode = Mode.RUN
            self._counters.used = used
            return
        # SQLite ends the whole transaction when a write is interrupted. Do the episode again.
        log, start, seed = self._log.copy(), self._start, self.seed
        if start:
            self.restore_now(start)
        elif seed is not None:
            self.reset_now(seed)
        for name, arguments in log:
            self.call_now(name, arguments)

    # --- inside ------------------------------------------------------------------------------

    def _check_ready(self) -> None:
        if self.seed is None:
            what = "the environment is closed" if self._closed else "reset comes first"
            raise ToolloomError(what, where=self._name)

    def _begin_session(self) -> None:
        self._session = apsw.Session(self._connection, "main")
        self._session.attach()
        self._recorded = 0

    def _end_session(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None

    def _changeset(self) -> bytes:
        if self._session is None:
            raise ToolloomError("reset comes first", where=self._name)
        if self._diff == ():
            return b""
        self._guard.mode = Mode.ENGINE
        try:
            return self._session.changeset()
        finally:
            self._guard.mode = Mode.RUN


def _copy(arguments: dict[str, Any]) -> dict[str, Any]:
    plain = not any(isinstance(value, (dict, list)) for value in arguments.values())
    return arguments.copy() if plain else copy.deepcopy(arguments)


def _failed(error: CallFailed) -> ToolResult:
    content = orjson.dumps({"error": error.code, "message": error.message}).decode()
    return ToolResult(
        ok=False, content=content, error=CallError(code=error.code, message=error.message)
    )
