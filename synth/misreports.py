"""Faults of what an agent says and of what a record holds; those of what it does: `mutate`."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeAlias

import orjson

from synth.core.canonical import content_key
from synth.core.types import (
    CallError,
    OutputCheck,
    Task,
    ToolResult,
    Trajectory,
)
from synth.surgery import is_write, last_words, own, preferred, rebuilt, with_results, without

Maker: TypeAlias = Callable[[Trajectory, Task, random.Random], Trajectory | None]
_FIGURE = re.compile(r"\d")
_SILENT = ("All done. Is there anything else?", "That is all I found.", "I have looked it up.")


# --- words -----------------------------------------------------------------------------------


def _tells(task: Task) -> bool:
    return any(c.level == "must" and isinstance(c.check, OutputCheck) for c in task.rubric.success)


def _closing(trajectory: Trajectory) -> list[int]:
    """Return where the agent speaks after its last call."""
    steps = own(trajectory)
    first = steps[-1].message + 1 if steps else 0
    return [
        i
        for i, message in enumerate(trajectory.messages)
        if i >= first and message.role == "assistant" and message.content
    ]


def _saying(trajectory: Trajectory, said: Mapping[int, str]) -> Trajectory:
    messages = [
        message.model_copy(update={"content": said[i]}) if i in said else message
        for i, message in enumerate(trajectory.messages)
    ]
    return rebuilt(trajectory, messages, trajectory.steps)


def _misquoted(trajectory: Trajectory, task: Task, rng: random.Random) -> Trajectory | None:
    """The figures that the agent tells are others than those it read."""
    said = {i: trajectory.messages[i].content or "" for i in _closing(trajectory)}
    if not _tells(task) or not any(map(_FIGURE.search, said.values())):
        return None
    more = rng.randint(1, 9)
    return _saying(trajectory, {i: _turned(text, more) for i, text in said.items()})


def _turned(text: str, more: int) -> str:
    return _FIGURE.sub(lambda digit: str((int(digit[0]) + more) % 10), text)


def _untold(trajectory: Trajectory, task: Task, rng: random.Random) -> Trajectory | None:
    """The agent looked everything up, and says nothing of it."""
    said = _closing(trajectory)
    if not _tells(task) or not said:
        return None
    return _saying(trajectory, dict.fromkeys(said, rng.choice(_SILENT)))


def _spoken(trajectory: Trajectory, task: Task, rng: random.Random) -> Trajectory | None:
    """A call was written down in a message, and made by nobody."""
    step = preferred(trajectory, rng)
    if step is None:
        return None
    text = orjson.dumps({"name": step.call.name, "arguments": step.call.value}).decode()
    kept = rebuilt(trajectory, without(trajectory.messages, step.call.id), trajectory.steps)
    at = last_words(kept)
    words = f"<tool_call>{text}</tool_call>\n{kept.messages[at].content or ''}"
    return _saying(kept, {at: words})


# --- the record ------------------------------------------------------------------------------


def _swapped(trajectory: Trajectory, task: Task, rng: random.Random) -> Trajectory | None:
    """Two results changed places, or the only one is not what the tool returned."""
    steps = own(trajectory)
    pairs = [
        (one, two)
        for i, one in enumerate(steps)
        for two in steps[i + 1 :]
        if one.result.content != two.result.content
    ]
    if pairs:
        one, two = rng.choice(pairs)
        return with_results(trajectory, {one.call.id: two.result, two.call.id: one.result})
    for step in reversed(steps):
        digit = _FIGURE.search(step.result.content)
        if digit is not None:
            content = step.result.content
            other = f"{content[: digit.start()]}{_turned(digit[0], 1)}{content[digit.end() :]}"
            changed = step.result.model_copy(update={"content": other})
            return with_results(trajectory, {step.call.id: changed})
    return None


def _forged(trajectory: Trajectory, task: Task, rng: random.Random) -> Trajectory | None:
    """A figure of a result is another one, and the agent tells it as it stands there."""
    found = [(s, n) for s in own(trajectory) for n in set(re.findall(r"\d+", s.result.content))]
    if not found:
        return None
    found.sort(key=lambda one: (one[0].message, one[0].call.id, one[1]))
    step, figure = rng.choice(found)
    number, other = re.compile(rf"(?<!\d){figure}(?!\d)"), _turned(figure, rng.randint(1, 9))
    content = number.sub(other, step.result.content)
    result = step.result.model_copy(update={"content": content})
    told = with_results(trajectory, {step.call.id: result})
    said = {
        i: number.sub(other, message.content)
        for i, message in enumerate(told.messages)
        if i > step.message and message.role == "assistant" and message.content
    }
    return _saying(told, said)


def _failed(trajectory: Trajectory, task: Task, rng: random.Random) -> Trajectory | None:
    """A call failed, and everything after it is as if it had not."""
    step = preferred(trajectory, rng)
    if step is None:
        return None
    error = CallError(code="conflict", message="The record was changed by somebody else.")
    content = orjson.dumps({"error": error.code, "message": error.message}).decode()
    result = ToolResult(ok=False, content=content, error=error)
    return with_results(trajectory, {step.call.id: result})


def _lost(trajectory: Trajectory, task: Task, rng: random.Random) -> Trajectory | None:
    """A change that was made is missing in the final state."""
    writes = [step for step in trajectory.steps if is_write(step) and step.state is not None]
    if not writes or not trajectory.diff:
        return None
    gone = rng.randrange(len(trajectory.diff))
    diff = (*trajectory.diff[:gone], *trajectory.diff[gone + 1 :])
    states = [step for step in trajectory.steps if step.state is not None]
    last = states[-1].model_copy(update={"state": content_key(diff)})
    steps = [last if step is states[-1] else step for step in trajectory.steps]
    return rebuilt(trajectory, trajectory.messages, steps, diff=diff)


def _unanswered(trajectory: Trajectory, task: Task, rng: random.Random) -> Trajectory | None:
    """A call has no result in the dialogue."""
    steps = own(trajectory)
    if not steps:
        return None
    gone = rng.choice(steps).call.id
    kept = [message for message in trajectory.messages if message.tool_call_id != gone]
    return rebuilt(trajectory, kept, trajectory.steps)


MISREPORTS: Mapping[str, Maker] = MappingProxyType({
    "swapped_result": _swapped,
    "forged_result": _forged,
    "hidden_error": _failed,
    "lost_change": _lost,
    "unanswered_call": _unanswered,
    "call_in_words": _spoken,
    "wrong_value": _misquoted,
    "untold_value": _untold,
})  # fmt: skip
"""Name of a fault -> what plants it."""
