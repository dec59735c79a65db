"""The four verbs every loop is written in: sample, forward_backward, optim_step, save and load.

`Engine` has the shape of the Tinker API, so that a remote engine (a sampler with weight hand-over)
fits behind the same loops. `TorchEngine` does it all in this process with torch, on whatever device
the model is.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any, Protocol, cast

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint
from transformers.cache_utils import Cache, DynamicLayer

from synth.core.errors import BadInput
from train.attention import Trunk, install
from train.batches import Batch, Row, batches
from train.models import Loaded, load, save
from train.objective import CrossEntropy, Loss
from train.optimizer import MasterAdamW
from train.sampling import Drawn, Generator, Sampling, cache_name

STATE_FILE = "training_state.pt"


@dataclass(frozen=True, slots=True)
class Passed:
    """What one forward (and backward) pass over some rows gave."""

    loss: float
    """0 where no loss was asked for."""
    logprobs: list[list[float]]
    """For each row, the log-probability of each of its trained tokens."""
    tokens: int
    """Tokens of the rows, shared beginnings counted for each row."""
    places: int
    """Places the model really computed: padding in, shared beginnings once."""


@dataclass(frozen=True, slots=True)
class Step:
    """How far one optimizer step goes."""

    lr: float
    clip: float | None = 1.0
    """Largest gradient norm."""


@dataclass(slots=True)
class Meter:
    """What the engine has done, to plan by measured speed."""

    trained_places: int = 0
    trained_s: float = 0.0
    sampled_tokens: int = 0
    prefilled_tokens: int = 0
    sampled_s: float = 0.0

    def training_speed(self) -> float | None:
        """Return places trained per second (forward, backward and step), if any were."""
        return self.trained_places / self.trained_s if self.trained_s else None


class Engine(Protocol):
    """Anything that can sample from a policy and improve it."""

    version: int
    """Counts the changes of the weights; every sample says which version drew it."""

    def sample(
        self, prompts: Sequence[Sequence[int]], sampling: Sampling, seeds: Sequence[int]
    ) -> list[Drawn]:
        """Continue each prompt up to a stop token or the limit.

        Args:
            prompts: token ids.
            sampling: temperature, limits, stop tokens.
            seeds: one for each prompt; a continuation depends on its own seed only.
        """

    def forward(self, rows: Sequence[Row], *, temperature: float = 1.0) -> Passed:
        """Return log-probabilities without learning (the reference of an RL iteration)."""

    def forward_backward(
        self, rows: Sequence[Row], loss: Loss, *, temperature: float = 1.0
    ) -> Passed:
        """Add the gradient of `loss` over the rows.

        Args:
            rows: what to learn from.
            loss: summed over the batches the rows are split into.
            temperature: divides the logits, so that pi is the distribution that was sampled from.
        """

    def optim_step(self, step: Step) -> float:
        """Move the weights; return the gradient's norm before clipping."""

    def reset_optimizer(self) -> None:
        """Forget the optimizer's moments."""

    def save_weights(self, folder: str | Path) -> Path:
        """Write the weights as a Hugging Face folder."""

    def load_weights(self, folder: str | Path) -> None:
        """Take the weights of a Hugging Face folder of the same shape."""


