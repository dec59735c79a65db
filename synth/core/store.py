"""The workspace and its registry: DuckDB, opened briefly.

A workspace is a folder: `registry.duckdb`, `runs/`, `checkpoints/`, `cache/`. It appears when
something is first written; nothing initialises it. The files in it are the truth and the database
is their index. DuckDB gives one process the whole file: while it writes, nobody else can even
read. So nothing holds the database during long work: `write` is one short transaction, `read`
opens read-only and closes, and a lock held elsewhere is waited for briefly, then named.

The schema is SQL files in `migrations/`, applied in order and all at once, then a checkpoint.
"""

from __future__ import annotations

import itertools
import os
import re
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import duckdb

from synth.core.errors import (
    DiskFull,
    StoreDamaged,
    StoreLocked,
    ToolloomError,
    WrongWorkspace,
    os_error_in,
    storage_error,
)

MIGRATIONS = Path(__file__).with_name("migrations")
WAIT_S = 5.0
"""How long to wait for a lock held elsewhere."""
CHUNK_ROWS = 2000
"""Rows handed over at once by `insert`; one at a time is a hundred times slower."""

_DAMAGE = re.compile(
    "not a valid DuckDB database|^Corrupt (database|WAL) file|while replaying WAL file|"
    "Could not read enough bytes from file"
)
_NEWER_FILE = re.compile(r"newer version of DuckDB|version number [\"']?\d+.*can only read")
_FULL = re.compile(r"No space left|Disk quota|File too large|max_temp_directory_size")
_LOCK = re.compile(r"Could not set lock")
_PID = re.compile(r"\(PID (\d+)\)")
_SAME_PROCESS = "different configuration than existing connections"
_SURROGATES = re.compile("[\ud800-\udfff]")


