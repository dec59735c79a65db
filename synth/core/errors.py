"""Every error a user can meet, in one tree.

    ToolloomError                    one line: what, where, remedy; exit code 1
    ├── BadInput                     the user's input is wrong; exit code 2
    │   ├── BadApplication           a YAML application: file, path in the file
    │   ├── BadConfig                a TOML key or a `--set`
    │   ├── BadRow                   a row of a dataset, run or plan file
    │   ├── BadPlace                 a path that cannot be written: a file in the way, no permission
    │   ├── UnknownName              a plug-in, application or tool; lists close names
    │   └── WrongWorkspace           a workspace written by another version
    ├── StoreLocked                  the registry is open elsewhere: pid, command
    ├── StoreDamaged                 the registry does not open
    ├── DiskFull                     nothing half-written remains
    ├── ServerFailed                 an MCP server exited, hung or answered nonsense
    │   └── mcp.session.RpcError     it answered one request with an error; the session goes on
    ├── ModelFailed                  an endpoint gave no usable reply: never a verdict
    ├── BudgetSpent                  no further request is allowed; exit code 3; resumable
    ├── NotSuitable                  no task of that kind can be sampled here (counted, not shown)
    ├── TargetMissed                 a budget or target was missed; exit code 3; resumable
    ├── sandbox.confine.NoConfinement   this machine cannot keep a property that was asked for
    └── train.fetch.ModelUnavailable    weights could not be fetched; the demo makes a model instead

What an *agent* may see of a failed call is never an exception: it is a `ToolResult` with
`ok=False`.
"""

from __future__ import annotations

import difflib
import errno
import os
from collections.abc import Iterable
from pathlib import Path


class ToolloomError(Exception):
    """Base of all errors shown to a user as one line.

    Args:
        what: what went wrong, without a trailing full stop.
        where: file, path, server or table; may be empty.
        remedy: what to do about it; may be empty.
    """

    exit_code = 1

    def __init__(self, what: str, *, where: str = "", remedy: str = "") -> None:
        self.what, self.where, self.remedy = what, where, remedy
        line = f"{where}: {what}" if where else what
        super().__init__(f"{line} ({remedy})" if remedy else line)


class BadInput(ToolloomError):
    """The user's input is wrong."""

    exit_code = 2


class BadApplication(BadInput):
    """An application file is wrong; `where` is the file and the path inside it."""


class BadConfig(BadInput):
    """A configuration key or value is wrong."""


class BadRow(BadInput):
    """A stored row does not validate; `where` is file:line."""


class BadPlace(BadInput):
    """A file or folder that cannot be written: something in the way, no permission, read-only."""


class UnknownName(BadInput):
    """A name nobody registered; close names are suggested."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        names = sorted(known)
        close = difflib.get_close_matches(name, names, n=3)
        hint = f"did you mean {', '.join(map(repr, close))}?" if close else ""
        listed = ", ".join(names[:20]) + (", …" if len(names) > 20 else "")
        super().__init__(f"unknown {kind} {name!r}", remedy=hint or f"known: {listed or 'none'}")


class WrongWorkspace(BadInput):
    """The workspace was written by another version of toolloom."""


class StoreLocked(ToolloomError):
    """Another process has the registry open."""


class StoreDamaged(ToolloomError):
    """The registry file does not open."""


class DiskFull(ToolloomError):
    """The disk is full."""


class ServerFailed(ToolloomError):
    """An MCP server exited, hung or answered nonsense.

    `outcome` is one word for the ledger: exited, timeout, rpc_error, invalid, install_failed,
    oversize, escaped; of servers elsewhere also unreachable, denied, missing, busy, broken (5xx)
    and unsafe (it leads where nobody may be led).
    """

    def __init__(self, what: str, *, where: str = "", remedy: str = "", outcome: str) -> None:
        super().__init__(what, where=where, remedy=remedy)
        self.outcome = outcome


class ModelFailed(ToolloomError):
    """An endpoint gave no usable reply: infrastructure, never a verdict and never reward 0.

    `outcome` is one word for the report: unreachable, network, timeout, busy (429 and the like),
    server (5xx), rejected (any other status), malformed, incomplete; failed where nobody said.
    """

    def __init__(
        self, what: str, *, where: str = "", remedy: str = "", outcome: str = "failed"
    ) -> None:
        super().__init__(what, where=where, remedy=remedy)
        self.outcome = outcome


class BudgetSpent(ToolloomError):
    """A limit on requests, tokens or money is reached: nobody failed, and the run can go on."""

    exit_code = 3


class NotSuitable(ToolloomError):
    """A sampler found no task of the wanted kind; `what` is the reason that is counted."""


class TargetMissed(ToolloomError):
    """A budget or target was missed; the run can be resumed."""

    exit_code = 3


# --- failures of the operating system --------------------------------------------------------

_FULL = (errno.ENOSPC, errno.EDQUOT)
_ELSEWHERE = "give a folder elsewhere"
_IN_THE_WAY = (errno.ENOTDIR, errno.EEXIST)
_PLACES = {
    errno.EISDIR: ("a folder stands where a file must be", "remove it"),
    errno.EACCES: ("no permission to write", f"change the permissions, or {_ELSEWHERE}"),
    errno.EPERM: ("no permission to write", f"change the permissions, or {_ELSEWHERE}"),
    errno.EROFS: ("it lies on a read-only file system", _ELSEWHERE),
    errno.ENAMETOOLONG: ("the name is too long", "give a shorter one"),
    errno.ELOOP: ("its links lead in a circle", "mend them"),
}


def storage_error(error: OSError, path: Path | str) -> ToolloomError:
    """Return the error a user understands for a failed write to `path`."""
    number, where = error.errno, str(path)
    if number in _FULL:
        remedy = "free some space and repeat"
        return DiskFull("no space left on the disk", where=where, remedy=remedy)
    if number == errno.EFBIG:
        what = "the file would exceed the largest size this process may write"
        return DiskFull(what, where=where, remedy="raise the limit (ulimit -f) and repeat")
    if number in _IN_THE_WAY:
        remedy = f"move it away, or {_ELSEWHERE}"
        return BadPlace(
            "a file stands where a folder must be", where=_file_at(Path(where)), remedy=remedy
        )
    if number in _PLACES:
        what, remedy = _PLACES[number]
        return BadPlace(what, where=where, remedy=remedy)
    return ToolloomError(error.strerror or str(error), where=where)


def os_error_in(message: str) -> OSError | None:
    """Return the error of the operating system that a library tells in words only, or None."""
    for number in (*_FULL, errno.EFBIG, *_IN_THE_WAY, *_PLACES):
        if os.strerror(number) in message:
            return OSError(number, os.strerror(number))
    return None


def _file_at(path: Path) -> str:
    """Return the part of `path` that is there and is no folder; all of it where none is found."""
    for part in (*reversed(path.parents), path):
        if os.path.lexists(part) and not part.is_dir():
            return str(part)
    return str(path)


def why_unreadable(error: OSError | UnicodeDecodeError) -> tuple[str, str]:
    """Return what is wrong with a file that cannot be read, and what to do about it."""
    if isinstance(error, UnicodeDecodeError):
        what = f"not UTF-8 text (byte 0x{error.object[error.start]:02x} at {error.start})"
        return what, "save it as UTF-8"
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return "there is no such file", "check the path"
    if error.errno in (errno.EACCES, errno.EPERM):
        return "no permission to read it", "change its permissions"
    if error.errno == errno.EISDIR:
        return "a folder, not a file", "name a file in it"
    return error.strerror or str(error), ""
