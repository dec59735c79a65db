"""A folder as a value: read from disk, written to disk, compared, stored.

A live server's folder is the state of its episode, and the server may be hostile while we look.
So every step goes through directory descriptors and never follows a link, links that leave the
folder and special files are refused, and counts and sizes are bounded. Times are not part of the
state; permissions are, as far as they differ from those that everything is given at first.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import orjson

from synth.core.canonical import canonical
from synth.core.errors import BadRow, ServerFailed
from synth.core.mcp.disk import remove_in
from synth.core.types import Diff

MAX_ENTRIES = 2_000
MAX_DEPTH = 32
MAX_FILE = 4 << 20
"""Bytes of one file; a server that hits its own file size limit is above it."""
MAX_TOTAL = 32 << 20
"""Bytes of all files."""
TEXT_LIMIT = 4_096
"""Bytes up to which a text file's content is part of its diff row."""
CLOCK_NS = 1_772_442_000 * 10**9
"""Modification time of everything we write: 2 March 2026, 09:00 UTC."""
FILE_MODE, FOLDER_MODE = 0o644, 0o755
"""Set outright, because servers tell permissions; what they make has them too, as confined
processes start with the umask 022."""

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Link:
    """A symbolic link that stays inside its folder; the target is relative to the link."""

    target: str


@dataclass(frozen=True, slots=True)
class Tree:
    """Everything below a folder: relative path -> bytes of a file, a link, or None for a folder."""

    entries: Mapping[str, bytes | Link | None]
    modes: Mapping[str, int] = field(default_factory=dict)
    """Path -> permission bits, where they are others than `FILE_MODE` and `FOLDER_MODE`."""

    @classmethod
    def of(cls, files: Mapping[str, str | bytes | None]) -> Tree:
        """Build a tree from `files`; parents are added, None makes an empty folder."""
        entries: dict[str, bytes | Link | None] = {}
        for path, content in files.items():
            parts = path.split("/")
            for depth in range(1, len(parts)):
                entries.setdefault("/".join(parts[:depth]), None)
            entries[path] = content.encode() if isinstance(content, str) else content
        return cls(entries)

    @classmethod
    def scan(cls, root: Path | int, *, server: str, lenient: bool = False) -> Tree:
        """Read the folder `root` as it is now.

        Args:
            root: the folder, or a descriptor of it.
            server: who left it so.
            lenient: links may point anywhere, since nobody follows them, special files are left
                out, and permissions keep nothing from us; only where nobody else is at it.

        Raises:
            ServerFailed: `server` left something that has no place in a private folder: a link
                that points outside (`escaped`), too much data (`oversize`), a special file or a
                folder that vanished or cannot be read (`invalid`).
        """
        base = None if isinstance(root, Path) else root
        path = root if isinstance(root, Path) else Path(".")
        scanner = _Scanner(os.path.realpath(path), server, lenient)
        try:
            top = os.open(path, _FOLDER, dir_fd=base)
        except OSError as error:
            raise ServerFailed(
                f"its folder is gone or was replaced ({error.strerror})",
                where=server,
                outcome="invalid",
            ) from error
        try:
            scanner.folder(top, "", 0)
        finally:
            os.close(top)
        return cls(scanner.entries, scanner.modes)

    def write(self, root: Path) -> None:
        """Make the existing folder `root` hold exactly this tree, with fixed times.

        What is already right is left alone: most resets go back to nearly the same folder.

        Raises:
            OSError: the disk is full, something cannot be removed, or someone else writes to the
                folder at the same time.
        """
        children: dict[str, dict[str, _Wanted]] = {"": {}}
        for path, entry in self.entries.items():
            parent, _, name = path.rpartition("/")
            mode = self.modes.get(path, FOLDER_MODE if entry is None else FILE_MODE)
            children.setdefault(parent, {})[name] = (entry, mode)
        top = os.open(root, _FOLDER)
        try:
            _write(top, "", children)
            os.fchmod(top, FOLDER_MODE)
        finally:
            os.close(top)

    def diff(self, base: Tree) -> Diff:
        """Return the net change from `base` to this tree.

        Tables are `files` (path, size, sha256, and `text` up to `TEXT_LIMIT` bytes), `folders`
        (path) and `links` (path, target); unusual permissions are the `mode` of files and folders.
        A move is a deletion and an insertion.
        """
        lines = []
        for path in base.entries.keys() | self.entries.keys():
            before = _row(path, base) if path in base.entries else None
            after = _row(path, self) if path in self.entries else None
            if before == after:
                continue
            if before and after and before[0] == after[0]:
                lines.append(canonical([before[0], "update", before[1], after[1]]))
                continue
            if before:
                lines.append(canonical([before[0], "delete", before[1], None]))
            if after:
                lines.append(canonical([after[0], "insert", None, after[1]]))
        return tuple(sorted(lines))

    def pack(self) -> bytes:
        """Return the tree as bytes; equal trees give equal bytes."""
        rows = [
            [base64.b64encode(os.fsencode(path)).decode(), *_packed(entry), self.modes.get(path)]
            for path, entry in sorted(self.entries.items())
        ]
        return orjson.dumps(["tree/2", rows])

    @classmethod
    def unpack(cls, data: bytes) -> Tree:
        """Read what `pack` wrote.

        Raises:
            BadRow: `data` is no packed tree.
        """
        try:
            mark, rows = orjson.loads(data)
            if mark != "tree/2":
                raise ValueError(f"marked {mark!r}")
            entries, modes = {}, {}
            for encoded, kind, value, mode in rows:
                path = os.fsdecode(base64.b64decode(encoded, validate=True))
                entries[path] = _unpacked(kind, value)
                if mode is not None:
                    modes[path] = _bits(mode)
            return cls(entries, modes)
        except (ValueError, TypeError, KeyError, binascii.Error) as error:
            raise BadRow(f"not a snapshot of a folder: {error}") from error


