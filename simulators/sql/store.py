"""A database loaded with one seeded image, used for one episode after the other.

All an episode does happens in one transaction on top of the image, each writing call in a savepoint
of its own. So starting over is a ROLLBACK (3 µs, and no statement is prepared again).

What changes is written down as it happens, whole rows before and after (SQLite's pre-update hook,
4 µs a row). SQLite's own sessions hook into the same place, but asking one for its changes prepares
statements on every table concerned and reads every row it ever saw again: 75 to 400 µs.

Loading another image exchanges the pages beneath the connection (`pages`): some 10 µs, and prepared
statements stay. So few stores serve many seeds: whoever gives one back leaves it to the next.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import apsw

from simulators.sql.changes import Event, apply_changes, net
from simulators.sql.guard import Budget, Guard, Mode, add_sources, connect
from simulators.sql.identity import Counters
from simulators.sql.pages import Pages
from simulators.sql.tables import Table

_IDLE = 48
"""Stores kept for later."""


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
        self.budget = Budget()
        self._guard = Guard(frozenset(tables))
        self._pages = Pages()
        self.connection = connect(self._guard, self.budget, self._pages)
        add_sources(self.connection, clock, self.counters.next)
        self._events: list[Event] = []
        self._mark = 0
        self.connection.preupdate_hook(self._record)
        self._guard.mode = Mode.RUN

    def _record(self, update: apsw.PreUpdate) -> None:
        self._events.append((update.table_name, update.old, update.new))

    @contextmanager
    def _unguarded(self) -> Iterator[None]:
        self._guard.mode = Mode.ENGINE
        try:
            yield
        finally:
            self._guard.mode = Mode.RUN

    def load(self, seed: int, image: bytes) -> None:
        """Replace what is there by a seeded image."""
        self.seed = None
        with self._unguarded():
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")
        self._pages.exchange(image)
        self.seed = seed

    def start(self, highest: Mapping[str, tuple[int, int]]) -> None:
        """Start an episode on the loaded image.

        Args:
            highest: where `next_id` starts, see `identity`.
        """
        self._guard.mode = Mode.ENGINE
        if self.connection.in_transaction:
            self.connection.execute("ROLLBACK")
        self.connection.execute("BEGIN")
        self._guard.mode = Mode.RUN
        self._events.clear()
        self.counters.start(highest)

    def savepoint(self) -> None:
        """Begin a call that may write."""
        self._mark = len(self._events)
        self._guard.mode = Mode.ENGINE
        self.connection.execute("SAVEPOINT call")
        self._guard.mode = Mode.RUN

    def release(self) -> None:
        """Keep what the call did."""
        self._guard.mode = Mode.ENGINE
        self.connection.execute("RELEASE call")
        self._guard.mode = Mode.RUN

    def roll_back(self) -> bool:
        """Undo what the call did; False if SQLite has undone the whole episode already."""
        if not self.connection.in_transaction:
            return False
        del self._events[self._mark :]
        with self._unguarded():
            self.connection.execute("ROLLBACK TO call; RELEASE call")
        return True

    def changes(self) -> list[Event]:
        """Return the net changes of the episode."""
        return net(self._events, self.tables)

    def apply(self, changes: Sequence[Event]) -> None:
        """Make changes recorded on the same image."""
        with self._unguarded():
            apply_changes(self.connection, changes, self.tables)

    def close(self) -> None:
        """Give the memory back."""
        self.connection.close(force=True)


class Stores:
    """Idle stores of one application, the longest unused first."""

    def __init__(self, tables: Mapping[str, Table], clock: str) -> None:
        self._facts: Any = (tables, clock)
        self._idle: list[Store] = []

    def take(self, seed: int) -> Store:
        """Return a store: one that holds `seed`, or the last one used, or a new one."""
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
