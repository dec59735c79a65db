"""A tiny model and its renderer, made once; one thread, because the machine is shared."""

import pytest
import torch

from synth.core.formats import get_format
from train.engine import TorchEngine
from train.models import tiny
from train.renderer import Renderer

TEXTS = [
    'Tools: find_customer(email: string) - Find one. {"name": "find_customer", "arguments": {}}',
    "<tool_call>{}</tool_call> I would like to know when my loan of the book is due, please.",
    "The quick brown fox jumps over the lazy dog. 0123456789 user assistant system tool",
] * 4


@pytest.fixture(scope="session", autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def loaded():
    """A fresh model each time: tests change it."""
    return tiny(TEXTS, size="0.3M")


@pytest.fixture
def engine(loaded):
    return TorchEngine(loaded, places=256)


@pytest.fixture(scope="session")
def tokenizer():
    return tiny(TEXTS, size="0.3M").tokenizer


@pytest.fixture(scope="session")
def renderer(tokenizer):
    return Renderer(tokenizer, get_format("hermes"))
