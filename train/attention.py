"""Attention for sequences that share a beginning.

Shape suffixes: `_B` batch, `_H` heads, `_G` key-value heads, `_S` query heads of one key-value
head, `_L` places, `_P` places of a trunk, `_D` width of a head.

Two forms:
- in training, one sequence holds a beginning and then the endings that follow it (`Layout`). An
  ending sees the beginning and itself; under a mask, every pair of endings would be computed and
  thrown away, so each ending attends by itself. The beginning may also be given as its state;
- in sampling, rows read the state of their common beginning in place (`Trunk`), instead of each
  having a copy to read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward

NAME = "toolloom"


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the parts of a shared sequence are: `prefix` places, then endings of these lengths."""

    prefix: int
    endings: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Trunk:
    """State that `rows` neighbouring rows have in common, before all they have of their own."""

    rows: int
    keys: Sequence[Tensor] = ()
    """For each layer, [G, P, D]."""
    values: Sequence[Tensor] = ()
    length: int = 0
    """How many places of it are seen."""


def attend(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    **options: Any,
) -> tuple[Tensor, None]:
    """Attend; an attention function as the models of the library take it.

    With a `layout` among the options the sequence is a shared one (its beginning left out if
    `prompt` holds the state of it), with `trunks` the rows have a beginning in common; with none of
    them everything is left to the library.
    """
    layout, trunks = options.pop("layout", None), options.pop("trunks", None)
    prompt = options.pop("prompt", None)
    if trunks is not None and attention_mask is not None:
        return _with_trunks(module, query, key, value, attention_mask, trunks, **options)
    if layout is None:
        out: tuple[Tensor, None] = sdpa_attention_forward(
            module, query, key, value, attention_mask, **options
        )
        return out
    scale = options.get("scaling")
    if prompt is None:
        start = layout.prefix
        parts = [_beginning(query, key, value, start, scale)]
        far = (key[:, :, :start], value[:, :, :start])
    else:
        start, parts = 0, []
        far = (prompt.keys[module.layer_idx][None], prompt.values[module.layer_idx][None])
    for length in layout.endings:
        own = slice(start, start + length)
        parts.append(_ending(query[:, :, own], (*far, key[:, :, own], value[:, :, own]), scale))
        start += length
    return torch.cat(parts, dim=2).transpose(1, 2).contiguous(), None


def _beginning(
    query_BHLD: Tensor, key_BGLD: Tensor, value_BGLD: Tensor, prefix: int, scale: float | None
) -> Tensor:
    return scaled_dot_product_attention(
        query_BHLD[:, :, :prefix],
        key_BGLD[:, :, :prefix],
        value_BGLD[:, :, :prefix],
        is_causal=True,
        scale=scale,
        enable_gqa=query_BHLD.shape[1] != key_BGLD.shape[1],
    )


def _ending(
    query_BHLD: Tensor, state: tuple[Tensor, Tensor, Tensor, Tensor], scale: float | None
) -> Tensor:
    """Attend from one ending; query heads of one key-value head are stacked, not keys copied.

    Args:
        query_BHLD: of the ending.
        state: keys and values of the beginning, then keys and values of the ending itself.
        scale: of the products.
    """
    far_BGPD, far_values_BGPD, near_BGLD, near_values_BGLD = state
    batch, heads, length, width = query_BHLD.shape
    groups, prefix = far_BGPD.shape[1:3]
    share = heads // groups
    stacked = query_BHLD.reshape(batch, groups, share * length, width)
    keys = torch.cat((far_BGPD, near_BGLD), dim=2)
    values = torch.cat((far_values_BGPD, near_values_BGLD), dim=2)
    causal = torch.ones(length, length, dtype=torch.bool, device=keys.device).tril()
    seen = torch.cat((causal.new_ones(length, prefix), causal), dim=1).repeat(share, 1)
    out = scaled_dot_product_attention(stacked, keys, values, attn_mask=seen, scale=scale)
    return out.reshape(batch, heads, length, width)


def _with_trunks(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor,
    trunks: Sequence[Trunk],
    **options: Any,
) -> tuple[Tensor, None]:
    parts, first = [], 0
    for trunk in trunks:
        rows = slice(first, first + trunk.rows)
        first += trunk.rows
        mine = (query[rows], key[rows], value[rows], attention_mask[rows])
        if trunk.length:
            layer = module.layer_idx
            keys = trunk.keys[layer][:, : trunk.length]
            values = trunk.values[layer][:, : trunk.length]
            parts.append(_on_trunk(*mine, keys, values, module.scaling))
        else:
            parts.append(sdpa_attention_forward(module, *mine, **options)[0])
    return torch.cat(parts), None


def _on_trunk(
    query_BHLD: Tensor,
    key_BGLD: Tensor,
    value_BGLD: Tensor,
    mask_B1LL: Tensor,
    trunk_GPD: Tensor,
    trunk_values_GPD: Tensor,
    scale: float,
) -> Tensor:
    """One softmax over the trunk and a row's own places; the trunk is seen whole by everyone."""
    batch, heads, length, width = query_BHLD.shape
    groups = key_BGLD.shape[1]
    stacked_BGSD = query_BHLD.reshape(batch, groups, -1, width) * scale
    together_GSD = stacked_BGSD.transpose(0, 1).reshape(groups, -1, width)
    far = (together_GSD @ trunk_GPD.transpose(1, 2)).float()
    far_BGSP = far.reshape(groups, batch, -1, far.shape[-1]).transpose(0, 1)
    near_BGSL = (stacked_BGSD @ key_BGLD.transpose(2, 3)).float()
    hidden_B1SL = ~mask_B1LL.repeat(1, 1, heads // groups, 1)
    near_BGSL = near_BGSL.masked_fill(hidden_B1SL, float("-inf"))
    weights = torch.cat((far_BGSP, near_BGSL), dim=-1).softmax(dim=-1).to(query_BHLD.dtype)
    split = far.shape[-1]
    far_GSP = weights[..., :split].transpose(0, 1).reshape(groups, -1, split)
    out_BGSD = (far_GSP @ trunk_values_GPD).reshape(groups, batch, -1, width).transpose(0, 1)
    out_BGSD = out_BGSD + weights[..., split:] @ value_BGLD
    return out_BGSD.reshape(batch, heads, length, width).transpose(1, 2).contiguous()


def install(model: Any) -> bool:
    """Let `model` use `attend`; return whether it can take shared sequences.

    A model with a sliding window, or one that does not hand its attention on, cannot.
    """
    config = model.config.get_text_config(decoder=True)
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
    if kinds != {"full_attention"} or not getattr(model, "_supports_attention_backend", False):
        return False
    AttentionInterface.register(NAME, attend)
    model.set_attn_implementation(NAME)
    return True
