"""What SQL written by somebody else may do on a connection, and for how long.

An authorizer allows reading and writing the application's own tables with the listed functions;
everything else is refused when a statement is prepared. A progress handler and lowered limits bound
what a prepared statement may use. Not bounded: the CPU time inside one single operation on a text
of `MAX_TEXT` bytes, such as `instr`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum
from typing import Any

import apsw

from simulators.sql.clock import Clock
from simulators.sql.functions import ALLOWED, IDENTITY, PURE

MAX_TEXT = 100_000
"""Bytes of one value."""
MAX_STEPS = 2_000_000
"""Operations of SQLite's virtual machine in one call; about 50 ms."""
MAX_MEMORY = 64 * 2**20
"""Bytes by which SQLite's memory may grow in one call."""
_TICK = 2_000
_STATEMENTS = 512  # as many as apsw allows
_OPEN = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE | apsw.SQLITE_OPEN_URI

_LIMITS = {
    apsw.SQLITE_LIMIT_LENGTH: MAX_TEXT,
    apsw.SQLITE_LIMIT_SQL_LENGTH: MAX_TEXT,
    apsw.SQLITE_LIMIT_COLUMN: 100,
    apsw.SQLITE_LIMIT_EXPR_DEPTH: 200,
    apsw.SQLITE_LIMIT_COMPOUND_SELECT: 50,
    apsw.SQLITE_LIMIT_VDBE_OP: 50_000,
    apsw.SQLITE_LIMIT_FUNCTION_ARG: 100,
    apsw.SQLITE_LIMIT_ATTACHED: 0,
    apsw.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 1_000,
    apsw.SQLITE_LIMIT_VARIABLE_NUMBER: 200,
    apsw.SQLITE_LIMIT_WORKER_THREADS: 0,
}


class Mode(Enum):
    """Who is talking to SQLite."""

    READ = "read"
    """A statement of an application that may only read."""
    LET = "let"
    """A read of a write tool: it may take identifiers."""
    WRITE = "write"
    """A write of an application."""
    RUN = "run"
    """Statements vetted before, prepared again; the session looks at the tables' columns."""
    SCHEMA = "schema"
    """CREATE TABLE and CREATE INDEX of an application."""
    ENGINE = "engine"
    """The engine itself."""


_OK, _READ = int(apsw.SQLITE_OK), int(apsw.SQLITE_READ)
_WRITES = (apsw.SQLITE_INSERT, apsw.SQLITE_UPDATE, apsw.SQLITE_DELETE)
_SCHEMA = (apsw.SQLITE_CREATE_TABLE, apsw.SQLITE_CREATE_INDEX, apsw.SQLITE_REINDEX)
_SCHEMA_TABLES = frozenset({"sqlite_master", "sqlite_schema"})
_OUTSIDE = frozenset({"json_each", "json_tree"})
_MODULES = frozenset(
    name for (name,) in apsw.Connection(":memory:").execute("SELECT name FROM pragma_module_list")
)
_VERBS = frozenset({"select", "with", "values", "insert", "update", "delete", "replace"})


class Guard:
    """The authorizer of one connection.

    `refused` says what it last refused, in words; `read` names the tables statements read.
    """

    def __init__(self, tables: frozenset[str] = frozenset()) -> None:
        self.tables = tables
        self.mode = Mode.ENGINE
        self.refused = ""
        self.read: set[str | None] = set()

    def __call__(
        self,
        action: int,
        first: str | None,
        second: str | None,
        database: str | None,
        by: str | None,
    ) -> int:
        """Return SQLITE_OK or SQLITE_DENY for one action of a statement being prepared."""
        if action == _READ and first in self.tables:  # nine of ten questions, fine in every mode
            self.read.add(first)
            return _OK
        if self.mode is Mode.ENGINE or self._allows(action, first, second):
            return _OK
        self.refused = _say(action, first, second)
        return int(apsw.SQLITE_DENY)

    def _allows(self, action: int, first: str | None, second: str | None) -> bool:
        if self.mode is Mode.SCHEMA:
            return self._allows_schema(action, first, second)
        if action in (apsw.SQLITE_SELECT, apsw.SQLITE_RECURSIVE):
            return True
        if action == apsw.SQLITE_READ:
            # A source none of whose columns is used comes with its bare name: perhaps a CTE.
            return first in _OUTSIDE or (not second and _is_cte(first))
        if action == apsw.SQLITE_FUNCTION:
            return second in ALLOWED or (second == IDENTITY and self.mode is not Mode.READ)
        if action in _WRITES:
            return self.mode in (Mode.WRITE, Mode.RUN) and first in self.tables
        return (
            action == apsw.SQLITE_PRAGMA
            and self.mode is Mode.RUN
            and first == "table_xinfo"
            and second in self.tables
        )

    def _allows_schema(self, action: int, first: str | None, second: str | None) -> bool:
        if action in _SCHEMA:
            return not str(first).startswith("sqlite_") or str(first).startswith(
                "sqlite_autoindex_"
            )
        if action == apsw.SQLITE_FUNCTION:
            return second in ALLOWED and second not in ("now", "today")
        if action in (*_WRITES, apsw.SQLITE_READ):
            return first in _SCHEMA_TABLES or action == apsw.SQLITE_READ
        return False


def _is_cte(name: str | None) -> bool:
    return name is None or not (name.lower().startswith(("sqlite_", "pragma_")) or name in _MODULES)


