"""Reads a file that a user named: bounded, and with one clear line where it cannot be read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from synth.core.errors import BadInput, why_unreadable

MOST = 16 << 20
"""Bytes of a file; nothing that people write by hand is larger, and devices have no end."""


def read_input(path: Path, *, kind: type[BadInput] = BadInput, most: int = MOST) -> bytes:
    """Return the content of a file.

    Args:
        path: as the user wrote it.
        kind: the error to raise.
        most: bytes it may have.

    Raises:
        BadInput: (`kind`) there is no such file, it is a folder, unreadable or too large.
    """
    try:
        with path.open("rb") as file:
            data = file.read(most + 1)
    except OSError as error:
        what, remedy = why_unreadable(error)
        raise kind(what, where=str(path), remedy=remedy) from error
    except ValueError as error:  # a NUL in the path
        raise kind(str(error), where=repr(str(path)), remedy="check the path") from error
    if len(data) > most:
        what = f"more than {most >> 20} MiB"
        raise kind(what, where=str(path), remedy="name the file that was meant")
    return data


def read_text_input(path: Path, *, kind: type[BadInput] = BadInput, most: int = MOST) -> str:
    """Return the content of a text file.

    Raises:
        BadInput: (`kind`) as `read_input`, or it is no text in UTF-8.
    """
    data = read_input(path, kind=kind, most=most)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        what, remedy = why_unreadable(error)
        raise kind(what, where=str(path), remedy=remedy) from error
    if "\0" in text:
        raise kind("not a text file", where=str(path), remedy="name the file that was meant")
    return text


def json_lines(path: Path, *, kind: type[BadInput] = BadInput) -> Iterator[tuple[int, Any]]:
    """Yield number and value of each line of JSON Lines that somebody else wrote.

    A last line without an end counts, other than in files of our own, where it is one that a kill
    cut off.

    Raises:
        BadInput: (`kind`) the file cannot be read, or a line is no JSON; names file and line.
    """
    for number, line in enumerate(read_input(path, kind=kind, most=1 << 30).splitlines(), 1):
        if line.strip():
            try:
                yield number, orjson.loads(line)
            except orjson.JSONDecodeError as error:
                where = f"{path}:{number}"
                raise kind(f"not JSON: {error}", where=where, remedy="mend that line") from error
