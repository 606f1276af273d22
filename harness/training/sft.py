"""How is a model trained on demonstrations?"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from harness.domains.base import Demonstrations, Domain, Split
from harness.models.policy import Policy
from harness.training.budget import Ledger
from harness.training.config import Sft
from harness.training.optimizer import Optimizer
from harness.training.rollouts import demonstrations, rows_per_domain

Observe = Callable[[int, dict[str, float]], bool]
"""Told after every update: the number of updates and what was seen. True ends the training."""


@dataclass(frozen=True, kw_only=True)
class Progress:
    """All that a training needs beside the weights to go on from where it is."""

    steps: int
    flops: int
    trained_tokens: int
    adamw: dict[str, Any]
    generator: Tensor


def cross_entropy(policy: Policy, batch: Demonstrations) -> tuple[Tensor, int]:
    """Sum over completion tokens of -log p(token), in nats, and how many there are."""
    counted = batch.is_completion[:, 1:]
    states = policy.hidden(batch.tokens[:, :-1])[counted]
    total = F.cross_entropy(states @ policy.head.T, batch.tokens[:, 1:][counted], reduction="sum")
    return total, int(counted.sum())


def train_sft(
    policy: Policy,
    domains: Sequence[Domain],
    config: Sft,
    generator: torch.Generator,
    ledger: Ledger,
    observe: Observe,
    *,
    split: Split = "demonstrations",
    progress: Progress | None = None,
) -> Progress:
    """Minimise cross-entropy on the domains' sequences of `split`, in equal shares.

    From `progress`, where given, and with the bits of a training that was never interrupted.
    Raises Diverged when loss or gradient stops being finite.
    """
    optimizer = Optimizer(policy.parameters(), config.optimization, config.steps)
    rows = rows_per_domain(config.batch_sequences, domains)
    parameters = policy.flop_parameters
    start = 0
    if progress is not None:
        start, ledger.flops = progress.steps, progress.flops
        ledger.trained_tokens = progress.trained_tokens
        optimizer.adamw.load_state_dict(progress.adamw)
        generator.set_state(progress.generator)
    step = start - 1
    for step in range(start, config.steps):
        batch = demonstrations(domains, rows, split, generator)
        total, tokens = cross_entropy(policy, batch)
        loss = total / tokens
        norm = optimizer.update(loss, step)
        ledger.train(parameters, batch.tokens[:, 1:].numel(), tokens)
        if observe(step + 1, {"loss_nats": loss.item(), "gradient_norm": norm}):
            break
    return Progress(
        steps=step + 1,
        flops=ledger.flops,
        trained_tokens=ledger.trained_tokens,
        adamw=optimizer.adamw.state_dict(),
        generator=generator.get_state(),
    )
