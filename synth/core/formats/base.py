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
from typing import Any, Protocol

from synth.core.formats.values import SPACE, value_at
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
    TOO_MANY = "too_many"
    """More calls than anybody can mean: a model that repeats itself."""
    EMPTY = "empty"
    """Nothing was said and nothing called: white space, or no text at all."""


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
    raw: str = ""
    """All that the model wrote, so that nothing is lost; lone surrogates as `\\udXXX`."""


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

        Whatever the text is, the outcome is calls, text or a named problem, in linear time. A
        reply is read whole, never in parts: what streams in is joined first (`llm.stream`).

        Args:
            text: exactly what the model wrote.
            first_call: number of calls the conversation already has (identifiers count them).
        """


class Unwritable(ValueError):
    """A message that no text of this family stands for."""


def calls_of(message: Wire, index: int) -> list[tuple[str, str, str]]:
    """Return identifier, name and arguments text of each call of an OpenAI-shape message.

    Raises:
        Unwritable: arguments that are no JSON object, a call without a name, a lone surrogate.
    """
    out = []
    for call in message.get("tool_calls") or ():
        function = call["function"]
        name, arguments = function["name"], function["arguments"]
        if not isinstance(arguments, str):
            arguments = json.dumps(arguments, ensure_ascii=False)
        if not name or name.isspace():
            raise Unwritable(f"message {index} has a call without a name")
        try:
            value, _, end = value_at(arguments, 0)
        except ValueError as error:
            raise Unwritable(f"arguments of {name!r} in message {index}: {error}") from None
        if not isinstance(value, dict):
            kind = type(value).__name__
            raise Unwritable(f"arguments of {name!r} in message {index} are {kind}, not an object")
        if arguments[end:].strip(SPACE):
            raise Unwritable(f"arguments of {name!r} in message {index}: text after the object")
        _check_encodable(name, index)
        out.append((str(call.get("id") or ""), name, arguments.strip(SPACE)))
    return out


def _check_encodable(text: str, index: int) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Unwritable(f"message {index} holds a lone surrogate") from None


def said_with(message: Wire, calls: Sequence[Any], index: int) -> str:
    """Return an assistant's content; blank content beside calls is no content.

    Raises:
        Unwritable: a lone surrogate in it, which no tokenizer takes.
    """
    content = str(message.get("content") or "")
    _check_encodable(content, index)
    return "" if calls and not content.replace("\ufeff", "").strip() else content
