"""Which teacher scores which rollout?"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What a scheduler may look at, for the rollouts of one step.

    `domain` is the index of the prompt's domain, which is also that of its teacher.
    `log_likelihood` (nats, summed over the completion) is None unless the scheduler asks for it,
    because scoring every rollout with every teacher costs as many passes as there are teachers.
    """

    step: int
    domain: Int[Tensor, " rollouts"]
    teachers: int
    log_likelihood: Float[Tensor, "rollouts teachers"] | None
    generator: torch.Generator


@runtime_checkable
class Scheduler(Protocol):
    """Weights per rollout over teachers, each row summing to 1; 0 means: need not score."""

    @property
    def needs_likelihood(self) -> bool:
        """Whether `Evidence.log_likelihood` must be there."""

    def __call__(self, evidence: Evidence) -> Float[Tensor, "rollouts teachers"]:
        """The weights of one step."""


def _one_teacher_each(
    choice: Int[Tensor, " rollouts"], teachers: int
) -> Float[Tensor, "rollouts teachers"]:
    return torch.nn.functional.one_hot(choice, teachers).float()


def _likelihood(evidence: Evidence) -> Float[Tensor, "rollouts teachers"]:
    if evidence.log_likelihood is None:
        raise ValueError("log_likelihood must be given to a scheduler that routes by likelihood")
    return evidence.log_likelihood


@dataclass(frozen=True, kw_only=True)
class ByDomain:
    """The teacher of the prompt's domain: routing by task context (DeepSeek-V4, 5.1.2)."""

    needs_likelihood: bool = False

    def __call__(self, evidence: Evidence) -> Float[Tensor, "rollouts teachers"]:
        """The label, as weights."""
        return _one_teacher_each(evidence.domain, evidence.teachers)


@dataclass(frozen=True, kw_only=True)
class RoundRobin:
    """Blind rotation over rollouts and steps: equal shares, whatever the prompt."""

    needs_likelihood: bool = False

    def __call__(self, evidence: Evidence) -> Float[Tensor, "rollouts teachers"]:
        """Rollout i of step t goes to teacher (i + t) mod teachers."""
        rollouts = torch.arange(evidence.domain.shape[0])
        return _one_teacher_each((rollouts + evidence.step) % evidence.teachers, evidence.teachers)


@dataclass(frozen=True, kw_only=True)
class GreedyLikelihood:
    """The teacher under which the rollout is most likely; nothing keeps the shares apart."""

    needs_likelihood: bool = True

    def __call__(self, evidence: Evidence) -> Float[Tensor, "rollouts teachers"]:
        """Argmax of the likelihood; the first teacher wins a tie."""
        return _one_teacher_each(_likelihood(evidence).argmax(dim=1), evidence.teachers)


@dataclass(frozen=True, kw_only=True)
class SoftLikelihood:
    """Posterior weights of the teachers given the rollout, under a uniform prior, tempered."""

    temperature: float = 1.0
    needs_likelihood: bool = True

    def __post_init__(self) -> None:
        if not self.temperature > 0:
            raise ValueError(f"temperature must be positive, got {self.temperature}")

    def __call__(self, evidence: Evidence) -> Float[Tensor, "rollouts teachers"]:
        """Softmax of log-likelihood over temperature."""
        return (_likelihood(evidence) / self.temperature).softmax(dim=1)


@dataclass(frozen=True, kw_only=True)
class Random:
    """A teacher drawn uniformly for every rollout: round-robin without its exact balance."""

    needs_likelihood: bool = False

    def __call__(self, evidence: Evidence) -> Float[Tensor, "rollouts teachers"]:
        """One draw per rollout from the step's generator."""
        size = (evidence.domain.shape[0],)
        choice = torch.randint(evidence.teachers, size, generator=evidence.generator)
        return _one_teacher_each(choice, evidence.teachers)


SCHEDULERS: Mapping[str, Scheduler] = {
    "by_domain": ByDomain(),
    "round_robin": RoundRobin(),
    "greedy_likelihood": GreedyLikelihood(),
    "soft_likelihood": SoftLikelihood(),
    "random": Random(),
}


def share_statistics(
    weights: Float[Tensor, "rollouts teachers"], domain: Int[Tensor, " rollouts"]
) -> tuple[list[float], float, float]:
    """Share of each teacher, the entropy of the shares (nats), and agreement with the label."""
    shares = weights.mean(dim=0).tolist()
    entropy = -sum(share * math.log(share) for share in shares if share > 0)
    agreement = float(weights.gather(1, domain[:, None]).mean())
    return shares, entropy, agreement
