"""Batched sampling from ragged prompts, with the attention state of what was seen before kept.

Shape suffixes: `_B` rows, `_H` key-value heads, `_L` places, `_D` width of a head, `_V` vocabulary.

An agent's conversation grows turn by turn, and many conversations begin alike. So every state that
was computed is kept in a tree: a node holds the keys and values of the tokens after its parent. A
prompt is first matched against the tree, common beginnings of the rest are computed once, and only
what is left goes through the model for each row.

Rows are aligned on the right: [padding | known | padding | new | sampled ...]. Padding is masked,
positions are explicit, so a row's result does not depend on its neighbours.
"""

from __future__ import annotations

import inspect
import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import torch
from torch import Tensor
from transformers.cache_utils import Cache, DynamicLayer

from train.batches import common

ALONE = 64
"""A new part longer than this is computed by itself: padding the others to it would cost more."""


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


@dataclass(slots=True, eq=False)
class _Node:
    """Attention state of `ids[start:]`; the parent holds what comes before."""

    ids: list[int]
    start: int
    parent: _Node | None
    keys: list[Tensor]
    values: list[Tensor]


class _Layer(DynamicLayer):  # type: ignore[no-untyped-call]
    """Keys and values in a buffer made once, instead of one copied at every token."""

    def __init__(self, keys_BHLD: Tensor, values_BHLD: Tensor, length: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.buffers = (keys_BHLD, values_BHLD)
        self.length = length
        self.is_initialized = True

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Write behind what is there; return all of it."""
        end = self.length + key_states.shape[-2]
        for buffer, new in zip(self.buffers, (key_states, value_states), strict=True):
            buffer[:, :, self.length : end] = new
        self.length = end
        return self.buffers[0][:, :, :end], self.buffers[1][:, :, :end]

    def get_seq_length(self, *args: Any, **kwargs: Any) -> int:
        """Return the number of places in use."""
        return self.length

    def keep(self, rows: Tensor) -> None:
        """Drop all other rows."""
        keys, values = self.buffers
        self.buffers = (keys[rows], values[rows])


class _State:
    """The attention state of one batch: our layers, and the model's view of them."""

    def __init__(self, layers: list[_Layer]) -> None:
        self.layers = layers
        self.cache = Cache(layers=list(layers))

    @property
    def length(self) -> int:
        """Number of places in use."""
        return self.layers[0].length


class Generator:
    """Samples from one model.

    Args:
        model: a Hugging Face causal language model.
        cache_tokens: most tokens whose state is kept; the oldest is forgotten first.
    """

    def __init__(self, model: Any, *, cache_tokens: int) -> None:
        self.model = model
        self.prefilled = 0
        """Prompt tokens that went through the model, ever."""
        self._limit = cache_tokens
        self._nodes: list[_Node] = []
        names = inspect.signature(model.base_model.forward).parameters
        self._cache_name = "cache" if "cache" in names else "past_key_values"

    def forget(self) -> None:
        """Drop all kept state. To be called whenever the weights change."""
        self._nodes.clear()

    @torch.inference_mode()
    def sample(
        self,
        prompts: Sequence[Sequence[int]],
        sampling: Sampling,
        seeds: Sequence[int],
        *,
        version: int,
    ) -> list[Drawn]:
        """Continue every prompt; see `Engine.sample`."""
        ids = [list(prompt) for prompt in prompts]
        if not ids:
            return []
        self._prepare(ids)
        rows = _Rows(ids, [self._match(prompt) for prompt in ids], sampling, seeds)
        state = self._assemble(rows)
        logits_BV = self._first(rows, state)
        while rows.take(logits_BV):
            if rows.sparse():
                self._keep_states(rows, state, only_done=True)
                kept = rows.compact()
                for layer in state.layers:
                    layer.keep(kept)
            logits_BV = self._next(rows, state)
        self._keep_states(rows, state, only_done=False)
        self._evict()
        return [
            Drawn(rows.sampled[b], rows.logprobs[b], rows.finish[b], version)
            for b in range(len(ids))
        ]

    # --- what is known already ---------------------------------------------------------------

    def _match(self, ids: Sequence[int]) -> tuple[_Node | None, int]:
        """Return the node that knows most of `ids`, and how much.

        The last token is never known, because its output is needed.
        """
        best: tuple[_Node | None, int] = (None, 0)
        for node in self._nodes:
            if len(node.ids) > best[1]:
                known = common(node.ids, ids, len(ids) - 1)
                if known > best[1]:
                    best = (node, known)
        return best

    def _prepare(self, prompts: Sequence[list[int]]) -> None:
        """Compute long unknown beginnings: those that prompts share first, then each by itself."""
        order = sorted(prompts)
        for before, after in pairwise(order):
            shared = common(before, after, len(before) - 1)
            if shared - self._match(before[: shared + 1])[1] > ALONE // 2:
                self._learn(before[:shared])
        for prompt in order:
            if len(prompt) - 1 - self._match(prompt)[1] > ALONE:
                self._learn(prompt[:-1])

    def _learn(self, ids: list[int]) -> None:
        node, known = self._match([*ids, -1])
        rows = _Rows([ids], [(node, known)], Sampling(stop=(), max_tokens=0), [0])
        state = self._assemble(rows)
        self._forward(rows, state, logits=False)
        self._nodes.append(self._node(rows, state, 0))

    def _node(self, rows: _Rows, state: _State, b: int) -> _Node:
        """Keep what was computed for row `b` beyond the node it started from."""
        parent, known = rows.known[b]
        place = rows.place(b)
        new_L = rows.valid_BL[place, : state.length].nonzero().squeeze(1)[known:]
        pairs = [layer.buffers for layer in state.layers]
        return _Node(
            ids=rows.history(b)[: known + len(new_L)],
            start=known,
            parent=parent,
            keys=[keys[place][:, new_L].clone() for keys, _ in pairs],
            values=[values[place][:, new_L].clone() for _, values in pairs],
        )

    def _keep_states(self, rows: _Rows, state: _State, *, only_done: bool) -> None:
        for b in rows.places:
            if not only_done or rows.done[b]:
                self._nodes.append(self._node(rows, state, b))

    def _evict(self) -> None:
        total = 0
        for n, node in enumerate(reversed(self._nodes)):
            total += len(node.ids) - node.start
            if total > self._limit:
                del self._nodes[: len(self._nodes) - n]
                return

    # --- the model ---------------------------------------------------------------------------

    def _assemble(self, rows: _Rows) -> _State:
        config = self.model.config.get_text_config(decoder=True)
        heads = config.num_key_value_heads
        width = getattr(config, "head_dim", None) or (
            config.hidden_size // config.num_attention_heads
        )
        shape = (len(rows.places), heads, rows.capacity, width)
        layers = []
        for n in range(config.num_hidden_layers):
            # Zeros: a masked place still takes part in 0 * value, and garbage may be NaN.
            keys = torch.zeros(shape, dtype=self.model.dtype, device=self.model.device)
            values = torch.zeros_like(keys)
            for b, (node, known) in enumerate(rows.known):
                offset, end = rows.longest - known, known
                while node is not None:
                    stop = min(end, len(node.ids))
                    part = slice(0, max(0, stop - node.start))
                    where = slice(offset + node.start, offset + node.start + part.stop)
                    keys[b, :, where] = node.keys[n][:, part]
                    values[b, :, where] = node.values[n][:, part]
                    end, node = min(end, node.start), node.parent
            layers.append(_Layer(keys, values, rows.longest))
        return _State(layers)

    def _forward(self, rows: _Rows, state: _State, *, logits: bool = True) -> Tensor | None:
        """Run every row's unknown tokens through the model."""
        ids_BL, positions_BL, mask_BLL = rows.unknown()
        self.prefilled += sum(len(rows.prompts[b]) - rows.known[b][1] for b in rows.places)
        out = self._run(state, ids_BL, positions_BL, mask_BLL)
        return self._logits(out[:, -1]) if logits else None

    def _first(self, rows: _Rows, state: _State) -> Tensor:
        logits_BV = self._forward(rows, state)
        assert logits_BV is not None
        return logits_BV

    def _next(self, rows: _Rows, state: _State) -> Tensor:
        ids_B1, positions_B1, mask_B1L = rows.last(state.length)
        return self._logits(self._run(state, ids_B1, positions_B1, mask_B1L)[:, -1])

    def _run(self, state: _State, ids: Tensor, positions: Tensor, mask: Tensor) -> Tensor:
        device = self.model.device
        out = self.model.base_model(
            input_ids=ids.to(device),
            position_ids=positions.to(device),
            attention_mask=mask[:, None].to(device),
            use_cache=True,
            **{self._cache_name: state.cache},
        )
        hidden: Tensor = out.last_hidden_state
        return hidden

    def _logits(self, hidden_BD: Tensor) -> Tensor:
        logits: Tensor = self.model.get_output_embeddings()(hidden_BD).float().cpu()
        return logits


class _Rows:
    """The bookkeeping of one call: what each row holds, where, and what was drawn."""

    def __init__(
        self,
        prompts: list[list[int]],
        known: list[tuple[_Node | None, int]],
        sampling: Sampling,
        seeds: Sequence[int],
    ) -> None:
        self.prompts, self.known, self.sampling = prompts, known, sampling
        self.places = list(range(len(prompts)))
        """Which row each place of the batch holds."""
        self.dice = [random.Random(seed) for seed in seeds]
        self.sampled: list[list[int]] = [[] for _ in prompts]
        self.logprobs: list[list[float]] = [[] for _ in prompts]
        self.finish: list[Literal["stop", "length"]] = ["length"] * len(prompts)
        self.done = [sampling.max_tokens == 0] * len(prompts)
        self.longest = max(count for _, count in known)
        new = max(len(p) - count for p, (_, count) in zip(prompts, known, strict=True))
        self.new = new
        self.capacity = self.longest + new + sampling.max_tokens
        self.valid_BL = torch.zeros(len(prompts), self.capacity, dtype=torch.bool)
        for b, (prompt, (_, count)) in enumerate(zip(prompts, known, strict=True)):
            self.valid_BL[b, self.longest - count : self.longest] = True
            unknown = len(prompt) - count
            self.valid_BL[b, self.longest + new - unknown : self.longest + new] = True

    def place(self, b: int) -> int:
        return self.places.index(b)

    def history(self, b: int) -> list[int]:
        return self.prompts[b] + self.sampled[b]

    def unknown(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return ids, positions and mask of the part of the prompts that is not known."""
        count = len(self.prompts)
        ids = torch.zeros(count, self.new, dtype=torch.long)
        positions = torch.zeros(count, self.new, dtype=torch.long)
        for b, (prompt, (_, known)) in enumerate(zip(self.prompts, self.known, strict=True)):
            part = prompt[known:]
            ids[b, self.new - len(part) :] = torch.tensor(part)
            positions[b, self.new - len(part) :] = torch.arange(known, len(prompt))
        end = self.longest + self.new
        query, key = torch.arange(self.longest, end)[:, None], torch.arange(end)[None, :]
        # A padding place sees itself: with nothing to see, its softmax would be NaN.
        mask = (self.valid_BL[:, None, :end] & (key <= query)) | (key == query)
        return ids, positions, mask

    def last(self, length: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return ids, positions and mask of the tokens just drawn; `length` places are in use."""
        ids = torch.tensor([[self.sampled[b][-1]] for b in self.places])
        positions = torch.tensor([[len(self.history(b)) - 1] for b in self.places])
        for place, b in enumerate(self.places):
            # A finished row idles along on padding until it is dropped.
            self.valid_BL[place, length] = not self.done[b]
        mask = self.valid_BL[:, None, : length + 1].clone()
        mask[:, :, length] = True
        return ids, positions, mask

    def take(self, logits_BV: Tensor) -> bool:
        """Draw one token for every unfinished row; return whether any row goes on."""
        if self.sampling.max_tokens == 0:
            return False
        temperature = self.sampling.temperature
        logp_BV = (logits_BV / temperature if temperature > 0 else logits_BV).log_softmax(dim=-1)
        active = [(place, b) for place, b in enumerate(self.places) if not self.done[b]]
        chosen = self._draw(logp_BV[[place for place, _ in active]], [b for _, b in active])
        for (place, b), token in zip(active, chosen, strict=True):
            self.sampled[b].append(token)
            self.logprobs[b].append(float(logp_BV[place, token]))
            if token in self.sampling.stop:
                self.finish[b] = "stop"
            self.done[b] = (
                token in self.sampling.stop or len(self.sampled[b]) >= self.sampling.max_tokens
            )
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
