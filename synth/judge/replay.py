"""Third stage: the recorded calls, made again on a fresh state, give the recorded results."""

from __future__ import annotations

from collections.abc import Mapping

from synth.core.canonical import content_key
from synth.core.protocols import Environment, Shared, run_call
from synth.core.types import Diff, Effect, Scalar, Step, ToolResult, Trajectory
from synth.judge.evidence import quote
from synth.refused import unreadable


async def replay_problem(
    trajectory: Trajectory, environment: Environment, state_seed: int, user: Scalar = None
) -> str | None:
    """Return where a replay differs from the record, or None.

    Args:
        trajectory: all of its calls passed the rules.
        environment: of the same world; it is reset.
        state_seed: the state the episode started from.
        user: key of the user's row, for calls of their own.

    Raises:
        ToolloomError: the environment is broken; that is no verdict.
    """
    await environment.reset(state_seed)
    held = environment.user_tools() if isinstance(environment, Shared) else ()
    effects = {spec.name: spec.effect for spec in held}
    for step in trajectory.steps:
        call = step.call
        result = unreadable(call) if step.by == "user" else None
        if result is None:
            result = await run_call(environment, step.by, user, call.name, call.value or {})
        if result.content != step.result.content or result.ok != step.result.ok:
            return (
                f"{step.call.name} {quote(step.call.arguments)} gives {quote(result.content)!r}, "
                f"not {quote(step.result.content)!r}"
            )
        if result.happened != step.result.happened:
            return f"before {call.name} {quote(call.arguments)} something else happens by itself"
        if step.by == "user" and await _act(step, result, effects, environment) != step:
            return f"the user's call of {call.name} has another effect, error or state"
    diff = await environment.diff()
    if diff != trajectory.diff:
        return f"the final state differs: {difference(diff, trajectory.diff)}"
    return None


async def _act(
    step: Step, result: ToolResult, effects: Mapping[str, Effect], environment: Environment
) -> Step:
    """Return the record of a user's call as it is: who is at fault is read from it."""
    effect = effects.get(step.call.name, Effect.UNKNOWN)
    reads = effect is Effect.READ or step.call.value is None
    state = None if reads else content_key(await environment.diff())
    return step.model_copy(update={"result": result, "effect": effect, "state": state})


def difference(got: Diff, wanted: Diff) -> str:
    """Return the first line that one of two diffs has and the other has not."""
    for line in got:
        if line not in wanted:
            return f"unexpected {quote(line)}"
    for line in wanted:
        if line not in got:
            return f"missing {quote(line)}"
    return "nothing"
