"""The head of a GGUF file, read with suspicion; and which file a name means."""

import struct
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from synth.core.errors import BadConfig, BadInput, UnknownName
from synth.core.llm.local.gguf import read_weights
from synth.core.llm.local.sources import SOURCES, find


def text(value):
    raw = value.encode()
    return struct.pack("<Q", len(raw)) + raw


def listed(kind, items):
    return struct.pack("<IIQ", 9, kind, len(items)) + b"".join(items)


KEYS = (
    ("general.architecture", struct.pack("<I", 8) + text("llama")),
    ("general.flag", struct.pack("<I?", 7, True)),
    ("llama.context_length", struct.pack("<II", 4, 2048)),
    ("llama.scale", struct.pack("<Id", 12, 0.5)),
    ("tokenizer.ggml.tokens", listed(8, [text("a"), text("<|im_end|>"), text("b")])),
    ("tokenizer.ggml.token_type", listed(5, [struct.pack("<i", kind) for kind in (1, 3, 1)])),
)
TENSORS = (("token_embd.weight", (64, 3)), ("norm.weight", (64,)))


def head(keys=KEYS, tensors=TENSORS, *, version=3, count=None):
    out = b"GGUF" + struct.pack("<IQQ", version, len(tensors), count or len(keys))
    for name, value in keys:
        out += text(name) + value
    for name, shape in tensors:
        out += text(name) + struct.pack(f"<I{len(shape)}Q", len(shape), *shape)
        out += struct.pack("<IQ", 0, 0)
    return out


@pytest.fixture
def write(tmp_path):
    def write(data, name="m.gguf"):
        path = tmp_path / name
        path.write_bytes(data)
        return path

    return write


def test_a_file_says_its_size_its_context_and_its_control_tokens(write):
    weights = read_weights(write(head() + b"\0" * 64))
    assert weights.parameters == 64 * 3 + 64
    assert (weights.architecture, weights.context) == ("llama", 2048)
    assert weights.control == ("<|im_end|>",)


def test_a_file_cut_anywhere_in_its_head_is_refused_in_one_line(write):
    whole = head()
    for end in range(0, len(whole), 3):
        with pytest.raises(BadInput, match="not a GGUF file") as caught:
            read_weights(write(whole[:end]))
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"PK\3\4 something else", "does not begin with GGUF"),
        (head(version=1), "version 1"),
        (head(count=2**60), "keys"),
        (head(keys=(("general.architecture", struct.pack("<IQ", 8, 2**62)),)), "a text of"),
        (head(keys=(("x", struct.pack("<I", 99)),)), "unknown type 99"),
        (head(keys=(("x", struct.pack("<IIQ", 9, 4, 2**50)),)), "items"),
        (head(keys=()), "no architecture"),
        (head(tensors=(("t", (1,) * 9),)), "9 dimensions"),
    ],
)
def test_a_broken_head_is_refused_and_says_where_it_breaks(write, data, why):
    with pytest.raises(BadInput, match=why):
        read_weights(write(data))


@given(data=st.binary(max_size=60), at=st.integers(0, 300))
@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60
)
def test_strange_bytes_are_read_or_refused_and_nothing_else(tmp_path, data, at):
    whole = head()
    path = tmp_path / "m.gguf"
    path.write_bytes(whole[:at] + data + whole[at + len(data) :])
    try:
        found = read_weights(path).parameters
    except BadInput:
        found = 0
    assert found >= 0


def test_no_file_is_one_clear_line(tmp_path):
    with pytest.raises(BadInput, match="No such file"):
        read_weights(tmp_path / "none.gguf")


# --- names -----------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.delenv("TOOLLOOM_MODELS", raising=False)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")


def test_a_known_name_means_its_file_and_is_fetched_where_it_is_missing(tmp_path, monkeypatch):
    with pytest.raises(BadConfig, match="toolloom models fetch smollm2"):
        find("smollm2", [tmp_path / "models"])
    (tmp_path / "models").mkdir()
    file = tmp_path / "models" / SOURCES["smollm2"].file
    file.touch()
    assert find("smollm2", [tmp_path / "models"]) == file
    monkeypatch.setenv("TOOLLOOM_MODELS", f"{tmp_path / 'no'}:{tmp_path / 'models'}")
    assert find("smollm2", []) == file


def test_a_path_is_that_file_and_a_bare_name_is_looked_for(tmp_path):
    file = tmp_path / "own.Q4.gguf"
    file.touch()
    assert find(str(file)) == file
    assert find("own.Q4", [tmp_path]) == find("own.Q4.gguf", [tmp_path]) == file
    Path("near.gguf").touch()
    assert find("near.gguf") == Path("near.gguf")
    with pytest.raises(BadConfig, match="check the path"):
        find(str(tmp_path / "none.gguf"))
    with pytest.raises(UnknownName, match=r"own\.Q4"):
        find("own.Q5", [tmp_path])
