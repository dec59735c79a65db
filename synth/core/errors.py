"""Every error a user can meet, in one tree.

    ToolloomError                    one line: what, where, remedy; exit code 1
    ├── BadInput                     the user's input is wrong; exit code 2
    │   ├── BadApplication           a YAML application: file, path in the file
    │   ├── BadConfig                a TOML key or a `--set`
    │   ├── BadRow                   a row of a dataset, run or plan file
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
    └── train.models.ModelUnavailable   weights could not be fetched; the demo makes a model instead

What an *agent* may see of a failed call is never an exception: it is a `ToolResult` with
`ok=False`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


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


class UnknownName(BadInput):
    """A name nobody registered; close names are suggested."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        names = sorted(known)
        close = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
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
    oversize, escaped.
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
