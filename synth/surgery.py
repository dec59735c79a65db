"""Taking a trajectory apart and putting it together again, its form kept whole."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import orjson

from synth.core.types import Effect, Message, Step, ToolCall, ToolResult, Trajectory


def rebuilt(
    trajectory: Trajectory, messages: Iterable[Message], steps: Sequence[Step], **changes: Any
) -> Trajectory:
    """Return the trajectory with these messages; calls are matched by id, the user's by place."""
    kept = tuple(messages)
    place = {call.id: i for i, message in enumerate(kept) for call in message.tool_calls}
    users = [i for i, message in enumerate(kept) if message.role == "user"]
    for step in steps:
        if step.by == "user":
            said = sum(m.role == "user" for m in trajectory.messages[: step.message])
            place[step.call.id] = users[said]
    known = [
        step.model_copy(update={"message": place[step.call.id]})
        for step in steps
        if step.call.id in place
    ]
    return trajectory.model_copy(update={"messages": kept, "steps": tuple(known), **changes})


def without(messages: Sequence[Message], call_id: str) -> Iterator[Message]:
    """Yield the messages without a call and its result."""
    for message in messages:
        if message.tool_call_id == call_id:
            continue
        calls = tuple(call for call in message.tool_calls if call.id != call_id)
        if len(calls) == len(message.tool_calls):
            yield message
        elif calls or message.content:
            yield message.model_copy(update={"tool_calls": calls})


def is_write(step: Step) -> bool:
    """Say whether a call may have changed something."""
    return step.result.ok and step.effect is not Effect.READ


def own(trajectory: Trajectory) -> list[Step]:
    """Return the agent's calls: what the user does is none of its faults."""
    return [step for step in trajectory.steps if step.by == "agent"]


def preferred(trajectory: Trajectory, rng: random.Random) -> Step | None:
    """Draw a step whose loss matters: a write if there is one, else the last look-up."""
    steps = own(trajectory)
    writes = [step for step in steps if is_write(step)]
    if writes:
        return rng.choice(writes)
    return steps[-1] if steps else None


def with_call(trajectory: Trajectory, step: Step, call: ToolCall) -> Trajectory:
    """Return the trajectory with another call in the place of one, under the same id."""

    def other(message: Message) -> Message:
        calls = tuple(call if one.id == call.id else one for one in message.tool_calls)
        return message.model_copy(update={"tool_calls": calls})

    steps = [s.model_copy(update={"call": call}) if s is step else s for s in trajectory.steps]
    return rebuilt(trajectory, map(other, trajectory.messages), steps)


def with_arguments(trajectory: Trajectory, step: Step, arguments: Mapping[str, Any]) -> Trajectory:
    """Return the trajectory with other arguments in one call."""
    text = orjson.dumps(arguments).decode()
    return with_call(
        trajectory, step, ToolCall(id=step.call.id, name=step.call.name, arguments=text)
    )


def fresh_id(trajectory: Trajectory) -> str:
    """Return the id of a call that the trajectory does not have."""
    taken = {step.call.id for step in trajectory.steps}
    return next(name for i in range(len(taken) + 1) if (name := f"call_{i + 1}") not in taken)


def exchanged(trajectory: Trajectory, one: Step, two: Step) -> Trajectory:
    """Return the trajectory with two calls, and their results, in each other's place.

    Args:
        trajectory: it is left as it is.
        one: a call by the agent.
        two: another one. The states that writes are recorded with go with them.
    """
    change = {one.call.id: two, two.call.id: one}
    messages = []
    for message in trajectory.messages:
        if any(call.id in change for call in message.tool_calls):
            calls = [change[c.id].call if c.id in change else c for c in message.tool_calls]
            message = message.model_copy(update={"tool_calls": tuple(calls)})
        elif message.tool_call_id is not None and message.tool_call_id in change:
            other = change[message.tool_call_id]
            told = {"content": other.result.content, "tool_call_id": other.call.id}
            message = message.model_copy(update=told)
        messages.append(message)
    steps = [change.get(step.call.id, step) for step in trajectory.steps]
    return rebuilt(trajectory, messages, steps)


def with_results(trajectory: Trajectory, changed: Mapping[str, ToolResult]) -> Trajectory:
    """Return the trajectory with other results.

    Args:
        trajectory: it is left as it is.
        changed: id of a call -> its other result.
    """
    messages = [
        message.model_copy(update={"content": changed[message.tool_call_id].content})
        if message.tool_call_id is not None and message.tool_call_id in changed
        else message
        for message in trajectory.messages
    ]
    told = [
        s.model_copy(update={"result": changed[s.call.id]}) if s.call.id in changed else s
        for s in trajectory.steps
    ]
    return rebuilt(trajectory, messages, told)


def stopped(trajectory: Trajectory, step: Step, words: str) -> Trajectory:
    """Return the trajectory up to a call that is not made: the agent says this instead, and ends.

    Args:
        trajectory: it is left as it is.
        step: the call.
        words: of the agent.
    """
    said = Message(role="assistant", content=words)
    goodbye = trajectory.messages[-1]
    if goodbye.role != "user":
        goodbye = Message(role="user", content="Thank you, goodbye.")
    kept = trajectory.messages[: step.message]
    steps = [s for s in trajectory.steps if s.message < step.message]
    # Where nothing was written yet, the record is even true: only the task says what is missing.
    diff = trajectory.diff if any(map(is_write, steps)) else ()
    return rebuilt(trajectory, [*kept, said, goodbye], steps, diff=diff)


def last_words(trajectory: Trajectory) -> int:
    """Return the index of the agent's last message that asks for no call."""
    return max(
        i
        for i, message in enumerate(trajectory.messages)
        if message.role == "assistant" and not message.tool_calls
    )


_NAME = re.compile(r"[^\W\d_a-z][\w'-]+( [^\W\d_a-z][\w'-]+){0,2}")


def shape(text: str) -> str:
    """Return what texts that could stand for one another have in common; empty for prose."""
    if _NAME.fullmatch(text):
        return "Name"
    return re.sub(r"\d+", "0", text) if any(map(str.isdecimal, text)) and len(text) < 40 else ""


def is_code(text: str) -> bool:
    """Say whether a text is a key of letters and digits, as no word or date is."""
    return text.isascii() and bool(re.fullmatch(r"(?=.*\d)[A-Za-z][\w-]{2,}", text))


def key_texts(trajectory: Trajectory) -> list[str]:
    """Return the texts in results that look like keys."""
    found: list[str] = []
    for step in trajectory.steps:
        strings(parsed(step.result.content), found)
    return [text for text in found if shape(text)]


def parsed(content: str) -> Any:
    """Return a result as JSON; None where it is none."""
    try:
        return orjson.loads(content)
    except ValueError:
        return None


def strings(value: Any, into: list[str]) -> None:
    """Add every text within a JSON value to `into`."""
    if isinstance(value, str):
        into.append(value)
    elif isinstance(value, Mapping):
        for item in value.values():
            strings(item, into)
    elif isinstance(value, list):
        for item in value:
            strings(item, into)
