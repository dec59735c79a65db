"""Llama models out of a GGUF file, in seconds.

The general reader walks the file three times through a slow parser (measured: about a minute for a
model of 135M weights, against four seconds here). This one knows only what it needs: one
architecture, byte-level BPE vocabularies, any quantisation that the `gguf` package can undo. For
every other file it says so, and the general reader is used.
"""

from __future__ import annotations

import mmap
import re
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

_FIXED = {
    0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q",
    12: "<d",
}  # fmt: skip
_STRING, _ARRAY = 8, 9
_BYTE_LEVEL = frozenset({"smollm", "gpt-2", "default"})
"""Pre-tokenizers that split as GPT-2 does. (`smollm` also splits digits; its merges hold none.)"""
_CONTROL = 3
"""Token type of control tokens."""
_NAMES = {
    "token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head",
    "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}  # fmt: skip
_EMBEDDING = "model.embed_tokens.weight"
_TENSOR = re.compile(r"(?:blk\.(?P<layer>\d+)\.)?(?P<part>[a-z_]+)\.weight")


class OtherKind(Exception):
    """A file this reader does not know; the general reader may."""


class _Cursor:
    """Reads values one after the other from the bytes of a file."""

    def __init__(self, data: mmap.mmap) -> None:
        self.data, self.at = data, 0

    def fixed(self, form: str) -> Any:
        (value,) = struct.unpack_from(form, self.data, self.at)
        self.at += struct.calcsize(form)
        return value

    def string(self) -> str:
        length = self.fixed("<Q")
        text = self.data[self.at : self.at + length].decode()
        self.at += length
        return text

    def value(self, kind: int) -> Any:
        if kind == _STRING:
            return self.string()
        if kind == _ARRAY:
            inner, count = self.fixed("<I"), self.fixed("<Q")
            return [self.value(inner) for _ in range(count)]
        if kind not in _FIXED:
            raise ValueError(f"a value of the unknown type {kind}")
        return self.fixed(_FIXED[kind])


def read_llama(file: Path) -> tuple[Any, Any]:
    """Return model (float32) and tokenizer.

    Args:
        file: a `.gguf` file.

    Raises:
        OtherKind: not a Llama, or not with a vocabulary this reader knows.
        ValueError: damaged.
    """
    with file.open("rb") as reader:
        mapped = mmap.mmap(reader.fileno(), 0, access=mmap.ACCESS_READ)
    data = np.frombuffer(mapped, dtype=np.uint8)
    cursor = _Cursor(mapped)
    if mapped[:4] != b"GGUF":
        raise ValueError("not a GGUF file")
    cursor.at = 4
    version, tensors, entries = cursor.fixed("<I"), cursor.fixed("<Q"), cursor.fixed("<Q")
    if version not in (2, 3):
        raise OtherKind
    about = {}
    for _ in range(entries):
        key = cursor.string()
        about[key] = cursor.value(cursor.fixed("<I"))
    plain = "rope_freqs.weight", "llama.rope.scaling.type", "llama.expert_count"
    if (
        about.get("general.architecture") != "llama"
        or about.get("tokenizer.ggml.model") != "gpt2"
        or about.get("tokenizer.ggml.pre") not in _BYTE_LEVEL
        or any(key in about for key in plain)
    ):
        raise OtherKind
    weights = _weights(data, cursor, tensors, about)
    tied = "lm_head.weight" not in weights
    model = _model(_config(about, vocabulary=len(weights[_EMBEDDING]), tied=tied), weights)
    return model, _tokenizer(about)


def _config(about: Mapping[str, Any], *, vocabulary: int, tied: bool) -> LlamaConfig:
    def number(name: str) -> Any:
        return about[f"llama.{name}"]

    heads, width = number("attention.head_count"), number("embedding_length")
    tokens = "tokenizer.ggml."
    return LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=width,
        intermediate_size=number("feed_forward_length"),
        num_hidden_layers=number("block_count"),
        num_attention_heads=heads,
        num_key_value_heads=about.get("llama.attention.head_count_kv", heads),
        head_dim=about.get("llama.attention.key_length", width // heads),
        max_position_embeddings=number("context_length"),
        rms_norm_eps=number("attention.layer_norm_rms_epsilon"),
        rope_parameters={
            "rope_type": "default",
            "rope_theta": about.get("llama.rope.freq_base", 10_000.0),
        },
        tie_word_embeddings=tied,
        bos_token_id=about.get(f"{tokens}bos_token_id"),
        eos_token_id=about.get(f"{tokens}eos_token_id"),
        pad_token_id=about.get(f"{tokens}padding_token_id"),
    )


def _weights(
    data: np.ndarray[Any, Any], cursor: _Cursor, count: int, about: Mapping[str, Any]
) -> dict[str, torch.Tensor]:
    table = []
    for _ in range(count):
        name = cursor.string()
        shape = [cursor.fixed("<Q") for _ in range(cursor.fixed("<I"))][::-1]
        table.append((name, shape, GGMLQuantizationType(cursor.fixed("<I")), cursor.fixed("<Q")))
    alignment = about.get("general.alignment", 32)
    base = -(-cursor.at // alignment) * alignment
    heads = about["llama.attention.head_count"]
    rows = {"attn_q": heads, "attn_k": about.get("llama.attention.head_count_kv", heads)}
    out = {}
    for name, shape, kind, offset in table:
        match = _TENSOR.fullmatch(name)
        if match is None or match["part"] not in _NAMES:
            raise OtherKind
        block, size = GGML_QUANT_SIZES[kind]
        start = base + offset
        packed = data[start : start + int(np.prod(shape)) // block * size]
        rows_packed = packed.reshape(shape[0] if len(shape) > 1 else 1, -1)
        values = np.array(dequantize(rows_packed, kind), dtype=np.float32)
        tensor = torch.from_numpy(values.reshape(shape))
        if match["part"] in rows:
            tensor = _unpermuted(tensor, rows[match["part"]])
        layer = f"model.layers.{match['layer']}." if match["layer"] else ""
        out[f"{layer}{_NAMES[match['part']]}.weight"] = tensor
    return out


def _unpermuted(weight: torch.Tensor, heads: int) -> torch.Tensor:
    """Undo the order of rows that GGUF files give to rotated queries and keys."""
    rows, width = weight.shape
    halves = weight.reshape(heads, rows // heads // 2, 2, width).swapaxes(1, 2)
    return halves.reshape(rows, width).contiguous()


def _model(config: LlamaConfig, weights: dict[str, torch.Tensor]) -> Any:
    with torch.device("meta"):
        model: Any = LlamaForCausalLM(config)
    # What is not in the file (the rotary table) is made on the real device.
    model.model.rotary_emb = type(model.model.rotary_emb)(config=config)
    missing, unknown = model.load_state_dict(weights, strict=False, assign=True)
    if unknown or set(missing) - {"lm_head.weight"}:
        raise ValueError(f"weights do not fit: {[*missing, *unknown][:3]}")
    model.tie_weights()
    for weight in model.parameters():
        weight.requires_grad_(True)
    return model


def _tokenizer(about: Mapping[str, Any]) -> Any:
    def field(name: str) -> Any:
        return about.get(f"tokenizer.ggml.{name}")

    tokens = field("tokens")
    core = Tokenizer(
        models.BPE(
            vocab={token: index for index, token in enumerate(tokens)},
            merges=[tuple(merge.split(" ", 1)) for merge in field("merges")],
        )
    )
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    kinds = field("token_type") or []
    core.add_special_tokens(
        [
            AddedToken(token, special=True, normalized=False)
            for token, kind in zip(tokens, kinds, strict=False)
            if kind == _CONTROL
        ]
    )
    named = {
        f"{name}_token": tokens[index]
        for name, key in (("bos", "bos"), ("eos", "eos"), ("unk", "unknown"), ("pad", "padding"))
        if (index := field(f"{key}_token_id")) is not None
    }
    tokenizer = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=core, clean_up_tokenization_spaces=False, **named
    )
    if template := field("chat_template"):
        tokenizer.chat_template = template
    return tokenizer
