"""What is decided before a model is trained?"""

from dataclasses import dataclass
from typing import Literal

Scheduler = Literal["by_domain", "round_robin", "greedy_likelihood", "soft_likelihood", "random"]
Prefix = Literal["student", "teacher", "data"]
Match = Literal["tokens", "flops", "end_to_end"]


@dataclass(frozen=True, kw_only=True)
class Optimization:
    """AdamW: linear warm-up, then a straight line down to `final_fraction` of the peak."""

    learning_rate: float
    warmup_steps: int = 10
    final_fraction: float = 0.1
    gradient_clip_norm: float = 1.0
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        if not 0 < self.learning_rate < 1:
            raise ValueError(f"learning_rate must be in (0, 1), got {self.learning_rate}")
        if not 0 <= self.final_fraction <= 1:
            raise ValueError(f"final_fraction must be in [0, 1], got {self.final_fraction}")
        if self.gradient_clip_norm <= 0:
            raise ValueError(f"gradient_clip_norm must be positive, got {self.gradient_clip_norm}")


@dataclass(frozen=True, kw_only=True)
class Sft:
    """Cross-entropy on demonstrations, the domains in equal shares of the batch."""

    steps: int
    batch_sequences: int
    optimization: Optimization


@dataclass(frozen=True, kw_only=True)
class Distill:
    """On-policy distillation; with another `prefix`, its off-policy twin.

    `divergence` and `support` are written as opd_kernels parses them: `reverse_kl`, `jsd(0.5)`;
    `full`, `top_k(16, student, tail)`, `sampled_token(policy_gradient)`.
    `anchor_weight` adds that much cross-entropy on a demonstration batch of the same size.
    `discount` acts on the sampled-token return only.
    """

    steps: int
    batch_sequences: int
    optimization: Optimization
    divergence: str = "reverse_kl"
    support: str = "full"
    scheduler: Scheduler = "by_domain"
    prefix: Prefix = "student"
    anchor_weight: float = 0.0
    discount: float = 0.0
    temperature: float = 1.0


@dataclass(frozen=True, kw_only=True)
class Keep:
    """No training: the base as it is, or each domain answered by its own specialist (an oracle)."""

    model: Literal["base", "specialists"]


@dataclass(frozen=True, kw_only=True)
class MatchedSft:
    """SFT continued until it has spent what `reference` spends, counted one way.

    `tokens`: trained tokens. `flops`: rollouts and teacher passes count. `end_to_end`: training
    the teachers counts too.
    """

    reference: Distill
    match: Match
    batch_sequences: int
    optimization: Optimization
