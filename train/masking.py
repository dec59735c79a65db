"""Other names for the same tools, so that a model reads the list instead of remembering it.

A model that learned `find_customer` on one application calls it on every other, whatever tools are
offered there. Function masking (Hammer, arXiv 2410.04587, section 3.2) renames the tools in the
rows it learns from. Here the verb stays, because every application shares it, and what it is about
becomes something else: `find_customer`, `find_tenant`, `findParcel`.
"""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from synth.core import seeds
from train.data import Conversation, agent_of

_WORDS = (
    "actor album animal article asset athlete author battery beacon boat bottle branch bridge "
    "camera candidate captain chapter charter citizen client coach collection company concert "
    "container contract courier course crew delivery device district donor driver engine event "
    "exhibit factory farm file film garden garment ingredient island journal key kitchen lake "
    "lesson library license machine market match member meter museum neighbour novel nurse object "
    "operator orchard painting parcel parent partner passenger path permit pilot planet plant "
    "player poem printer prize producer project pupil reader recipe record region relay reporter "
    "route sample satellite school score seat sensor shelf ship signal singer song station statue "
    "student supplier survey team tenant theatre train trainer tree truck vehicle village visitor "
    "voter warehouse window witness worker workshop writer"
)
_NOUNS = _WORDS.split()
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
LONGEST = 64
"""Characters of a name that endpoints take."""


def masked(rows: Iterable[Conversation], *, every: int, seed: int) -> list[Conversation]:
    """Return the rows with their tools renamed, consistently in declarations, calls and prompts.

    Args:
        rows: conversations of any agents.
        every: so many rows of one agent get the same names, and so still share their prompt.
        seed: decides the names.
    """
    of_agent: dict[str, int] = defaultdict(int)
    out = []
    for row in rows:
        agent = agent_of(row.messages, row.tools)
        rng = seeds.rng("masking", seed, agent, of_agent[agent] // every)
        of_agent[agent] += 1
        out.append(_renamed(row, names([t["function"]["name"] for t in row.tools], rng)))
    return out


def names(tools: Sequence[str], rng: random.Random) -> dict[str, str]:
    """Return another name for each tool: no two the same, all in one style.

    A word means the same in all of them: `find_card` and `block_card` become `find_boat` and
    `block_boat`.
    """
    style = rng.choice((_snake, _snake, _snake, _camel))
    nouns = iter(rng.sample(_NOUNS, len(_NOUNS)))
    meant: dict[str, str] = {}
    out: dict[str, str] = {}
    for tool in tools:
        words = [word.lower() for word in _WORD.findall(tool)] or ["use"]
        told = [meant.setdefault(word, next(nouns, word)) for word in words[1:]]
        name = style([words[0], *(told or [next(nouns, "item")])])
        # One that fails keeps its own name, so no other may have taken it.
        free = name not in out.values() and name not in tools
        out[tool] = name if free and len(name) <= LONGEST else tool
    return out


def _snake(words: Sequence[str]) -> str:
    return "_".join(words)


def _camel(words: Sequence[str]) -> str:
    return words[0] + "".join(word.capitalize() for word in words[1:])


def _renamed(row: Conversation, other: Mapping[str, str]) -> Conversation:
    # Only what cannot be an everyday word is replaced in running text: `search` stays.
    told = [name for name in other if not name.isalpha()]
    pattern = re.compile(rf"(?<![\w-])({'|'.join(map(re.escape, told))})(?![\w-])")

    def message(given: Mapping[str, Any]) -> Mapping[str, Any]:
        out = dict(given)
        if told and given["role"] in ("system", "assistant") and given.get("content"):
            out["content"] = pattern.sub(lambda found: other[found[1]], given["content"])
        if given.get("tool_calls"):
            out["tool_calls"] = [
                {**call, "function": {**call["function"], "name": new}}
                for call in given["tool_calls"]
                for new in [other.get(call["function"]["name"], call["function"]["name"])]
            ]
        return out

    tools = tuple(
        {**tool, "function": {**tool["function"], "name": other[tool["function"]["name"]]}}
        for tool in row.tools
    )
    return replace(row, messages=tuple(map(message, row.messages)), tools=tools)
