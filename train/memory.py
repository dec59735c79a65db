"""Attention state of what was computed before, as a tree of token sequences.

Shape suffixes: `_H` key-value heads, `_L` places, `_D` width of a head.

A node holds the keys and values of the tokens after its parent. An agent's conversation is a path:
system prompt and tools, first request, first reply, … Each turn adds one node.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from train.batches import common


@dataclass(slots=True, eq=False)
class Node:
    """State of `ids[start:]`; the parent holds what comes before."""

    ids: list[int]
    start: int
    parent: Node | None
    keys: list[Tensor]
    """For each layer, [H, L, D]."""
    values: list[Tensor]

    def root(self) -> Node:
        """Return the node at the beginning of the path."""
        node = self
        while node.parent is not None:
            node = node.parent
        return node

    def of_root(self) -> int:
        """Return how many tokens of the path are the root's: it may go on as another text does."""
        node, end = self, len(self.ids)
        while node.parent is not None:
            node, end = node.parent, node.start
        return end


@dataclass(frozen=True, slots=True)
class Known:
    """How much of a prompt is known, and where."""

    node: Node | None = None
    count: int = 0
    trunk: int = 0
    """How many of these tokens are read in place, shared with other rows, instead of copied."""


class Memory:
    """All nodes, oldest first.

    Args:
        limit: most tokens kept; the oldest nodes are forgotten first.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._nodes: list[Node] = []

    def add(self, node: Node) -> None:
        """Keep a node."""
        self._nodes.append(node)

    def forget(self) -> None:
        """Drop everything: the weights have changed."""
        self._nodes.clear()

    def match(self, ids: Sequence[int]) -> Known:
        """Return what is known of `ids`.

        The last token is never known, because its output is needed.
        """
        best = Known()
        for node in self._nodes:
            if len(node.ids) > best.count:
                count = common(node.ids, ids, len(ids) - 1)
                if count > best.count:
                    best = Known(node, count)
        holder = best.node
        while holder is not None and best.count <= holder.start:
            # All that is known is the beginning of an ancestor, which itself was forgotten.
            holder = holder.parent
        return Known(holder, best.count)

    def trim(self) -> None:
        """Forget the oldest nodes beyond the limit; parents live as long as their children."""
        total = 0
        for n, node in enumerate(reversed(self._nodes)):
            total += len(node.ids) - node.start
            if total > self._limit:
                del self._nodes[: len(self._nodes) - n]
                return


def with_trunks(known: Sequence[Known]) -> list[Known]:
    """Let rows of one root read its state in place, as far as all of them know it."""
    cuts: dict[int, int] = {}
    for one in known:
        if one.node is not None:
            root = one.node.root()
            most = min(one.count, one.node.of_root())
            cuts[id(root)] = min(cuts.get(id(root), most), most)
    return [
        one if one.node is None else Known(one.node, one.count, cuts[id(one.node.root())])
        for one in known
    ]
