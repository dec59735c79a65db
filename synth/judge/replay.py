"""Third stage: the recorded calls, made again on a fresh state, give the recorded results."""

from __future__ import annotations

from synth.core.protocols import Environment, run_call
from synth.core.types import Diff, Scalar, Trajectory
from synth.judge.evidence import quote


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
    for step in trajectory.steps:
        call = step.call
        if step.by == "user" and call.value is None:
            continue  # it never reached the environment
        result = await run_call(environment, step.by, user, call.name, call.value or {})
        if result.content != step.result.content or result.ok != step.result.ok:
            return (
                f"{step.call.name} {quote(step.call.arguments)} gives {quote(result.content)!r}, "
                f"not {quote(step.result.content)!r}"
            )
        if result.happened != step.result.happened:
            return f"before {call.name} {quote(call.arguments)} something else happens by itself"
    diff = await environment.diff()
    if diff != trajectory.diff:
        return f"the final state differs: {difference(diff, trajectory.diff)}"
    return None


def difference(got: Diff, wanted: Diff) -> str:
    """Return the first line that one of two diffs has and the other has not."""
    for line in got:
        if line not in wanted:
            return f"unexpected {quote(line)}"
    for line in wanted:
        if line not in got:
            return f"missing {quote(line)}"
    return "nothing"
