"""Call identifiers of exactly nine letters and digits, as Mistral's templates demand.

No map of all texts to nine characters can be undone, so the map belongs to one conversation and
remembers what it gave out. Our own `call_17` is `call00017` in every conversation.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from typing import Any

from synth.core.formats.base import Wire

_NINE = re.compile(r"[A-Za-z0-9]{9}")
_OURS = re.compile(r"call_(0|[1-9][0-9]{0,4})")
_OURS_SHORT = re.compile(r"call([0-9]{5})")
_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


class NineCharacters:
    """Identifiers of one conversation, both ways.

    The short form depends only on identifiers that came before, so a conversation that grows keeps
    those it has.
    """

    def __init__(self) -> None:
        self._short: dict[str, str] = {}
        self._long: dict[str, str] = {}

    def short(self, identifier: str) -> str:
        """Return nine letters and digits that stand for `identifier` and for no other."""
        known = self._short.get(identifier)
        if known is not None:
            return known
        short, attempt = _first_choice(identifier), 0
        while short in self._long:
            short = _hashed(f"{attempt}\0{identifier}")
            attempt += 1
        self._short[identifier], self._long[short] = short, identifier
        return short

    def long(self, short: str) -> str:
        """Return the identifier that `short` stands for.

        Raises:
            KeyError: it was not given out here.
        """
        return self._long[short]


def in_nine_characters(messages: Iterable[Wire]) -> list[dict[str, Any]]:
    """Return the messages of one conversation with identifiers of nine letters and digits.

    Calls and their results get the same one, different ones stay different, and nothing else
    changes. Those that have the form keep theirs, unless it means one of ours.
    """
    table = NineCharacters()
    out = []
    for message in messages:
        changed = dict(message)
        if message.get("tool_calls"):
            calls = message["tool_calls"]
            changed["tool_calls"] = [{**call, "id": table.short(call["id"])} for call in calls]
        if "tool_call_id" in message:
            changed["tool_call_id"] = table.short(message["tool_call_id"])
        out.append(changed)
    return out


def is_nine(identifier: str) -> bool:
    """Say whether `identifier` is nine letters and digits."""
    return _NINE.fullmatch(identifier) is not None


def own(short: str) -> str:
    """Return `call_17` for `call00017`; what is not in that form stays as it is."""
    match = _OURS_SHORT.fullmatch(short)
    return f"call_{int(match[1])}" if match else short


def _first_choice(identifier: str) -> str:
    match = _OURS.fullmatch(identifier)
    if match:
        return f"call{int(match[1]):05d}"
    if is_nine(identifier) and not _OURS_SHORT.fullmatch(identifier):
        return identifier
    return _hashed(identifier)


def _hashed(text: str) -> str:
    number = int.from_bytes(hashlib.sha256(text.encode(errors="backslashreplace")).digest())
    out = ""
    for _ in range(9):
        number, digit = divmod(number, len(_DIGITS))
        out += _DIGITS[digit]
    return out
