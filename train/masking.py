"""Other names for the same tools, so that a model reads the list instead of remembering it.

A model that learned `find_customer` on one application calls it on every other, whatever tools are
offered there. Function masking (Hammer, arXiv 2410.04587, section 3.2) renames the tools in the
rows it learns from. Names drawn at random would be no words; these say the same in another way and
style: `find_customer`, `fetchCustomer`, `query_customer`.
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

_SAME = (
    ("find", "get", "fetch", "retrieve", "query", "read", "show", "search"),
    ("list", "show", "browse", "view", "fetch", "enumerate"),
    ("search", "find", "query", "browse"),
    ("create", "add", "open", "register", "make", "new"),
    ("update", "change", "edit", "set", "modify", "amend"),
    ("cancel", "delete", "remove", "drop", "revoke", "undo"),
    ("book", "reserve", "arrange", "schedule"),
    ("move", "transfer", "shift", "relocate"),
    ("send", "submit", "post", "deliver"),
    ("pay", "settle", "clear"),
    ("block", "freeze", "lock", "suspend"),
    ("request", "order", "want", "require"),
)
"""Verbs that can stand for one another at the front of a name."""
_VERBS = {group[0]: group for group in _SAME}
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_TRIES = 20


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
    """Return another name for each tool: no two the same, all in one style."""
    style = rng.choice((_snake, _snake, _camel))
    out: dict[str, str] = {}
    for tool in tools:
        for _ in range(_TRIES):
            other = style(_said_otherwise(tool, rng))
            if other not in out.values() and other not in tools:
                break
        else:
            other = tool
        out[tool] = other
    return out


def _said_otherwise(name: str, rng: random.Random) -> list[str]:
    words = [word.lower() for word in _WORD.findall(name)] or ["tool"]
    return [rng.choice(_VERBS.get(words[0], (words[0],))), *words[1:]]


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
