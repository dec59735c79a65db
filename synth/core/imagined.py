"""What is recorded of an episode whose tools a model played, and how far it was from the truth.

papers 2.4: a simulator of tools is measured by how often its observations have the right form, by
what it returns after its own writes, and by how often it contradicts an executable backend on the
same calls.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from synth.core.types import Frozen, Scalar, Usage

SHARES = {
    "same result": "results_equal",
    "same changes": "changes_equal",
    "reads after writes": "read_after_write",
    "same end": "ends_equal",
}
"""What is compared with the twin: in words, and by name."""


class WorldCall(Frozen):
    """One call, and what a model made of it."""

    state: str
    """Key of the state before it."""
    tool: str
    arguments: str
    """Canonical JSON."""
    user: Scalar = None
    """Key of the user's row, where it is a call with a tool of theirs."""
    by_user: bool = False
    reply: str | None
    """The reply that was taken, as canonical JSON; None where none was: the tool failed."""
    refused: tuple[str, ...] = ()
    """Why replies before it were not taken, by name."""
    reads: bool = False
    """The tool only reads."""
    after_write: bool = False
    """The state had been written to before."""
    result_equal: bool | None = None
    """The executable twin returns the same from the same state; None where there is no twin."""
    change_equal: bool | None = None
    """The twin changes the same rows from the same state."""
    invented: tuple[str, ...] = ()
    """Texts in the observation that the columns they come from nowhere hold."""


class Imagined(Frozen):
    """All calls of one episode."""

    who: str
    """The model, with prompt and sampler."""
    calls: tuple[WorldCall, ...]
    end_equal: bool | None = None
    """The twin, which made the same calls from the start, ended in the same state."""
    usage: Usage | None = None


class Drift:
    """Adds up how far imagined episodes were from their executable twins."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._who: Counter[str] = Counter()
        self._refused: Counter[str] = Counter()
        self._shares: dict[str, list[int]] = {name: [0, 0] for name in SHARES.values()}

    @property
    def episodes(self) -> int:
        """How many were added."""
        return self._who.total()

    def add(self, episode: Imagined) -> None:
        """Add one episode."""
        self._who[episode.who] += 1
        self._share("ends_equal", episode.end_equal)
        for call in episode.calls:
            self._counts["calls"] += 1
            self._refused.update(call.refused)
            if call.reply is None:
                self._counts["tool_faults"] += 1
                continue
            self._counts["answered_at_once"] += not call.refused
            self._counts["invented"] += len(call.invented)
            self._share("results_equal", call.result_equal)
            if not call.reads:
                self._share("changes_equal", call.change_equal)
            elif call.after_write:
                self._share("read_after_write", call.result_equal)

    def _share(self, name: str, value: bool | None) -> None:
        if value is not None:
            self._shares[name][0] += value
            self._shares[name][1] += 1

    def figures(self) -> dict[str, Any]:
        """Return the figures; a share is None where nothing could be compared."""
        calls, faults = self._counts["calls"], self._counts["tool_faults"]
        shares = {
            name: {"true": true, "of": of} if of else None
            for name, (true, of) in self._shares.items()
        }
        return {
            "who": dict(self._who.most_common()),
            "episodes": self.episodes,
            "calls": calls,
            "answered": calls - faults,
            "answered_at_once": self._counts["answered_at_once"],
            "tool_faults": faults,
            "refused_by_reason": dict(self._refused.most_common()),
            "invented": self._counts["invented"],
            **shares,
        }


def drift(episodes: Iterable[Imagined]) -> dict[str, Any]:
    """Return the figures of `Drift` for some episodes."""
    found = Drift()
    for episode in episodes:
        found.add(episode)
    return found.figures()


def drift_lines(report: Mapping[str, Any]) -> list[str]:
    """Return it as lines of text."""
    refused = ", ".join(f"{name} {count}" for name, count in report["refused_by_reason"].items())
    lines = [
        "",
        "tools played by a model, beside the executable twin",
        *(f"  {who}: {count} episodes" for who, count in report["who"].items()),
        f"  calls           {report['calls']:>7}",
        f"  answered        {report['answered']:>7}   ({report['answered_at_once']} at once)",
        f"  tool faults     {report['tool_faults']:>7}",
        *([f"  refused: {refused}"] if refused else []),
    ]
    for title, name in SHARES.items():
        share = report[name]
        lines.append(f"  {title:<20}" + ("nothing to compare" if share is None else _shown(share)))
    return [*lines, f"  invented values {report['invented']:>7}"]


def _shown(share: Mapping[str, int]) -> str:
    return f"{share['true']} of {share['of']}"
