"""Yes or no as a probability, and the threshold above which it is a yes.

Small models say what they are inclined to say; how sure they are tells more than the word (0.5
billion parameters: 0.50 accuracy by the word, 0.69 by the probability; measured). They are lenient,
so the threshold is fitted to labelled examples instead of being one half.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from synth.core.errors import BadInput, ModelFailed
from synth.core.llm.local.agent import PROMPTS
from synth.core.prompts import prompts
from synth.core.protocols import LLM, ChatRequest

_ALTERNATIVES = 20
_LEAST_MASS = 1e-3
"""Share of yes and no among all first words below which the model did not answer the question."""


async def probability_of_yes(llm: LLM, request: ChatRequest) -> float:
    """Return how likely a model is to answer a question with yes rather than no.

    Args:
        llm: a model that gives log-probabilities.
        request: the question, in its last message; one word is asked for here.

    Returns:
        Between 0 and 1; compare it with a calibrated threshold, not with one half.

    Raises:
        ModelFailed: no reply, no log-probabilities, or an answer that is neither.
    """
    *before, last = request.messages
    asked = {**last, "content": f"{last['content']}\n{prompts(PROMPTS).render('judge')}"}
    sampler = replace(request.sampler, temperature=0.0, top_p=1.0, max_tokens=1)
    reply = await llm.complete(
        replace(
            request,
            messages=[*before, asked],
            tools=(),
            sampler=sampler,
            response_format=None,
            top_logprobs=_ALTERNATIVES,
        )
    )
    if not reply.logprobs:
        raise ModelFailed("the reply has no log-probabilities", where=llm.name)
    yes, no = (_mass(reply.logprobs[0], word) for word in ("yes", "no"))
    if yes + no < _LEAST_MASS:
        raise ModelFailed(
            f"the answer is neither yes nor no: {reply.message.content!r}", where=llm.name
        )
    return yes / (yes + no)


def _mass(first: Mapping[str, float], word: str) -> float:
    found = (value for token, value in first.items() if token.strip(" \n.*\"'").lower() == word)
    return sum(math.exp(value) for value in found)


@dataclass(frozen=True, slots=True)
class Calibration:
    """A threshold, and how well it parted the examples it was fitted to."""

    threshold: float
    accuracy: float
    """Mean of the shares of right yes and right no: 0.5 is chance."""
    yes: int
    no: int
    """Examples of each label."""

    def passes(self, probability: float) -> bool:
        """Say whether a probability counts as a yes."""
        return probability >= self.threshold


def calibrate(examples: Iterable[tuple[float, bool]]) -> Calibration:
    """Return the threshold that parts labelled examples best; of equals, the widest gap.

    Args:
        examples: probability of yes, and whether yes was right.

    Raises:
        BadInput: a label is missing altogether.
    """
    pairs = sorted(examples)
    yes = sum(label for _, label in pairs)
    no = len(pairs) - yes
    if not yes or not no:
        raise BadInput(
            "the examples are all yes or all no",
            where="calibration",
            remedy="give some of each",
        )
    best: tuple[float, float, float] | None = None
    passed_yes, passed_no = yes, no
    below = 0.0
    for probability, label in [*pairs, (1.0, True)]:
        # A threshold between `below` and `probability`: all from here on pass.
        accuracy = (passed_yes / yes + (no - passed_no) / no) / 2
        found = (accuracy, probability - below, (probability + below) / 2)
        if (probability > below or best is None) and (best is None or found > best):
            best = found
        passed_yes, passed_no = passed_yes - label, passed_no - (not label)
        below = probability
    assert best is not None
    return Calibration(threshold=best[2], accuracy=best[0], yes=yes, no=no)
