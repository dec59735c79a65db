"""Rows of tokens become batches for the model, with as few wasted places as possible.

Shape suffixes: `_B` rows of a batch, `_L` places in a row, `_N` trained tokens.

Two layouts, equal in every loss:
- *padded*: rows of about the same length side by side, causal attention, padding on the right;
- *shared*: rows that begin alike (the same agent: system prompt and tools) in one sequence, their
  beginning once, each ending seeing the beginning and itself (`attention`). A prompt of a thousand
  tokens before eight episodes of two hundred makes it three times cheaper.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import torch
from torch import Tensor

from train.attention import Layout

SHORTEST_SHARED = 32
"""A common beginning shorter than this is not worth a mask."""


@dataclass(frozen=True, slots=True)
class Row:
    """One sequence to learn from.

    `weights[t]` weighs predicting `ids[t]`; `weights[0]` is unused, because nothing comes before
    the first token.
    """

    ids: Sequence[int]
    weights: Sequence[float]

    def trained(self) -> list[int]:
        """Return the positions of the tokens to predict."""
        return [t for t in range(1, len(self.ids)) if self.weights[t] != 0.0]


@dataclass(slots=True)
class Batch:
    """What goes through the model at once."""

    ids_BL: Tensor
    layout: Layout | None
    """Of a shared sequence; None for padded rows."""
    source_N: Tensor
    """Place (in the flattened batch) whose output predicts the token."""
    target_N: Tensor
    weight_N: Tensor
    row_N: Tensor
    """Index of the row among all rows given to `batches`."""

    def positions_BL(self) -> Tensor | None:
        """Return the positions of a shared sequence; None: 0, 1, 2, …"""
        if self.layout is None:
            return None
        prefix = self.layout.prefix
        parts = [torch.arange(prefix)]
        parts += [torch.arange(prefix, prefix + length) for length in self.layout.endings]
        return torch.cat(parts)[None]

    @property
    def places(self) -> int:
        """Return the number of places the model computes, padding included."""
        return self.ids_BL.numel()


@dataclass(slots=True)
class _Targets:
    source: list[int] = field(default_factory=list)
    target: list[int] = field(default_factory=list)
    weight: list[float] = field(default_factory=list)
    row: list[int] = field(default_factory=list)

    def add(self, source: int, row: Row, position: int, index: int) -> None:
        self.source.append(source)
        self.target.append(row.ids[position])
        self.weight.append(row.weights[position])
        self.row.append(index)

    def batch(self, ids: Tensor, layout: Layout | None) -> Batch:
        return Batch(
            ids_BL=ids,
            layout=layout,
            source_N=torch.tensor(self.source, dtype=torch.long),
            target_N=torch.tensor(self.target, dtype=torch.long),
            weight_N=torch.tensor(self.weight, dtype=torch.float32),
            row_N=torch.tensor(self.row, dtype=torch.long),
        )


def batches(
    rows: Sequence[Row], *, places: int, pad: int, share: bool = True, detach: bool = False
) -> list[Batch]:
    """Lay out every row exactly once; the order depends on nothing but the rows.

    Args:
        rows: rows with at least one trained token each; others are left out.
        places: most places of a batch. A longer row is a batch by itself.
        pad: token id to fill up with.
        share: look for common beginnings.
        detach: no beginning predicts a trained token, and a row that shares none has its own.
    """
    wanted = [index for index, row in enumerate(rows) if row.trained()]
    # A trained token is not shared: its weight belongs to its row.
    free = {index: rows[index].trained()[0] - detach for index in wanted}
    groups, single = _groups(rows, free, places) if share else ([], wanted)
    if detach:
        groups += [([index], free[index]) for index in single if free[index]]
        single = [index for index in single if not free[index]]
    out = [_shared(rows, group, prefix) for group, prefix in groups]
    out += [_padded(rows, bucket, pad) for bucket in _buckets(rows, single, places)]
    return out


def common(a: Sequence[int], b: Sequence[int], most: int) -> int:
    """Return how many tokens two sequences have in common at their start, `most` at most."""
    limit = min(len(a), len(b), most)
    if a[:limit] == b[:limit]:
        return limit
    return next(n for n in range(limit) if a[n] != b[n])


def _groups(
    rows: Sequence[Row], free: Mapping[int, int], places: int
) -> tuple[list[tuple[list[int], int]], list[int]]:
    order = sorted(free, key=lambda index: (tuple(rows[index].ids), index))
    groups: list[tuple[list[int], int]] = []
    single: list[int] = []
    current: list[int] = order[:1]
    prefix = free[order[0]] if order else 0

    def close() -> None:
        if len(current) > 1:
            groups.append((list(current), prefix))
        else:
            single.extend(current)

    for before, index in pairwise(order):
        shared = common(rows[before].ids, rows[index].ids, min(prefix, free[index]))
        endings = sum(len(rows[i].ids) - shared for i in (*current, index))
        if shared >= max(SHORTEST_SHARED, prefix // 2 if len(current) > 1 else 0) and (
            shared + endings <= places
        ):
            current.append(index)
            prefix = shared
        else:
            close()
            current, prefix = [index], free[index]
    close()
    return groups, single


def _buckets(rows: Sequence[Row], single: Sequence[int], places: int) -> list[list[int]]:
    buckets: list[list[int]] = []
    for index in sorted(single, key=lambda i: (len(rows[i].ids), i)):
        longest = len(rows[index].ids)
        if buckets and (len(buckets[-1]) + 1) * longest <= places:
            buckets[-1].append(index)
        else:
            buckets.append([index])
    return buckets


def _padded(rows: Sequence[Row], bucket: Sequence[int], pad: int) -> Batch:
    longest = max(len(rows[index].ids) for index in bucket)
    ids = torch.full((len(bucket), longest), pad, dtype=torch.long)
    targets = _Targets()
    for b, index in enumerate(bucket):
        row = rows[index]
        ids[b, : len(row.ids)] = torch.tensor(row.ids, dtype=torch.long)
        for position in row.trained():
            targets.add(b * longest + position - 1, row, position, index)
    return targets.batch(ids, None)


def _shared(rows: Sequence[Row], group: Sequence[int], prefix: int) -> Batch:
    ids = list(rows[group[0]].ids[:prefix])
    targets = _Targets()
    for index in group:
        row, start = rows[index], len(ids)
        for position in row.trained():
            # The first token of an ending is predicted by the last place of the beginning.
            place = prefix - 1 if position == prefix else start + position - 1 - prefix
            targets.add(place, row, position, index)
        ids += row.ids[prefix:]
    endings = tuple(len(rows[index].ids) - prefix for index in group)
    return targets.batch(torch.tensor([ids]), Layout(prefix, endings))
