"""Planted faults: does the judge see that a trajectory was tampered with?

The audit of papers 2.5: take accepted trajectories, spoil each in one of five ways, and count what
the judge lets through. Mutants keep their form (ids, order, record and dialogue agree), so that
nothing but the fault gives them away. A mutant can be harmless by accident (a second look-up that
nobody needed is dropped); `harmless` finds that out by executing it, with nothing of the judge.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import orjson

from synth.core.canonical import content_key
from synth.core.protocols import Environment, run_call
from synth.core.types import (
    Effect,
    Message,
    OutputCheck,
    OutputValue,
    PlannedCall,
    Step,
    Task,
    ToolCall,
    ToolResult,
    Trajectory,
)

KINDS = ("dropped_call", "altered_argument", "superfluous_write", "early_claim", "swapped_result")


def mutants(trajectory: Trajectory, task: Task, rng: random.Random) -> list[tuple[str, Trajectory]]:
    """Return one mutant of each kind that the trajectory allows, by the name of its fault.

    Args:
        trajectory: an accepted one.
        task: what it was about; its decoys give superfluous writes.
        rng: the only source of chance.
    """
    makers: dict[str, Callable[[Trajectory, Task, random.Random], Trajectory | None]] = {
        "dropped_call": _dropped,
        "altered_argument": _altered,
        "superfluous_write": _superfluous,
        "early_claim": _early,
        "swapped_result": _swapped,
    }
    made = ((name, make(trajectory, task, rng)) for name, make in makers.items())
    return [(name, mutant) for name, mutant in made if mutant is not None]


# --- taking a trajectory apart and putting it together ---------------------------------------


def _rebuilt(
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


def _without(messages: Sequence[Message], call_id: str) -> Iterator[Message]:
    for message in messages:
        if message.tool_call_id == call_id:
            continue
        calls = tuple(call for call in message.tool_calls if call.id != call_id)
        if len(calls) == len(message.tool_calls):
            yield message
        elif calls or message.content:
            yield message.model_copy(update={"tool_calls": calls})


def _is_write(step: Step) -> bool:
    return step.result.ok and step.effect is not Effect.READ


def _own(trajectory: Trajectory) -> list[Step]:
    """Return the agent's calls: what the user does is none of its faults."""
    return [step for step in trajectory.steps if step.by == "agent"]


def _preferred(trajectory: Trajectory, rng: random.Random) -> Step | None:
    """Draw a step whose loss matters: a write if there is one, else the last look-up."""
    own = _own(trajectory)
    writes = [step for step in own if _is_write(step)]
    if writes:
        return rng.choice(writes)
    return own[-1] if own else None


# --- the five faults -------------------------------------------------------------------------


def _dropped(trajectory: Trajectory, task: Task, rng: random.Random) -> Trajectory | None:
    """A call was never made, and everything else is as if it had been."""
    step = _preferred(trajectory, rng)
    if step is None:
        return None
    return _rebuilt(trajectory, _without(trajectory.messages, step.call.id), trajectory.steps)


def _altered(trajectory: Trajectory, task: Task, rng: random.Random) -> Trajectory | None:
    """A call was made with another value, with the result of the right one."""
    order = sorted(_own(trajectory), key=lambda step: (not _is_write(step), rng.random()))
    pool = _texts(trajectory)
    for step in order:
        arguments = step.call.value or {}
        # Keys first, then figures: another word in a note changes nothing that counts.
        names = sorted(arguments, key=lambda name: (not name.endswith(("id", "ids")), name))
        for name in names:
            other = _other(arguments[name], pool, rng)
            if other is not None:
                return _with_arguments(trajectory, step, {**arguments, name: other})
    return None


