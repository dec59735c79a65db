"""Parquet (zstd), written by DuckDB from explicit column types: nothing is inferred."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import duckdb

from synth.core.errors import ToolloomError, os_error_in, storage_error
from synth.core.store import quiet
from synth.dataset import COLUMNS
from synth.exporters.openai import EXPORTER as OPENAI
from synth.exporters.openai import same


class ParquetExporter:
    """One row group per 2,048 rows; message keys that are absent are null."""

    suffix = ".parquet"
    encode = staticmethod(same)

    def write(self, rows: Iterable[dict[str, Any]], path: Path) -> int:
        """Write the rows; return how many.

        Raises:
            DiskFull: the old file, if any, is untouched.
        """
        lines = path.with_name(f".{path.name}.{os.getpid()}.jsonl")
        temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        try:
            count = OPENAI.write(rows, lines)
            with quiet(duckdb.connect()) as con:
                con.execute(_copy(), [str(lines), COLUMNS, str(temporary)])
            temporary.replace(path)
        except (OSError, duckdb.IOException) as error:
            raise _failed(error, path) from error
        finally:
            lines.unlink(missing_ok=True)
            temporary.unlink(missing_ok=True)
        return count

    def read(self, path: Path) -> Iterator[dict[str, Any]]:
        """Yield the conversations of a file."""
        with quiet(duckdb.connect()) as con:
            found = con.execute("SELECT messages, tools FROM read_parquet(?)", [str(path)])
            while rows := found.fetchmany(256):
                for messages, tools in rows:
                    yield {"messages": messages, "tools": tools}


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


EXPORTER = ParquetExporter()
