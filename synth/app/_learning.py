"""What the training commands and the demo share: models, and results as plain data."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from synth.app._show import say
from synth.core.formats import get_format
from synth.play import Limits
from train.checkpoint import latest_checkpoint
from train.engine import TorchEngine
from train.evaluate import Evaluation, Table
from train.fetch import ModelUnavailable, fetch
from train.models import Loaded, fastest_dtype, load, tiny
from train.renderer import Renderer
from train.sampling import Sampling


def open_model(name: str, workspace: Path, texts: Iterable[str]) -> tuple[Loaded, str]:
    """Return a model and how to call it in a report.

    Args:
        name: name to fetch, Hugging Face folder, folder of a training run (its newest checkpoint),
            `.gguf` file, or `tiny`.
        workspace: fetched weights are kept in its cache.
        texts: what the tokenizer of a model made from nothing is trained on.

    Raises:
        ModelUnavailable: the name cannot be fetched.
        UnknownName: no such name.
    """
    if name == "tiny":
        return tiny(texts, size="5M"), "tiny: 5M parameters, made from nothing"
    path = Path(name)
    if not path.exists():
        return load(fetch(name, workspace / "cache" / "models"), dtype=fastest_dtype()), name
    if path.is_dir() and (checkpoint := latest_checkpoint(path)):
        path = checkpoint.folder
    return load(path, dtype=fastest_dtype()), str(path)


def open_model_or_tiny(name: str, workspace: Path, texts: list[str]) -> tuple[Loaded, str]:
    """Return the model called `name`, or one made from nothing where it cannot be fetched."""
    try:
        return open_model(name, workspace, texts)
    except ModelUnavailable as error:
        say(f"  {error}; a model of 5M parameters is made from nothing instead")
        return open_model("tiny", workspace, texts)


class Desk:
    """A model at work: engine, renderer, and where it plays."""

    def __init__(
        self, loaded: Loaded, name: str, *, max_tokens: int = 96, through_prompt: bool = True
    ) -> None:
        self.name = name
        self.engine = TorchEngine(loaded, through_prompt=through_prompt)
        self.renderer = Renderer(loaded.tokenizer, get_format("hermes"))
        # Episodes share their time with all others of a wave: no clock of their own.
        limits = Limits(turns=5, calls=8, seconds=None)
        self.table = Table(self.renderer, limits, name=name, width=24)
        self.sampling = Sampling((self.renderer.stop_id,), max_tokens, 0.0)


def as_data(evaluation: Evaluation) -> dict[str, Any]:
    """Return an evaluation as plain data, its pass rate included."""
    return {**asdict(evaluation), "pass_rate": evaluation.pass_rate}