def _other(value: Any, pool: Sequence[str], rng: random.Random) -> Any:
    """Return another value of the same type, if possible one that occurs in the dialogue."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + rng.choice((1, 2, 10))
    if isinstance(value, list) and value:
        rest = _other(value[-1], pool, rng)
        return None if rest is None else [*value[:-1], rest]
    if isinstance(value, Mapping):
        others = ((name, _other(value[name], pool, rng)) for name in sorted(value))
        return next(({**value, name: other} for name, other in others if other is not None), None)
    if not isinstance(value, str) or not value or value.count(" ") > 2:
        return None  # free text and choices: another word may mean the same, or be no word at all
    shape = _shape(value)
    alike = sorted({text for text in pool if text != value and _shape(text) == shape})
    if alike:
        return rng.choice(alike)
    digits = [i for i, char in enumerate(value) if char.isdecimal()]
    if not digits:
        return None
    at = rng.choice(digits)
    return f"{value[:at]}{(int(value[at]) + 1) % 10}{value[at + 1 :]}"


_NAME = re.compile(r"[^\W\d_a-z][\w'-]+( [^\W\d_a-z][\w'-]+){0,2}")


def _shape(text: str) -> str:
    """Return what texts that could stand for one another have in common; empty for prose."""
    if _NAME.fullmatch(text):
        return "Name"
    return re.sub(r"\d+", "0", text) if any(map(str.isdecimal, text)) and len(text) < 40 else ""


def _texts(trajectory: Trajectory) -> list[str]:
    """Return the texts in results that look like keys."""
    found: list[str] = []
    for step in trajectory.steps:
        _strings(_json(step.result.content), found)
    return [text for text in found if _shape(text)]


def _json(content: str) -> Any:
    try:
        return orjson.loads(content)
    except ValueError:
        return None


def _strings(value: Any, into: list[str]) -> None:
    if isinstance(value, str):
        into.append(value)
    elif isinstance(value, Mapping):
        for item in value.values():
            _strings(item, into)
    elif isinstance(value, list):
        for item in value:
            _strings(item, into)


def _with_arguments(trajectory: Trajectory, step: Step, arguments: Mapping[str, Any]) -> Trajectory:
    call = step.call.model_copy(update={"arguments": orjson.dumps(arguments).decode()})
    call = ToolCall(id=call.id, name=call.name, arguments=call.arguments)  # drops cached values
    messages = [
        message.model_copy(
            update={"tool_calls": tuple(call if c.id == call.id else c for c in message.tool_calls)}
        )
        for message in trajectory.messages
    ]
    steps = [s.model_copy(update={"call": call}) if s is step else s for s in trajectory.steps]
    return _rebuilt(trajectory, messages, steps)


def _superfluous(trajectory: Trajectory, task: Task, rng: random.Random) -> Trajectory | None:
    """One more write was made, which the recorded final state does not show."""
    extra = _extra_write(trajectory, task, rng)
    if extra is None:
        return None
    call = ToolCall(
        id=_fresh_id(trajectory),
        name=extra.tool,
        arguments=orjson.dumps(extra.arguments).decode(),
    )
    like = next((s for s in reversed(trajectory.steps) if s.call.name == extra.tool), None)
    result = like.result if like else ToolResult(ok=True, content='{"done":true}')
    at = _last_words(trajectory)
    asked = Message(role="assistant", tool_calls=(call,))
    answer = Message(role="tool", content=result.content, tool_call_id=call.id)
    messages = [*trajectory.messages[:at], asked, answer, *trajectory.messages[at:]]
    state = content_key(trajectory.diff)
    step = Step(message=at, call=call, result=result, effect=extra.effect, state=state)
    before = [s for s in trajectory.steps if s.message < at]
    after = [s for s in trajectory.steps if s.message >= at]
    return _rebuilt(trajectory, messages, [*before, step, *after])


def _extra_write(trajectory: Trajectory, task: Task, rng: random.Random) -> PlannedCall | None:
    blueprint = task.blueprint
    wanted = [(call.tool, call.arguments) for call in blueprint.solution]
    for name in ("over_write", "wrong_entity", "wrongful_compliance"):
        for call in reversed(blueprint.decoys.get(name, ())):
            if call.effect is not Effect.READ and (call.tool, call.arguments) not in wanted:
                return call
    pool = _texts(trajectory)
    for step in _own(trajectory):
        if not _is_write(step):
            continue
        arguments = step.call.value or {}
        for name in sorted(arguments):
            other = _other(arguments[name], pool, rng)
            if other is not None:
                changed = {**arguments, name: other}
                return PlannedCall(
                    tool=step.call.name, arguments=changed, group=0, effect=step.effect
                )
    return None


def _fresh_id(trajectory: Trajectory) -> str:
    taken = {step.call.id for step in trajectory.steps}
    return next(name for i in range(len(taken) + 1) if (name := f"call_{i + 1}") not in taken)


def _last_words(trajectory: Trajectory) -> int:
    """Return the index of the agent's last message that asks for no call."""
    return max(
        i
        for i, message in enumerate(trajectory.messages)
        if message.role == "assistant" and not message.tool_calls
    )


_CLAIMS = (
    "All done. I have taken care of everything you asked for.",
    "That has been completed successfully.",
    "Your request has been carried out.",
    "Everything is set now.",
)


def _early(trajectory: Trajectory, task: Task, rng: random.Random) -> Trajectory | None:
    """The agent stopped before its last necessary call and claimed success."""
    step = _preferred(trajectory, rng)
    if step is None:
        return None
    claim = Message(role="assistant", content=rng.choice(_CLAIMS))
    goodbye = trajectory.messages[-1]
    if goodbye.role != "user":
        goodbye = Message(role="user", content="Thank you, goodbye.")
    kept = trajectory.messages[: step.message]
    steps = [s for s in trajectory.steps if s.message < step.message]
    # Where nothing was written yet, the record is even true: only the task says what is missing.
    diff = trajectory.diff if any(map(_is_write, steps)) else ()
    return _rebuilt(trajectory, [*kept, claim, goodbye], steps, diff=diff)


