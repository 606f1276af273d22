"""What does a batch of rollouts cost under a divergence, a support and weighted teachers?"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from harness.models.policy import Policy, Rollouts
from harness.teachers.store import TeacherStore
from harness.teachers.visits import Visit
from harness.training.config import Distill
from harness.training.precision import operands, student_autocast
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


@dataclass(frozen=True, kw_only=True)
class Objective:
    """The loss of one batch: a weighted divergence per token, averaged over completion tokens."""

    config: Distill
    divergence: Divergence
    support: FullVocab | TopK | SampledToken

    @classmethod
    def parse(cls, config: Distill) -> "Objective":
        """Read the loss out of a configuration; raises ValueError on an unknown name."""
        return cls(
            config=config,
            divergence=parse_divergence(config.divergence),
            support=parse_support(config.support),
        )

    def backward(
        self,
        student: Policy,
        store: TeacherStore,
        rollouts: Rollouts,
        weights: Float[Tensor, "rollouts teachers"],
    ) -> float:
        """Add the gradient of sum_k sum_t w_k(t) D(student_t, teacher_k,t) / completion tokens.

        Returns its value in nats, exactly 0 where nothing was completed. Every teacher's part goes
        back to the student's states in its own turn, so that neither its head nor a gradient of the
        student's head is held for any other; the body is gone through once, at the end.
        """
        with student_autocast(self.config.precision):
            states = student.hidden(rollouts.tokens[:, :-1])
        gradient, total = torch.zeros_like(states), 0.0
        tokens = rollouts.is_completion.sum().clamp_min(1)
        for visit in store.visits(weights):
            part = states.detach()[visit.rows].requires_grad_()
            with store.operands(visit.teacher, visit.rows, visit.following) as teacher:
                loss = self._turn(student.head, part, teacher, rollouts.rows(visit.rows), visit)
            (loss / tokens).backward()
            assert part.grad is not None
            gradient[visit.rows] += part.grad
            total += float(loss.detach() / tokens)
        states.backward(gradient)
        return total

    def _turn(
        self,
        head: Float[Tensor, "vocab width"],
        states: Float[Tensor, "rows time width"],
        teacher: Teacher,
        rollouts: Rollouts,
        visit: Visit,
    ) -> Float[Tensor, ""]:
        """One teacher's weighted sum over the tokens of its rollouts."""
        counted = rollouts.is_completion[:, 1:]
        if isinstance(self.support, SampledToken):
            return self._sampled(head, states[counted], teacher, rollouts, visit.weights)
        precision = self.config.precision
        flat, head, teacher = operands(states[counted], head, teacher, precision)
        return linear_divergence(
            flat,
            head,
            [teacher],
            precision="fast" if precision == "bf16_rounded" else "exact",
            divergence=self.divergence,
            support=self.support,
            temperature=self.config.temperature,
            token_weights=visit.weights[:, None].expand(counted.shape)[counted],
            reduction="sum",
        ).loss

    def _sampled(
        self,
        head: Float[Tensor, "vocab width"],
        states: Float[Tensor, "tokens width"],
        teacher: Teacher,
        rollouts: Rollouts,
        weights: Float[Tensor, " rows"],
    ) -> Float[Tensor, ""]:
        assert isinstance(self.support, SampledToken)
        with torch.no_grad():
            wanted = self._log_probability(teacher.hidden, teacher.head, rollouts)
        per_token = sampled_token_loss(
            self._log_probability(states, head, rollouts),
            wanted,
            rollouts.is_completion[:, 1:],
            estimator=self.support.estimator,
            discount=self.config.discount,
        )
        return (per_token.sum(dim=1) * weights).sum()

    def _log_probability(
        self, states: Float[Tensor, "tokens width"], head: Tensor, rollouts: Rollouts
    ) -> Float[Tensor, "rows time"]:
        """Log-probability of every completion token, nats; 0 elsewhere."""
        counted: Bool[Tensor, "rows time"] = rollouts.is_completion[:, 1:]
        values = linear_log_probability(
            states,
            head,
            rollouts.tokens[:, 1:][counted],
            temperature=self.config.temperature,
        )
        return torch.zeros(counted.shape).masked_scatter(counted, values)
