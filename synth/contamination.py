"""Does a dataset hold what a public benchmark asks? Each hit says where, and in which words.

Four things are compared: what users say, names of tools, values of arguments, and the calls of a
solution. Shared words alone are no proof: "can you provide me with a list of" is in every dataset.
So words count by their rarity among the benchmark's items, words that many rows of the dataset
share count for nothing, and a hit covers half of an item, or thirteen words in a row.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from synth.core.canonical import canonical

GRAM = 8
"""Words of a run that is looked up."""
LEAST = 5
"""Words of the shortest text that is looked for; below `GRAM`, only as a whole."""
RUN = 13
"""Words in a row that are a hit by themselves (as in the report on GPT-3, appendix C)."""
COVERED = 0.5
"""Share of an item's words, by rarity, from which it counts as said."""
COMMON = 0.05
"""Share of a dataset's rows in which something is, from which it tells nothing."""
_WORD = re.compile(r"\w+")
_CODE = re.compile(r"(?=\S*\d)(?=\S*[A-Za-z#])\S{6,64}")
_PART = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")


@dataclass(frozen=True, slots=True)
class Item:
    """One item of a benchmark."""

    source: str
    """File and identity."""
    prompts: tuple[str, ...] = ()
    tools: frozenset[str] = frozenset()
    values: frozenset[str] = frozenset()
    """Values of arguments that look like identifiers."""
    calls: tuple[str, ...] = ()
    """`name{"argument": value}`, canonical, in order."""


@dataclass(frozen=True, slots=True)
class Hit:
    """What a row shares with an item."""

    row: str
    item: str
    kind: str
    """prompt, tools, value or calls."""
    score: float
    """Share of the item that is in the row, by rarity."""
    span: str
    """What is shared, as the row has it."""


@dataclass(frozen=True, slots=True)
class _Row:
    name: str
    words: list[str]
    tools: frozenset[str]
    values: frozenset[str]
    calls: tuple[str, ...]


def find(rows: Iterable[Mapping[str, Any]], items: Sequence[Item]) -> list[Hit]:
    """Return everything that rows of a dataset share with items of benchmarks.

    Args:
        rows: in the OpenAI shape: `messages`, and `tools` as a list or its text.
        items: of any number of benchmarks.

    Returns:
        Hits in the order of the rows, the strongest of a row first.
    """
    index, found = _Index(items), [_row(number, row) for number, row in enumerate(rows)]
    common = _Common(found)
    hits: list[Hit] = []
    for row in found:
        of_row = [*index.prompts(row, common), *index.others(row, common)]
        hits += sorted(of_row, key=lambda hit: (-hit.score, hit.item, hit.kind))
    return hits


def code_of(value: Any) -> str | None:
    """Return a value of an argument if it looks like an identifier: letters and digits, not few."""
    return value if isinstance(value, str) and _CODE.fullmatch(value) else None


def call_of(name: str, arguments: Mapping[str, Any]) -> str:
    """Return a call so that equal ones are equal."""
    return f"{name}{canonical(arguments)}"


# --- the dataset -----------------------------------------------------------------------------


def _row(number: int, row: Mapping[str, Any]) -> _Row:
    said, calls, values = [], [], set[str]()
    for message in row["messages"]:
        if message["role"] == "user":
            said.append(message.get("content") or "")
        for call in message.get("tool_calls") or ():
            function = call["function"]
            arguments = function["arguments"]
            try:
                given = orjson.loads(arguments) if isinstance(arguments, str) else arguments
            except orjson.JSONDecodeError:
                continue
            if isinstance(given, dict):
                calls.append(call_of(function["name"], given))
                values |= set(codes(given))
    tools = row.get("tools") or []
    listed = orjson.loads(tools) if isinstance(tools, str) else tools
    names = frozenset(tool.get("function", tool)["name"] for tool in listed)
    name = str(row.get("id") or f"row {number + 1}")
    return _Row(name, words_of("\n".join(said)), names, frozenset(values), tuple(calls))


def codes(value: Any) -> Iterator[str]:
    """Yield all identifiers in a JSON value."""
    if isinstance(value, Mapping):
        for item in value.values():
            yield from codes(item)
    elif isinstance(value, list):
        for item in value:
            yield from codes(item)
    elif (code := code_of(value)) is not None:
        yield code


def words_of(text: str) -> list[str]:
    """Return the words of a text, without case and marks."""
    return _WORD.findall(text.casefold())


class _Common:
    """What so many rows share that it tells nothing."""

    def __init__(self, rows: Sequence[_Row]) -> None:
        self._most = max(3.0, COMMON * len(rows))
        self._grams = Counter(gram for row in rows for gram in set(_grams(row.words)))
        self._values = Counter(value for row in rows for value in row.values)
        self._calls = Counter(call for row in rows for call in set(row.calls))

    def gram(self, gram: str) -> bool:
        return self._grams[gram] > self._most

    def value(self, value: str) -> bool:
        return self._values[value] > self._most

    def call(self, call: str) -> bool:
        return self._calls[call] > self._most


