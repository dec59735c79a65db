"""Tools that a model plays may fail an agent: then the failure is theirs, and no verdict on it."""

from __future__ import annotations

from synth.core.imagined import Imagined, WorldCall
from synth.core.types import CriterionResult, Fault, Verdict
from synth.judge.evidence import quote


def excused(verdict: Verdict, imagined: Imagined) -> Verdict:
    """Return the verdict, or that there is none because the tools were at fault.

    An agent that passed in spite of them has passed. One that failed may have failed for what it
    was told: a call that got no answer to the end, or a result or a change that the executable
    twin contradicts.

    Args:
        verdict: of the judge.
        imagined: how the tools were played in the episode.
    """
    if verdict.passed is not False:
        return verdict
    why = _unanswered(imagined) or _contradicted(imagined)
    if why is None:
        return verdict
    said = CriterionResult(id="fault", passed=None, evidence=quote(f"{verdict.reason}, but {why}"))
    return Verdict(
        episode=verdict.episode,
        passed=None,
        reason=f"fault:{Fault.TOOL}",
        results=(said, *verdict.results),
        fault=Fault.TOOL,
    )


def _unanswered(imagined: Imagined) -> str | None:
    answered = {_key(call) for call in imagined.calls if call.reply is not None}
    for call in imagined.calls:
        if call.reply is None and _key(call) not in answered:
            return f"{call.tool} failed: {', '.join(call.refused)}"
    return None


def _contradicted(imagined: Imagined) -> str | None:
    for call in imagined.calls:
        if call.reply is not None and call.result_equal is False:
            return f"{call.tool} returned what it would not return"
        if call.reply is not None and call.change_equal is False:
            return f"{call.tool} changed what it would not change"
    return None


def _key(call: WorldCall) -> tuple[str, str]:
    return call.tool, call.arguments
