"""What is recorded of an episode whose tools a model played, and how far it was from the truth.

papers 2.4: a simulator of tools is measured by how often its observations have the right form, by
what it returns after its own writes, and by how often it contradicts an executable backend on the
same calls.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from synth.core.types import Frozen, Usage


class WorldCall(Frozen):
    """One call, and what a model made of it."""

    state: str
    """Key of the state before it."""
    tool: str
    arguments: str
    """Canonical JSON."""
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


def drift(episodes: Iterable[Imagined]) -> dict[str, Any]:
    """Return how far a run's imagined episodes were from their executable twins.

    Shares are of what could be compared, and None where nothing could.
    """
    found = list(episodes)
    calls = [call for episode in found for call in episode.calls]
    answered = [call for call in calls if call.reply is not None]
    later = [call for call in answered if call.reads and call.after_write]
    refused = Counter(code for call in calls for code in call.refused)
    return {
        "who": dict(Counter(episode.who for episode in found)),
        "episodes": len(found),
        "calls": len(calls),
        "answered_at_once": sum(not call.refused for call in answered),
        "answered": len(answered),
        "tool_faults": len(calls) - len(answered),
        "refused_by_reason": dict(refused.most_common()),
        "results_equal": _share(call.result_equal for call in answered),
        "results_contradicting": _share(
            None if call.result_equal is None else not call.result_equal for call in answered
        ),
        "changes_equal": _share(call.change_equal for call in answered if not call.reads),
        "read_after_write": _share(call.result_equal for call in later),
        "invented": sum(len(call.invented) for call in answered),
        "ends_equal": _share(episode.end_equal for episode in found),
    }


def drift_lines(report: dict[str, Any]) -> list[str]:
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
    shares = {
        "same result": "results_equal",
        "same changes": "changes_equal",
        "reads after writes": "read_after_write",
        "same end": "ends_equal",
    }
    for title, name in shares.items():
        share = report[name]
        lines.append(f"  {title:<20}" + ("nothing to compare" if share is None else _shown(share)))
    lines.append(f"  invented values {report['invented']:>7}")
    return lines


def _shown(share: dict[str, int]) -> str:
    return f"{share['true']} of {share['of']}"


def _share(values: Iterable[bool | None]) -> dict[str, int] | None:
    known = [value for value in values if value is not None]
    return {"true": sum(known), "of": len(known)} if known else None
