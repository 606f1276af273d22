"""How is one update made, and how is a run that broke told from one that ended?"""

import math
from collections.abc import Iterable

import torch
from torch import Tensor, nn

from harness.training.config import Optimization


class Diverged(Exception):
    """The loss or its gradient stopped being finite at `step`."""

    def __init__(self, step: int, cause: str) -> None:
        super().__init__(f"{cause} at step {step}")
        self.step = step
        self.cause = cause


class Optimizer:
    """AdamW under a schedule and a gradient clip."""

    def __init__(
        self, parameters: Iterable[nn.Parameter], config: Optimization, steps: int
    ) -> None:
        self.config = config
        self.steps = steps
        self.parameters = list(parameters)
        self.adamw = torch.optim.AdamW(
            self.parameters,
            lr=config.learning_rate,
            betas=(0.9, 0.95),
            weight_decay=config.weight_decay,
            fused=True,
        )

    def update(self, loss: Tensor, step: int) -> float:
        """Step down `loss`, a whole step; returns the gradient's norm before clipping."""
        self.adamw.zero_grad()
        if math.isfinite(loss.item()):
            torch.autograd.backward(loss)
        return self.apply(loss.item(), step)

    def apply(self, loss: float, step: int) -> float:
        """Step down the gradient that is there, of a loss of that value; returns its norm.

        Raises Diverged where loss or gradient is not finite, before any weight changes.
        """
        if not math.isfinite(loss):
            raise Diverged(step, "loss is not finite")
        norm = nn.utils.clip_grad_norm_(self.parameters, self.config.gradient_clip_norm).item()
        if not math.isfinite(norm):
            raise Diverged(step, "gradient is not finite")
        for group in self.adamw.param_groups:
            group["lr"] = learning_rate(self.config, step, self.steps)
        self.adamw.step()
        return norm


def learning_rate(config: Optimization, step: int, steps: int) -> float:
    """Rate of update `step` (from 0): linear warm-up times a line from 1 to `final_fraction`."""
    warmup = min(1.0, (step + 1) / max(1, config.warmup_steps))
    decay = 1.0 - (1.0 - config.final_fraction) * step / max(1, steps)
    return config.learning_rate * warmup * decay
