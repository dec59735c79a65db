"""What the reasons of verdicts mean, in words for people."""

from __future__ import annotations

_MEANINGS = {
    "state": "the final state is not the one that was wanted",
    "output": "the user was not told every value that was asked for",
    "call": "a call that had to be made is missing",
    "false_claim": "the agent said that something is done which is not",
    "replay": "its calls, made again, give something else",
    "rule:unknown_tool": "a call of a tool that the agent does not have",
    "rule:schema": "a call whose arguments the tool's schema does not allow",
    "rule:ungrounded": "an argument that is made up: it stood nowhere before",
    "format:max_turns": "not done within the turns it may take",
    "format:max_calls": "not done within the calls it may make",
    "format:agent_invalid": "a reply with neither text nor a call",
    "format:cut_off": "a reply reached the most tokens it may have, and was cut off",
    "format:arguments": "a call whose arguments are no JSON object",
    "format": "the conversation has not the form of one",
    "unusable:cut_off": "a reply reached the most tokens it may have, and was cut off",
    "unusable:context_full": "the conversation outgrew the model's context",
    "unusable": "a reply that is neither text nor a well-formed call",
    "not_judged": "only a model could judge it, and none does",
}
"""Reason, or the part of it before a colon -> what it means."""


def meaning(reason: str) -> str:
    """Return what a reason means; nothing where the reason says it, or is unknown.

    Args:
        reason: of a verdict, as `synth.judge.verdict` and `train.evaluate` word it.
    """
    return _MEANINGS.get(reason) or _MEANINGS.get(reason.partition(":")[0], "")
