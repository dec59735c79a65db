"""The retail tools of tau2 (package `inspect-evals`, MIT): do the calls of a solution change data?

Foreign code that runs in this process. Its data is a public benchmark: look at it, and keep it out
of what you train on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from synth.core.optional import package

_INSTALL = "inspect-evals"
_TOOLS = "inspect_evals.tau2.retail.RetailAgentTools"


@dataclass(frozen=True, slots=True)
class Executed:
    """What executing a solution showed."""

    changes: bool
    """Whether the data differs from what it was before."""
    failed: tuple[str, ...]
    """Calls that raised, with what they said."""


class Retail:
    """The retail domain, loaded once; each solution begins with its data as it was.

    Raises:
        BadInput: the package is not installed.
    """

    def __init__(self) -> None:
        self._kind = package(_TOOLS, _INSTALL).RetailAgentTools
        self._fresh = self._kind()
        self._fresh.initialize()
        self._start = self._fresh.db.model_copy(deep=True)
        self._before = self._start.model_dump_json()

    def execute(self, calls: Iterable[tuple[str, Mapping[str, Any]]]) -> Executed:
        """Make the calls of a solution, one after the other, on fresh data."""
        tools, failed = self._fresh, []
        tools.db = self._start.model_copy(deep=True)
        for name, arguments in calls:
            method = getattr(tools, name, None) if not name.startswith("_") else None
            if method is None:
                failed.append(f"{name}: no such tool")
                continue
            try:
                method(**arguments)
            except Exception as error:  # foreign code: whatever it raises is its answer
                failed.append(f"{name}: {error}"[:200])
        return Executed(tools.db.model_dump_json() != self._before, tuple(failed))
