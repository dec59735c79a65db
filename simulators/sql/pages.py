"""One database file in memory whose content can be exchanged beneath an open connection.

All seeded images of an application have one schema and one layout of it; only rows differ. A
connection that finds another content under the same schema goes on with the statements it has
prepared, where `deserialize` makes it prepare all of them again (20 to 60 µs each). SQLite learns
of the exchange from the change counter in the header of the file, which every exchange moves on
(https://sqlite.org/fileformat2.html, 1.3.7); it then drops the pages it has kept and reads those it
needs.

Nothing is ever written to the file: an episode is one transaction that is rolled back, and
`cache_spill = OFF` keeps its pages in SQLite's own memory meanwhile.
"""

from __future__ import annotations

from typing import cast

import apsw

_NAME = "toolloom-pages"
_COUNTER, _VALID_FOR, _HEADER = slice(24, 28), slice(92, 96), 100


class Pages:
    """A file as SQLite asks for it. `exchange` gives it another content."""

    def __init__(self) -> None:
        self._image = b""
        self._count = 0

    def exchange(self, image: bytes) -> None:
        """Replace the content; no transaction may be open on the connection."""
        self._count += 1
        counter = self._count.to_bytes(4, "big")
        head = bytearray(image[:_HEADER])
        head[_COUNTER] = head[_VALID_FOR] = counter
        self._image = bytes(head) + image[_HEADER:]

    def xRead(self, amount: int, offset: int) -> bytes:
        """Return a page, or a part of the first one."""
        return self._image[offset : offset + amount]

    def xFileSize(self) -> int:
        """Return the size in bytes."""
        return len(self._image)

    def xWrite(self, data: bytes, offset: int) -> None:
        """Refuse: what is written would not be there for the next episode."""
        raise apsw.ReadOnlyError("images are not written to")

    def xTruncate(self, size: int) -> None:
        """Refuse, as `xWrite`."""
        raise apsw.ReadOnlyError("images are not written to")

    def xSync(self, flags: int) -> None:
        """Do nothing: there is no disk."""

    def xLock(self, level: int) -> None:
        """Do nothing: each file has one connection."""

    def xUnlock(self, level: int) -> None:
        """Do nothing, as `xLock`."""

    def xCheckReservedLock(self) -> bool:
        """Return that nobody else is about to write."""
        return False

    def xSectorSize(self) -> int:
        """Return what SQLite takes where a file has no opinion."""
        return 4096

    def xDeviceCharacteristics(self) -> int:
        """Return no promises."""
        return 0

    def xFileControl(self, op: int, ptr: int) -> bool:
        """Understand no control."""
        return False

    def xClose(self) -> None:
        """Give the memory back."""
        self._image = b""


class _System(apsw.VFS):
    """Opens `Pages` by name, once each; there are no other files."""

    def __init__(self) -> None:
        super().__init__(_NAME, "")
        self._waiting: dict[str, Pages] = {}
        self._number = 0

    def name(self, pages: Pages) -> str:
        self._number += 1
        name = f"/pages-{self._number}"
        self._waiting[name] = pages
        return name

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        path = name.filename() if isinstance(name, apsw.URIFilename) else str(name)
        pages = self._waiting.pop(path, None)
        if pages is None:
            raise apsw.CantOpenError("images have no files beside them")
        flags[1] = flags[0]
        return cast("apsw.VFSFile", pages)  # anything with these methods will do

    def xAccess(self, pathname: str, flags: int) -> bool:
        return False  # no journal was left behind

    def xFullPathname(self, name: str) -> str:
        return name


_SYSTEM = _System()


def open_pages(pages: Pages, *, statements: int) -> apsw.Connection:
    """Return a connection to `pages`.

    Args:
        pages: the file, which is this connection's alone.
        statements: prepared statements to keep.
    """
    connection = apsw.Connection(
        _SYSTEM.name(pages),
        flags=apsw.SQLITE_OPEN_READWRITE,
        vfs=_NAME,
        statementcachesize=statements,
    )
    connection.execute("PRAGMA journal_mode = MEMORY; PRAGMA cache_spill = OFF").fetchall()
    return connection
