"""Proof that a spoilt trajectory does its task after all, with nothing of the judge."""

from __future__ import annotations

import re
from collections.abc import Iterator

from synth.core.protocols import Environment, run_call
from synth.core.types import Effect, OutputCheck, OutputValue, Task, Trajectory
from synth.surgery import is_code, key_texts, own, strings


async def harmless(mutant: Trajectory, task: Task, environment: Environment) -> bool:
    """Return whether a mutant does the task after all, proved by executing it.

    Every call is made on a fresh state and must return what was recorded; the final state must be
    a wanted one, and the one recorded; every value to be told must be said, and held by a result;
    every call of the dialogue has its result, and none uses a key that only a later result tells.
    Shares no code with the judge: the comparison of values is cruder and errs towards harmless.

    Args:
        mutant: made by `mutants`.
        task: what it should do.
        environment: of the same world; it is reset.
    """
    if not _whole(mutant, task) or _foreseen(mutant):
        return False
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


def _whole(mutant: Trajectory, task: Task) -> bool:
    """Calls, results and record are of the same calls, in the same order, of known tools."""
    asked = [call.id for message in mutant.messages for call in message.tool_calls]
    answered = [message.tool_call_id for message in mutant.messages if message.role == "tool"]
    known = all(step.call.name in task.blueprint.tools for step in own(mutant))
    return known and asked == answered == [step.call.id for step in own(mutant)]


def _foreseen(mutant: Trajectory) -> bool:
    """Say whether a call has a key in it that results tell, but none before the call."""
    told = set(key_texts(mutant))
    for step in own(mutant):
        before = "\n".join(m.content or "" for m in mutant.messages[: step.message])
        values: list[str] = []
        strings(step.call.value, values)
        if any(value in told and value not in before for value in values if is_code(value)):
            return True
    return False


def _wanted(task: Task) -> Iterator[OutputValue]:
    for criterion in task.rubric.criteria():
        if criterion.level == "must" and isinstance(criterion.check, OutputCheck):
            yield from criterion.check.values


def _handed_off(mutant: Trajectory, task: Task) -> bool:
    """Writes of the solution that leave no trace in the state have to have been made."""
    needed = {
        c.tool for c in task.blueprint.solution if c.effect is not Effect.READ and c.by == "agent"
    } if () in task.blueprint.diffs else set()  # fmt: skip
    return needed <= {step.call.name for step in own(mutant) if step.result.ok}


def _occurs(output: OutputValue, said: str) -> bool:
    value = output.value
    if isinstance(value, bool) or value is None:
        return bool(said.strip())
    if output.type in ("date", "datetime"):
        year, month, day = (int(part) for part in str(value)[:10].split("-"))
        numbers = {int(digits) for digits in re.findall(r"\d{1,4}", said)}
        return str(value)[:10] in said or {day, year} <= numbers or {day, month} <= numbers
    if output.type == "money" and isinstance(value, int):
        found = (re.sub(r"\D", "", digits) for digits in re.findall(r"\d[\d.,]*", said))
        figures = {digits.lstrip("0") or "0" for digits in found}
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
