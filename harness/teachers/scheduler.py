"""Which teacher scores which rollout?"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from scipy.optimize import linear_sum_assignment
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
    """Weights per rollout over teachers, each row summing to 1; 0 means: need not score.

    Explicit weights of `by_domain` are the exception: there rows sum to 1 on average.
    """

    @property
    def needs_likelihood(self) -> bool:
        """Whether `Evidence.log_likelihood` must be there."""

    @property
    def asks_everyone(self) -> bool:
        """Whether every teacher scores every rollout."""

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


def _require_positive(weights: tuple[float, ...]) -> None:
    if not all(0 < weight < math.inf for weight in weights):
        raise ValueError(f"weights must be positive and finite, got {weights}")


def _shares(weights: tuple[float, ...], teachers: int) -> Float[Tensor, " teachers"]:
    """Weights over their sum, or equal ones."""
    if not weights:
        return torch.full((teachers,), 1 / teachers)
    if len(weights) != teachers:
        raise ValueError(f"weights must be one for each of {teachers} teachers, got {weights}")
    return torch.tensor(weights) / sum(weights)


@dataclass(frozen=True, kw_only=True)
class ByDomain:
    """The teacher of the prompt's domain: routing by task context (DeepSeek-V4, 5.1.2).

    `weights` are the w_i of its equation 29, each teacher on its own domain: a rollout of domain i
    counts w_i times the number of teachers over their sum, which is 1 where all are equal.
    """

    weights: tuple[float, ...] = ()
    needs_likelihood: bool = False
    asks_everyone: bool = False

    def __post_init__(self) -> None:
        _require_positive(self.weights)

    def __call__(self, evidence: Evidence) -> Float[Tensor, "rollouts teachers"]:
        """The label, as weights."""
        own = _one_teacher_each(evidence.domain, evidence.teachers)
        if not self.weights:
            return own
        return own * _shares(self.weights, evidence.teachers) * evidence.teachers


@dataclass(frozen=True, kw_only=True)
class UniformSum:
    """Every teacher on every rollout, with weight w_i: equation 29 read literally.

    For reverse KL it is one teacher, the normalized geometric mean of all, up to a constant.
    """

    weights: tuple[float, ...] = ()
    needs_likelihood: bool = False
    asks_everyone: bool = True

    def __post_init__(self) -> None:
        _require_positive(self.weights)

    def __call__(self, evidence: Evidence) -> Float[Tensor, "rollouts teachers"]:
        """The same row for all."""
        shares = _shares(self.weights, evidence.teachers)
        return shares.expand(len(evidence.domain), evidence.teachers).clone()


@dataclass(frozen=True, kw_only=True)
class RoundRobin:
    """Blind rotation over rollouts and steps: equal shares, whatever the prompt."""

    needs_likelihood: bool = False
    asks_everyone: bool = False

    def __call__(self, evidence: Evidence) -> Float[Tensor, "rollouts teachers"]:
        """Rollout i of step t goes to teacher (i + t) mod teachers."""
        rollouts = torch.arange(evidence.domain.shape[0])
        return _one_teacher_each((rollouts + evidence.step) % evidence.teachers, evidence.teachers)


@dataclass(frozen=True, kw_only=True)
class GreedyLikelihood:
    """The teacher under which the rollout is most likely; nothing keeps the shares apart."""

    needs_likelihood: bool = True
    asks_everyone: bool = True

    def __call__(self, evidence: Evidence) -> Float[Tensor, "rollouts teachers"]:
        """Argmax of the likelihood; the first teacher wins a tie."""
        return _one_teacher_each(_likelihood(evidence).argmax(dim=1), evidence.teachers)


@dataclass(frozen=True, kw_only=True)
class BalancedLikelihood:
    """As likely as possible in sum, with equal quotas: an assignment problem.

    Where rollouts do not divide, quotas differ by one, and who gets more rotates with the step.
    """

    needs_likelihood: bool = True
    asks_everyone: bool = True

    def __call__(self, evidence: Evidence) -> Float[Tensor, "rollouts teachers"]:
        """The best assignment of rollouts to places, of which each teacher has its quota."""
        likelihood, teachers = _likelihood(evidence), evidence.teachers
        places = (torch.arange(len(likelihood)) + evidence.step) % teachers
        _, chosen = linear_sum_assignment(likelihood[:, places].numpy(), maximize=True)
        return _one_teacher_each(places[torch.from_numpy(chosen)], teachers)


@dataclass(frozen=True, kw_only=True)
class SoftLikelihood:
    """Posterior weights of the teachers given the rollout, under a uniform prior, tempered."""

    temperature: float = 1.0
    needs_likelihood: bool = True
    asks_everyone: bool = True

    def __post_init__(self) -> None:
        if not 0 < self.temperature < math.inf:
            raise ValueError(f"temperature must be positive and finite, got {self.temperature}")

    def __call__(self, evidence: Evidence) -> Float[Tensor, "rollouts teachers"]:
        """Softmax of log-likelihood over temperature."""
        return (_likelihood(evidence) / self.temperature).softmax(dim=1)


@dataclass(frozen=True, kw_only=True)
class Random:
    """A teacher drawn uniformly for every rollout: round-robin without its exact balance."""

    needs_likelihood: bool = False
    asks_everyone: bool = False

    def __call__(self, evidence: Evidence) -> Float[Tensor, "rollouts teachers"]:
        """One draw per rollout from the step's generator."""
        size = (evidence.domain.shape[0],)
        choice = torch.randint(evidence.teachers, size, generator=evidence.generator)
        return _one_teacher_each(choice, evidence.teachers)


