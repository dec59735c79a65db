"""The conversation: messages, calls, results. Re-exported by `synth.core.types`.

Free-form JSON (arguments, results) is kept as the exact text that was said.
"""

from __future__ import annotations

import json
import math
from functools import cached_property
from typing import Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from synth.core.canonical import content_key

Scalar: TypeAlias = str | int | float | bool | None
Holder: TypeAlias = Literal["agent", "user"]
"""Whose tool it is, and so who makes the call."""
USERS_CALL = "user_"
"""What the identity of a user's call begins with; its number in the episode, from 1, follows."""
Diff: TypeAlias = tuple[str, ...]
"""Net change of a state since the episode's start: sorted canonical JSON lines, one a changed row,
`["table","insert"|"update"|"delete",before,after]`. Undone changes leave nothing; equality of
tuples is equality of states. Generated identifiers are renamed by content, ignored columns are
absent."""


class Frozen(BaseModel):
    """Base of all data: immutable, strict about fields, identified by content."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @cached_property
    def key(self) -> str:
        """Content key: 20 hexadecimal characters of the hash of the canonical JSON."""
        return content_key(self.model_dump(mode="json"))


DEEPEST = 100
"""Levels of JSON: readers and writers give up between 128 and 1,024, each at another depth."""
_LEAVES = (str, int, float, type(None))


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no number")


def _finite(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _no_number(text)


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("a key occurs twice")
    return value


def _agreed(value: Any) -> bool:
    """Say whether all who read or write JSON can take a value: its depth, and its integers."""
    level = [value]
    for _ in range(DEEPEST):
        if any(type(item) is int and not -(2**63) <= item < 2**64 for item in level):
            return False
        inner = (item.values() if isinstance(item, dict) else item for item in level)
        level = [one for items in inner if not isinstance(items, _LEAVES) for one in items]
        if not level:
            return True
    return False


_STRICT = json.JSONDecoder(
    parse_constant=_no_number, parse_float=_finite, object_pairs_hook=_distinct
)


class ToolCall(Frozen):
    """One call an agent (or a user) asked for. `arguments` is the exact text they wrote."""

    id: str
    name: str
    arguments: str

    @cached_property
    def value(self) -> dict[str, Any] | None:
        """The arguments as an object, or None if the text is not a JSON object.

        What other readers of the text would refuse or read in another way is none: NaN, numbers
        beyond all bounds, a key that occurs twice, half of a surrogate pair, nesting without end.
        """
        try:
            value = _STRICT.decode(self.arguments)
            if "\\u" in self.arguments or not self.arguments.isascii():
                json.dumps(value, ensure_ascii=False).encode()
        except (ValueError, RecursionError):
            return None
        return value if isinstance(value, dict) and _agreed(value) else None


class Message(Frozen):
    """One chat turn in the OpenAI shape; reasoning is kept apart from content."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str | None = None
    reasoning: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None

    def openai(self) -> dict[str, Any]:
        """Return the message as the chat-completions API takes it (reasoning left out)."""
        out: dict[str, Any] = {"role": self.role, "content": self.content}
        if self.tool_calls:
            out["tool_calls"] = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": call.name, "arguments": call.arguments},
                }
                for call in self.tool_calls
            ]
        if self.tool_call_id is not None:
            out["tool_call_id"] = self.tool_call_id
        return out


class CallError(Frozen):
    """Why a call failed, as the agent sees it. Codes of the engine: `ENGINE_ERRORS`."""

    code: str
    message: str


TRANSIENT_ERRORS = frozenset({"tool_fault", "timeout", "service_unavailable", "rate_limited"})
"""Codes after which the same call is worth another try."""
ENGINE_ERRORS = TRANSIENT_ERRORS | {
    *("unknown_tool", "invalid_arguments", "not_found", "conflict", "out_of_order"),
    "not_recorded",
}
"""Codes no application may use for its own errors (`not_found` is the implicit unknown entity)."""


class Happened(Frozen):
    """Something that happened by itself, before a call."""

    event: str
    second: int
    """When, counted from the start of the episode on the environment's own clock."""
    text: str
    """What happened, in one sentence. Agents are not told: they see what changed, if they look."""


class ToolResult(Frozen):
    """What a call returned. `content` is the exact text the agent sees (JSON for applications)."""

    ok: bool
    content: str
    error: CallError | None = None
    outcome: Literal["success", "partial", "transient", "permanent", "edge"] = "success"
    """Of the environment's own making; `faulty` wrappers set the others."""
    happened: tuple[Happened, ...] = Field(default=(), exclude_if=lambda found: not found)
    """What had happened by itself since the call before; `scheduled` wrappers set it."""


class Usage(Frozen):
    """Tokens of one model reply; None means the endpoint did not say. Unknown is not 0."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None

    def __add__(self, other: Usage) -> Usage:
        """Return the sum; one unknown part makes it unknown."""
        return Usage(
            prompt_tokens=_total(self.prompt_tokens, other.prompt_tokens),
            completion_tokens=_total(self.completion_tokens, other.completion_tokens),
            cached_tokens=_total(self.cached_tokens, other.cached_tokens),
        )


def _total(one: int | None, two: int | None) -> int | None:
    return None if one is None or two is None else one + two
