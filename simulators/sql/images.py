"""Seeded images: made when wanted, remembered, and kept on disk where there is a folder for them.

A file is named after all it follows from: the application, the seed, the code and word lists that
make images, and SQLite's version. So nothing has to be told when one of them changes. A damaged
file is made again.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from functools import cache
from pathlib import Path

import apsw
import orjson

from simulators.sql.compile import Compiler
from simulators.sql.seeding import Seeded, seed_image
from synth.core.canonical import content_key
from synth.core.jsonl import write_atomic

_KEPT = 64
"""Images in memory."""
_SUM = 16
"""Bytes of the checksum at the start of a file."""


class Images:
    """The images of one application.

    Args:
        compiler: of the application.
        empty: the serialised database with empty tables.
        folder: where images outlive the process; None keeps none.
    """

    def __init__(self, compiler: Compiler, empty: bytes, folder: Path | None) -> None:
        self._compiler, self._empty, self._folder = compiler, empty, folder
        self._kept: OrderedDict[int, Seeded] = OrderedDict()

    def seeded(self, seed: int) -> Seeded:
        """Return the image of a seed.

        Raises:
            BadApplication: the seed rules cannot be met.
        """
        found = self._kept.get(seed)
        if found is None:
            found = self._kept[seed] = self._made(seed)
            if len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        else:
            self._kept.move_to_end(seed)
        return found

    def _made(self, seed: int) -> Seeded:
        if self._folder is None:
            return seed_image(self._compiler, self._empty, seed)
        key = content_key([_version(), self._compiler.application.key, seed])
        path = self._folder / f"{key}.image"
        found = _read(path)
        if found is None:
            found = seed_image(self._compiler, self._empty, seed)
            body = orjson.dumps(found.highest) + b"\n" + found.image
            write_atomic(path, _sum(body) + body)
        return found


def _read(path: Path) -> Seeded | None:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    body = data[_SUM:]
    if _sum(body) != data[:_SUM]:
        return None
    head, _, image = body.partition(b"\n")
    highest = {prefix: (number, digits) for prefix, (number, digits) in orjson.loads(head).items()}
    return Seeded(image, highest)


def _sum(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=_SUM).digest()


@cache
def _version() -> str:
    """Return a key of everything but the application and the seed that images follow from."""
    here = Path(__file__).resolve().parent
    files = sorted([*here.glob("*.py"), *(here / "values").glob("*.txt")])
    digests = [hashlib.blake2b(file.read_bytes()).hexdigest() for file in files]
    return content_key([apsw.sqlite_lib_version(), digests])