class TorchEngine:
    """An engine in this process.

    Args:
        loaded: model and tokenizer; the model is changed in place.
        places: most places of one training batch (memory grows with it).
        share: compute common beginnings of rows once.
        weight_decay: of matrices.
        cache_tokens: most tokens whose attention state is kept between calls of `sample`.
        recompute: share of the layers whose inner results are computed again on the way back
            instead of being kept: half of them saves a third of the memory of a step and costs a
            sixth of its time. None: half for models of 50M weights and more, none for smaller ones
            and where prompts need no gradient.
        through_prompt: False computes what stands before the trained tokens without a gradient,
            once for all rows that share it: half the time and memory of a step where prompts are
            long, for a gradient without the part that goes through the prompt's keys and values
            (as Transformer-XL treats its memory, arXiv 1901.02860, section 3.2).
    """

    def __init__(
        self,
        loaded: Loaded,
        *,
        places: int = 2_048,
        share: bool = True,
        weight_decay: float = 0.0,
        cache_tokens: int = 8_192,
        recompute: float | None = None,
        through_prompt: bool = True,
    ) -> None:
        self.loaded = loaded
        self.model = loaded.model
        if getattr(self.model.config, "final_logit_softcapping", None):
            raise BadInput("models with capped logits are not supported", where=loaded.name)
        self.places = places
        if recompute is None:
            recompute = 0.5 if through_prompt and loaded.parameters >= 50_000_000 else 0.0
        _recompute(self.model, recompute)
        ours = install(self.model)
        self.share = ours and share
        self.detach = self.share and not through_prompt
        self.version = 0
        self.meter = Meter()
        self._optimizer: MasterAdamW | None = None
        self._weight_decay = weight_decay
        self._generator = Generator(self.model, cache_tokens=cache_tokens, share=ours)
        self._pad = int(loaded.tokenizer.pad_token_id or 0)

    @property
    def optimizer(self) -> MasterAdamW:
        """The optimizer, made on first use: sampling needs none of its memory."""
        if self._optimizer is None:
            self._optimizer = MasterAdamW(self.model.parameters(), weight_decay=self._weight_decay)
        return self._optimizer

    def sample(
        self, prompts: Sequence[Sequence[int]], sampling: Sampling, seeds: Sequence[int]
    ) -> list[Drawn]:
        """See `Engine.sample`."""
        started = time.perf_counter()
        drawn = self._generator.sample(prompts, sampling, seeds, version=self.version)
        self.meter.sampled_s += time.perf_counter() - started
        self.meter.sampled_tokens += sum(len(one.ids) for one in drawn)
        self.meter.prefilled_tokens = self._generator.prefilled
        return drawn

    def forward(self, rows: Sequence[Row], *, temperature: float = 1.0) -> Passed:
        """See `Engine.forward`."""
        with torch.no_grad():
            return self._pass(rows, None, temperature)

    def forward_backward(
        self, rows: Sequence[Row], loss: Loss, *, temperature: float = 1.0
    ) -> Passed:
        """See `Engine.forward_backward`."""
        started = time.perf_counter()
        self.forget_samples()  # sampling is over for now: its memory is needed here
        self.model.train()  # recomputing is for training only; none of these models has dropout
        passed = self._pass(rows, loss, temperature)
        self.model.eval()
        self.meter.trained_s += time.perf_counter() - started
        self.meter.trained_places += passed.places
        return passed

    def training_speed(self, rows: Sequence[Row]) -> float:
        """Measure how many places a second are trained, on `rows`; nothing is learned.

        Args:
            rows: about one batch of what will be trained.
        """
        started = time.perf_counter()
        trained = sum(len(row.trained()) for row in rows)
        passed = self.forward_backward(rows, CrossEntropy(total=max(1, trained)))
        self.optimizer.discard()
        return passed.places / (time.perf_counter() - started)

    def _pass(self, rows: Sequence[Row], loss: Loss | None, temperature: float) -> Passed:
        logprobs: list[list[float]] = [[] for _ in rows]
        total, places = 0.0, 0
        for batch in self.batches(rows):
            logp_N = self.logprobs(batch, temperature=temperature)
            if loss is not None:
                part = loss(logp_N, batch.weight_N.to(logp_N.device), batch.row_N.to(logp_N.device))
                part.backward()  # type: ignore[no-untyped-call]
                self.optimizer.gather()
                total += float(part.detach())
            for row, value in zip(batch.row_N.tolist(), logp_N.detach().tolist(), strict=True):
                logprobs[row].append(value)
            places += batch.places
        return Passed(total, logprobs, sum(len(row.ids) for row in rows), places)

    def batches(self, rows: Sequence[Row]) -> list[Batch]:
        """Lay out rows as this engine computes them."""
        return batches(
            rows, places=self.places, pad=self._pad, share=self.share, detach=self.detach
        )

    def logprobs(self, batch: Batch, *, temperature: float = 1.0) -> Tensor:
        """Return the log-probability of each trained token; the head sees only their places."""
        device = self.model.device
        ids_BL, source_N = batch.ids_BL.to(device), batch.source_N.to(device)
        options: dict[str, Any] = {}
        positions_BL = batch.positions_BL()
        if batch.layout is not None and positions_BL is not None:
            positions_BL = positions_BL.to(device)
            options = {"layout": batch.layout, "position_ids": positions_BL}
            if self.detach:
                prefix = batch.layout.prefix
                options["prompt"] = self._prompt(ids_BL[:, :prefix])
                options["position_ids"] = positions_BL[:, prefix:]
                ids_BL, source_N = ids_BL[:, prefix:], source_N - prefix
        hidden_BLD = self.model.base_model(
            input_ids=ids_BL, use_cache=False, **options
        ).last_hidden_state
        hidden_ND = hidden_BLD.flatten(0, 1)[source_N]
        logits_NV = self.model.get_output_embeddings()(hidden_ND).float() / temperature
        chosen_N: Tensor = logits_NV.gather(1, batch.target_N.to(device)[:, None]).squeeze(1)
        logp_N: Tensor = chosen_N - logits_NV.logsumexp(dim=1)
        return logp_N

    def _prompt(self, ids_BL: Tensor) -> Trunk:
        """Return the state of a beginning, computed without a gradient."""
        layers: list[Any] = [DynamicLayer() for _ in self.model.base_model.layers]  # type: ignore[no-untyped-call]
        options: dict[str, Any] = {cache_name(self.model): Cache(layers=layers)}
        training = self.model.training
        self.model.eval()  # layers that are computed again in training keep no state
        with torch.no_grad():
            self.model.base_model(input_ids=ids_BL, use_cache=True, **options)
        self.model.train(training)
        return Trunk(1, [layer.keys[0] for layer in layers], [layer.values[0] for layer in layers])

    def optim_step(self, step: Step) -> float:
        """See `Engine.optim_step`.

        Raises:
            ToolloomError: the gradient is not finite; the weights are left as they were.
        """
        started = time.perf_counter()
        norm = self.optimizer.step(step.lr, clip=step.clip)
        self._changed()
        self.meter.trained_s += time.perf_counter() - started
        return norm

    def _changed(self) -> None:
        self.version += 1
        self.forget_samples()

    def forget_samples(self) -> None:
        """Drop the attention state that is kept between calls of `sample`."""
        self._generator.forget()

    def reset_optimizer(self) -> None:
        """See `Engine.reset_optimizer`."""
        self.optimizer.reset()

    # --- weights and state -------------------------------------------------------------------

    def save_weights(self, folder: str | Path) -> Path:
        """See `Engine.save_weights`."""
        return save(self.loaded, folder)

    def load_weights(self, folder: str | Path) -> None:
        """See `Engine.load_weights`.

        Raises:
            BadInput: no model there, or one of another shape.
        """
        other = load(folder, dtype=self.model.dtype).model
        try:
            self.model.load_state_dict(other.state_dict())
        except RuntimeError as error:
            raise BadInput("the model there has another shape", where=str(folder)) from error
        if self._optimizer is not None:
            self._optimizer.reload()
        self._changed()

    def save_state(self, folder: str | Path) -> None:
        """Write what weights alone do not say: moments, master weights, random state, version.

        Raises:
            OSError: it could not be written.
        """
        state = {
            "optimizer": self.optimizer.state(),
            "random": torch.get_rng_state(),
            "version": self.version,
        }
        with (Path(folder) / STATE_FILE).open("wb") as file:
            writer = _Writer(file)
            torch.save(state, cast("IO[bytes]", writer))
            if writer.error is not None:
                raise writer.error

    def load_state(self, folder: str | Path) -> None:
        """Go back to what `save_state` wrote; the weights must be loaded before.

        Raises:
            BadInput: there is no such state, or it belongs to another model.
        """
        place = Path(folder) / STATE_FILE
        try:
            state = torch.load(place, weights_only=True)
            self.optimizer.load(state["optimizer"])
        except (OSError, RuntimeError, KeyError, ValueError) as error:
            raise BadInput(f"no usable training state: {error}", where=str(place)) from error
        torch.set_rng_state(state["random"])
        self._changed()
        self.version = state["version"]


class _Writer:
    """A file for `torch.save`, which would turn a full disk into an error without a reason."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file
        self.error: OSError | None = None

    def write(self, data: Any) -> int:
        """Write; from the first failure on, only remember it."""
        if self.error is None:
            try:
                return self.file.write(data)
            except OSError as error:
                self.error = error
        return len(memoryview(data).cast("B"))

    def flush(self) -> None:
        """Leave flushing to the file's end."""


def _recompute(model: Any, share: float) -> None:
    for n, layer in enumerate(model.base_model.layers):
        layer.gradient_checkpointing = int((n + 1) * share) > int(n * share)
        layer._gradient_checkpointing_func = partial(
            checkpoint, use_reentrant=False, preserve_rng_state=False
        )


__all__ = ["Drawn", "Engine", "Meter", "Passed", "Row", "Sampling", "Step", "TorchEngine"]
