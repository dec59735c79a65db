"""What a weak model made says so: in the model's name, and thereby in every row it played in."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping

WEAK_BELOW = 1_000_000_000
"""Parameters. Of the models measured, one of 0.5 billion chose the right call in 17 of 18 cases but
judged no better than chance would in a third of them; one of 1.5 billion did both."""
_MARK = re.compile(r"\((weak: [^()]*)\)")


def weakness(parameters: int) -> str | None:
    """Return why what a model of that size makes is marked, or None."""
    return None if parameters >= WEAK_BELOW else f"weak: {parameters / 1e6:.0f}M parameters"


def weak_players(players: Mapping[str, str]) -> dict[str, str]:
    """Return role -> reason for the players that are weak models.

    Args:
        players: role -> who played it, as `Trajectory.players` and every row have it.
    """
    marks = {role: _MARK.search(who) for role, who in players.items()}
    return {role: mark[1] for role, mark in marks.items() if mark}


def weak_note(players: Iterable[Mapping[str, str]]) -> str:
    """Return the sentence about weak models for a dataset card; empty where none played.

    Args:
        players: of each row, role -> who played it.
    """
    rows = 0
    counts: Counter[tuple[str, str]] = Counter()
    for row in players:
        rows += 1
        counts.update(weak_players(row).items())
    if not counts:
        return ""
    parts = [f"{role} of {n} ({why})" for (role, why), n in sorted(counts.items())]
    return f"Weak models played in these {rows} rows: {', '.join(parts)}."
