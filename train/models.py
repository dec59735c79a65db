"""Where models come from: a Hugging Face folder, a GGUF file, or nothing at all.

No function here reaches a model hub; `train.fetch` reaches a package index, when it is called.
"""

from __future__ import annotations

import errno
import json
import os
import re
import struct
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    GenerationConfig,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
)
from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint
from transformers.utils import logging as transformers_logging

from synth.core.errors import BadInput, UnknownName
from synth.core.jsonl import storage_error
from synth.core.seeds import seed as seed_of
from train.gguf_file import OtherKind, read_llama

# --- loading ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Loaded:
    """A model with its tokenizer."""

    model: Any
    tokenizer: Any
    name: str

    @property
    def parameters(self) -> int:
        """Number of weights, tied ones once."""
        return sum(weight.numel() for weight in self.model.parameters())


def load(path: str | Path, *, dtype: torch.dtype = torch.float32) -> Loaded:
    """Load a causal language model from a Hugging Face folder or a `.gguf` file on this disk.

    Raises:
        BadInput: there is no such folder or file, or it holds no causal language model.
    """
    place = Path(path)
    if not place.exists():
        raise BadInput(
            f"no model at {str(path)!r}", remedy="give a Hugging Face folder or a .gguf file"
        )
    _quiet()
    try:
        model, tokenizer = _read_file(place) if place.is_file() else _read_folder(place)
    except (OSError, ValueError, KeyError, IndexError, struct.error) as error:
        line = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise BadInput(f"not a causal language model: {line[:200]}", where=str(path)) from error
    model.config.dtype = dtype
    model.generation_config = GenerationConfig.from_model_config(model.config)
    name = place.stem if place.is_file() else place.name
    return Loaded(model.to(dtype).eval(), tokenizer, name)


def _quiet() -> None:
    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]


def _read_folder(folder: Path) -> tuple[Any, Any]:
    tokenizer = AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
    model = AutoModelForCausalLM.from_pretrained(
        str(folder), local_files_only=True, dtype=torch.float32
    )
    return model, tokenizer


def _read_file(file: Path) -> tuple[Any, Any]:
    try:
        return read_llama(file)
    except OtherKind:
        return read_any(file)


def read_any(file: Path) -> tuple[Any, Any]:
    """Read a GGUF file of any kind the library knows into a fresh model.

    `from_pretrained` would want one more package, and would return a model that refuses to be
    saved.
    """
    where = {"gguf_file": file.name, "local_files_only": True}
    tokenizer = AutoTokenizer.from_pretrained(str(file.parent), **where)
    config = AutoConfig.from_pretrained(str(file.parent), **where)
    model = AutoModelForCausalLM.from_config(  # type: ignore[no-untyped-call]
        config, dtype=torch.float32
    )
    read = load_gguf_checkpoint(  # type: ignore[no-untyped-call]
        str(file), return_tensors=True, model_to_load=model
    )
    missing, unknown = model.load_state_dict(read["tensors"], strict=False)
    tied = {"lm_head.weight"} if config.tie_word_embeddings else set()
    if unknown or set(missing) - tied:
        raise ValueError(f"weights do not fit: {[*missing, *unknown][:3]}")
    model.tie_weights()
    return model, tokenizer


def save(loaded: Loaded, folder: str | Path) -> Path:
    """Write a Hugging Face folder, whole or not at all; an older one is replaced.

    Raises:
        DiskFull: the older one is still there.
    """
    target = Path(folder)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".save-") as scratch:
            fresh = write_model(loaded, Path(scratch) / "model")
            if target.exists():
                target.rename(Path(scratch) / "old")
            fresh.rename(target)
    except OSError as error:
        raise storage_error(error, target) from error
    return target


def write_model(loaded: Loaded, folder: Path) -> Path:
    """Write a Hugging Face folder where nothing is yet.

    Raises:
        OSError: it could not be written.
    """
    _quiet()
    try:
        loaded.model.save_pretrained(folder)
    except SafetensorError as error:  # it has no field for the number
        number = re.search(r"os error (\d+)", str(error))
        code = int(number[1]) if number else errno.EIO
        raise OSError(code, os.strerror(code)) from error
    loaded.tokenizer.save_pretrained(folder)
    about = {"name": loaded.name, "parameters": loaded.parameters}
    (folder / "toolloom.json").write_text(json.dumps(about), encoding="utf-8")
    return folder


# --- from nothing ----------------------------------------------------------------------------

END_OF_TEXT, TURN, TURN_END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"

SIZES: dict[str, Mapping[str, int]] = {
    "0.3M": {"vocabulary": 512, "width": 64, "layers": 2, "heads": 4, "kv": 2},
    "1M": {"vocabulary": 1024, "width": 128, "layers": 4, "heads": 4, "kv": 2},
    "5M": {"vocabulary": 4096, "width": 256, "layers": 6, "heads": 8, "kv": 4},
}
"""Sizes of `tiny`: a name near the number of weights."""


def tiny(texts: Iterable[str], *, size: str = "1M", seed: int = 0) -> Loaded:
    """Make a Llama with random weights, and a byte-level BPE tokenizer trained on `texts`.

    For tests, and as the model of the demo where no weights can be fetched. The tokenizer knows the
    ChatML turn marks.

    Args:
        texts: what the tokenizer is trained on.
        size: a key of `SIZES`.
        seed: of the weights; the caller's random state is left alone.
    """
    if size not in SIZES:
        raise UnknownName("model size", size, SIZES)
    shape = SIZES[size]
    tokenizer = _byte_level_bpe(texts, shape["vocabulary"])
    config = LlamaConfig(
        vocab_size=shape["vocabulary"],
        hidden_size=shape["width"],
        intermediate_size=shape["width"] * 8 // 3 // 32 * 32,
        num_hidden_layers=shape["layers"],
        num_attention_heads=shape["heads"],
        num_key_value_heads=shape["kv"],
        max_position_embeddings=4096,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.convert_tokens_to_ids(TURN_END),
        pad_token_id=tokenizer.convert_tokens_to_ids(END_OF_TEXT),
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed_of("tiny", size, seed))
        model: Any = LlamaForCausalLM(config)
    return Loaded(model.eval(), tokenizer, f"tiny-{size}")


def _byte_level_bpe(texts: Iterable[str], vocabulary: int) -> Any:
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[END_OF_TEXT, TURN, TURN_END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    core.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=core,
        eos_token=TURN_END,
        pad_token=END_OF_TEXT,
        additional_special_tokens=[TURN],
        clean_up_tokenization_spaces=False,
    )


# --- which number format is fastest here -----------------------------------------------------


def fastest_dtype() -> torch.dtype:
    """Return bfloat16 where this processor multiplies it natively, else float32.

    Without AVX512-BF16 or AMX, bfloat16 products are emulated: measured nine times slower than
    float32 on such a processor, twice as fast where they are native.
    """
    if torch.cuda.is_available():
        return torch.bfloat16
    native = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    return torch.bfloat16 if native else torch.float32
