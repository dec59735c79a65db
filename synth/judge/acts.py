"""What users did with tools of their own, and whether it was theirs to do.

A state that came about because a user did what nobody asked for says nothing of the agent, whether
it is the wanted one or not. Nor does one that did not come about because a user would not, or
could not call their own tool.
"""

from __future__ import annotations

from collections.abc import Iterator

from synth.core.acting import acting
from synth.core.types import Act, Effect, Step, Task, Trajectory

_WRONG = frozenset({"unknown_tool", "invalid_arguments"})
"""Errors of a call that nobody could have made with the tool in their hands."""


def unasked(task: Task, trajectory: Trajectory) -> str | None:
    """Return what the user changed without having been asked to, in words that follow "the user".

    Args:
        task: what the user can do, and what it is called.
        trajectory: an episode, failed or not.
    """
    says = acting(task.persona.language)
    for step in _own(trajectory):
        if not step.result.ok or step.effect is Effect.READ:
            continue
        act = _act(task, step)
        if not any(says.named(act, text) for text in _heard(trajectory, step.message)):
            return f"called {step.call.name} {step.call.arguments}, which nobody asked for"
    return None


def acts_fault(task: Task, trajectory: Trajectory) -> str | None:
    """Return what the user did wrong, or would not do, in words that follow "the user".

    Args:
        task: what the solution needs the user to do.
        trajectory: a failed episode.
    """
    done = [(step.call.name, step.call.value) for step in _own(trajectory) if step.result.ok]
    for step in _own(trajectory):
        error = step.result.error
        wrong = error is not None and error.code in _WRONG
        if wrong and not any(name == step.call.name for name, _ in done):
            return f"could not call {step.call.name}: {error.message if error else ''}"
    tried = [(step.call.name, step.call.value) for step in _own(trajectory)]
    for act in _needed(task, trajectory):
        if (act.tool, act.arguments) not in tried:
            return f"was asked to {act.words}, and did not"
    return None


def _own(trajectory: Trajectory) -> list[Step]:
    return [step for step in trajectory.steps if step.by == "user"]


def _act(task: Task, step: Step) -> Act:
    """Return the act that a call was; one that the task does not know has the words of its tool."""
    arguments = step.call.value or {}
    for act in task.blueprint.acts:
        if (act.tool, act.arguments) == (step.call.name, arguments):
            return act
    values = " ".join(value for value in arguments.values() if isinstance(value, str))
    words = f"{step.call.name.replace('_', ' ')} {values}"
    return Act(tool=step.call.name, arguments=arguments, words=words)


def _heard(trajectory: Trajectory, before: int) -> Iterator[str]:
    """Yield what the agent had said before a place of the dialogue."""
    for message in trajectory.messages[:before]:
        if message.role == "assistant" and message.content:
            yield message.content


def _needed(task: Task, trajectory: Trajectory) -> Iterator[Act]:
    """Yield the acts of the solution that the agent has asked for, and had an answer to.

    A request that may mean something else as well is none: people ask which one it is.
    """
    says, acts = acting(task.persona.language), task.blueprint.acts
    answered = max((i for i, m in enumerate(trajectory.messages) if m.role == "user"), default=0)
    solved = [(c.tool, c.arguments) for c in task.blueprint.solution if c.by == "user"]
    wanted = [act for act in acts if (act.tool, act.arguments) in solved]
    heard = list(_heard(trajectory, answered))
    for act in wanted:
        for text in heard:
            meant = says.meant(acts, text)
            if meant and says.named(act, text) and all(one in wanted for one in meant):
                yield act
                break
