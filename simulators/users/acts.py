"""What a scripted user does with tools of their own: just what they are asked to, by its name."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import orjson

from synth.core import voices
from synth.core.acting import acting
from synth.core.protocols import UserView
from synth.core.speech import speech
from synth.core.types import Act, Effect, Message, ToolCall


def obey(heard: str, view: UserView, rng: random.Random) -> Message | None:
    """Return what a user does, or says instead, when asked to act; None if they are not.

    Args:
        heard: what the agent said last.
        view: what the user can do, and what was said and done before.
        rng: chooses phrases.
    """
    language = view.persona.language
    says = acting(language)
    before = [m.content for m in view.messages if m.content and m.role != "tool"]
    meant = says.meant(view.acts, heard, before)
    if len(meant) > 1:
        speaker = voices.voice(view.persona.voice, language)
        options = speech(language).listed([act.words for act in meant[:3]], choice=True)
        return Message(role="user", content=speaker.say("which", rng, options=options))
    if not meant:
        missing = says.touches(view.acts, heard)
        return Message(role="user", content=says.say("missing", rng)) if missing else None
    if _is_done(meant[0], view):
        return Message(role="user", content=says.say("again", rng))
    return Message(role="user", tool_calls=(_call(meant[0], view),))


def _call(act: Act, view: UserView) -> ToolCall:
    made = sum(len(message.tool_calls) for message in view.messages)
    text = orjson.dumps(act.arguments).decode()
    return ToolCall(id=f"act_{made + 1}", name=act.tool, arguments=text)


def _is_done(act: Act, view: UserView) -> bool:
    """Say whether the user has changed this already; what is only looked at can be seen again."""
    effects = {spec.name: spec.effect for spec in view.tools}
    if effects.get(act.tool) is Effect.READ:
        return False
    results = {m.tool_call_id: m.content or "" for m in view.messages if m.role == "tool"}
    calls = (call for message in view.messages for call in message.tool_calls)
    return any(
        (call.name, call.value) == (act.tool, act.arguments) and _error(results[call.id]) is None
        for call in calls
    )


def report(view: UserView, rng: random.Random) -> Message:
    """Return what a user says of what they have just done.

    Args:
        view: its last messages are the user's calls and their results.
        rng: chooses phrases.
    """
    says = acting(view.persona.language)
    result = view.messages[-1].content or ""
    call = next(m for m in reversed(view.messages) if m.tool_calls).tool_calls[-1]
    reason = _error(result)
    if reason is not None:
        return Message(role="user", content=says.say("failed", rng, reason=reason))
    labels = next((act.labels for act in view.acts if act.tool == call.name and act.labels), {})
    if not labels:
        return Message(role="user", content=says.say("done", rng))
    shown = [
        says.say("shows", rng, label=labels.get(column, column), value=str(value))
        for column, value in _object(result).items()
        if value is not None
    ]
    values = speech(view.persona.language).listed(shown)
    return Message(role="user", content=says.say("read", rng, values=values))


def _error(content: str) -> str | None:
    value = _object(content)
    return str(value.get("message") or value["error"]) if "error" in value else None


def _object(content: str) -> Mapping[str, Any]:
    try:
        value = orjson.loads(content)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