def _say(action: int, first: str | None, second: str | None) -> str:
    name = str(apsw.mapping_authorizer_function[action]).removeprefix("SQLITE_")
    words = name.replace("_", " ")
    if action == apsw.SQLITE_FUNCTION:
        return f"function {second}() is not allowed here"
    if action == apsw.SQLITE_READ:
        return f"reading {first!r} is not allowed"
    if action in _WRITES:
        return f"{words} on {first!r} is not allowed here"
    return f"{words} {first or ''}".strip() + " is not allowed"


class Budget:
    """Bounds one call: `start` before it, `__call__` is the progress handler."""

    def __init__(self) -> None:
        self._ticks = 0
        self._memory = 0

    def start(self) -> None:
        """Begin a call with nothing used."""
        self._ticks = 0

    def __call__(self) -> bool:
        """Return True to interrupt the statement."""
        if not self._ticks:
            self._memory = apsw.memory_used()
        self._ticks += 1
        grown = apsw.memory_used() - self._memory
        return self._ticks > MAX_STEPS // _TICK or grown > MAX_MEMORY


def connect(guard: Guard, budget: Budget, name: str = ":memory:") -> apsw.Connection:
    """Open an in-memory database with `guard` and `budget` in force.

    Args:
        guard: asked about every statement.
        budget: asked while one runs.
        name: an empty one of its own by default, or the address of one in `memdb`.
    """
    connection = apsw.Connection(name, flags=_OPEN, statementcachesize=_STATEMENTS)
    connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
    connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
    connection.config(apsw.SQLITE_DBCONFIG_DQS_DML, 0)
    connection.config(apsw.SQLITE_DBCONFIG_DQS_DDL, 0)
    # Plans depend on the statement alone; otherwise binding a value may prepare it again (20 µs).
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    for limit, value in _LIMITS.items():
        connection.limit(limit, value)
    connection.execute(
        "PRAGMA foreign_keys = ON; PRAGMA temp_store = MEMORY; PRAGMA journal_mode = MEMORY; "
        "PRAGMA cache_spill = OFF"
    )
    connection.set_authorizer(guard)
    connection.set_progress_handler(budget, _TICK)
    for name, (function, count) in PURE.items():
        connection.create_scalar_function(name, function, count, deterministic=True)
    return connection


def add_sources(connection: apsw.Connection, clock: Clock, next_id: Callable[[Any], str]) -> None:
    """Give the connection its sources of time and identity: `now()`, `today()`, `next_id(prefix)`.

    Args:
        connection: of one environment.
        clock: its time; statements under way see one moment.
        next_id: gives out the next identifier of a prefix.
    """

    def now(*_: Any) -> str:
        return clock.now

    def today(*_: Any) -> str:
        return clock.now[:10]

    def identity(*arguments: Any) -> str:
        return next_id(arguments[0])

    connection.create_scalar_function("now", now, 0, deterministic=True)
    connection.create_scalar_function("today", today, 0, deterministic=True)
    connection.create_scalar_function(IDENTITY, identity, 1)


# --- looking at a statement without running it -------------------------------------------------

_NOTHING = re.compile(r"(\s|;|--[^\n]*(\n|$)|/\*.*?\*/)*", re.DOTALL)


class Refused(Exception):
    """A statement is not acceptable; the text says why, without where."""


class Look:
    """What SQLite says of one prepared statement."""

    __slots__ = ("columns", "parameters", "read", "readonly")

    def __init__(
        self,
        columns: tuple[tuple[str, str | None], ...],
        parameters: tuple[str, ...],
        readonly: bool,
        read: frozenset[str | None],
    ) -> None:
        self.columns = columns
        """Name and origin (`table.column`) of each result column."""
        self.parameters = parameters
        self.readonly = readonly
        self.read = read
        """Names of the tables it reads."""


class _Any(dict[str, None]):
    """Binds every named parameter to NULL."""

    def __missing__(self, key: str) -> None:
        return None


def look(connection: apsw.Connection, guard: Guard, sql: str, mode: Mode) -> Look:
    """Prepare `sql` under the rules of `mode` and stop before the first step.

    Raises:
        Refused: not exactly one statement, refused by the guard, or SQLite's own complaint.
    """
    start = _NOTHING.match(sql)
    verb = re.match(r"\w*", sql[start.end() if start else 0 :])
    if verb and verb[0] and verb[0].lower() not in _VERBS:
        # SQLite asks no authorizer about VACUUM and EXPLAIN.
        raise Refused(f"{verb[0].upper()} is not allowed")
    seen: list[tuple[str, Look]] = []

    def trace(cursor: apsw.Cursor, text: str, bindings: Any) -> bool:
        origins = tuple(
            (name, f"{table}.{column}" if table and column else None)
            for name, _, _, table, column in cursor.description_full
        )
        names = tuple(str(name) for name in cursor.bindings_names)
        read = frozenset(guard.read)
        seen.append((text, Look(origins, names, bool(cursor.is_readonly), read)))
        return False

    cursor = connection.cursor()
    cursor.exec_trace = trace
    before, guard.mode, guard.refused = guard.mode, mode, ""
    guard.read.clear()
    try:
        cursor.execute(sql, _Any(), can_cache=False)
    except apsw.ExecTraceAbort:
        pass
    except apsw.BindingsError as error:
        raise Refused("a parameter without a name: write :name") from error
    except (apsw.Error, ValueError, TypeError) as error:
        raise Refused(guard.refused or _clean(error)) from error
    finally:
        guard.mode = before
    if not seen or _NOTHING.fullmatch(seen[0][0]):
        raise Refused("an empty statement")
    text, found = seen[0]
    if not _NOTHING.fullmatch(sql[len(text) :]):
        raise Refused("more than one statement in one text")
    return found


def _clean(error: Exception) -> str:
    return str(error).split("\n")[0][:300]
