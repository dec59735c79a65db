"""A task proved again without the gate: its solution passes, and an agent that is idle does not.

Each side is found twice: by the judge's own criteria, and by executing it with nothing of the judge
(`synth.harmless`). Nothing here is shared with `synth.gate`, which admitted the task.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import orjson

from synth.core.messages import USERS_CALL
from synth.core.protocols import Environment, run_call
from synth.core.types import (
    Agent,
    Effect,
    Message,
    Step,
    StopReason,
    Task,
    ToolCall,
    Trajectory,
)
from synth.harmless import harmless
from synth.judge.criteria import judge_criterion
from synth.judge.evidence import Evidence
from synth.telling import capital, say_value

IDLE = ("", "Done!", "I have taken care of everything. Goodbye!")
"""What an agent says that does nothing; it also says the request back."""


@dataclass(frozen=True, slots=True)
class Proof:
    """What became of a task."""

    gold: str | None
    """Why its solution does not pass; None where it passes."""
    idle: str | None
    """What an idle agent says that passes; None where it always fails."""


async def prove_task(task: Task, agent: Agent, environment: Environment) -> Proof:
    """Execute a task's solution, and do nothing.

    Args:
        task: the task.
        agent: whose system prompt is read.
        environment: of the task's world; it is reset.

    Raises:
        ToolloomError: the environment is broken; that proves nothing.
    """
    gold = await _gold(task, agent, environment)
    failed = next((s.call.name for s in gold.steps if not s.result.ok), None)
    why = f"{failed} fails" if failed else _missed(task, gold)
    if why is None and not await harmless(gold, task, environment):
        why = "what was executed is not what the task wants"
    said = (*IDLE, task.request)
    passes = next(
        (words for words in said if _missed(task, _idle(task, agent, words)) is None), None
    )
    if passes is None and await harmless(_idle(task, agent, ""), task, environment):
        passes = ""
    return Proof(why, passes)


def _missed(task: Task, trajectory: Trajectory) -> str | None:
    """Return the first criterion that decides and is not met."""
    evidence = Evidence(trajectory)
    for criterion in task.rubric.criteria():
        if criterion.level != "should":
            result = judge_criterion(criterion, trajectory, evidence)
            if result.passed is False:
                return f"{criterion.id}: {result.evidence}"
    return None


def _trajectory(
    task: Task, agent: Agent, messages: Sequence[Message], steps: Sequence[Step] = ()
) -> Trajectory:
    return Trajectory(
        episode="proof",
        task=task.key,
        agent=agent.key,
        world=task.blueprint.world,
        kind=task.blueprint.kind,
        real=False,
        seed=0,
        messages=tuple(messages),
        steps=tuple(steps),
        diff=(),
        stop=StopReason.USER_DONE,
        players={},
    )


def _opening(task: Task, agent: Agent) -> list[Message]:
    asked = Message(role="user", content=task.request)
    return [Message(role="system", content=agent.system), asked]


def _idle(task: Task, agent: Agent, words: str) -> Trajectory:
    said = [Message(role="assistant", content=words)] if words else []
    return _trajectory(task, agent, [*_opening(task, agent), *said])


async def _gold(task: Task, agent: Agent, environment: Environment) -> Trajectory:
    """Return the solution as a conversation: every call, then every value in one message."""
    blueprint, messages, steps = task.blueprint, _opening(task, agent), list[Step]()
    for fact in blueprint.withheld:
        messages.append(Message(role="assistant", content=f"What is the {fact.label}?"))
        messages.append(Message(role="user", content=f"{fact.spoken} ({fact.value})"))
    await environment.reset(blueprint.state_seed)
    users = 0
    for number, planned in enumerate(blueprint.solution):
        by = planned.by
        result = await run_call(environment, by, blueprint.user, planned.tool, planned.arguments)
        users += by == "user"
        name = f"{USERS_CALL}{users}" if by == "user" else f"call_{number}"
        text = orjson.dumps(planned.arguments).decode()
        call = ToolCall(id=name, name=planned.tool, arguments=text)
        at = len(messages)
        if by == "user":
            messages.append(Message(role="user", content=result.content))
        else:
            messages.append(Message(role="assistant", tool_calls=(call,)))
            messages.append(Message(role="tool", content=result.content, tool_call_id=name))
        effect: Effect = planned.effect
        steps.append(Step(message=at, call=call, result=result, effect=effect, by=by))
    told = (
        f"{capital(one.label)}: {say_value(one, language=task.persona.language)}."
        for one in blueprint.outputs
    )
    messages.append(Message(role="assistant", content="\n".join(told) or "That is done."))
    diff = await environment.diff()
    return _trajectory(task, agent, messages, steps).model_copy(update={"diff": diff})