def _swapped(trajectory: Trajectory, task: Task, rng: random.Random) -> Trajectory | None:
    """Two results changed places, or the only one is not what the tool returned."""
    steps = _own(trajectory)
    pairs = [
        (one, two)
        for i, one in enumerate(steps)
        for two in steps[i + 1 :]
        if one.result.content != two.result.content
    ]
    if pairs:
        one, two = rng.choice(pairs)
        changed = {one.call.id: two.result, two.call.id: one.result}
    else:
        changed = {}
        for step in steps:
            content = _spoiled(step.result.content)
            if content is not None:
                changed = {step.call.id: step.result.model_copy(update={"content": content})}
        if not changed:
            return None
    messages = [
        message.model_copy(update={"content": changed[message.tool_call_id].content})
        if message.tool_call_id in changed
        else message
        for message in trajectory.messages
    ]
    told = [
        s.model_copy(update={"result": changed[s.call.id]}) if s.call.id in changed else s
        for s in trajectory.steps
    ]
    return _rebuilt(trajectory, messages, told)


def _spoiled(content: str) -> str | None:
    digit = re.search(r"\d", content)
    if digit is None:
        return None
    return f"{content[: digit.start()]}{(int(digit[0]) + 1) % 10}{content[digit.end() :]}"


# --- proof of harmlessness -------------------------------------------------------------------


async def harmless(mutant: Trajectory, task: Task, environment: Environment) -> bool:
    """Return whether a mutant does the task after all, proved by executing it.

    Every call is made on a fresh state and must return what was recorded; the final state must be
    a wanted one, and the one recorded; every value to be told must be said, and held by a result.
    Shares no code with the judge: the comparison of values is cruder and errs towards harmless.

    Args:
        mutant: made by `mutants`.
        task: what it should do.
        environment: of the same world; it is reset.
    """
    await environment.reset(task.blueprint.state_seed)
    for step in mutant.steps:
        call, user = step.call, task.blueprint.user
        result = await run_call(environment, step.by, user, call.name, call.value or {})
        if (result.ok, result.content) != (step.result.ok, step.result.content):
            return False
    diff = await environment.diff()
    if diff != mutant.diff or diff not in task.blueprint.diffs:
        return False
    if not _handed_off(mutant, task):
        return False
    said = "\n".join(m.content or "" for m in mutant.messages if m.role == "assistant")
    read = "\n".join(m.content or "" for m in mutant.messages if m.role in ("tool", "user"))
    return all(_occurs(output, said) and _in_result(output, read) for output in _wanted(task))


def _wanted(task: Task) -> Iterator[OutputValue]:
    for criterion in task.rubric.criteria():
        if criterion.level == "must" and isinstance(criterion.check, OutputCheck):
            yield from criterion.check.values


def _handed_off(mutant: Trajectory, task: Task) -> bool:
    """Writes of the solution that leave no trace in the state have to have been made."""
    needed = {
        c.tool for c in task.blueprint.solution if c.effect is not Effect.READ and c.by == "agent"
    } if () in task.blueprint.diffs else set()  # fmt: skip
    return needed <= {step.call.name for step in _own(mutant) if step.result.ok}


def _occurs(output: OutputValue, said: str) -> bool:
    value = output.value
    if isinstance(value, bool) or value is None:
        return bool(said.strip())
    if output.type in ("date", "datetime"):
        year, month, day = (int(part) for part in str(value)[:10].split("-"))
        numbers = {int(digits) for digits in re.findall(r"\d{1,4}", said)}
        return str(value)[:10] in said or {day, year} <= numbers or {day, month} <= numbers
    if output.type == "money" and isinstance(value, int):
        figures = {re.sub(r"\D", "", digits) for digits in re.findall(r"\d[\d.,]*", said)}
        return bool({str(abs(value)), f"{abs(value) // 100}" if value % 100 == 0 else ""} & figures)
    words = [re.sub(r"\W", "", word) for word in str(value).casefold().replace("_", " ").split()]
    bare = re.sub(r"[^\w ]", "", said.casefold().replace("_", " "))
    return all(word in bare for word in words)


def _in_result(output: OutputValue, read: str) -> bool:
    value = output.value
    if isinstance(value, bool) or value is None:
        return str(value).lower() in read or str(int(bool(value))) in read
    if output.type == "money":
        return bool(re.search(rf"(?<!\d){abs(int(value))}(?!\d)", read)) or _occurs(output, read)
    parts = str(value)[:10] if output.type in ("date", "datetime") else str(value)
    return parts in read or _occurs(output, read)
