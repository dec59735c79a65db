"""Parquet (zstd), written by DuckDB from explicit column types: nothing is inferred."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import duckdb

from synth.core.errors import ToolloomError, os_error_in, storage_error
from synth.core.store import quiet
from synth.dataset import COLUMNS
from synth.exporters._lines import Row
from synth.exporters.openai import EXPORTER as OPENAI
from synth.exporters.openai import same


class ParquetExporter:
    """One row group per 2,048 rows; message keys that are absent are null.

    Args:
        suffix: of the file.
        columns: name -> SQL type, in the order written.
        encode: a row -> its columns; raises `Unwritable` where the format has no room for it.
        decode: the columns -> the conversation, as `synth.conversation.told` takes it.
    """

    def __init__(
        self,
        suffix: str,
        columns: Mapping[str, str],
        encode: Callable[[Row], Row],
        decode: Callable[[Mapping[str, Any]], Row],
    ) -> None:
        self.suffix, self.encode, self.decode = suffix, encode, decode
        self._columns = dict(columns)

    def write(self, rows: Iterable[Row], path: Path) -> int:
        """Write the rows; return how many.

        Raises:
            DiskFull: the old file, if any, is untouched.
        """
        lines = path.with_name(f".{path.name}.{os.getpid()}.jsonl")
        temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        try:
            count = OPENAI.write(rows, lines)
            with quiet(duckdb.connect()) as con:
                con.execute(_copy(), [str(lines), self._columns, str(temporary)])
            temporary.replace(path)
        except (OSError, duckdb.IOException) as error:
            raise _failed(error, path) from error
        finally:
            lines.unlink(missing_ok=True)
            temporary.unlink(missing_ok=True)
        return count

    def read(self, path: Path) -> Iterator[Row]:
        """Yield the conversations of a file."""
        wanted = [name for name in ("messages", "tools") if name in self._columns]
        with quiet(duckdb.connect()) as con:
            found = con.execute(f"SELECT {', '.join(wanted)} FROM read_parquet(?)", [str(path)])
            while rows := found.fetchmany(256):
                for row in rows:
                    yield self.decode(dict(zip(wanted, row, strict=True)))


def _failed(error: OSError | duckdb.Error, path: Path) -> ToolloomError:
    if isinstance(error, duckdb.Error):  # it says why in words only
        line = str(error).splitlines()[0]
        error = os_error_in(str(error)) or OSError(errno.EIO, line)
    return storage_error(error, path)


def _copy() -> str:
    return (
        "COPY (SELECT * FROM read_json(?, columns = ?, format = 'newline_delimited')) TO ? "
        "(FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE 2048)"
    )


EXPORTER = ParquetExporter(".parquet", COLUMNS, same, same)
