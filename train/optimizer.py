"""AdamW on float32 copies of the weights.

A bfloat16 weight of 0.1 cannot take a step of 1e-4: the step is below half of its last digit and is
lost. So the optimizer keeps its own float32 weights, adds up gradients in float32, and writes the
rounded result back. A float32 model is its own copy.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from synth.core.errors import ToolloomError


class MasterAdamW:
    """AdamW (decoupled weight decay on matrices only) with float32 master weights.

    Args:
        weights: the model's parameters, tied ones once.
        betas: decay of the first and second moment.
        weight_decay: of matrices; vectors (norms, biases) have none.
    """

    def __init__(
        self,
        weights: Iterable[torch.nn.Parameter],
        *,
        betas: tuple[float, float] = (0.9, 0.95),
        weight_decay: float = 0.0,
    ) -> None:
        self.weights = [weight for weight in weights if weight.requires_grad]
        self.betas, self.weight_decay = betas, weight_decay
        self.masters: list[Tensor] = [
            weight if weight.dtype == torch.float32 else weight.detach().float()
            for weight in self.weights
        ]
        self.reset()

    def reset(self) -> None:
        """Forget all moments (K1.5 2.3.2: at the start of every RL iteration)."""
        matrices = [master for master in self.masters if master.ndim >= 2]
        vectors = [master for master in self.masters if master.ndim < 2]
        groups = [
            {"params": matrices, "weight_decay": self.weight_decay},
            {"params": vectors, "weight_decay": 0.0},
        ]
        self.inner = torch.optim.AdamW(
            [group for group in groups if group["params"]], lr=0.0, betas=self.betas, fused=True
        )

    def gather(self) -> None:
        """Move the model's gradients onto the masters, in float32. After every backward."""
        for weight, master in zip(self.weights, self.masters, strict=True):
            if weight is master or weight.grad is None:
                continue
            if master.grad is None:
                master.grad = weight.grad.float()
            else:
                master.grad.add_(weight.grad)
            weight.grad = None

    def discard(self) -> None:
        """Forget the gradients without a step."""
        for weight, master in zip(self.weights, self.masters, strict=True):
            weight.grad = master.grad = None

    def step(self, lr: float, *, clip: float | None) -> float:
        """Take one step and forget the gradients.

        Args:
            lr: learning rate.
            clip: largest norm of the whole gradient; None leaves it alone.

        Returns:
            The norm before clipping.

        Raises:
            ToolloomError: the gradient is not finite; no weight has moved.
        """
        gradients = [master.grad for master in self.masters if master.grad is not None]
        norm = torch.nn.utils.get_total_norm(gradients)
        if not torch.isfinite(norm):
            self.inner.zero_grad(set_to_none=True)
            raise ToolloomError("the gradient is not finite", remedy="lower the learning rate")
        if clip is not None:
            torch.nn.utils.clip_grads_with_norm_(self.masters, clip, norm)
        for group in self.inner.param_groups:
            group["lr"] = lr
        self.inner.step()
        self.inner.zero_grad(set_to_none=True)
        self._write_back()
        return float(norm)

    @torch.no_grad()
    def _write_back(self) -> None:
        for weight, master in zip(self.weights, self.masters, strict=True):
            if weight is not master:
                weight.copy_(master)

    @torch.no_grad()
    def reload(self) -> None:
        """Take the model's weights as the new masters, after they were replaced."""
        for weight, master in zip(self.weights, self.masters, strict=True):
            if weight is not master:
                master.copy_(weight)

    def state(self) -> dict[str, Any]:
        """Return moments, and the masters where they are not the model's own weights."""
        own = [
            None if weight is master else master
            for weight, master in zip(self.weights, self.masters, strict=True)
        ]
        return {"moments": self.inner.state_dict(), "masters": own}

    @torch.no_grad()
    def load(self, state: dict[str, Any]) -> None:
        """Go back to a state that `state` returned."""
        self.inner.load_state_dict(state["moments"])
        for master, saved in zip(self.masters, state["masters"], strict=True):
            if saved is not None:
                master.copy_(saved)
        self._write_back()