MENU: Mapping[str, str] = {
    "by_domain": "by_domain, by_domain(w1, w2, ...)",
    "uniform_sum": "uniform_sum, uniform_sum(w1, w2, ...)",
    "round_robin": "round_robin",
    "random": "random",
    "greedy_likelihood": "greedy_likelihood",
    "balanced_likelihood": "balanced_likelihood",
    "soft_likelihood": "soft_likelihood, soft_likelihood(temperature)",
}
"""How every scheduler is written."""


def parse_scheduler(text: str) -> Scheduler:
    """`by_domain`, `uniform_sum(0.3, 0.7)`, `soft_likelihood(2)` as an object.

    Raises ValueError with the menu, or naming the argument at fault.
    """
    match = re.fullmatch(r"\s*(\w+)\s*(?:\(([^()]*)\))?\s*", text)
    name, inner = match.groups() if match else ("", None)
    if name not in MENU:
        raise ValueError(f"scheduler must be one of {'; '.join(MENU.values())}, got {text!r}")
    try:
        numbers = tuple(float(part) for part in inner.split(",")) if inner else ()
    except ValueError:
        raise ValueError(f"scheduler {text!r}: expected numbers in parentheses") from None
    if name in ("by_domain", "uniform_sum"):
        return ByDomain(weights=numbers) if name == "by_domain" else UniformSum(weights=numbers)
    if name == "soft_likelihood" and len(numbers) <= 1:
        return SoftLikelihood(temperature=numbers[0]) if numbers else SoftLikelihood()
    if numbers:
        raise ValueError(f"scheduler {text!r}: it is written {MENU[name]}")
    plain: dict[str, Scheduler] = {
        "round_robin": RoundRobin(),
        "random": Random(),
        "greedy_likelihood": GreedyLikelihood(),
        "balanced_likelihood": BalancedLikelihood(),
    }
    return plain[name]


def weights_of(scheduler: Scheduler) -> tuple[float, ...]:
    """The explicit weights, one per teacher; empty where there are none."""
    return scheduler.weights if isinstance(scheduler, ByDomain | UniformSum) else ()


def share_statistics(
    weights: Float[Tensor, "rollouts teachers"], domain: Int[Tensor, " rollouts"]
) -> tuple[list[float], float, float]:
    """Share of each teacher, the entropy of the shares (nats), and agreement with the label."""
    shares = (weights.sum(dim=0) / weights.sum()).tolist()
    entropy = -sum(share * math.log(share) for share in shares if share > 0)
    agreement = float(weights.gather(1, domain[:, None]).sum() / weights.sum())
    return shares, entropy, agreement