_Wanted: TypeAlias = tuple[bytes | Link | None, int]
"""An entry and its permissions."""


def _write(folder: int, path: str, children: Mapping[str, Mapping[str, _Wanted]]) -> None:
    """Write one folder and what is below it; `children` maps folders to their entries."""
    wanted = children.get(path, {})
    for name in os.listdir(folder):
        if name not in wanted or not _holds(folder, name, *wanted[name]):
            _discard(folder, name)
    present = set(os.listdir(folder))
    for name, (entry, mode) in wanted.items():
        if entry is None:
            if name not in present:
                os.mkdir(name, 0o700, dir_fd=folder)
            below = os.open(name, _FOLDER, dir_fd=folder)
            try:
                _write(below, f"{path}/{name}" if path else name, children)
                os.fchmod(below, mode)
            finally:
                os.close(below)
        elif name in present:
            continue
        elif isinstance(entry, Link):
            os.symlink(entry.target, name, dir_fd=folder)
        else:
            _create(folder, name, entry, mode)
    os.utime(folder, ns=(CLOCK_NS, CLOCK_NS))


def _create(folder: int, name: str, content: bytes, mode: int) -> None:
    with os.fdopen(os.open(name, _CREATE, 0o600, dir_fd=folder), "wb", buffering=0) as file:
        left = memoryview(content)
        while left:
            left = left[file.write(left) :]
        os.fchmod(file.fileno(), mode)
        os.utime(file.fileno(), ns=(CLOCK_NS, CLOCK_NS))


def _holds(folder: int, name: str, entry: bytes | Link | None, mode: int) -> bool:
    """Say whether `name` is as it would be written: kind, rights, time, content."""
    found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if entry is None:  # one that cannot be entered is made anew, not opened
        return stat.S_ISDIR(found.st_mode) and found.st_mode & 0o700 == 0o700
    if isinstance(entry, Link):
        return stat.S_ISLNK(found.st_mode) and os.readlink(name, dir_fd=folder) == entry.target
    if found.st_mode != stat.S_IFREG | mode or found.st_nlink != 1:
        return False
    if found.st_mtime_ns != CLOCK_NS:
        return False
    with os.fdopen(os.open(name, _READ, dir_fd=folder), "rb") as file:
        return file.read(len(entry) + 1) == entry


def _discard(folder: int, name: str) -> None:
    if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
        remove_in(folder, name)
    else:
        os.unlink(name, dir_fd=folder)


