"""What is decided before a model is trained?"""

import math
from dataclasses import dataclass, field, fields, replace
from typing import Literal

from harness.teachers.scheduler import parse_scheduler, weights_of
from harness.teachers.store import Caching
from harness.training.precision import Precision
from opd_kernels import SampledToken, TopK, parse_divergence, parse_support

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
        if not self.gradient_clip_norm > 0:
            raise ValueError(f"gradient_clip_norm must be positive, got {self.gradient_clip_norm}")
        _require_at_least("warmup_steps", self.warmup_steps, 0)
        _require_at_least("weight_decay", self.weight_decay, 0)


def _require_at_least(argument: str, value: float, low: int) -> None:
    if not low <= value < math.inf:
        raise ValueError(f"{argument} must be at least {low} and finite, got {value}")


@dataclass(frozen=True, kw_only=True)
class Sft:
    """Cross-entropy on demonstrations, the domains in equal shares of the batch."""

    steps: int
    batch_sequences: int
    optimization: Optimization

    def __post_init__(self) -> None:
        _require_at_least("steps", self.steps, 0)
        _require_at_least("batch_sequences", self.batch_sequences, 1)


@dataclass(frozen=True, kw_only=True)
class Distill:
    """On-policy distillation; with another `prefix`, its off-policy twin.

    `divergence` and `support` are written as opd_kernels parses them: `reverse_kl`, `jsd(0.5)`;
    `full`, `top_k(16, student, tail)`, `sampled_token(policy_gradient)`. `scheduler` is written as
    `harness.teachers.scheduler` parses it: `by_domain`, `uniform_sum(0.3, 0.7)`.
    `anchor_weight` adds that much cross-entropy on a demonstration batch of the same size.
    `temperature` divides the logits of whoever samples, of the student and of every teacher.
    `precision` says what is computed in bfloat16, `caching` how teachers' states wait for the loss.

    Raises ValueError for what the loss would not act on: a `discount` without a return, a
    `divergence` of a sampled token, a sampled token that the student did not draw.
    """

    steps: int
    batch_sequences: int
    optimization: Optimization
    divergence: str = "reverse_kl"
    support: str = "full"
    scheduler: str = "by_domain"
    prefix: Prefix = "student"
    anchor_weight: float = 0.0
    discount: float = 0.0
    temperature: float = 1.0
    precision: Precision = "float32"
    caching: Caching = field(default_factory=Caching)

    def __post_init__(self) -> None:
        parse_divergence(self.divergence)
        parse_scheduler(self.scheduler)
        _require_at_least("steps", self.steps, 1)
        _require_at_least("batch_sequences", self.batch_sequences, 1)
        _require_at_least("anchor_weight", self.anchor_weight, 0)
        if not 0 < self.temperature < math.inf:
            raise ValueError(f"temperature must be positive and finite, got {self.temperature}")
        if not 0 <= self.discount <= 1:
            raise ValueError(f"discount must be in [0, 1], got {self.discount}")
        self._check_sampled_token()

    def _check_sampled_token(self) -> None:
        support = parse_support(self.support)
        sampled = isinstance(support, SampledToken)
        returns = isinstance(support, SampledToken) and support.estimator == "policy_gradient"
        if self.discount and not returns:
            raise ValueError(
                "discount acts on sampled_token(policy_gradient) only and must be 0, "
                f"got {self.discount} with {self.support}"
            )
        if sampled and self.divergence != "reverse_kl":
            raise ValueError(
                "divergence acts on full and top_k only and must be reverse_kl, "
                f"got {self.divergence} with {self.support}"
            )
        if sampled and self.precision != "float32":
            raise ValueError(
                "precision acts on full and top_k only and must be float32, "
                f"got {self.precision} with {self.support}"
            )
        if sampled and self.prefix != "student":
            raise ValueError(
                f"prefix must be student with {self.support}, whose gradient is that of tokens "
                f"which the student drew, got {self.prefix}"
            )


@dataclass(frozen=True, kw_only=True)
class Fuse(Distill):
    """Distillation in two stages: a group of specialists into one model, those into the student.

    Both start from the base and run as the fields of a `Distill` say, each with its own warm-up;
    `steps` are those of the second stage, `first_steps` those of each group, which has whole
    batches to itself. `groups` are indices of domains; in the second stage the model of a group
    is the teacher of all its domains.
    """

    groups: tuple[tuple[int, ...], ...]
    first_steps: int

    def __post_init__(self) -> None:
        super().__post_init__()
        _require_at_least("first_steps", self.first_steps, 1)
        if not self.groups or not all(self.groups):
            raise ValueError(f"groups must have a domain each, got {self.groups}")

    @property
    def second(self) -> Distill:
        """How the student learns from the models of the groups."""
        return Distill(**{f.name: getattr(self, f.name) for f in fields(Distill)})

    @property
    def first(self) -> Distill:
        """How the model of a group learns from its specialists."""
        return replace(self.second, steps=self.first_steps)


@dataclass(frozen=True, kw_only=True)
class Keep:
    """No training: the base as it is, the plain average of the specialists' weights, or each
    domain answered by its own specialist (an oracle)."""

    model: Literal["base", "average", "specialists"]


@dataclass(frozen=True, kw_only=True)
class MatchedSft:
    """SFT continued until it has spent what `reference` spends, counted one way.

    `tokens`: trained tokens. `flops`: rollouts and teacher passes count. `end_to_end`: training
    the teachers counts too.
    """

    reference: Distill | Fuse
    match: Match
    batch_sequences: int
    optimization: Optimization

    def __post_init__(self) -> None:
        _require_at_least("batch_sequences", self.batch_sequences, 1)


Method = Sft | Distill | Fuse | MatchedSft | Keep


def check_fit(name: str, method: Method, domains: int, vocabulary_size: int) -> None:
    """ValueError where `method` cannot run on so many domains of such a vocabulary.

    Every domain has an equal share of each batch; a top-k loss needs k tokens.
    """
    if isinstance(method, Keep):
        return
    if isinstance(method, MatchedSft):
        check_fit(f"{name}.reference", method.reference, domains, vocabulary_size)
    if method.batch_sequences % domains:
        raise ValueError(
            f"{name}.batch_sequences must be a positive multiple of the {domains} domains, "
            f"got {method.batch_sequences}"
        )
    if isinstance(method, Fuse):
        _check_groups(name, method, domains)
    weights = weights_of(parse_scheduler(method.scheduler)) if isinstance(method, Distill) else ()
    if weights and len(weights) != domains:
        raise ValueError(
            f"{name}.scheduler must have one weight for each of {domains} domains, got {weights}"
        )
    support = parse_support(method.support) if isinstance(method, Distill) else None
    if isinstance(support, TopK) and support.k > vocabulary_size:
        raise ValueError(
            f"{name}.support: k must be at most the vocabulary, {vocabulary_size}, got {support}"
        )


def _check_groups(name: str, method: Fuse, domains: int) -> None:
    """ValueError where a domain is in no group or in two, or a group has no equal shares."""
    if sorted(index for group in method.groups for index in group) != list(range(domains)):
        raise ValueError(
            f"{name}.groups must have every index below {domains} once, got {method.groups}"
        )
    for group in method.groups:
        if method.batch_sequences % len(group):
            raise ValueError(
                f"{name}.batch_sequences must be a multiple of every group's size, "
                f"got {method.batch_sequences} for {group}"
            )
        weights = weights_of(parse_scheduler(method.scheduler))
        if weights and len(weights) != len(group):
            raise ValueError(
                f"{name}.scheduler must have no weights, which every group would share, "
                f"got {weights} for {group}"
            )
