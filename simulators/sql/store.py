"""A database that seeded images are put under, one episode after the other.

All an episode does happens in one transaction on top of the image, each writing call in a savepoint
of its own. So starting over is a ROLLBACK (3 µs, and no statement is prepared again).

The connection reads its pages from a piece of memory (SQLite's own `memdb`) that we write to beside
it. All images of an application have the same schema, so another image (3 µs) leaves the prepared
statements as they are; after deserialising one (40 µs) each is prepared anew on its next use.

What changes is written down as it happens, whole rows before and after (SQLite's pre-update hook,
4 µs a row). SQLite's own sessions hook into the same place, but asking one for its changes prepares
statements on every table concerned and reads every row it ever saw again: 75 to 400 µs.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import apsw

from simulators.sql.changes import Event, apply_changes, net, own
from simulators.sql.clock import Clock
from simulators.sql.guard import Budget, Guard, Mode, add_sources, connect
from simulators.sql.identity import Counters
from simulators.sql.tables import Table

Row = tuple[str, Any]
"""A table, and the key of one row of it."""
_IDLE = 48
"""Stores kept for later."""
_OPEN = (apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_MAIN_DB, 0)
_CHANGED = (24, 92)
"""Where the header counts changes (twice): SQLite reads everything again when the count differs."""
_names = itertools.count(1)
_ENGINE, _RUN = Mode.ENGINE, Mode.RUN  # asking an enumeration for a member takes a while


class Store:
    """One connection. `seed` names the image it holds, None before `load`.

    Args:
        tables: of the application.
        clock: the application's date and time.
    """

    def __init__(self, tables: Mapping[str, Table], clock: str) -> None:
        self.tables = tables
        self.seed: int | None = None
        self.counters = Counters()
        self.clock = Clock(clock)
        self.budget = Budget()
        self._guard = Guard(frozenset(tables))
        name = f"/{next(_names)}"
        self.connection = connect(self._guard, self.budget, f"file:{name}?vfs=memdb")
        self.cursor = self.connection.cursor()
        """For the statements of calls, one at a time."""
        self._file = apsw.VFSFile("memdb", name, list(_OPEN))
        self._loads = 0
        add_sources(self.connection, self.clock, self.counters.next)
        self._events: list[Event] = []
        self._turns: list[int] = []
        """Where in `_events` something happens by itself, and where calls go on, in turn."""
        self._mark = 0
        self._touched = False
        """Whether anything may have been written since `start`."""
        self.connection.preupdate_hook(self._record)
        self._guard.mode = _RUN

    def _record(self, update: apsw.PreUpdate) -> None:
        self._events.append((update.table_name, update.old, update.new))

    @contextmanager
    def _unguarded(self) -> Iterator[None]:
        self._guard.mode = _ENGINE
        try:
            yield
        finally:
            self._guard.mode = _RUN

    def load(self, seed: int, image: bytes) -> None:
        """Replace what is there by a seeded image."""
        self.seed = None
        self._roll_back_all()
        self._loads += 1
        count = self._loads.to_bytes(4, "big")
        self._file.xWrite(image, 0)
        self._file.xTruncate(len(image))
        for place in _CHANGED:
            self._file.xWrite(count, place)
        self.seed = seed

    def _roll_back_all(self) -> None:
        if self.connection.in_transaction:
            with self._unguarded():
                self.cursor.execute("ROLLBACK")

    def start(self, highest: Mapping[str, tuple[int, int]]) -> None:
        """Start an episode on the loaded image.

        Args:
            highest: where `next_id` starts, see `identity`.
        """
        if self._touched or not self.connection.in_transaction:
            self._roll_back_all()
            self._guard.mode = _ENGINE
            self.cursor.execute("BEGIN")
            self._guard.mode = _RUN
            self._events.clear()
            self._turns.clear()
            self._touched = False
        self.counters.start(highest)
        self.clock.wind(0)

    def savepoint(self, *, by_itself: bool = False) -> None:
        """Begin a call that may write, or something that happens by itself."""
        self._mark = len(self._events)
        self._turn(by_itself)
        self._touched = True
        self._guard.mode = _ENGINE
        self.cursor.execute("SAVEPOINT call")
        self._guard.mode = _RUN

    def release(self) -> None:
        """Keep what the call did."""
        self._guard.mode = _ENGINE
        self.cursor.execute("RELEASE call")
        self._guard.mode = _RUN

    def roll_back(self) -> bool:
        """Undo what the call did; False if SQLite has undone the whole episode already."""
        if not self.connection.in_transaction:
            return False
        del self._events[self._mark :]
        while self._turns and self._turns[-1] >= self._mark:
            self._turns.pop()
        with self._unguarded():
            self.cursor.execute("ROLLBACK TO call; RELEASE call")
        return True

    def _turn(self, by_itself: bool) -> None:
        """Note who writes from here on."""
        if len(self._turns) % 2 != by_itself:
            self._turns.append(len(self._events))

    def parts(self) -> list[list[Event]]:
        """Return the net changes by calls, by what happened by itself, by calls again, and so on.

        They are in order; those of the whole episode are what all parts add up to.
        """
        places = [0, *self._turns, len(self._events)]
        return [
            net(self._events[start:end], self.tables) for start, end in itertools.pairwise(places)
        ]

    def rows(self) -> tuple[set[Row], set[Row]]:
        """Return the rows that calls wrote, and those that something else wrote, undone or not."""
        found: tuple[set[Row], set[Row]] = (set(), set())
        places = [0, *self._turns, len(self._events)]
        for number, (start, end) in enumerate(itertools.pairwise(places)):
            for table, old, new in self._events[start:end]:
                found[number % 2].add((table, (old or new or ())[self.tables[table].key]))
        return found

    def changes(self) -> list[Event]:
        """Return the net changes that calls made."""
        if not self._turns:
            return net(self._events, self.tables)
        return own(self.parts()[::2], self.tables)

    def apply(self, parts: Sequence[Sequence[Event]]) -> None:
        """Make changes again that were recorded on the same image, as `parts` gave them."""
        self._touched = True
        with self._unguarded():
            for number, changes in enumerate(parts):
                self._turn(number % 2 == 1)
                apply_changes(self.connection, changes, self.tables)

    def close(self) -> None:
        """Give the memory back."""
        self.connection.close(force=True)
        self._file.xClose()


class Stores:
    """Idle stores of one application, the longest unused first."""

    def __init__(self, tables: Mapping[str, Table], clock: str) -> None:
        self._facts: Any = (tables, clock)
        self._idle: list[Store] = []

    def take(self, seed: int) -> Store:
        """Return a store: one that holds `seed`, or the one used last, or a new one."""
        for place in range(len(self._idle) - 1, -1, -1):
            if self._idle[place].seed == seed:
                return self._idle.pop(place)
        return self._idle.pop() if self._idle else Store(*self._facts)

    def give_back(self, store: Store) -> None:
        """Keep a store for later, or close it if there are enough."""
        if store.seed is None or len(self._idle) >= _IDLE:
            store.close()
        else:
            self._idle.append(store)
