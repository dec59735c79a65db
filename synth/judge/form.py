"""First stage: is this a well-formed dialogue at all, and does the record agree with itself?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from synth.core.canonical import content_key
from synth.core.messages import USERS_CALL
from synth.core.types import Agent, Message, Step, StopReason, Trajectory

_NOTHING = content_key(())
_FOLLOWS = {
    "system": ("user",),
    "user": ("assistant",),
    "tool": ("tool", "assistant"),
    "assistant": ("user",),
}
"""Role -> roles that may come next (after an assistant's calls: tool, checked apart)."""


def form_problem(trajectory: Trajectory, agent: Agent) -> tuple[str, str] | None:
    """Return what is wrong with the form, as a fixed word and evidence; None if nothing."""
    return next(_problems(trajectory, agent), None)


def record_problem(trajectory: Trajectory) -> str | None:
    """Return where dialogue, record of calls and final state disagree; None if nowhere."""
    found = (*_calls(trajectory.messages, trajectory.steps), *_states(trajectory))
    return found[0][1] if found else None


def _problems(trajectory: Trajectory, agent: Agent) -> Iterator[tuple[str, str]]:
    messages = trajectory.messages
    if not messages or messages[0].role != "system" or messages[0].content != agent.system:
        yield "system", "the first message is not the agent's system prompt"
    if trajectory.stop is not StopReason.USER_DONE:  # first: a call it left open is no news
        yield str(trajectory.stop), f"the episode stopped with {str(trajectory.stop)!r}"
    yield from _roles(messages)
    yield from _calls(messages, trajectory.steps)
    if messages[-1].role not in ("user", "assistant") or messages[-1].tool_calls:
        yield "end", f"the last message is by {messages[-1].role!r} or asks for a call"
    yield from _states(trajectory)


def _roles(messages: Sequence[Message]) -> Iterator[tuple[str, str]]:
    for before, after in pairwise(messages):
        allowed = ("tool",) if before.tool_calls else _FOLLOWS[before.role]
        if after.role not in allowed:
            yield "roles", f"{after.role!r} after {before.role!r}"
    for message in messages:
        if not (message.content or message.tool_calls or message.role == "tool"):
            yield "empty", f"an empty message of role {message.role!r}"
        if message.tool_calls and message.role != "assistant":
            yield "roles", f"calls in a message of role {message.role!r}"


def _calls(messages: Sequence[Message], steps: Sequence[Step]) -> Iterator[tuple[str, str]]:
    """Every call has one result, in order, and one step that says the same."""
    yield from _order(messages, steps)
    steps = [step for step in steps if step.by == "agent"]
    seen: set[str] = set()
    number = 0
    for index, message in enumerate(messages):
        for offset, call in enumerate(message.tool_calls, start=1):
            result = messages[index + offset] if index + offset < len(messages) else None
            step = steps[number] if number < len(steps) else None
            number += 1
            if call.id in seen or not call.id:
                yield "call_id", f"the call id {call.id!r} is empty or used twice"
            seen.add(call.id)
            if call.value is None:
                yield "arguments", f"{call.name}: the arguments are not a JSON object"
            if result is None or result.role != "tool" or result.tool_call_id != call.id:
                yield "result", f"call {call.id!r} of {call.name!r} has no result"
            elif step is None or not _same(step, index, call.id, result.content):
                yield "record", f"the record of call {call.id!r} differs from the dialogue"
            elif step.call != call:
                yield "record", f"call {call.id!r} was recorded with other arguments"
    if number != len(steps) or sum(message.role == "tool" for message in messages) != number:
        yield "record", f"{number} calls were asked for, {len(steps)} recorded"


def _order(messages: Sequence[Message], steps: Sequence[Step]) -> Iterator[tuple[str, str]]:
    """Calls are recorded as they were made; the user's, numbered, before a message of theirs."""
    places = [step.message for step in steps]
    if places != sorted(places):
        yield "record", "the calls are not in the order of their messages"
    acts = [step for step in steps if step.by == "user"]
    for number, step in enumerate(acts, 1):
        if step.message >= len(messages) or messages[step.message].role != "user":
            yield "record", f"the user says nothing after their call of {step.call.name!r}"
        if step.call.id != f"{USERS_CALL}{number}":
            yield "record", f"call {number} of the user is called {step.call.id!r}"


def _same(step: Step, message: int, call_id: str, content: str | None) -> bool:
    return (
        step.message == message
        and step.call.id == call_id
        and step.result.content == (content or "")
    )


def _states(trajectory: Trajectory) -> Iterator[tuple[str, str]]:
    """The state after the last write is the final state."""
    states = [step.state for step in trajectory.steps if step.state is not None]
    last = states[-1] if states else _NOTHING
    if last != content_key(trajectory.diff):
        yield "state", "the final diff is not the state after the last write"
