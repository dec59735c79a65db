"""Answers for requests that no script knows: plausible, brief, decided by seed and request alone.

With tools, one call that its schema allows, and after the result a sentence; with a schema of the
answer, a value of it; to who plays a user, what a user says, and a goodbye after a few turns.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from itertools import islice
from typing import Any

from synth.core.llm.mock.ask import Ask, member
from synth.core.llm.mock.render import dumps
from synth.core.llm.mock.said import Said
from synth.core.llm.mock.values import Values

MAX_CALLS = 3
"""Turns with a call in one conversation; then it is only talked."""
MAX_WORDS = 12
_STOP = re.compile(r"#{2,}[A-Z]{2,20}#{2,}")
_WISH = re.compile(r"^- to (.{1,300})$", re.M)
_WORD = re.compile(r"[\w@][\w.@+-]{2,40}\w")
_CLOSING = (
    "That is done.",
    "I have looked it up for you; the result is above.",
    "This is taken care of.",
    "Here is what came of it: it went through as asked.",
)
_ANSWER = (
    "Please tell me a little more, then I will look into it.",
    "I understand. Let me know which one you mean.",
    "Thank you for the details.",
)
_AGREES = ("Yes, please go on.", "Yes, that is right.", "That suits me, thank you.")
_NO_SCHEMA = (
    ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError,
)  # fmt: skip
_GOODBYE = "Thank you, that is all. Goodbye. "


def play(ask: Ask, *, call: bool = False) -> Said:
    """Return an answer.

    Args:
        ask: the request.
        call: call a tool, if there is any, whatever the turn.
    """
    number = int(ask.key, 16)
    wanted = ask.body.get("response_format")
    if ask.tools and ask.body.get("tool_choice") != "none" and (call or _calls_now(ask)):
        return _tool_call(ask, random.Random(number))
    if isinstance(wanted, dict) and str(wanted.get("type", "")).startswith("json"):
        return _cut(Said(_structured(wanted, random.Random(number))), ask)
    return _cut(Said(_sentence(ask, number)), ask)


def _calls_now(ask: Ask) -> bool:
    if ask.body.get("tool_choice", "auto") != "auto":
        return True  # required, or a function by name
    called = sum(1 for message in ask.messages if message.get("tool_calls"))
    return ask.messages[-1]["role"] != "tool" and called < MAX_CALLS


def _tool_call(ask: Ask, dice: random.Random) -> Said:
    choice = ask.body.get("tool_choice")
    functions = [tool["function"] for tool in ask.tools]
    if isinstance(choice, dict):
        named = member(choice, "function").get("name")
        functions = [f for f in functions if f["name"] == named] or functions
    function = dice.choice(functions)
    value = _value(function.get("parameters"), dice, _words(ask))
    arguments = dumps(value if isinstance(value, dict) else {}).decode()
    return Said(None, ((function["name"], arguments),))


def _value(schema: Any, dice: random.Random, words: Sequence[str] = ()) -> Any:
    if not isinstance(schema, dict):
        return None
    try:
        return Values(schema, dice, words).value()
    except _NO_SCHEMA:
        return None  # what is no schema allows nothing in particular


def _words(ask: Ask) -> list[str]:
    """Return what the conversation names: numbers, codes, addresses."""
    texts = [m.get("content") for m in ask.messages[-3:] if m["role"] in ("user", "tool")]
    words = (word for text in texts if isinstance(text, str) for word in _WORD.findall(text[:600]))
    named = (w for w in words if not w.isalpha() and ("@" in w or any(map(str.isdigit, w))))
    return list(dict.fromkeys(islice(named, MAX_WORDS)))


def _structured(wanted: dict[str, Any], dice: random.Random) -> str:
    schema = member(wanted, "json_schema").get("schema")
    if not isinstance(schema, dict):
        return dumps({"answer": dice.choice(_CLOSING)}).decode()
    return dumps(_value(schema, dice)).decode()


def _sentence(ask: Ask, number: int) -> str:
    first = ask.messages[0].get("content")
    prompt = first if ask.messages[0]["role"] != "user" and isinstance(first, str) else ""
    stop = _STOP.search(prompt) if "##" in prompt else None
    if stop is None:
        after_result = ask.messages[-1]["role"] == "tool"
        choices = _CLOSING if after_result or not ask.tools else _ANSWER
        return choices[number % len(choices)]
    said = sum(1 for message in ask.messages if message["role"] == "assistant")
    if said == 0:
        wishes = _WISH.findall(prompt)
        return f"Hello. I would like to {' and to '.join(wishes) or 'ask for your help'}."
    return _GOODBYE + stop[0] if said > 1 + number % 2 else _AGREES[number % len(_AGREES)]


def _cut(said: Said, ask: Ask) -> Said:
    """End a text where `max_tokens` ends it."""
    limit = ask.body.get("max_completion_tokens") or ask.body.get("max_tokens")
    text = said.content or ""
    if not isinstance(limit, int) or len(text) < 4 * limit:
        return said
    return Said(text[: 4 * limit - 1], finish="length")
