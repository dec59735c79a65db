"""Batched sampling from ragged prompts, computing nothing that was computed before.

Shape suffixes: `_B` rows, `_H` key-value heads, `_L` places, `_D` width of a head, `_V` vocabulary.

An agent's conversation grows turn by turn, and many conversations begin alike. A prompt is first
matched against the `memory` of earlier calls, common beginnings of the rest are computed once, and
only what is left goes through the model for each row. The beginning that rows share is not copied
for each of them: they read it in place (`attention.Trunk`), half of the time of a step.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache, DynamicLayer

from train.attention import Trunk
from train.batches import common
from train.drawing import Drawn, Rows, Sampling
from train.memory import Memory, Node, with_trunks

ALONE = 64
"""A new part longer than this is computed by itself: padding the others to it would cost more."""


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


def cache_name(model: Any) -> str:
    """Return how the model's forward pass calls its attention state."""
    names = inspect.signature(model.base_model.forward).parameters
    return "cache" if "cache" in names else "past_key_values"


class Generator:
    """Samples from one model.

    Args:
        model: a Hugging Face causal language model.
        cache_tokens: most tokens whose state is kept between calls.
        share: the model's attention is ours, so rows can read a common beginning in place.
    """

    def __init__(self, model: Any, *, cache_tokens: int, share: bool) -> None:
        self.model = model
        self.prefilled = 0
        """Prompt tokens that went through the model, ever."""
        self._memory = Memory(cache_tokens)
        self._share = share
        self._cache_name = cache_name(model)

    def forget(self) -> None:
        """Drop all kept state. To be called whenever the weights change."""
        self._memory.forget()

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
        rows = self._rows(ids, sampling, seeds)
        state = self._assemble(rows)
        logits_BV = self._logits(self._compute(rows, state))
        while rows.take(logits_BV):
            if rows.sparse():
                self._remember(rows, state, only_done=True)
                kept = rows.compact()
                for layer in state.layers:
                    layer.keep(kept)
            logits_BV = self._logits(self._run(rows, state, *rows.last(state.length)))
        self._remember(rows, state, only_done=False)
        self._memory.trim()
        return rows.drawn(version)

    def _rows(self, ids: list[list[int]], sampling: Sampling, seeds: Sequence[int]) -> Rows:
        known = [self._memory.match(prompt) for prompt in ids]
        return Rows(ids, with_trunks(known) if self._share else known, sampling, seeds)

    # --- what is known -----------------------------------------------------------------------

    def _prepare(self, prompts: Sequence[list[int]]) -> None:
        """Compute long unknown beginnings: those that prompts share first, then each by itself."""
        order = sorted(prompts)
        for before, after in pairwise(order):
            shared = common(before, after, len(before) - 1)
            if shared - self._memory.match(before[: shared + 1]).count > ALONE // 2:
                self._learn(before[:shared])
        for prompt in order:
            if len(prompt) - 1 - self._memory.match(prompt).count > ALONE:
                self._learn(prompt[:-1])

    def _learn(self, ids: list[int]) -> None:
        known = self._memory.match([*ids, -1])
        rows = Rows(
            [ids],
            with_trunks([known]) if self._share else [known],
            Sampling(stop=(), max_tokens=0),
            [0],
        )
        state = self._assemble(rows)
        self._compute(rows, state)
        self._remember(rows, state, only_done=False)

    def _remember(self, rows: Rows, state: _State, *, only_done: bool) -> None:
        """Keep what was computed for each row beyond what was known of it."""
        for place, b in enumerate(rows.places):
            if only_done and not rows.done[b]:
                continue
            known = rows.known[b]
            copied = known.count - known.trunk
            new_L = rows.valid_BL[place, : state.length].nonzero().squeeze(1)[copied:]
            pairs = [layer.buffers for layer in state.layers]
            node = Node(
                ids=rows.history(b)[: known.count + len(new_L)],
                start=known.count,
                parent=known.node,
                keys=[keys[place][:, new_L].clone() for keys, _ in pairs],
                values=[values[place][:, new_L].clone() for _, values in pairs],
            )
            self._memory.add(node)

    def _assemble(self, rows: Rows) -> _State:
        """Copy what is known of each row, beyond its trunk, into the buffers of a batch."""
        config = self.model.config.get_text_config(decoder=True)
        width = getattr(config, "head_dim", None) or (
            config.hidden_size // config.num_attention_heads
        )
        shape = (len(rows.places), config.num_key_value_heads, rows.capacity, width)
        layers = []
        for n in range(config.num_hidden_layers):
            # Zeros: a masked place still takes part in 0 * value, and garbage may be NaN.
            keys = torch.zeros(shape, dtype=self.model.dtype, device=self.model.device)
            values = torch.zeros_like(keys)
            for place, b in enumerate(rows.places):
                known = rows.known[b]
                offset, end, node = rows.longest - known.count, known.count, known.node
                while node is not None and end > known.trunk:
                    start = max(node.start, known.trunk)
                    part = slice(start - node.start, end - node.start)
                    where = slice(offset + start, offset + end)
                    keys[place, :, where] = node.keys[n][:, part]
                    values[place, :, where] = node.values[n][:, part]
                    end, node = node.start, node.parent
            layers.append(_Layer(keys, values, rows.longest))
        return _State(layers)

    # --- the model ---------------------------------------------------------------------------

    def _compute(self, rows: Rows, state: _State) -> Tensor:
        """Run every row's unknown tokens through the model."""
        self.prefilled += sum(len(rows.prompts[b]) - rows.known[b].count for b in rows.places)
        return self._run(rows, state, *rows.unknown())

    def _run(
        self, rows: Rows, state: _State, ids: Tensor, positions: Tensor, mask: Tensor
    ) -> Tensor:
        device = self.model.device
        options: dict[str, Any] = {self._cache_name: state.cache}
        trunks = [
            Trunk(count, root.keys, root.values, length) if root is not None else Trunk(count)
            for count, root, length in rows.trunks()
        ]
        if any(trunk.length for trunk in trunks):
            options["trunks"] = trunks
        out = self.model.base_model(
            input_ids=ids.to(device),
            position_ids=positions.to(device),
            attention_mask=mask[:, None].to(device),
            use_cache=True,
            **options,
        )
        hidden: Tensor = out.last_hidden_state
        return hidden

    def _logits(self, hidden_BLD: Tensor) -> Tensor:
        """Return the logits of each row's last place."""
        logits: Tensor = self.model.get_output_embeddings()(hidden_BLD[:, -1]).float().cpu()
        return logits


__all__ = ["Drawn", "Generator", "Sampling"]
