"""What a tool is for: a category of the taxonomy, told from its words and its server's.

No model, and nothing is forced: a tool whose words tell nothing has no category. The words of
`taxonomy.yaml` count by where they stand (`_WEIGHTS`), less the more categories share them; a tool
also gets a part of what the tools of its server have together, since `get_item` alone says nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from itertools import chain, pairwise

import yaml

from synth.core.types import ToolSpec
from tool_registry.effect import VERBS
from tool_registry.search import title_of, words_of

_NAME, _SERVER, _DESCRIPTION, _PARAMETER = 3.0, 3.0, 1.0, 0.5
_SHARED = 1.0
"""Share of its server's mean that each tool gets."""
LEAST = 1.6
"""Points that tell a category; one telling word in a description is not enough."""
CLEAR = 0.55
"""Share of the two best categories' points that the better one must have."""
_READ = 60
"""Words of a description that are read."""


@dataclass(frozen=True, slots=True)
class Category:
    """One category of the taxonomy."""

    name: str
    about: str
    words: tuple[str, ...]
    """What tells it; `pull-request` is two words in a row."""


@dataclass(frozen=True, slots=True)
class Inferred:
    """What a tool is probably for."""

    category: str
    score: float
    """How clearly, 0.5 to 1: its share of the points of the two best categories."""


@lru_cache(1)
def taxonomy() -> dict[str, Category]:
    """Return the categories by name, in their order."""
    text = files("tool_registry").joinpath("taxonomy.yaml").read_text(encoding="utf-8")
    return {
        name: Category(name, entry["about"], tuple(dict.fromkeys(str(entry["words"]).split())))
        for name, entry in yaml.safe_load(text).items()
    }


@lru_cache(1)
def _tellers() -> dict[str, list[tuple[str, float]]]:
    """Return for each word, or pair of words, the categories it tells and how much."""
    found: dict[str, dict[str, None]] = defaultdict(dict)
    for category in taxonomy().values():
        for word in category.words:
            found[" ".join(words_of(word.replace("-", " ")))][category.name] = None
    return {
        word: [(name, (1.5 if " " in word else 1.0) / len(names)) for name in names]
        for word, names in found.items()
    }


def classify(server: str, specs: Sequence[ToolSpec]) -> list[Inferred | None]:
    """Return the category of each tool of one server; None where nothing tells it.

    Args:
        server: its identity in the registry.
        specs: all tools that it lists.
    """
    own = [_points(spec) for spec in specs]
    of_server: dict[str, float] = defaultdict(float)
    for word in _terms(title_of(server)):
        for category, weight in _tellers().get(word, ()):
            of_server[category] += _SERVER * weight
    for points in own:
        for category, value in points.items():
            of_server[category] += _SHARED * value / len(own)
    return [_decided(points, of_server) for points in own]


def _points(spec: ToolSpec) -> dict[str, float]:
    properties = spec.parameters.get("properties")
    parameters = " . ".join(properties) if isinstance(properties, Mapping) else ""
    points: dict[str, float] = defaultdict(float)
    fields = ((spec.name, _NAME), (spec.description, _DESCRIPTION), (parameters, _PARAMETER))
    for text, value in fields:
        for word in dict.fromkeys(_terms(text)):
            # `search_notes` is about notes: what is done tells less than what it is done to.
            worth = min(value, _DESCRIPTION) if word in VERBS else value
            for category, weight in _tellers().get(word, ()):
                points[category] += worth * weight
    return points


def _terms(text: str) -> Iterator[str]:
    """Yield the words of a text and its pairs of words."""
    words = [word for word, _ in zip(words_of(text), range(_READ), strict=False)]
    return chain(words, (f"{one} {other}" for one, other in pairwise(words)))


def _decided(own: Mapping[str, float], of_server: Mapping[str, float]) -> Inferred | None:
    points = {name: own.get(name, 0.0) + of_server.get(name, 0.0) for name in {*own, *of_server}}
    best = sorted(points.items(), key=lambda item: (-item[1], item[0]))[:2]
    if not best or best[0][1] < LEAST:
        return None
    second = best[1][1] if len(best) > 1 else 0.0
    score = best[0][1] / (best[0][1] + second)
    return Inferred(best[0][0], round(score, 3)) if score >= CLEAR else None
