"""Tokens a second of fine-tuning, on rows of this project, next to a bare matrix product."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import torch

from synth.core.config import load_config
from synth.core.formats import get_format
from synth.pipeline.export import export
from synth.pipeline.generate import Goal
from synth.pipeline.job import generate
from train.data import Conversation, prepare, read_conversations
from train.engine import TorchEngine
from train.models import Loaded, fastest_dtype, load, tiny
from train.renderer import Renderer

FETCHED = Path("workspace/cache/models")


def rows() -> Iterator[tuple[str, str, str]]:
    """Yield what, its figure, and what it is to be compared with."""
    conversations = _conversations()
    limit = _matrix_product()
    yield (
        "matrix product, float32 (the limit)",
        f"{limit:.0f} GFLOP/s",
        f"{torch.get_num_threads()} threads",
    )
    texts = [str(m.get("content") or "") for c in conversations for m in c.messages]
    models: list[tuple[str, Loaded]] = [("1M, made from nothing", tiny(texts, size="1M"))]
    models += [(path.stem, load(path, dtype=fastest_dtype())) for path in FETCHED.glob("*.gguf")]
    for name, loaded in models:
        engine = TorchEngine(loaded)
        renderer = Renderer(loaded.tokenizer, get_format("hermes"))
        prepared = prepare(conversations, renderer).rows[:4]
        speed = median(engine.training_speed(prepared) for _ in range(3))
        share = 6 * loaded.parameters * speed / 1e9 / limit
        yield f"fine-tuning {name}", f"{speed:.0f} tokens/s", f"{share:.0%} of the limit"


def _conversations() -> list[Conversation]:
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        config = load_config(None, ["generate.applications=['clinic']", "generate.states=2"])
        asyncio.run(generate(config, run, Path(folder), Goal(accept=12)))
        export(run, run / "dataset", formats=("openai",), limit=None)
        return read_conversations(run / "dataset" / "train.jsonl")


def _matrix_product() -> float:
    """Return billions of operations a second of a 1024 x 1024 product."""
    matrix = torch.randn(1024, 1024)
    times = []
    for _ in range(12):
        start = time.perf_counter()
        matrix @ matrix
        times.append(time.perf_counter() - start)
    return 2 * 1024**3 / median(times) / 1e9
