"""What was said and done in an episode before an agent took it over.

Read from the conversation alone, as a colleague would: whoever played before may have meant to do
something else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from synth.core.canonical import content_key
from synth.core.hearing import Hearing
from synth.core.messages import TRANSIENT_ERRORS
from synth.core.types import Fact, Message, PlannedCall


@dataclass(frozen=True, slots=True)
class Made:
    """A call that was made, and need not be made again."""

    place: int
    """Of its result among the messages."""
    problem: str | None
    """Message of its error, if it failed for good."""


class Past:
    """The conversation so far.

    Args:
        messages: system prompt and request first; none where nothing was said yet.
        hears: the language of it.
    """

    def __init__(self, messages: Sequence[Message], hears: Hearing) -> None:
        self._made: dict[str, list[Made]] = {}
        asked = {call.id: call for message in messages for call in message.tool_calls}
        self.ids = frozenset(asked)
        """Identifiers of calls that are taken."""
        for place, message in enumerate(messages):
            call = asked.get(message.tool_call_id or "")
            if message.role == "tool" and call is not None and call.value is not None:
                content = message.content or ""
                if not is_for_now(content):
                    error = read_error(content)
                    made = Made(place, error["message"] if error else None)
                    self._made.setdefault(content_key([call.name, call.value]), []).append(made)
        # The request tells no fact that is to be asked for, whatever it looks like.
        self._told = "\n".join(m.content or "" for m in messages[2:] if m.role == "user")
        self.agreed = _consent(messages, hears)
        """Place of the user's yes, if that is the last thing they said; otherwise -1."""

    def untold(self, facts: Sequence[Fact]) -> list[Fact]:
        """Return those facts that the user has not told yet."""
        return [fact for fact in facts if fact.spoken not in self._told]

    def take(self, call: PlannedCall) -> Made | None:
        """Return how a call was made, once for each time that it was."""
        made = self._made.get(content_key([call.tool, call.arguments])) if self._made else None
        return made.pop(0) if made else None


def _consent(messages: Sequence[Message], hears: Hearing) -> int:
    said = [i for i, m in enumerate(messages) if m.role in ("user", "assistant") and m.content]
    last = max((i for i in said if messages[i].role == "user"), default=-1)
    before = [i for i in said if i < last and messages[i].role == "assistant"]
    if not before or hears.has("declines", messages[last].content or ""):
        return -1
    questions = hears.questions(messages[before[-1]].content or "")
    return last if any(hears.has("consent", question) for question in questions) else -1


# --- results as an agent can read them -------------------------------------------------------


def is_for_now(content: str) -> bool:
    """Say whether the same call is worth another try: it failed for a moment, or gave a part."""
    error = read_error(content)
    return error["code"] in TRANSIENT_ERRORS if error else _is_partial(content)


def read_error(content: str) -> dict[str, str] | None:
    """Return code and message of a failed call as an agent can read them, or None."""
    value = _object(content, '"error"')
    if value is None:
        return None
    error = value.get("error")
    if isinstance(error, dict):
        return {k: str(error.get(k) or error) for k in ("code", "message")}
    return {"code": error, "message": str(value.get("message") or error)} if error else None


def _is_partial(content: str) -> bool:
    value = _object(content, '"partial":true')
    return value is not None and value.get("partial") is True and "notice" in value


def _object(content: str, mark: str) -> dict[str, Any] | None:
    """Return the object that a result is; None where it is none, or lacks a mark."""
    if mark not in content:
        return None
    try:
        value = orjson.loads(content)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None
