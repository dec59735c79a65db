"""Attention for sequences that share a beginning, without computing what a mask would hide.

Shape suffixes: `_B` batch, `_H` heads, `_G` key-value heads, `_L` places, `_D` width of a head.

A shared batch is one sequence: a beginning, then the endings that follow it. An ending sees the
beginning and itself. Under a mask, every pair of endings would be computed and thrown away; here
each ending attends by itself.
"""

from __future__ import annotations

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


def attend(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    **options: Any,
) -> tuple[Tensor, None]:
    """Attend; an attention function as the models of the library take it.

    With a `layout` among the options the sequence is a shared one, without it everything is left to
    the library.
    """
    layout = options.pop("layout", None)
    if layout is None:
        out: tuple[Tensor, None] = sdpa_attention_forward(
            module, query, key, value, attention_mask, **options
        )
        return out
    scale = options.get("scaling")
    parts = [_beginning(query, key, value, layout.prefix, scale)]
    start = layout.prefix
    for length in layout.endings:
        parts.append(_ending(query, key, value, layout.prefix, slice(start, start + length), scale))
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
    query_BHLD: Tensor,
    key_BGLD: Tensor,
    value_BGLD: Tensor,
    prefix: int,
    part: slice,
    scale: float | None,
) -> Tensor:
    """Attend from one ending; query heads of one key-value head are stacked, not keys copied."""
    query = query_BHLD[:, :, part]
    batch, heads, length, width = query.shape
    groups = key_BGLD.shape[1]
    share = heads // groups
    stacked = query.reshape(batch, groups, share * length, width)
    keys = torch.cat((key_BGLD[:, :, :prefix], key_BGLD[:, :, part]), dim=2)
    values = torch.cat((value_BGLD[:, :, :prefix], value_BGLD[:, :, part]), dim=2)
    causal = torch.ones(length, length, dtype=torch.bool, device=query.device).tril()
    seen = torch.cat((causal.new_ones(length, prefix), causal), dim=1).repeat(share, 1)
    out = scaled_dot_product_attention(stacked, keys, values, attn_mask=seen, scale=scale)
    return out.reshape(batch, heads, length, width)


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
