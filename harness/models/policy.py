"""What must a model offer to be a student or a teacher?"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn


@dataclass(frozen=True, kw_only=True)
class Rollouts:
    """Sequences with the part that was generated.

    `is_completion` is true from the first generated token up to and including the first end token.
    `behaviour_log_probability` (nats) belongs to the policy that sampled, and is 0 elsewhere.
    `policy_step` is the number of updates that policy had seen.
    """

    tokens: Int[Tensor, "batch time"]
    is_completion: Bool[Tensor, "batch time"]
    behaviour_log_probability: Float[Tensor, "batch time"]
    policy_step: int

    def rows(self, chosen: slice | Int[Tensor, " rows"]) -> "Rollouts":
        """Some of the sequences."""
        return replace(
            self,
            tokens=self.tokens[chosen],
            is_completion=self.is_completion[chosen],
            behaviour_log_probability=self.behaviour_log_probability[chosen],
        )


@runtime_checkable
class Policy(Protocol):
    """A causal language model whose logits are `hidden @ head.T`, and nothing else."""

    @property
    def head(self) -> Float[Tensor, "vocab width"]:
        """The output projection; logit scale, bias and softcap are absent (or refused on load)."""

    @property
    def flop_parameters(self) -> int:
        """Parameters that multiply every token: all but input lookups, the head included.

        A forward pass costs 2 FLOPs per token for each, training 6 (Kaplan et al. 2020,
        arXiv:2001.08361).
        """

    def hidden(self, tokens: Int[Tensor, "batch time"]) -> Float[Tensor, "batch time width"]:
        """Last-layer states after the final norm: exactly what the head sees."""

    def sample(
        self,
        prompts: Int[Tensor, "batch prompt"],
        completion_tokens: int,
        generator: torch.Generator,
        *,
        end_token: int | None = None,
        temperature: float = 1.0,
        policy_step: int = 0,
    ) -> Rollouts:
        """Completions drawn exactly from the model at `temperature`."""

    def parameters(self) -> Iterator[nn.Parameter]:
        """All trainable parameters."""

    def copy(self) -> "Policy":
        """An independent copy with the same weights."""

    def save(self, path: Path) -> None:
        """Write the weights to one safetensors file."""

    def load(self, path: Path) -> None:
        """Read the weights `save` wrote; raises ValueError where shapes or names differ."""
