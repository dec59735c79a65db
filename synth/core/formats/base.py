"""What every family of tool-call text promises: pieces to write, outcomes to read.

A conversation is written as `Piece`s rather than as one string, because two facts are lost in a
string: which text is markup (it may become control tokens) and which text the model itself wrote
(it is trained). Message content is never markup, whatever it contains.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from json.decoder import JSONDecoder
from typing import Any, Protocol

from synth.core.types import ToolCall

Wire = Mapping[str, Any]
"""A message or a tool as a plain dict in the OpenAI chat-completions shape."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A run of text with one origin."""

    text: str
    message: int
    """Index of the message it belongs to; -1 for what comes before the first."""
    control: bool = False
    """Markup of the family, which may be encoded as control tokens. Content never is."""
    sampled: bool = False
    """Written by the model itself: an assistant's body and the stop mark after it."""


class Problem(StrEnum):
    """Why a reply could not be read. A named outcome; nothing is guessed."""

    BROKEN_JSON = "broken_json"
    """Not JSON, or JSON with NaN, a lone surrogate, a repeated key or too deep a nesting."""
    NOT_A_CALL = "not_a_call"
    """JSON, but no object with a name and an object of arguments."""
    BAD_NAME = "bad_name"
    """The name is empty or not text, or an identifier without a tool name in it."""
    UNCLOSED = "unclosed"
    """Markup that was opened and never completed."""


@dataclass(frozen=True, slots=True)
class Parsed:
    """What one reply says. With a `problem`, neither `content` nor `calls` may be used."""

    content: str | None
    calls: tuple[ToolCall, ...] = ()
    problem: Problem | None = None
    detail: str = ""
    """The problem in one line, for the log."""
    repairs: tuple[str, ...] = ()
    """Deviations from the format that were read all the same, because they have one meaning."""


class ToolFormat(Protocol):
    """One family's way to write conversations and to read replies."""

    @property
    def name(self) -> str:
        """Return the name it is registered under."""

    @property
    def stop(self) -> str:
        """Return the mark that ends an assistant's turn, the last token of every reply."""

    def pieces(
        self, messages: Sequence[Wire], tools: Sequence[Wire], *, cue: bool = False
    ) -> list[Piece]:
        """Write a conversation.

        Where message `n` is an assistant's, the pieces of `messages[:n]` with `cue` are a prefix of
        the pieces of every longer conversation: what was sampled stays where it was.

        Args:
            messages: OpenAI-shape messages.
            tools: OpenAI-shape tools; declared before the first turn.
            cue: end with the opening of an assistant's turn, for sampling.

        Raises:
            Unwritable: a message that cannot be read back as it is.
        """

    def parse(self, text: str, *, first_call: int = 0) -> Parsed:
        """Read one reply, without its stop mark.

        Args:
            text: exactly what the model wrote.
            first_call: number of calls the conversation already has (identifiers count them).
        """


class Unwritable(ValueError):
    """A message that no text of this family stands for."""


def calls_of(message: Wire, index: int) -> list[tuple[str, str, str]]:
    """Return identifier, name and arguments text of each call of an OpenAI-shape message.

    Raises:
        Unwritable: arguments that are no JSON object, or a call without a name.
    """
    out = []
    for call in message.get("tool_calls") or ():
        function = call["function"]
        name, arguments = function["name"], function["arguments"]
        if not isinstance(arguments, str):
            arguments = json.dumps(arguments, ensure_ascii=False)
        if not name:
            raise Unwritable(f"message {index} has a call without a name")
        try:
            members = members_of(arguments, 0)
        except ValueError as error:
            raise Unwritable(f"arguments of {name!r} in message {index}: {error}") from None
        if arguments[members.end :].strip(_SPACE):
            raise Unwritable(f"arguments of {name!r} in message {index}: text after the object")
        out.append((str(call.get("id") or ""), name, arguments.strip(_SPACE)))
    return out


# --- strict JSON with positions --------------------------------------------------------------

_SPACE = " \t\n\r"


def _no_constant(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")


def _no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) != len(pairs):
        raise ValueError("a key is repeated")
    return out


_DECODER = JSONDecoder(object_pairs_hook=_no_repeats, parse_constant=_no_constant)


def value_at(text: str, start: int) -> tuple[Any, int, int]:
    """Read the JSON value that begins at `start`, spaces skipped.

    Returns:
        The value, where it begins, where it ends.

    Raises:
        ValueError: not strict JSON.
    """
    while start < len(text) and text[start] in _SPACE:
        start += 1
    try:
        value, end = _DECODER.raw_decode(text, start)
        text[start:end].encode()
        if "\\u" in text[start:end]:
            json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except UnicodeEncodeError:
        raise ValueError("a lone surrogate") from None
    return value, start, end


@dataclass(frozen=True, slots=True)
class Members:
    """The members of one JSON object: values, and the exact text each was written as."""

    values: dict[str, Any]
    texts: dict[str, str]
    end: int


def members_of(text: str, start: int) -> Members:
    """Read the JSON object that begins at `start`, keeping the text of every member.

    Raises:
        ValueError: not strict JSON, or not an object.
    """
    value, start, end = value_at(text, start)
    if not isinstance(value, dict):
        raise ValueError(f"an object is wanted, found {type(value).__name__}")
    texts: dict[str, str] = {}
    position = start + 1
    for _ in value:
        key, _, position = value_at(text, position)
        position = text.index(":", position) + 1
        _, begin, position = value_at(text, position)
        texts[key] = text[begin:position]
        while text[position] in _SPACE + ",":
            position += 1
    return Members(value, texts, end)
