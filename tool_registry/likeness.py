"""How alike two tools read, for measuring near duplicates; nothing is eliminated by it.

Two tools are near duplicates where they have the same effect, their parameters have the same
names, keys' endings apart, and the words of name, descriptions and enums are alike: cosine of word
weights, rare words weighing more. Only what an agent is shown counts, where elimination looks at
what SQL does (`purpose`). The threshold is that of 100 pairs which were labelled by reading them
(`docs/measurements.md`).
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

ALIKE = 0.7
"""Cosine from which on two tools with the same effect and parameters are near duplicates."""
_WORD = re.compile(r"[a-z]+")
_GENERIC = frozenset(
  [
    "id", "ref", "key", "number", "identifier", "such", "as", "for", "example", "which",
    "its", "the", "a", "an", "of", "to", "and", "or", "is", "in", "needs", "optional",
    "errors", "changes", "nothing", "what", "stored", "cannot", "undone", "returns",
    "return", "returned", "one", "object", "list", "lists", "refused", "unless", "fails",
    "only", "has", "have", "be", "been", "whose", "noted", "see", "while", "if", "same",
    "that", "gives", "each", "cents", "euro", "us", "pence", "swiss", "centimes", "sums",
    "are", "show", "full", "everything", "about", "by", "with", "from", "find", "search",
    "get", "read", "retrieve", "fetch", "describe", "query", "look", "up", "browse", "all",
    "them", "filters", "hold", "together", "suit", "given", "filter", "without",
  ]
)  # fmt: skip
"""Words of any tool: how it is asked and answers, in which currency; endings of names of keys."""
_SAME = {"state": "status"}


@dataclass(frozen=True)
class Shown:
    """A tool as an agent is shown it."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    """JSON Schema."""
    effect: str
    """read, write or destructive."""

    @cached_property
    def words(self) -> frozenset[str]:
        """Return the words by which two tools are compared."""
        texts = [self.name, self.description]
        for name, schema in _parameters(self.parameters):
            texts += [name, str(schema.get("description", ""))]
            texts += [str(value) for value in schema.get("enum", ())]
        return frozenset(word for text in texts for word in _words(text))

    @cached_property
    def takes(self) -> frozenset[str]:
        """Return the names of the parameters, without keys' endings and without objects around."""
        return frozenset(
            " ".join(_words(name))
            for name, schema in _parameters(self.parameters)
            if "properties" not in schema
        )


def _words(text: str) -> Iterator[str]:
    for word in _WORD.findall(text.lower()):
        if word not in _GENERIC:
            yield _SAME.get(word, word)


def _parameters(schema: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for name, inner in (schema.get("properties") or {}).items():
        yield name, inner
        yield from _parameters(inner)
        if isinstance(inner.get("items"), Mapping):
            yield from _parameters(inner["items"])


class Likeness:
    """Weights of words, from all tools that are compared."""

    def __init__(self, tools: Iterable[Shown]) -> None:
        counts: Counter[str] = Counter()
        total = 0
        for tool in tools:
            counts.update(tool.words)
            total += 1
        self._weights = {w: math.log(1 + total / n) ** 2 for w, n in counts.items()}
        self._rarest = math.log(1 + total) ** 2

    def _length(self, words: Iterable[str]) -> float:
        return sum(self._weights.get(word, self._rarest) for word in words)

    def cosine(self, one: Shown, other: Shown) -> float:
        """Return how alike the words are, from 0 to 1."""
        lengths = self._length(one.words) * self._length(other.words)
        return self._length(one.words & other.words) / math.sqrt(lengths) if lengths else 0.0

    def near(self, one: Shown, other: Shown, least: float = ALIKE) -> bool:
        """Say whether two tools are near duplicates."""
        same = (one.effect, one.takes) == (other.effect, other.takes)
        return same and self.cosine(one, other) >= least


def near_duplicates(tools: Sequence[Shown], least: float = ALIKE) -> list[tuple[int, int]]:
    """Return the tools that are near duplicates of an earlier one that is none, with that one.

    Their share is what would be lost if only one of each kind was kept: 50,000 tools take seconds.

    Args:
        tools: in the order in which they came about.
        least: cosine from which on tools with the same parameters are alike.
    """
    likeness = Likeness(tools)
    kept: dict[tuple[str, frozenset[str]], list[int]] = defaultdict(list)
    found = []
    for place, tool in enumerate(tools):
        others = kept[tool.effect, tool.takes]
        same = next((o for o in others if likeness.cosine(tool, tools[o]) >= least), None)
        if same is None:
            others.append(place)
        else:
            found.append((place, same))
    return found
