"""How far a judge can be trusted: its answers against a truth that code knows.

Shares come with Wilson's interval (Wilson 1927), agreement with Cohen's kappa (Cohen 1960), ranking
with the area under the curve as Mann and Whitney count it; differences of shares with Newcombe's
interval (Newcombe 1998, method 10). An answer that is missing is counted and never guessed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

Z = 1.959963984540054
"""Of a 95 % interval."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a judge said of something whose truth is known."""

    truth: bool
    said: bool | None
    """None where it gave no answer."""
    length: int = 0
    """Characters of what it read."""


@dataclass(frozen=True, slots=True)
class Share:
    """A share of counted things, with its interval."""

    count: int
    of: int

    @property
    def value(self) -> float | None:
        """Return the share; None of nothing."""
        return self.count / self.of if self.of else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Return Wilson's 95 % interval; None of nothing."""
        if not self.of:
            return None
        n, p = self.of, self.count / self.of
        middle = (p + Z**2 / (2 * n)) / (1 + Z**2 / n)
        half = Z / (1 + Z**2 / n) * math.sqrt(p * (1 - p) / n + Z**2 / (4 * n**2))
        return max(0.0, middle - half), min(1.0, middle + half)

    def row(self) -> dict[str, Any]:
        """Return it as JSON."""
        found = self.interval
        return {
            "count": self.count,
            "of": self.of,
            "share": None if self.value is None else round(self.value, 4),
            "interval": None if found is None else [round(found[0], 4), round(found[1], 4)],
        }


def calibration(answers: Iterable[Answer]) -> dict[str, Any]:
    """Return how well answers agree with the truth.

    Args:
        answers: of one judge on one question.

    Returns:
        `agreement`, `false_pass` (of what is wrong, the share that passed), `false_reject` (of what
        is right, the share that did not), each with its interval; `kappa`; `unanswered`; `longer`:
        see `length_effect`. All but `unanswered` are of what was answered.
    """
    found = list(answers)
    given = [one for one in found if one.said is not None]
    right = [one for one in given if one.truth]
    wrong = [one for one in given if not one.truth]
    return {
        "agreement": Share(sum(one.said == one.truth for one in given), len(given)).row(),
        "kappa": kappa([(one.truth, bool(one.said)) for one in given]),
        "false_pass": Share(sum(one.said is True for one in wrong), len(wrong)).row(),
        "false_reject": Share(sum(one.said is False for one in right), len(right)).row(),
        "unanswered": Share(len(found) - len(given), len(found)).row(),
        "longer": length_effect(given),
    }


def kappa(pairs: Sequence[tuple[bool, bool]]) -> float | None:
    """Return Cohen's kappa of two raters; None where chance alone makes them agree."""
    n = len(pairs)
    if not n:
        return None
    agreed = sum(a == b for a, b in pairs) / n
    first, second = sum(a for a, _ in pairs) / n, sum(b for _, b in pairs) / n
    chance = first * second + (1 - first) * (1 - second)
    return None if chance == 1 else round((agreed - chance) / (1 - chance), 4)


def auc(scores: Iterable[tuple[float, bool]]) -> float | None:
    """Return how often a right one scores above a wrong one, ties as half; None without both.

    Args:
        scores: score and truth of each.
    """
    ordered = sorted(scores)
    yes = sum(label for _, label in ordered)
    no = len(ordered) - yes
    if not yes or not no:
        return None
    ranks, place = 0.0, 0
    while place < len(ordered):
        end = place
        while end < len(ordered) and ordered[end][0] == ordered[place][0]:
            end += 1
        mean = (place + 1 + end) / 2
        ranks += mean * sum(label for _, label in ordered[place:end])
        place = end
    return (ranks - yes * (yes + 1) / 2) / (yes * no)


def length_effect(answers: Sequence[Answer]) -> dict[str, Any] | None:
    """Return how much more often long ones pass than short ones of the same truth.

    The halves are parted at the median length of those with the same truth, so that right ones
    being longer is no effect. Returns the difference of shares with Newcombe's interval; None where
    a half is empty.
    """
    long_, short = [0, 0], [0, 0]
    for truth in (True, False):
        same = sorted((one.length, bool(one.said)) for one in answers if one.truth is truth)
        half = len(same) // 2
        for side, part in ((short, same[:half]), (long_, same[len(same) - half :])):
            side[0] += sum(said for _, said in part)
            side[1] += len(part)
    return difference(Share(*long_), Share(*short))


def difference(one: Share, two: Share) -> dict[str, Any] | None:
    """Return the difference of two shares with Newcombe's interval; None if one is of nothing."""
    first, second = one.interval, two.interval
    if first is None or second is None or one.value is None or two.value is None:
        return None
    p, q = one.value, two.value
    low = p - q - math.hypot(p - first[0], second[1] - q)
    high = p - q + math.hypot(first[1] - p, q - second[0])
    return {"difference": round(p - q, 4), "interval": [round(low, 4), round(high, 4)]}


def drift(pairs: Iterable[tuple[bool | None, bool | None]]) -> dict[str, Any]:
    """Return how two judges differ on the same things: agreement, kappa, who passes more.

    Args:
        pairs: the answers of both.
    """
    given = [(a, b) for a, b in pairs if a is not None and b is not None]
    first, second = sum(a for a, _ in given), sum(b for _, b in given)
    return {
        "agreement": Share(sum(a == b for a, b in given), len(given)).row(),
        "kappa": kappa(given),
        "only_first": sum(a and not b for a, b in given),
        "only_second": sum(b and not a for a, b in given),
        "passed": [first, second],
    }


def position_effect(orders: Iterable[tuple[str | None, str | None]]) -> dict[str, Any]:
    """Return how often a choice between two goes with the place and not with the thing.

    Args:
        orders: for each pair what was chosen when it was shown in the one order and in the other:
            `first`, `second`, or None for neither. A steady judge says another place each time.
    """
    given = [(a, b) for a, b in orders if a is not None and b is not None]
    return {
        "unsteady": Share(sum(a == b for a, b in given), len(given)).row(),
        "first": Share(
            sum(choice == "first" for pair in given for choice in pair), 2 * len(given)
        ).row(),
    }
