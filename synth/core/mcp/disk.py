"""What a server does to the disk: measured while it runs, removed after its end.

The kernel bounds each file (RLIMIT_FSIZE) but not how many there are, and quotas need an
administrator. So the folders a server may write to are measured again and again; one that takes too
much is ended. What it can write between two looks is not bounded.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

MAX_DEPTH = 100
"""Nesting of folders; deeper ones can be made faster than they can be measured."""
_FOLDER = os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC
_MOVED = ".removed-toolloom"
_BLOCK = 512
"""Unit of `st_blocks`."""


def excess(folders: Sequence[Path], *, most_bytes: int, most_files: int) -> str:
    """Say what is too much in `folders`, or return an empty string.

    Args:
        folders: measured together; one inside of another counts once.
        most_bytes: allocated space.
        most_files: files, folders and links.
    """
    outer = [f for f in folders if not any(f != o and f.is_relative_to(o) for o in folders)]
    left = [(str(folder), 0) for folder in dict.fromkeys(outer)]
    size = files = 0
    while left:
        path, depth = left.pop()
        if depth > MAX_DEPTH:
            return f"nests more than {MAX_DEPTH} folders"
        try:
            with os.scandir(path) as entries:
                for entry in entries:
                    files += 1
                    if files > most_files:
                        return f"writes more than {most_files} files"
                    size += _BLOCK * _blocks(entry)
                    if entry.is_dir(follow_symlinks=False):
                        left.append((entry.path, depth + 1))
        except (FileNotFoundError, NotADirectoryError):
            continue  # gone while we looked
        except OSError as error:  # what cannot be looked into cannot be bounded
            return f"leaves a folder that cannot be measured ({error.strerror})"
        if size > most_bytes:
            return f"writes more than {most_bytes >> 20} MiB"
    return ""


def _blocks(entry: os.DirEntry[str]) -> int:
    try:
        return entry.stat(follow_symlinks=False).st_blocks
    except FileNotFoundError:
        return 0


@contextlib.contextmanager
def private_folder() -> Iterator[Path]:
    """Give a fresh folder for a server; it is gone afterwards, whatever was made in it."""
    folder = Path(os.path.realpath(tempfile.mkdtemp(prefix="toolloom-")))
    try:
        yield folder
    finally:
        remove(folder)


def remove(root: Path) -> None:
    """Remove a folder of a server that has ended, however deep, whatever permissions it left.

    Raises:
        OSError: it cannot be removed; one that is not there is no error.
    """
    try:
        parent = os.open(root.parent, _FOLDER)
    except FileNotFoundError:
        return
    try:
        remove_in(parent, root.name)
    finally:
        os.close(parent)


def remove_in(parent: int, name: str) -> None:
    """Remove the folder `name` of the open folder `parent`; a link to one is no folder.

    What lies deeper is moved up into it and emptied there: no path, no recursion and no number of
    open files grows with the depth.

    Raises:
        OSError: it cannot be removed; one that is not there is no error.
    """
    try:
        top = _opened(parent, name)
    except FileNotFoundError:
        return
    try:
        serial = 0
        while folders := _emptied(top):
            for folder in folders:
                inner = _opened(top, folder)
                try:
                    for deeper in _emptied(inner):
                        serial += 1
                        os.chmod(deeper, 0o700, dir_fd=inner)  # moving a folder writes to it
                        os.rename(deeper, f"{serial}{_MOVED}", src_dir_fd=inner, dst_dir_fd=top)
                finally:
                    os.close(inner)
                os.rmdir(folder, dir_fd=top)
    finally:
        os.close(top)
    os.rmdir(name, dir_fd=parent)


def _opened(parent: int, name: str) -> int:
    """Open a folder that we own for reading and writing, whatever its permissions."""
    try:
        folder = os.open(name, _FOLDER, dir_fd=parent)
    except PermissionError:
        os.chmod(name, 0o700, dir_fd=parent, follow_symlinks=True)
        folder = os.open(name, _FOLDER, dir_fd=parent)
    os.fchmod(folder, 0o700)
    return folder


def _emptied(folder: int) -> list[str]:
    """Remove the files and links of an open folder; return the names of its folders."""
    folders = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.name)
            else:
                os.unlink(entry.name, dir_fd=folder)
    return folders
