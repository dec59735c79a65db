"""The bookkeeping of one batch of continuations: what each row holds, where, and what was drawn.

Shape suffixes: `_B` rows, `_A` rows that go on, `_L` places, `_V` vocabulary.

Rows are aligned on the right: [padding | known | padding | new | sampled ...]. Padding is masked,
positions are explicit, so a row's result does not depend on its neighbours.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

import torch
from torch import Tensor

from train.memory import Known, Node


@dataclass(frozen=True, slots=True)
class Sampling:
    """How continuations are drawn."""

    stop: tuple[int, ...]
    max_tokens: int = 128
    temperature: float = 1.0
    """0 takes the likeliest token."""
    top_p: float = 1.0
    """Draw from the likeliest tokens that have this much probability together."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """One continuation."""

    ids: list[int]
    """Sampled tokens, the stop token included."""
    logprobs: list[float]
    """Log-probability of each under softmax(logits / temperature), before `top_p` cuts it."""
    finish: Literal["stop", "length"]
    version: int
    """Version of the weights that drew it."""


class Rows:
    """The rows of one batch.

    Args:
        prompts: token ids.
        known: how much of each prompt has its state in memory.
        sampling: how continuations are drawn.
        seeds: one for each prompt.
    """

    def __init__(
        self,
        prompts: Sequence[list[int]],
        known: Sequence[Known],
        sampling: Sampling,
        seeds: Sequence[int],
    ) -> None:
        self.prompts, self.known, self.sampling = prompts, known, sampling
        self.places = _neighbours([_root(one) for one in known])
        """Which row each place of the batch holds; rows of one trunk are neighbours."""
        self.dice = [random.Random(seed) for seed in seeds]
        self.sampled: list[list[int]] = [[] for _ in prompts]
        self.logprobs: list[list[float]] = [[] for _ in prompts]
        self.finish: list[Literal["stop", "length"]] = ["length"] * len(prompts)
        self.done = [sampling.max_tokens == 0] * len(prompts)
        self.longest = max(one.count - one.trunk for one in known)
        """Places of the known part."""
        self.new = max(len(p) - one.count for p, one in zip(prompts, known, strict=True))
        """Places of the unknown part."""
        self.capacity = self.longest + self.new + sampling.max_tokens
        self.valid_BL = torch.zeros(len(prompts), self.capacity, dtype=torch.bool)
        for place, b in enumerate(self.places):
            copied = known[b].count - known[b].trunk
            unknown = len(prompts[b]) - known[b].count
            self.valid_BL[place, self.longest - copied : self.longest] = True
            end = self.longest + self.new
            self.valid_BL[place, end - unknown : end] = True

    def history(self, b: int) -> list[int]:
        """Return all tokens of row `b`."""
        return self.prompts[b] + self.sampled[b]

    def trunks(self) -> list[tuple[int, Node | None, int]]:
        """Return, in the order of places: how many rows, the root they read in place, how far."""
        roots = [(_root(self.known[b]), self.known[b].trunk) for b in self.places]
        return [
            (len(list(group)), root, length)
            for (_, root, length), group in groupby(
                (id(root), root, length) for root, length in roots
            )
        ]

    def unknown(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return ids, positions and mask of the part of the prompts that is not known."""
        count = len(self.prompts)
        ids_BL = torch.zeros(count, self.new, dtype=torch.long)
        positions_BL = torch.zeros(count, self.new, dtype=torch.long)
        for place, b in enumerate(self.places):
            known, prompt = self.known[b].count, self.prompts[b]
            first = self.new - (len(prompt) - known)
            ids_BL[place, first:] = torch.tensor(prompt[known:])
            positions_BL[place, first:] = torch.arange(known, len(prompt))
        end = self.longest + self.new
        query, key = torch.arange(self.longest, end)[:, None], torch.arange(end)[None, :]
        # A padding place sees itself: with nothing to see, its softmax would be NaN.
        mask_BLL = (self.valid_BL[:, None, :end] & (key <= query)) | (key == query)
        return ids_BL, positions_BL, mask_BLL

    def last(self, length: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return ids, positions and mask of the tokens just drawn; `length` places are in use."""
        ids_B1 = torch.tensor([[self.sampled[b][-1]] for b in self.places])
        positions_B1 = torch.tensor([[len(self.history(b)) - 1] for b in self.places])
        for place, b in enumerate(self.places):
            # A finished row idles along on padding until it is dropped.
            self.valid_BL[place, length] = not self.done[b]
        mask_B1L = self.valid_BL[:, None, : length + 1].clone()
        mask_B1L[:, :, length] = True
        return ids_B1, positions_B1, mask_B1L

    def take(self, logits_BV: Tensor) -> bool:
        """Draw one token for every unfinished row; return whether any row goes on."""
        temperature = self.sampling.temperature
        logp_BV = (logits_BV / temperature if temperature > 0 else logits_BV).log_softmax(dim=-1)
        active = [(place, b) for place, b in enumerate(self.places) if not self.done[b]]
        chosen = self._draw(logp_BV[[place for place, _ in active]], [b for _, b in active])
        for (place, b), token in zip(active, chosen, strict=True):
            self.sampled[b].append(token)
            self.logprobs[b].append(float(logp_BV[place, token]))
            if token in self.sampling.stop:
                self.finish[b] = "stop"
            full = len(self.sampled[b]) >= self.sampling.max_tokens
            self.done[b] = full or token in self.sampling.stop
        return not all(self.done[b] for b in self.places)

    def _draw(self, logp_AV: Tensor, rows: Sequence[int]) -> list[int]:
        if self.sampling.temperature <= 0:
            best: list[int] = logp_AV.argmax(dim=-1).tolist()
            return best
        p_AV, order_AV = logp_AV.double().exp().sort(dim=-1, descending=True, stable=True)
        total_AV = p_AV.cumsum(dim=-1)
        # The nucleus is the fewest likeliest tokens that reach top_p: at least one.
        size_A1 = (total_AV < min(self.sampling.top_p, 1.0)).sum(dim=-1, keepdim=True)
        size_A1 = size_A1.clamp(max=p_AV.shape[-1] - 1)
        mass_A1 = total_AV.gather(1, size_A1)
        u_A1 = torch.tensor([[self.dice[b].random()] for b in rows], dtype=torch.double) * mass_A1
        picked_A1 = torch.searchsorted(total_AV, u_A1, right=True).minimum(size_A1)
        tokens: list[int] = order_AV.gather(1, picked_A1).squeeze(1).tolist()
        return tokens

    def sparse(self) -> bool:
        """Return whether at least half of the places hold finished rows."""
        return sum(self.done[b] for b in self.places) * 2 >= len(self.places)

    def compact(self) -> Tensor:
        """Drop finished rows; return the places that are kept."""
        kept = [place for place, b in enumerate(self.places) if not self.done[b]]
        self.places = [self.places[place] for place in kept]
        self.valid_BL = self.valid_BL[kept]
        return torch.tensor(kept)

    def drawn(self, version: int) -> list[Drawn]:
        """Return the continuations, in the order of the prompts."""
        parts = zip(self.sampled, self.logprobs, self.finish, strict=True)
        return [Drawn(ids, logprobs, finish, version) for ids, logprobs, finish in parts]


def _neighbours(roots: Sequence[Node | None]) -> list[int]:
    """Return the rows with those of one root side by side, in the order of their first.

    An order by address would be another one in every process, and with it the last digits of what
    is computed.
    """
    first: dict[int, int] = {}
    for b, root in enumerate(roots):
        first.setdefault(id(root), b)
    return sorted(range(len(roots)), key=lambda b: first[id(roots[b])])


def _root(known: Known) -> Node | None:
    return known.node.root() if known.node is not None and known.trunk else None