class Workspace:
    """A workspace folder. Cheap to make; touches nothing until used.

    Args:
        path: the folder; made on the first write.
        wait_s: seconds to wait for a lock held by another process.
    """

    def __init__(self, path: Path | str, *, wait_s: float = WAIT_S) -> None:
        self.path = Path(path).resolve()
        self.database = self.path / "registry.duckdb"
        self.wait_s = wait_s

    @property
    def runs(self) -> Path:
        """Return the folder of generation runs."""
        return self.path / "runs"

    @property
    def checkpoints(self) -> Path:
        """Return the folder of trained models."""
        return self.path / "checkpoints"

    @property
    def cache(self) -> Path:
        """Return the folder of what can be made again: installed servers, crawl ledgers."""
        return self.path / "cache"

    @contextmanager
    def write(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """Give a connection inside one transaction: all of the block is stored, or nothing.

        Raises:
            StoreLocked: another process has the registry open; names it.
            StoreDamaged: the file does not open; it was moved aside.
            WrongWorkspace: a newer toolloom wrote it.
            DiskFull: nothing of the block remains.
        """
        with _turn(self.database, self.wait_s), self._connection(read_only=False) as con:
            _migrate(con, self.database)
            con.begin()
            try:
                yield con
                con.commit()
            except BaseException:
                _rollback(con)
                raise

    @contextmanager
    def read(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """Give a read-only connection that can reach no file but the registry.

        Raises:
            StoreLocked, StoreDamaged, WrongWorkspace: as `write`.
        """
        if _is_empty(self.database):
            with self.write():  # an empty registry answers like any other
                pass
        with self._connection(read_only=True) as con:
            current = _level(con, self.database) == len(_migrations())
            if current:
                yield con
        if not current:
            with self.write():
                pass
            with self._connection(read_only=True) as con:
                yield con

    @contextmanager
    def _connection(self, *, read_only: bool) -> Iterator[duckdb.DuckDBPyConnection]:
        try:
            con = self._open(read_only)
            try:
                yield con
            finally:
                con.close()
        except duckdb.Error as error:
            raise _translated(error, self.database) from error

    def _open(self, read_only: bool) -> duckdb.DuckDBPyConnection:
        try:
            if not read_only:
                self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise storage_error(error, self.path) from error
        try:
            return _connect(self.database, read_only, self.wait_s)
        except duckdb.IOException:  # the lock is free, so nobody is creating it just now
            if read_only or not _is_empty(self.database) or not self.database.exists():
                raise
        self.database.unlink()  # a full disk ended its creation; it holds nothing
        return _connect(self.database, read_only, self.wait_s)


def _is_empty(database: Path) -> bool:
    return not database.exists() or database.stat().st_size == 0


def insert(
    con: duckdb.DuckDBPyConnection,
    table: str,
    rows: Iterable[Mapping[str, Any]],
    *,
    conflict: str = "",
) -> int:
    """Insert many rows; returns how many were given.

    Args:
        con: a connection from `Workspace.write`.
        table: the table's name.
        rows: mappings with the same keys, the columns. Strings are cleaned of lone surrogates,
            which DuckDB cannot hold.
        conflict: `nothing` keeps the old row, `replace` the new one; default: an error.
    """
    total = 0
    source = iter(rows)
    while chunk := list(itertools.islice(source, CHUNK_ROWS)):
        columns = list(chunk[0])
        if not conflict and hasattr(con, "appender"):  # DuckDB 2: twice as fast
            appender = con.appender(table, columns=columns)
            appender.append_rows([tuple(_clean(row[name]) for name in columns) for row in chunk])
            appender.flush()
        else:
            values = [[_clean(row[name]) for row in chunk] for name in columns]
            con.execute(_statement(table, columns, conflict), values)
        total += len(chunk)
    return total


def insert_rows(
    con: duckdb.DuckDBPyConnection,
    table: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[Any]],
) -> None:
    """Insert very many rows of numbers and clean text; a third of the time that `insert` takes.

    Args:
        con: a connection from `Workspace.write`.
        table: the table's name.
        columns: names of the columns.
        rows: one value for each column. Strings without lone surrogates, which DuckDB cannot hold.
    """
    for start in range(0, len(rows), 10 * CHUNK_ROWS):
        chunk = rows[start : start + 10 * CHUNK_ROWS]
        if hasattr(con, "appender"):  # DuckDB 2
            appender = con.appender(table, columns=list(columns))
            appender.append_rows(chunk)
            appender.flush()
        else:
            con.execute(_statement(table, columns, ""), [list(c) for c in zip(*chunk, strict=True)])


def _statement(table: str, columns: Sequence[str], conflict: str) -> str:
    verb = "INSERT OR REPLACE INTO" if conflict == "replace" else "INSERT INTO"
    names = ", ".join(f'"{name}"' for name in columns)
    unnested = ", ".join(f"unnest(${place})" for place in range(1, len(columns) + 1))
    tail = " ON CONFLICT DO NOTHING" if conflict == "nothing" else ""
    return f"{verb} {table} ({names}) SELECT {unnested}{tail}"


def _clean(value: Any) -> Any:
    if isinstance(value, str) and not value.isascii():
        return _SURROGATES.sub("\ufffd", value)
    return value


def now() -> datetime:
    """Return the time as the registry stores it: UTC without a zone, whole milliseconds."""
    time_ = datetime.now(UTC).replace(tzinfo=None)
    return time_.replace(microsecond=time_.microsecond // 1000 * 1000)


# --- opening ---------------------------------------------------------------------------------

_turns: dict[Path, threading.Lock] = {}


@contextmanager
def _turn(database: Path, wait_s: float) -> Iterator[None]:
    """Let one thread of this process write at a time; DuckDB would let them conflict."""
    lock = _turns.setdefault(database, threading.Lock())
    if not lock.acquire(timeout=wait_s):
        raise _locked_by(os.getpid(), database)
    try:
        yield
    finally:
        lock.release()


def quiet(con: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    """Let long statements draw no bar on stdout, where results are."""
    con.execute("SET enable_progress_bar = false")
    return con


def _connect(database: Path, read_only: bool, wait_s: float) -> duckdb.DuckDBPyConnection:
    config: dict[str, str | bool | int | float | list[str]] = {
        "autoinstall_known_extensions": False
    }
    if read_only:
        config |= {"enable_external_access": False}
    deadline = time.monotonic() + wait_s
    pause = 0.02
    while True:
        try:
            return quiet(duckdb.connect(str(database), read_only=read_only, config=config))
        except duckdb.Error as error:
            holder = _holder(str(error))
            if holder is None:
                raise
            if time.monotonic() + pause > deadline:
                raise _locked_by(holder, database) from error
        time.sleep(pause)
        pause = min(pause * 1.5, 0.5)


def _holder(message: str) -> int | None:
    """Return the process that holds the lock (0: unknown), or None for another error."""
    if _SAME_PROCESS in message:
        return os.getpid()
    if not _LOCK.search(message):
        return None
    found = _PID.search(message)
    return int(found.group(1)) if found else 0


def _locked_by(pid: int, database: Path) -> StoreLocked:
    if pid == os.getpid():
        return StoreLocked(
            "the registry is already open in this process",
            where=str(database),
            remedy="leave the other `with workspace.read()` or `write()` block first",
        )
    who = f"process {pid} ({_command(pid)})" if pid else "another process"
    stop = f", or end it: kill {pid}" if pid else ""
    return StoreLocked(
        f"the registry is open in {who}", where=str(database), remedy=f"wait until it is done{stop}"
    )


def _command(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return "command unknown"
    return " ".join(words).strip()[:200] or "command unknown"


# --- migrations ------------------------------------------------------------------------------


@cache
def _migrations() -> tuple[str, ...]:
    """Return the SQL of each migration, in order."""
    files = sorted(MIGRATIONS.glob("*.sql"))
    for number, file in enumerate(files, 1):
        if int(file.name[:4]) != number:
            raise ToolloomError("migrations are not numbered 0001, 0002, …", where=str(file))
    return tuple(file.read_text(encoding="utf-8") for file in files)


def _level(con: duckdb.DuckDBPyConnection, database: Path) -> int:
    try:  # asking the catalogue whether the table exists would cost 30 ms more
        level = con.execute("SELECT coalesce(max(number), 0) FROM migrations").fetchall()[0][0]
    except duckdb.CatalogException:
        return 0
    if level > len(_migrations()):
        raise WrongWorkspace(
            f"the registry has schema {level}, this toolloom knows {len(_migrations())}",
            where=str(database),
            remedy="use the newer toolloom that wrote it, or another --workspace",
        )
    return int(level)


def _migrate(con: duckdb.DuckDBPyConnection, database: Path) -> None:
    level = _level(con, database)
    if level == len(_migrations()):
        return
    con.execute(
        "CREATE TABLE IF NOT EXISTS migrations (number INTEGER PRIMARY KEY, applied TIMESTAMP)"
    )
    con.begin()
    try:
        for number, sql in enumerate(_migrations()[level:], level + 1):
            con.execute(sql)
            con.execute("INSERT INTO migrations VALUES (?, ?)", [number, now()])
        con.commit()
    except BaseException:
        _rollback(con)
        raise
    con.execute("CHECKPOINT")


def _rollback(con: duckdb.DuckDBPyConnection) -> None:
    try:
        con.rollback()
    except duckdb.Error:
        return  # the failure already ended the transaction, or the whole connection


# --- failures --------------------------------------------------------------------------------


def _translated(error: duckdb.Error, database: Path) -> Exception:
    """Return what a user understands; an error of the caller's own SQL stays as it is."""
    message, where = str(error), str(database)
    if _FULL.search(message):
        return DiskFull(
            "no space left on the disk; nothing of this step was stored",
            where=where,
            remedy="free some space and repeat",
        )
    refused = os_error_in(message) if database.name in message else None
    if refused is not None:  # of a commit too, which is no IOException
        return storage_error(refused, database)
    if _NEWER_FILE.search(message):
        return WrongWorkspace(
            "a newer DuckDB wrote the registry", where=where, remedy="pip install -U duckdb"
        )
    # Checksum errors have the base class itself; `SELECT error('Corrupt …')` has another one.
    named = isinstance(error, duckdb.IOException) and database.name in message
    of_the_file = named or type(error) is duckdb.Error
    if of_the_file and _DAMAGE.search(message):
        kept = _set_aside(database)
        return StoreDamaged(
            f"the registry does not open: {message.splitlines()[0][:200]}",
            where=where,
            remedy=f"it was kept as {kept.name}; the files of the runs are complete: repeat "
            "crawl and generate commands, and they are entered again",
        )
    return error


def _set_aside(database: Path) -> Path:
    for number in itertools.count(1):
        kept = database.with_name(f"{database.name}.damaged-{number}")
        if not kept.exists():
            break
    for suffix in ("", ".wal"):
        file = database.with_name(database.name + suffix)
        if file.exists():
            file.rename(kept.with_name(kept.name + suffix))
    return kept
