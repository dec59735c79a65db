"""Forks: an episode that begins as another one did, and goes on in another way.

With one prefix two continuations can be compared, of which one passes and the other does not; and a
roll-out can begin in the middle (K1.5 2.6.2). A place is a number of messages kept, so that it is
the same whoever plays on. What is kept is kept to the byte: calls are made again, not recalled, and
the results must be those of the record.
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from synth.core.errors import BadInput
from synth.core.imagined import WorldCall
from synth.core.outcomes import Outcomes, Regime
from synth.core.types import Fork, Frozen, Message, Step, StopReason, Trajectory

FIRST = 2
"""Least messages to keep: the system prompt and the request."""
_OF_CHANCE = ("transient", "permanent")
"""Outcomes of calls that would have succeeded."""
_UNFINISHED = frozenset({StopReason.ERROR, StopReason.MAX_TURNS, StopReason.MAX_CALLS})
"""Ends after which somebody could have gone on."""


class Prefix(Frozen):
    """What a fork keeps of its origin."""

    fork: Fork
    messages: tuple[Message, ...]
    """System prompt first."""
    steps: tuple[Step, ...]
    farewell: bool = False
    """The user has said that they want to end; only the agent's answer is still to come."""
    regimes: tuple[Regime, ...] = ()
    """What decided over the faults of the calls kept, where the fork's own setting does not."""
    imagined: tuple[WorldCall, ...] = Field(default=(), exclude_if=lambda calls: not calls)
    """Where a model played the tools of the origin: what it said, to be met again."""

    @property
    def agents_turn(self) -> bool:
        """Say whether the agent speaks next: nothing it asked for is still to be done."""
        asked = [call.id for message in self.messages for call in message.tool_calls]
        return self.messages[-1].role != "assistant" and calls_made(self.messages) == len(asked)


def calls_made(messages: Sequence[Message]) -> int:
    """Return how many calls of the agent have their result in a dialogue."""
    return sum(message.role == "tool" for message in messages)


def reached(step: Step) -> bool:
    """Say whether a call came to the environment: those refused before it never do again."""
    error = step.result.error
    return step.call.value is not None and (error is None or error.code != "unknown_tool")


def after_calls(trajectory: Trajectory, calls: int) -> int:
    """Return how many messages there are up to the result of a call; up to the request for none.

    Where the agent asked for several calls in one message, the others are made when it goes on.

    Args:
        trajectory: the episode.
        calls: how many of its calls are kept.

    Raises:
        BadInput: it has fewer.
    """
    if not 0 <= calls <= len(trajectory.steps):
        raise BadInput(
            f"it has {len(trajectory.steps)} calls, not {calls}",
            where=f"episode {trajectory.episode}",
            remedy="name a place from 0 on that it has",
        )
    if calls == 0:
        return FIRST
    last = trajectory.steps[calls - 1]
    if last.by == "user":
        return last.message + 1
    results = [i for i, message in enumerate(trajectory.messages) if message.role == "tool"]
    return results[sum(step.by == "agent" for step in trajectory.steps[:calls]) - 1] + 1


def places(trajectory: Trajectory) -> tuple[int, ...]:
    """Return the places at which the agent is to speak next, the first one first."""
    messages = trajectory.messages
    found = []
    for kept in range(FIRST, len(messages)):
        asks = messages[kept].role == "assistant"
        if asks and messages[kept - 1].role != "assistant":
            found.append(kept)
    return tuple(found)


def cut(trajectory: Trajectory, fork: Fork, regimes: Sequence[Regime] = ()) -> Prefix:
    """Return what a fork keeps of a trajectory.

    Args:
        trajectory: of the origin.
        fork: where; its calls are those that its messages hold the results of.
        regimes: what decided over the faults of the calls kept.

    Raises:
        BadInput: there is no such place, or nothing that could follow it.
    """
    kept, messages = fork.messages, trajectory.messages
    check_place(trajectory, kept)
    said_goodbye = trajectory.stop is StopReason.USER_DONE and messages[-1].role == "assistant"
    users_last = max((i for i, m in enumerate(messages) if m.role == "user"), default=kept)
    return Prefix(
        fork=fork,
        messages=messages[:kept],
        steps=trajectory.steps[: fork.calls],
        farewell=said_goodbye and users_last < kept,
        regimes=tuple(regimes),
    )


def check_place(trajectory: Trajectory, messages: int) -> None:
    """Refuse a place that an episode has not, or that nothing could follow.

    Args:
        trajectory: the episode.
        messages: how many are kept.

    Raises:
        BadInput: says which there are.
    """
    last = len(trajectory.messages) - (trajectory.stop not in _UNFINISHED)
    if not FIRST <= messages <= last:
        raise BadInput(
            f"nothing follows from the first {messages} of its {len(trajectory.messages)} messages",
            where=f"episode {trajectory.episode}",
            remedy=f"keep {FIRST} to {last}" if last >= FIRST else "name another episode",
        )


def calls_in(trajectory: Trajectory, messages: int) -> int:
    """Return how many calls an episode had made when it had so many messages."""
    results = calls_made(trajectory.messages[:messages])
    for count, step in enumerate(trajectory.steps):
        results -= step.by == "agent"
        if results < 0 or (step.by == "user" and step.message >= messages):
            return count
    return len(trajectory.steps)


def regimes_of(
    steps: Sequence[Step],
    before: Sequence[Regime],
    was: tuple[Outcomes, int],
    now: tuple[Outcomes, int],
) -> tuple[Regime, ...]:
    """Return what decided over the faults of the steps kept, as far as that is not what does now.

    Args:
        steps: those kept.
        before: what decided in the origin before its own setting, if it is a fork itself.
        was: the outcomes and the seed of the origin.
        now: those of the fork.
    """
    agents = (step for step in steps if step.by == "agent")
    made = sum(step.result.ok or step.result.outcome in _OF_CHANCE for step in agents)
    rules = [
        *(r.model_copy(update={"until": min(r.until, made)}) for r in before),
        Regime(outcomes=was[0], seed=was[1], until=made),
    ]
    ruling: list[Regime] = []
    for rule in rules:
        if rule.until > (ruling[-1].until if ruling else 0):
            ruling.append(rule)
    while ruling and (ruling[-1].outcomes, ruling[-1].seed) == now:
        ruling.pop()
    return tuple(ruling) if now[0] or any(rule.outcomes for rule in ruling) else ()
