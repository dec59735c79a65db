"""The head of a GGUF file: what a model is, read before anything heavy looks at the file.

Weights come from strangers, and llama.cpp says only "failed" where one is broken. This reader is
bounded and says what is wrong. It also finds the control tokens, which no message may contain.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from synth.core.errors import BadInput

_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_MOST = {"keys": 10_000, "tensors": 100_000, "items": 4_000_000, "dimensions": 8}
_LONGEST = 1 << 20
"""Bytes of one text."""
_FIXED = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_TEXT, _LIST = 8, 9
_KEPT_LISTS = ("tokenizer.ggml.tokens", "tokenizer.ggml.token_type")
_CONTROL = 3
"""Value of `tokenizer.ggml.token_type` for control tokens."""


@dataclass(frozen=True, slots=True)
class Weights:
    """What a file of weights says of itself."""

    path: Path
    architecture: str
    parameters: int
    """Numbers in all tensors."""
    context: int | None
    """Tokens the model was trained to attend to; None where the file does not say."""
    control: tuple[str, ...]
    """Texts of the control tokens."""


def read_weights(path: Path) -> Weights:
    """Read the head of a GGUF file.

    Raises:
        BadInput: no such file, or not the head of a GGUF file; says what is wrong.
    """
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _Reader(data, path).read()
    except OSError as error:
        raise BadInput(error.strerror or str(error), where=str(path)) from error
    except (ValueError, struct.error) as error:  # an empty file cannot be mapped: ValueError
        raise BadInput(
            f"not a GGUF file of weights: {error}", where=str(path), remedy="fetch it again"
        ) from error


class _Reader:
    """A cursor on the mapped file."""

    def __init__(self, data: mmap.mmap, path: Path) -> None:
        self._data, self._path, self._at = data, path, 0

    def read(self) -> Weights:
        if self._data[: len(_MAGIC)] != _MAGIC:
            raise ValueError("it does not begin with GGUF")
        self._at = len(_MAGIC)
        if (version := self._number("I")) not in _VERSIONS:
            raise ValueError(f"version {version} of the format")
        tensors, keys = self._count("tensors"), self._count("keys")
        about = {self._text(): self._value() for _ in range(keys)}
        parameters = sum(self._tensor() for _ in range(tensors))
        architecture = about.get("general.architecture")
        if not isinstance(architecture, str):
            raise ValueError("it names no architecture")
        context = about.get(f"{architecture}.context_length")
        return Weights(
            path=self._path,
            architecture=architecture,
            parameters=parameters,
            context=context if isinstance(context, int) and context > 0 else None,
            control=_control(*(about.get(name) for name in _KEPT_LISTS)),
        )

    def _number(self, code: str) -> Any:
        (value,) = struct.unpack_from(f"<{code}", self._data, self._at)
        self._at += struct.calcsize(f"<{code}")
        return value

    def _count(self, what: str) -> int:
        number = int(self._number("Q"))
        if number > _MOST[what]:
            raise ValueError(f"{number} {what}")
        return number

    def _text(self) -> str:
        length = self._number("Q")
        end = self._at + length
        if length > _LONGEST or end > len(self._data):
            raise ValueError(f"a text of {length} bytes at {self._at}")
        text = self._data[self._at : end].decode("utf-8", "replace")
        self._at = end
        return text

    def _value(self) -> Any:
        kind = self._number("I")
        if kind == _LIST:
            inner, items = self._number("I"), self._count("items")
            return [read() for read in [self._reader_of(inner)] * items]
        return self._reader_of(kind)()

    def _reader_of(self, kind: int) -> Callable[[], Any]:
        if kind == _TEXT:
            return self._text
        if kind not in _FIXED:
            raise ValueError(f"a value of the unknown type {kind} at {self._at}")
        code = _FIXED[kind]
        return lambda: self._number(code)

    def _tensor(self) -> int:
        self._text()
        dimensions = self._number("I")
        if dimensions > _MOST["dimensions"]:
            raise ValueError(f"a tensor of {dimensions} dimensions")
        size = prod(int(self._number("Q")) for _ in range(dimensions))
        self._number("I")  # its number format
        self._number("Q")  # where its data lies
        return size


def _control(tokens: Any, kinds: Any) -> tuple[str, ...]:
    if not isinstance(tokens, list) or not isinstance(kinds, list):
        return ()
    pairs = zip(tokens, kinds, strict=False)
    return tuple(token for token, kind in pairs if kind == _CONTROL and isinstance(token, str))
