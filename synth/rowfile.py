"""Rows of an append-only file: looked up by place, and not in memory.

A run of ten thousand episodes is a few hundred megabytes as objects. Only the places of rows in the
file are known; a row is read again where it is needed, which is hardly ever before the run ends.
"""

from __future__ import annotations

import os
import zlib
from array import array
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Generic, TypeVar

from pydantic import ValidationError

from synth.core import jsonl
from synth.core.errors import BadRow
from synth.core.types import Frozen

Row = TypeVar("Row", bound=Frozen)
_SEAL = b'{"crc":"'
_HEAD = len(_SEAL) + 10


def sealed(row: Frozen) -> bytes:
    """Return a row as JSON whose first member is the checksum of the others."""
    data = row.model_dump_json().encode()
    return b'{"crc":"%08x",' % zlib.crc32(data) + data[1:]


def read_rows(path: Path, model: type[Row]) -> Iterator[Row]:
    """Yield the rows of a file.

    Raises:
        BadRow: a row is damaged, or does not validate; names file and line.
    """
    for number, line in jsonl.lines(path):
        yield _row(line, model, path, number)


def _row(line: bytes, model: type[Row], path: Path, number: int) -> Row:
    """Return the row of a line. One without a checksum, as people write it, is taken as it is."""
    where = f"{path}:{number}"
    if line.startswith(_SEAL):
        data = b"{" + line[_HEAD:].rstrip(b"\n")
        if line[:_HEAD] != b'{"crc":"%08x",' % zlib.crc32(data):
            what = "the row is damaged: its checksum differs"
            raise BadRow(what, where=where, remedy=again(path))
        line = data
    try:
        return model.model_validate_json(line)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        what = f"{place}: {first['msg']}" if place else first["msg"]
        raise BadRow(what, where=where, remedy=again(path)) from error


def again(path: Path) -> str:
    """Say what to do about a row: each file is made again from the others and the configuration."""
    more = " and all after it" if path.name.startswith("plan") else ""
    return f"remove that line{more}, and repeat the command that made the run: it makes them again"


class RowFile(Generic[Row]):
    """One file of rows, which can be appended to until it is closed, and read ever after.

    Args:
        path: the file; made if absent, unless it is only read. A torn last line is cut off.
        model: of its rows.
        seen: called with each row that is there, and its place.
        writable: False for the file of another process.

    Raises:
        BadRow: a row is damaged; names file and line.
    """

    def __init__(
        self,
        path: Path,
        model: type[Row],
        *,
        seen: Callable[[Row, int], None] = lambda row, place: None,
        writable: bool = True,
    ) -> None:
        self.path, self._model = path, model
        self._starts = array("Q")
        self._end = 0
        self._reader = -1
        for number, line in jsonl.lines(path):
            row = _row(line, model, path, number)
            seen(row, self._add(len(line)))
        self._file = jsonl.Appender(path) if writable else None

    def _add(self, size: int) -> int:
        self._starts.append(self._end)
        self._end += size
        return len(self._starts) - 1

    def append(self, row: Row) -> int:
        """Append a row; return its place. It is on disk when this returns.

        Raises:
            DiskFull: nothing of it remains in the file.
        """
        assert self._file is not None
        line = sealed(row)
        self._file.append(line)
        return self._add(len(line) + 1)

    def __len__(self) -> int:
        """Return how many rows there are."""
        return len(self._starts)

    def __getitem__(self, place: int) -> Row:
        """Return one row."""
        if self._reader < 0:
            self._reader = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        start = self._starts[place]
        end = self._starts[place + 1] if place + 1 < len(self) else self._end
        line = os.pread(self._reader, end - start, start)
        return _row(line, self._model, self.path, place + 1)

    def __iter__(self) -> Iterator[Row]:
        """Yield all rows that there are now."""
        for number, line in islice(jsonl.lines(self.path), len(self)):
            yield _row(line, self._model, self.path, number)

    def close(self) -> None:
        """Sync and close. Harmless when called twice."""
        if self._file is not None:
            self._file.close()
        if self._reader >= 0:
            os.close(self._reader)
            self._reader = -1