# --- the benchmark ---------------------------------------------------------------------------


def _grams(words: Sequence[str]) -> list[str]:
    return [" ".join(words[n : n + GRAM]) for n in range(len(words) - GRAM + 1)]


class _Index:
    """Benchmark items by what they hold."""

    def __init__(self, items: Sequence[Item]) -> None:
        self._texts: list[tuple[Item, list[str], list[str]]] = []
        self._by_gram: dict[str, set[int]] = defaultdict(set)
        self._by_value: dict[str, list[Item]] = defaultdict(list)
        self._by_tool: dict[str, list[Item]] = defaultdict(list)
        self._by_call: dict[str, list[Item]] = defaultdict(list)
        for item in items:
            for prompt in item.prompts:
                self._add_text(item, words_of(prompt))
            for value in item.values:
                self._by_value[value].append(item)
            for tool in item.tools:
                self._by_tool[tool].append(item)
            for call in item.calls:
                self._by_call[call].append(item)

    def _add_text(self, item: Item, words: list[str]) -> None:
        if len(words) < LEAST:
            return
        grams = _grams(words) or [" ".join(words)]
        for gram in grams:
            self._by_gram[gram].add(len(self._texts))
        self._texts.append((item, words, grams))

    def _weight(self, gram: str) -> float:
        return math.log((1 + len(self._texts)) / len(self._by_gram[gram]))

    def prompts(self, row: _Row, common: _Common) -> Iterator[Hit]:
        """Yield the texts of items that a row's user says."""
        said = set(_grams(row.words))
        text = f" {' '.join(row.words)} "
        near = Counter(n for gram in said for n in self._by_gram.get(gram, ()))
        near.update(n for gram in _whole(row.words, self._by_gram) for n in self._by_gram[gram])
        for number in near:
            item, words, grams = self._texts[number]
            told = [g for g in grams if f" {g} " in text and not common.gram(g)]
            whole = sum(map(self._weight, grams))
            score = sum(map(self._weight, told)) / whole if whole else 0.0
            run = _longest(words, text) if told else []
            if score >= COVERED or len(run) >= RUN:
                span = " ".join(run or told[0].split())
                yield Hit(row.name, item.source, "prompt", round(min(1.0, score), 3), span)

    def others(self, row: _Row, common: _Common) -> Iterator[Hit]:
        """Yield shared identifiers, toolsets and calls."""
        for value in sorted(row.values):
            if not common.value(value):
                for item in self._by_value.get(value, ()):
                    yield Hit(row.name, item.source, "value", 1.0, value)
        for item in {id(i): i for tool in row.tools for i in self._by_tool.get(tool, ())}.values():
            shared = sorted(item.tools & row.tools)
            telling = [name for name in shared if len(_PART.findall(name)) >= 3]
            score = len(shared) / len(item.tools)
            if len(telling) >= 2 or (score == 1 and telling):
                yield Hit(row.name, item.source, "tools", round(score, 3), ", ".join(shared))
        yield from self._calls(row, common)

    def _calls(self, row: _Row, common: _Common) -> Iterator[Hit]:
        made = [call for call in row.calls if call in self._by_call and not common.call(call)]
        for item in {id(i): i for call in made for i in self._by_call[call]}.values():
            shared = _in_order(item.calls, row.calls)
            score = len(shared) / len(item.calls)
            if score >= COVERED and sum(call.count(":") for call in shared) >= 2:
                yield Hit(row.name, item.source, "calls", round(score, 3), "; ".join(shared)[:300])


def _whole(words: Sequence[str], known: Mapping[str, Any]) -> Iterator[str]:
    """Yield the short texts of items that occur among the words of a row."""
    for length in range(LEAST, GRAM):
        for n in range(len(words) - length + 1):
            gram = " ".join(words[n : n + length])
            if gram in known:
                yield gram


def _longest(words: Sequence[str], text: str) -> list[str]:
    """Return the longest run of an item's words that a row has."""
    best: list[str] = []
    for start in range(len(words)):
        end = start + len(best) + 1
        while end <= len(words) and f" {' '.join(words[start:end])} " in text:
            best, end = list(words[start:end]), end + 1
    return best


def _in_order(wanted: Sequence[str], made: Sequence[str]) -> list[str]:
    """Return the calls of a solution that were made in its order."""
    found, place = [], 0
    for call in wanted:
        if call in made[place:]:
            place = made.index(call, place) + 1
            found.append(call)
    return found
