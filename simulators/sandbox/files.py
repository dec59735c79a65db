"""What agents do with files without running anything: on the folder as a value, not on a disk.

A link is followed as far as it stays inside, by looking at the value: nothing here opens a file, so
there is nothing outside that a path could reach.
"""

from __future__ import annotations

import re

from simulators.live.folder import MAX_DEPTH, MAX_ENTRIES, MAX_FILE, MAX_TOTAL, Link, Tree
from simulators.sandbox.run import PLACE
from simulators.sandbox.state import MAX_NAME

MAX_LINES = 2_000
"""Lines of a file that are shown at once."""
MAX_SHOWN = 64_000
"""Characters of a file that are shown at once."""
MAX_LISTED = 500
"""Entries of a list."""
_MAX_LINKS = 16
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_ROOT = PLACE.strip("/").split("/")


class Refused(Exception):
    """Nothing was done; the agent is told why.

    Args:
        code: one word.
        message: a sentence.
    """

    def __init__(self, code: str, message: str) -> None:
        self.code, self.message = code, message
        super().__init__(message)


def resolve(tree: Tree, path: str) -> str:
    """Return where a path leads in the folder, links followed; it need not exist.

    Args:
        tree: the folder; itself it is the empty path.
        path: absolute, or relative to the folder.

    Raises:
        Refused: it leads out, in circles or through something that is no folder.
    """
    at = [] if path.startswith("/") else [*_ROOT]
    left, links = path.split("/")[::-1], 0
    while left:
        part = left.pop()
        if part in ("", "."):
            continue
        if part == "..":
            at = at[:-1]
            continue
        at.append(part)
        inside = "/".join(at[len(_ROOT) :]) if at[: len(_ROOT)] == _ROOT else ""
        entry = tree.entries.get(inside)
        if isinstance(entry, bytes) and left:
            raise Refused("not_found", f"{inside!r} is a file, not a folder.")
        if isinstance(entry, Link):
            links += 1
            if links > _MAX_LINKS:
                raise Refused("not_found", f"{path!r} leads through too many links.")
            at = [] if entry.target.startswith("/") else at[:-1]
            left += entry.target.split("/")[::-1]
    if at[: len(_ROOT)] != _ROOT:
        raise Refused("outside", f"{path!r} is not in the project folder, {PLACE}.")
    return "/".join(at[len(_ROOT) :])


def read(tree: Tree, path: str, first: int, count: int) -> str:
    """Return lines of a text file, the first of them number `first` (from 1)."""
    lines = _LINE.findall(_text(tree, path))  # as programs count them: a form feed ends none
    if lines and first > len(lines):
        raise Refused("not_found", f"{path!r} has only {len(lines)} lines.")
    shown = "".join(lines[first - 1 : first - 1 + count])
    if len(shown) > MAX_SHOWN:
        raise Refused("too_large", f"That is more than {MAX_SHOWN} characters: ask for less.")
    more = len(lines) - (first - 1 + count)
    return f"{shown}[{more} more lines]\n" if more > 0 else shown


def write(tree: Tree, path: str, content: bytes) -> tuple[Tree, str]:
    """Return the folder with a file of that content, and where it lies; its folders are made."""
    inside = resolve(tree, path)
    if not inside or (inside in tree.entries and tree.entries[inside] is None):
        raise Refused("not_a_file", f"{path!r} is a folder.")
    if len(content) >= MAX_FILE:
        raise Refused("too_large", f"A file has less than {MAX_FILE} bytes.")
    parts = inside.split("/")
    if len(parts) > MAX_DEPTH or any(len(part.encode()) > MAX_NAME for part in parts):
        raise Refused("too_large", "The path is too long.")
    entries = dict(tree.entries)
    for depth in range(1, len(parts)):
        entries.setdefault("/".join(parts[:depth]), None)
    entries[inside] = content
    size = sum(len(entry) for entry in entries.values() if isinstance(entry, bytes))
    if len(entries) > MAX_ENTRIES or size > MAX_TOTAL:
        raise Refused("too_large", "The project folder is full.")
    return Tree(entries, tree.modes), inside


def edit(tree: Tree, path: str, old: str, new: str) -> tuple[Tree, str]:
    """Return the folder with `old`, which occurs once in the file, replaced by `new`."""
    text = _text(tree, path)
    count = text.count(old)
    if count != 1:
        found = "does not occur" if count == 0 else f"occurs {count} times"
        more = "" if count == 0 else " Give more of what is around it."
        raise Refused("not_unique" if count else "not_found", f"The text {found}.{more}")
    return write(tree, path, text.replace(old, new).encode())


def listed(tree: Tree, path: str) -> str:
    """Return what lies below a folder: a path a line, folders with a slash, files with bytes."""
    inside = resolve(tree, path)
    if inside and inside not in tree.entries:
        raise Refused("not_found", f"There is no {path!r}.")
    if inside and tree.entries[inside] is not None:
        raise Refused("not_a_folder", f"{path!r} is a file.")
    prefix = f"{inside}/" if inside else ""
    rows = []
    for name, entry in sorted(tree.entries.items()):
        if not name.startswith(prefix):
            continue
        shown = name.removeprefix(prefix).encode("utf-8", "surrogateescape")
        row = shown.decode("utf-8", "backslashreplace")
        if entry is None:
            rows.append(f"{row}/")
        else:
            what = f"-> {entry.target}" if isinstance(entry, Link) else f"{len(entry)} bytes"
            rows.append(f"{row}  {what}".encode("utf-8", "backslashreplace").decode())
    more = len(rows) - MAX_LISTED
    return "\n".join(rows[:MAX_LISTED] + [f"[{more} more]"] * (more > 0)) or "[empty]"


def _text(tree: Tree, path: str) -> str:
    inside = resolve(tree, path)
    if inside and inside not in tree.entries:
        raise Refused("not_found", f"There is no {path!r}.")
    entry = tree.entries[inside] if inside else None
    if not isinstance(entry, bytes):
        raise Refused("not_a_file", f"{path!r} is a folder.")
    try:
        return entry.decode()
    except UnicodeDecodeError:
        raise Refused("not_text", f"{path!r} is not UTF-8 text.") from None
