"""JSON Lines, whatever a line looks like."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson

from synth.core import jsonl
from synth.core.jsonl import write_atomic

Row = dict[str, Any]


class Lines:
    """One row a line.

    Args:
        suffix: of the file.
        encode: a row -> its line; raises `Unwritable` where the format has no room for it.
        decode: a line -> the conversation, as `synth.conversation.told` takes it.
    """

    def __init__(
        self,
        suffix: str,
        encode: Callable[[Row], Row],
        decode: Callable[[Mapping[str, Any]], Row],
    ) -> None:
        self.suffix, self.encode, self.decode = suffix, encode, decode

    def write(self, rows: Iterable[Row], path: Path) -> int:
        """Write encoded rows; return how many.

        Raises:
            DiskFull: the old file, if any, is untouched.
        """
        lines = [orjson.dumps(row) for row in rows]
        write_atomic(path, b"".join(line + b"\n" for line in lines))
        return len(lines)

    def read(self, path: Path) -> Iterator[Row]:
        """Yield the conversations of a file."""
        for _, line in jsonl.lines(path):
            yield self.decode(orjson.loads(line))


def about(row: Row) -> Row:
    """Return the columns of a row that say where it came from."""
    return {name: value for name, value in row.items() if name not in ("messages", "tools")}
