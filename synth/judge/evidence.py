"""What an agent could have known, and when: the words of others and the results it got."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cached_property, lru_cache
from typing import Any, Self

import orjson

from synth.core.types import Scalar, Trajectory
from synth.judge.values import at_token

_WORDS = re.compile(r"[^\W_]{3,}")
_COST = frozenset({
    "amoun", "balan", "charg", "cost", "costs", "debt", "due", "fee", "fees", "open", "outst",
    "owe", "owed", "owing", "paid", "pay", "payab", "price", "sum", "total",
})  # fmt: skip
"""Beginnings of words that people use for one another when they speak of a sum of money."""
_TELLING = 3
"""Characters of a run that hardly occurs by chance."""
_RUNS = re.compile(r"[^\W\d_]+|\d+")
QUOTE = 160
"""Characters of a text that evidence quotes at most."""


def quote(text: str) -> str:
    """Return a text short enough for a verdict, on one line."""
    line = " ".join(text.split())
    return line if len(line) <= QUOTE else f"{line[: QUOTE - 1]}…"


class Evidence:
    """The texts of a trajectory by who wrote them.

    Args:
        trajectory: a well-formed one.
    """

    def __init__(self, trajectory: Trajectory) -> None:
        self.told: list[tuple[int, str]] = []
        """Index and text of what the agent said."""
        self.sources: list[tuple[int, str]] = []
        """Index and text of what the agent read: system prompt, user, results."""
        self.user: list[str] = []
        for index, message in enumerate(trajectory.messages):
            content = message.content
            if not content:
                continue
            if message.role == "assistant":
                self.told.append((index, content))
                continue
            self.sources.append((index, content))
            if message.role == "user":
                self.user.append(content)

    @classmethod
    def of_plan(cls, system: str, request: str, results: Iterable[str]) -> Self:
        """Return the evidence of calls made at once after a request; nothing is said yet."""
        found = cls.__new__(cls)
        found.told, found.user = [], [request] if request else []
        texts = ((0, system), (1, request), *enumerate(results, 3))
        found.sources = [(index, text) for index, text in texts if text]
        return found

    def saying(self, text: str) -> Self:
        """Return the same evidence with one closing message; its sources are shared."""
        found = self.__class__.__new__(self.__class__)
        found.sources, found.user = self.sources, self.user
        found.told = [(self.sources[-1][0] + 1 if self.sources else 0, text)] if text else []
        return found

    def before(self, index: int, *, prompt: bool = True) -> Iterator[str]:
        """Yield what was read before message `index`, the latest first.

        Args:
            index: of a message.
            prompt: whether the system prompt counts. Its figures are no answer to anything.
        """
        for at, text in reversed(self.sources):
            if at < index and (prompt or at > 0):
                yield text

    def holds(self, value: str, index: int, *, prompt: bool = True) -> bool:
        """Return whether a value stands, as a whole token, in what was read before `index`."""
        texts = list(self.before(index, prompt=prompt))
        escaped = orjson.dumps(value)[1:-1].decode()
        for text in texts:
            if at_token(text, value) or (escaped != value and at_token(text, escaped)):
                return True
        folded = value.casefold()
        return any(at_token(text.casefold(), folded) for text in texts)

    def composed(self, value: str, index: int, *, prompt: bool = True) -> bool:
        """Return whether every run of letters or of digits of a value was read before `index`.

        For values that an agent may put together: `report_2026.txt`, a serial number with the
        spaces left out. As an answer (without `prompt`) a value of short runs only does not count:
        the 0 and the 12 of room 0.12 occur by chance.
        """
        runs = set(_RUNS.findall(value.casefold()))
        if not prompt and all(len(run) < _TELLING for run in runs):
            return False
        for text in self.before(index, prompt=prompt):
            runs -= _runs(text)
        return not runs

    @cached_property
    def results(self) -> list[tuple[int, Any]]:
        """The results that are JSON, parsed, with the index of their message."""
        found = []
        for index, text in self.sources:
            if index and text[:1] in "{[":
                try:
                    found.append((index, _parsed(text)))
                except ValueError:
                    continue
        return found

    def named(self, value: Scalar, label: str, index: int, *, amount: bool = False) -> bool:
        """Return whether a result before `index` has the value under a key that fits the label.

        For values so common that they occur by chance: a 0, a yes, a size M. A key fits that
        shares the beginning of a word: `overdraft_limit` and "overdraft limit of the account".
        The words for what something costs are one where it is an `amount` of money: `balance` and
        "what I owe".
        """
        words = {word[:5] for word in _WORDS.findall(label.lower())}
        if amount and words & _COST:
            words |= _COST
        flag = isinstance(value, bool)
        for at, result in self.results:
            for key, found in _scalars("", result):
                equal = found == value and (flag or not isinstance(found, bool))
                if at < index and equal and words & {w[:5] for w in _WORDS.findall(key.lower())}:
                    return True
        return False

    def siblings(self, value: str) -> set[str]:
        """Return other texts that results hold under the same key as `value`."""
        by_key: dict[str, set[str]] = {}
        for _, result in self.results:
            for key, item in _scalars("", result):
                if isinstance(item, str):
                    by_key.setdefault(key, set()).add(item)
        found: set[str] = set()
        for texts in by_key.values():
            if value in texts:
                found |= texts
        return found - {value}


@lru_cache(maxsize=256)
def _parsed(text: str) -> Any:
    return orjson.loads(text)


@lru_cache(maxsize=256)
def _runs(text: str) -> frozenset[str]:
    return frozenset(_RUNS.findall(text.casefold()))


def _scalars(key: str, value: Any) -> Iterator[tuple[str, Scalar]]:
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _scalars(name, item)
    elif isinstance(value, list):
        for item in value:
            yield from _scalars(key, item)
    else:
        yield key, value
