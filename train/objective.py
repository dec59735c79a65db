"""The losses, as pure functions of log-probabilities.

Shape suffixes: `_N` the trained tokens of one batch, `_R` rows (sequences), `_K` samples of one
task. Log-probabilities are natural logarithms; a sequence's is the *sum* over its trained tokens,
never the mean (K2 report 3.2.3).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import torch
from torch import Tensor


class Loss(Protocol):
    """What a batch contributes to a loss.

    Contributions add up: the loss of a step is the sum over its batches, so whatever the loss is
    divided by must be known beforehand.
    """

    def __call__(self, logp_N: Tensor, weight_N: Tensor, row_N: Tensor) -> Tensor:
        """Return the contribution of one batch.

        Args:
            logp_N: log-probability of each trained token.
            weight_N: its train weight.
            row_N: index of its row among the rows of the step.
        """


@dataclass(frozen=True, slots=True)
class CrossEntropy:
    """Mean negative log-probability over the trained tokens of a whole step (K2 report 3.1).

    `total` is the weight of all trained tokens of the step; dividing each batch by its own count
    would let short rows count more.
    """

    total: float

    def __call__(self, logp_N: Tensor, weight_N: Tensor, row_N: Tensor) -> Tensor:
        """Return the contribution of one batch."""
        return -(weight_N * logp_N).sum() / self.total


def sequence_sums(logp_N: Tensor, row_N: Tensor, rows: int) -> Tensor:
    """Return log pi(y|x) of each row: the sum over its trained tokens."""
    return torch.zeros(rows, dtype=logp_N.dtype, device=logp_N.device).index_add(0, row_N, logp_N)


def baseline(
    rewards: Sequence[float], *, tau: float, kind: Literal["mean", "log_z"] = "mean"
) -> float:
    """Return what is taken off each reward of a group.

    `mean` is r_bar, what both reports use; `log_z` is tau log (1/k) sum exp(r/tau), which the
    derivation asks for and which is biased and noisy for few samples (K1.5 report 2.3.2).
    """
    if kind == "mean":
        return math.fsum(rewards) / len(rewards)
    top = max(rewards)
    mean = math.fsum(math.exp((reward - top) / tau) for reward in rewards) / len(rewards)
    return top + tau * math.log(mean)


def advantages(
    rewards_K: Sequence[float | None], *, tau: float = 1.0, kind: Literal["mean", "log_z"] = "mean"
) -> list[float | None]:
    """Return r - baseline for one group.

    A reward of None (the infrastructure failed) has no advantage and no part in the baseline; so
    has a group with a single score, which cannot be compared with anything.
    """
    scored = [reward for reward in rewards_K if reward is not None]
    if len(scored) < 2:
        return [None] * len(rewards_K)
    level = baseline(scored, tau=tau, kind=kind)
    return [None if reward is None else reward - level for reward in rewards_K]


@dataclass(frozen=True, slots=True)
class SquaredRegression:
    """The sequence-level objective of K1.5 (2.3.2) and K2 (3.2.3), divided by 2 tau.

        L = mean over sequences of (A - tau log(pi / pi_old))^2 / (2 tau),   A = r - r_bar

    Its gradient is that of K1.5's equation 3 with the sign turned: raw, the objective is 2 tau
    times as large, so that clipping and mixing with other losses would depend on tau. At
    pi = pi_old it equals REINFORCE with a group-mean baseline; tau acts from the second inner step
    on.

    No division by a standard deviation, no ratio clipping, no length normalisation.
    """

    advantage_R: Tensor
    old_R: Tensor
    """log pi_old(y|x): a number from the training forward, not the sampler's."""
    tau: float

    def __call__(self, logp_N: Tensor, weight_N: Tensor, row_N: Tensor) -> Tensor:
        """Return the contribution of one batch; only whole rows make sense."""
        rows = self.advantage_R.numel()
        present_R = torch.zeros(rows, dtype=torch.bool, device=row_N.device)
        present_R[row_N] = True
        ratio_R = sequence_sums(logp_N, row_N, rows) - self.old_R.to(logp_N.device)
        level_R = self.advantage_R.to(logp_N.device)
        squared_R = (level_R - self.tau * ratio_R) ** 2 / (2 * self.tau)
        return (squared_R * present_R).sum() / rows
