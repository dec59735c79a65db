"""One episode, played and judged: what generation, evaluation and reinforcement have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Unpack

from synth.core.errors import BudgetSpent, DiskFull
from synth.core.types import CriterionResult, Fault, ToolSpec, Trajectory, Verdict
from synth.judge import judge
from synth.judge.evidence import quote
from synth.play import Stage, play


async def play_and_judge(
    tools: Mapping[str, ToolSpec], **stage: Unpack[Stage]
) -> tuple[Trajectory, Verdict]:
    """Play one episode and judge it on a fresh replay of its calls.

    Live worlds are replayed like simulated ones: results are scrubbed of what differs from run to
    run, so a right record of a live server repeats to the byte.

    Args:
        tools: the world's tools by name.
        **stage: see `synth.play.Stage`.

    Returns:
        The episode and its verdict. A judge that breaks is nobody's failure to be trained on:
        `passed` is None, and `fault` is the judge.

    Raises:
        BudgetSpent: a model may not be asked any more; there is no episode.
        DiskFull: a reply could not be journalled; there is no episode.
    """
    trajectory = await play(**stage)
    try:
        verdict = await judge(
            stage["task"], stage["agent"], trajectory, stage["environment"], tools
        )
    except (BudgetSpent, DiskFull):  # no one's failure: a later session plays the episode
        raise
    except Exception as error:  # a boundary: one odd transcript must not end a run of thousands
        verdict = _broken(trajectory.episode, error)
    return trajectory, verdict


def reward_of(verdict: Verdict) -> float | None:
    """Return 1 for a pass, 0 for a fail, None where there is no verdict: that is never 0."""
    return None if verdict.broken_by else float(bool(verdict.passed))


def _broken(episode: str, error: Exception) -> Verdict:
    said = " ".join(f"{type(error).__name__}: {error}".split())
    return Verdict(
        episode=episode,
        passed=None,
        reason=f"fault:{Fault.JUDGE}",
        results=(CriterionResult(id="fault", passed=None, evidence=quote(said)),),
        fault=Fault.JUDGE,
    )
