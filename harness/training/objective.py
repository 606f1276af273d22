"""What does a batch of rollouts cost under a divergence, a support and weighted teachers?"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from harness.models.policy import Policy, Rollouts
from harness.training.config import Distill
from opd_kernels import (
    Divergence,
    FullVocab,
    SampledToken,
    Teacher,
    TopK,
    linear_divergence,
    linear_log_probability,
    parse_divergence,
    parse_support,
    sampled_token_loss,
)


def token_log_probability(
    policy: Policy, states: Tensor, rollouts: Rollouts, temperature: float = 1.0
) -> Float[Tensor, "rollouts time"]:
    """Log-probability of every completion token, nats; 0 elsewhere."""
    counted = rollouts.is_completion[:, 1:]
    values = linear_log_probability(
        states[counted], policy.head, rollouts.tokens[:, 1:][counted], temperature=temperature
    )
    return torch.zeros(counted.shape).masked_scatter(counted, values)


@dataclass(frozen=True, kw_only=True)
class Objective:
    """The loss of one batch: a weighted divergence per token, averaged over completion tokens."""

    divergence: Divergence
    support: FullVocab | TopK | SampledToken
    temperature: float
    discount: float

    @classmethod
    def parse(cls, config: Distill) -> "Objective":
        """Read the loss out of a configuration; raises ValueError on an unknown name."""
        return cls(
            divergence=parse_divergence(config.divergence),
            support=parse_support(config.support),
            temperature=config.temperature,
            discount=config.discount,
        )

    def __call__(
        self,
        student: Policy,
        teachers: Sequence[Policy],
        rollouts: Rollouts,
        weights: Float[Tensor, "rollouts teachers"],
        teacher_states: Sequence[Tensor],
    ) -> Float[Tensor, ""]:
        """sum_k sum_t w_k(t) D(student_t, teacher_k,t) / completion tokens, in nats.

        Exactly 0 where nothing was completed.
        """
        states = student.hidden(rollouts.tokens[:, :-1])
        total = torch.zeros(())
        for k, teacher in enumerate(teachers):
            rows = weights[:, k] > 0
            if not rows.any():
                continue
            part = Rollouts(
                tokens=rollouts.tokens[rows],
                is_completion=rollouts.is_completion[rows],
                behaviour_log_probability=rollouts.behaviour_log_probability[rows],
                policy_step=rollouts.policy_step,
            )
            weight = weights[rows, k]
            loss = self._sampled if isinstance(self.support, SampledToken) else self._dense
            total = total + loss(student, teacher, part, states[rows], teacher_states[k], weight)
        return total / rollouts.is_completion.sum().clamp_min(1)

    def _dense(
        self,
        student: Policy,
        teacher: Policy,
        rollouts: Rollouts,
        states: Tensor,
        teacher_states: Tensor,
        weight: Float[Tensor, " rollouts"],
    ) -> Float[Tensor, ""]:
        assert not isinstance(self.support, SampledToken)
        counted = rollouts.is_completion[:, 1:]
        return linear_divergence(
            states[counted],
            student.head,
            [Teacher(hidden=teacher_states[counted], head=teacher.head.detach())],
            divergence=self.divergence,
            support=self.support,
            temperature=self.temperature,
            token_weights=weight[:, None].expand(counted.shape)[counted],
            reduction="sum",
        ).loss

    def _sampled(
        self,
        student: Policy,
        teacher: Policy,
        rollouts: Rollouts,
        states: Tensor,
        teacher_states: Tensor,
        weight: Float[Tensor, " rollouts"],
    ) -> Float[Tensor, ""]:
        assert isinstance(self.support, SampledToken)
        with torch.no_grad():
            wanted = token_log_probability(teacher, teacher_states, rollouts, self.temperature)
        per_token = sampled_token_loss(
            token_log_probability(student, states, rollouts, self.temperature),
            wanted,
            rollouts.is_completion[:, 1:],
            estimator=self.support.estimator,
            discount=self.discount,
        )
        return (per_token.sum(dim=1) * weight).sum()
