"""An application, compiled once: tables, programs, seeded images.

`Engine.environment()` gives as many independent environments as wanted; they share what is
compiled. SQL of the application, and SQL of our own derivation, passes the guard of `guard`.
"""

from __future__ import annotations

import copy
import random
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from simulators.sql.clock import Clock
from simulators.sql.compile import Compiler
from simulators.sql.environment import SqlEnvironment
from simulators.sql.generators import Kinds, Row
from simulators.sql.guard import Budget, Guard, Mode, add_sources, connect
from simulators.sql.images import Images
from simulators.sql.program import Naming, Program, ResultColumn
from simulators.sql.references import check_references
from simulators.sql.seeding import Seeded
from simulators.sql.store import Stores
from simulators.sql.tables import read_tables
from synth.core.application import Application, Generator
from synth.core.types import Scalar

_QUERIES = 2_000


@dataclass(frozen=True, slots=True)
class Reader:
    """A vetted read: its columns, ready to run."""

    columns: tuple[ResultColumn, ...]
    naming: Naming


class Engine:
    """Everything about an application that does not change between episodes.

    Args:
        application: what to run.
        folder: where seeded images outlive the process; None keeps none.

    Raises:
        BadApplication: a statement does not prepare, a name does not exist, a rule of the format is
            broken; `where` is the application and the path inside it.
    """

    def __init__(self, application: Application, folder: Path | None = None) -> None:
        self.application = application
        self.tables, self.empty = read_tables(application)
        guard = Guard(frozenset(self.tables))
        connection = connect(guard, Budget())
        add_sources(connection, Clock(application.clock), str)
        connection.deserialize("main", self.empty)
        self.compiler = Compiler(application, self.tables, connection, guard)
        check_references(self.compiler)
        self.every: dict[str, Program] = {
            name: self.compiler.program(name) for name in application.tools
        }
        """Tool -> program, whoever holds it."""
        self.programs = {name: self.every[name] for name in application.specs}
        self.user_programs = {name: self.every[name] for name in application.user_specs}
        self.events = {name: self.compiler.event(name) for name in application.events}
        """What happens by itself."""
        self.ignored: dict[str, frozenset[str]] = {
            table: frozenset(
                column.split(".")[1]
                for column in application.compare
                if column.startswith(f"{table}.")
            )
            for table in self.tables
        }
        self.stores = Stores(self.tables, application.clock)
        self._images = Images(self.compiler, self.empty, folder)
        self._readers: OrderedDict[str, Reader] = OrderedDict()

    @property
    def results(self) -> dict[str, tuple[ResultColumn, ...]]:
        """Result columns of each tool; none for a tool without a return step."""
        return {
            name: program.result.columns if program.result else ()
            for name, program in self.every.items()
        }

    def image(self, seed: int) -> bytes:
        """Return the seeded database, serialised: same seed, same bytes in any process.

        Raises:
            BadApplication: the seed rules cannot be met.
        """
        return self.seeded(seed).image

    def seeded(self, seed: int) -> Seeded:
        """Return the seeded image with the highest identifier of each prefix; raises as `image`."""
        return self._images.seeded(seed)

    def columns(
        self, sql: str, parameters: Iterable[str] | None = None
    ) -> list[tuple[str, str | None]]:
        """Return name and origin (`table.column`) of each column of a SELECT, without running it.

        Args:
            sql: one reading statement.
            parameters: the names it may use; None allows any.

        Raises:
            BadApplication: the statement does not prepare, writes, or uses another parameter.
        """
        found = self.compiler.look(sql, Mode.READ, "query", parameters)
        return [(c.name, c.origin) for c in self.compiler.result_columns(found)]

    def reader(self, sql: str) -> Reader:
        """Vet a read for `SqlEnvironment.query`; remembered by its text.

        Raises:
            BadApplication: it does not prepare, or it writes.
        """
        found = self._readers.get(sql)
        if found is None:
            looked = self.compiler.look(sql, Mode.READ, "query")
            columns = self.compiler.result_columns(looked)
            found = self._readers[sql] = Reader(columns, Naming(columns))
            if len(self._readers) > _QUERIES:
                self._readers.popitem(last=False)
        return found

    def generate(self, generator: Generator, rng: random.Random) -> Scalar:
        """Make one new value, as `generate:` of a parameter asks for.

        Args:
            generator: a kind that needs no other row.
            rng: where chance comes from.

        Raises:
            BadApplication: the argument is wrong, or the kind needs rows (parent, ref, sql, …).
        """
        if generator.null and rng.random() < generator.null:
            return None
        try:
            rule = Kinds(self.application.clock, rng).rule(generator)
        except ValueError as error:
            raise self.compiler.fail("generate", str(error)) from error
        return rule.make(Row(rng.randrange(100, 1000), rng.random()))

    def speaking(self, language: str) -> Engine:
        """Return the same engine, all that is compiled shared, with words of another language."""
        other = copy.copy(self)
        other.application = self.application.speaking(language)
        return other

    def environment(self) -> SqlEnvironment:
        """Return a new environment; `reset` comes first."""
        return SqlEnvironment(self)