class _Scanner:
    """Walks one folder by descriptors and collects its entries within the limits."""

    def __init__(self, root: str, server: str, lenient: bool) -> None:
        self.root, self.server, self.lenient = root, server, lenient
        self.entries: dict[str, bytes | Link | None] = {}
        self.modes: dict[str, int] = {}
        self.total = 0

    def folder(self, descriptor: int, prefix: str, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise self._fault(f"folders deeper than {MAX_DEPTH}", "oversize")
        for name in self._names(descriptor):
            path = prefix + name
            if len(self.entries) >= MAX_ENTRIES:
                raise self._fault(f"more than {MAX_ENTRIES} files and folders", "oversize")
            try:
                self._entry(descriptor, name, path, depth)
            except FileNotFoundError:
                continue  # the server removed it while we looked: it is not there
            except OSError as error:
                raise self._fault(
                    f"{path!r} cannot be read ({error.strerror})", "invalid"
                ) from error

    def _names(self, descriptor: int) -> Iterator[str]:
        with os.scandir(descriptor) as found:
            for count, entry in enumerate(found):
                if count > MAX_ENTRIES:
                    raise self._fault(f"more than {MAX_ENTRIES} files in a folder", "oversize")
                yield entry.name

    def _entry(self, parent: int, name: str, path: str, depth: int) -> None:
        mode = os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode
        if stat.S_ISLNK(mode):
            self.entries[path] = self._link(parent, name, path)
            return
        if self.lenient and not (stat.S_ISDIR(mode) or stat.S_ISREG(mode)):
            return
        if stat.S_IMODE(mode) != (FOLDER_MODE if stat.S_ISDIR(mode) else FILE_MODE):
            self.modes[path] = stat.S_IMODE(mode)
        wanted = 0o700 if stat.S_ISDIR(mode) else 0o400
        if self.lenient and mode & wanted != wanted:  # a folder in which nothing moves any more
            os.chmod(name, stat.S_IMODE(mode) | wanted, dir_fd=parent)
        if stat.S_ISDIR(mode):
            self.entries[path] = None
            below = os.open(name, _FOLDER, dir_fd=parent)
            try:
                self.folder(below, path + "/", depth + 1)
            finally:
                os.close(below)
        elif stat.S_ISREG(mode):
            self.entries[path] = self._file(parent, name, path)
        else:
            raise self._fault(f"{path!r} is neither a file nor a folder", "invalid")

    def _file(self, parent: int, name: str, path: str) -> bytes:
        with os.fdopen(os.open(name, _READ, dir_fd=parent), "rb") as file:
            content = file.read(MAX_FILE)
        if len(content) >= MAX_FILE:
            raise self._fault(f"{path!r} has {MAX_FILE} bytes or more", "oversize")
        self.total += len(content)
        if self.total > MAX_TOTAL:
            raise self._fault(f"more than {MAX_TOTAL} bytes in all", "oversize")
        return content

    def _link(self, parent: int, name: str, path: str) -> Link:
        target = os.readlink(name, dir_fd=parent)
        if self.lenient:
            return Link(target)
        here = os.path.join(self.root, os.path.dirname(path))
        reached = os.path.realpath(os.path.join(here, target))
        if reached != self.root and not reached.startswith(self.root + "/"):
            raise self._fault(f"{path!r} is a link that points outside its folder", "escaped")
        return Link(os.path.relpath(target, here) if os.path.isabs(target) else target)

    def _fault(self, what: str, outcome: str) -> ServerFailed:
        remedy = "the episode counts for nothing"
        return ServerFailed(f"left {what}", where=self.server, remedy=remedy, outcome=outcome)


def _row(path: str, tree: Tree) -> tuple[str, dict[str, Any]]:
    """Return table and row of one entry; a name that is no UTF-8 also carries its bytes."""
    entry = tree.entries[path]
    raw = os.fsencode(path)
    shown = raw.decode("utf-8", "backslashreplace")
    row: dict[str, Any] = {"path": shown}
    if shown.encode() != raw:
        row["raw"] = raw.hex()
    if path in tree.modes:
        row["mode"] = f"{tree.modes[path]:04o}"
    if entry is None:
        return "folders", row
    if isinstance(entry, Link):
        return "links", row | {"target": os.fsencode(entry.target).decode("utf-8", "replace")}
    row |= {"size": len(entry), "sha256": hashlib.sha256(entry).hexdigest()}
    if len(entry) <= TEXT_LIMIT and b"\0" not in entry:
        with contextlib.suppress(UnicodeDecodeError):  # binary: size and hash say it all
            row["text"] = entry.decode()
    return "files", row


def _packed(entry: bytes | Link | None) -> tuple[str, str]:
    if entry is None:
        return "folder", ""
    if isinstance(entry, Link):
        return "link", base64.b64encode(os.fsencode(entry.target)).decode()
    return "file", base64.b64encode(entry).decode()


def _bits(mode: Any) -> int:
    if not isinstance(mode, int) or isinstance(mode, bool) or not 0 <= mode <= 0o7777:
        raise ValueError(f"no permissions: {mode!r}")
    return mode


def _unpacked(kind: str, value: str) -> bytes | Link | None:
    content = base64.b64decode(value, validate=True)
    if kind == "file":
        return content
    if kind == "link":
        return Link(os.fsdecode(content))
    if kind == "folder":
        return None
    raise ValueError(f"unknown kind of entry {kind!r}")
