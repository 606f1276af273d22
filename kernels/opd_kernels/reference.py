"""What is the right answer? Full logits, plain autograd, float64 where the inputs are."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from opd_kernels.divergences import Divergence
from opd_kernels.problem import PerToken, Precision, Problem, Teacher
from opd_kernels.supports import TopK


def reference_per_token(problem: Problem) -> PerToken:
    """Every measurement with [tokens, vocab] tensors; `divergence` carries the gradient."""
    student = torch.log_softmax(_student_logits(problem), dim=-1)
    rows = student.detach()
    divergence, cross_entropy, dropped = (torch.zeros_like(rows[:, 0]) for _ in range(3))
    mean_teacher = torch.zeros_like(rows)
    for teacher in problem.teachers:
        log_q = _teacher_log_probability(problem, teacher)
        weights = torch.ones_like(dropped) if teacher.weights is None else teacher.weights.to(rows)
        value, outside = supported(problem, student, log_q)
        divergence = divergence + _weighted(weights, value)
        impossible = rows == -math.inf
        entropy_terms = rows.exp() * -log_q.masked_fill(impossible, 0.0)
        cross_entropy = cross_entropy + _weighted(weights, entropy_terms.sum(-1))
        mean_teacher = mean_teacher + _weighted(weights[:, None], log_q)
        dropped = torch.maximum(dropped, outside)
    return PerToken(
        divergence=divergence,
        student_entropy=-(rows.exp() * rows.masked_fill(rows == -math.inf, 0.0)).sum(-1),
        teacher_cross_entropy=cross_entropy,
        top1_agreement=_agreement(rows, mean_teacher),
        dropped_mass=dropped,
    )


def logits(
    hidden: Float[Tensor, "tokens width"],
    head: Float[Tensor, "vocab width"],
    *,
    scale: float,
    softcap: float | None,
    temperature: float,
    precision: Precision,
) -> Float[Tensor, "tokens vocab"]:
    """Scaled, capped, divided by the temperature; in float32 at least.

    `fast` rounds the product to the dtype of its operands, as most implementations do.
    """
    if precision == "exact" and hidden.dtype != torch.float64:
        hidden, head = hidden.float(), head.float()
    product = hidden @ head.T
    product = (product if product.dtype == torch.float64 else product.float()) * scale
    if softcap is not None:
        product = softcap * torch.tanh(product / softcap)
    return product / temperature


def _student_logits(problem: Problem) -> Float[Tensor, "tokens vocab"]:
    return logits(
        problem.student_hidden,
        problem.student_head,
        scale=problem.student_scale,
        softcap=problem.student_softcap,
        temperature=problem.student_temperature,
        precision=problem.precision,
    )


@torch.no_grad()
def _teacher_log_probability(problem: Problem, teacher: Teacher) -> Float[Tensor, "tokens vocab"]:
    row = logits(
        teacher.hidden,
        teacher.head,
        scale=teacher.scale,
        softcap=teacher.softcap,
        temperature=problem.teacher_temperature,
        precision=problem.precision,
    )
    if teacher.log_normalizer is None:
        return torch.log_softmax(row, dim=-1)
    return row - teacher.log_normalizer.to(row)[:, None]


def supported(
    problem: Problem, student: Float[Tensor, "tokens vocab"], teacher: Float[Tensor, "tokens vocab"]
) -> tuple[Float[Tensor, " tokens"], Float[Tensor, " tokens"]]:
    """The divergence on the support, and the student's probability outside of it."""
    outside = torch.zeros_like(teacher[:, 0])
    if isinstance(problem.support, TopK):
        chosen = top_k(student.detach(), teacher, problem.support)
        outside = student.detach().exp().scatter(1, chosen.ids, 0.0).sum(-1)
        student = restrict(student, chosen, problem.support)
        teacher = restrict(teacher, chosen, problem.support)
        return _finite_gradient(problem.divergence, student, teacher), outside
    value = _finite_gradient(problem.divergence, student, teacher)
    # A sum over the whole vocabulary is never negative; rounding can make it so.
    return value + (value.clamp(min=0.0) - value).nan_to_num(0.0).detach(), outside


def _finite_gradient(
    divergence: Divergence,
    student: Float[Tensor, "tokens support"],
    teacher: Float[Tensor, "tokens support"],
) -> Float[Tensor, " tokens"]:
    """The divergence; rows where it is infinite get no gradient instead of NaN."""
    with torch.no_grad():
        infinite = divergence(student, teacher).isinf()
    # The infinite rows are differentiated at student = teacher, then overwritten.
    harmless = student.detach().clone()
    value = divergence(
        torch.where(infinite[:, None], harmless, student),
        torch.where(infinite[:, None], harmless, teacher),
    )
    return value.masked_fill(infinite, math.inf)


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """The ids of a top-k support; a union names some twice, which counts once (`again`)."""

    ids: Int[Tensor, "tokens support"]
    again: Bool[Tensor, "tokens support"]


def top_k(
    student: Float[Tensor, "tokens vocab"], teacher: Float[Tensor, "tokens vocab"], support: TopK
) -> Chosen:
    """The most likely tokens of whom the support asks."""
    first, *second = (
        log_probability.topk(support.k, dim=-1).indices
        for owner, log_probability in (("student", student), ("teacher", teacher))
        if support.owner in (owner, "union")
    )
    again = torch.zeros_like(first, dtype=torch.bool)
    for ids in second:
        named = torch.zeros_like(student, dtype=torch.bool).scatter(1, first, True)
        first, again = torch.cat([first, ids], 1), torch.cat([again, named.gather(1, ids)], 1)
    return Chosen(ids=first, again=again)


def restrict(
    log_probability: Float[Tensor, "tokens vocab"], chosen: Chosen, support: TopK
) -> Float[Tensor, "tokens support"]:
    """Log-probabilities on the support alone, and one more column for a tail bucket."""
    inside = log_probability.gather(1, chosen.ids).masked_fill(chosen.again, -math.inf)
    if support.remainder == "truncate":
        return inside
    if support.remainder == "renormalize":
        return inside - inside.logsumexp(-1, keepdim=True)
    vocab = log_probability.shape[1]
    empty = (~chosen.again).sum(-1, keepdim=True) == vocab
    rest = torch.where(empty, log_probability, log_probability.scatter(1, chosen.ids, -math.inf))
    tail = rest.logsumexp(-1, keepdim=True).masked_fill(empty, -math.inf)
    return torch.cat([inside, tail], dim=-1)


def _weighted(weights: Tensor, values: Tensor) -> Tensor:
    """weights * values, where a weight of 0 drops even an infinity."""
    return weights * values.masked_fill(weights == 0, 0.0)


def _agreement(
    student: Float[Tensor, "tokens vocab"], teacher: Float[Tensor, "tokens vocab"]
) -> Float[Tensor, " tokens"]:
    best = student.argmax(-1, keepdim=True)
    return (teacher.gather(1, best).squeeze(1) == teacher.amax(-1)).to(student.dtype)
