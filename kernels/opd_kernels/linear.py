"""What is the divergence of a student from its teachers, given hidden states and heads?"""

import warnings
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from opd_kernels.dispatch import Implementation, choose
from opd_kernels.divergences import Divergence
from opd_kernels.fused import per_row, weighted_sum
from opd_kernels.problem import (
    LinearDivergence,
    PerToken,
    Precision,
    Problem,
    Teacher,
    with_bias,
)
from opd_kernels.reference import reference_per_token
from opd_kernels.supports import FullVocab, Support, TopK, require_choice

Reduction = Literal["mean", "sum", "none"]


def linear_divergence(
    student_hidden: Float[Tensor, "tokens width"],
    student_head: Float[Tensor, "vocab width"],
    teachers: Teacher | Sequence[Teacher],
    *,
    divergence: Divergence,
    temperature: float | tuple[float, float] = 1.0,
    token_weights: Float[Tensor, " tokens"] | None = None,
    mask: Bool[Tensor, " tokens"] | None = None,
    reduction: Reduction = "mean",
    normalizer: float | Tensor | None = None,
    support: Support = FullVocab(),  # noqa: B008  # frozen
    precision: Precision = "exact",
    chunk_tokens: int | None = None,
    implementation: Implementation = "auto",
    student_scale: float = 1.0,
    student_softcap: float | None = None,
    student_bias: Float[Tensor, " vocab"] | None = None,
) -> LinearDivergence:
    """sum over tokens t and teachers k of weight_t * w_k(t) * D(student_t, teacher_k,t), in nats.

    `temperature` divides the logits of both sides; a pair is (student, teacher). `mask` is true
    where a token counts; what the others hold does not matter. `mean` divides the sum by
    `normalizer`, the count of tokens in the whole accumulation window; without it, by the count in
    `mask` (not by the weights). With no token that counts the loss is exactly 0. Several teachers
    add up; give them `weights` that sum to 1 for a mean of divergences (not of probabilities or
    logits). Of unequal vocabularies the common ids are used, softmax over those only, with a
    warning. Logits are those of `Teacher`, on both sides; a bias costs a copy of its head. Gradient
    to `student_hidden`, `student_head` and `student_bias`, where they require it, never to a
    teacher.

    Raises ValueError where an argument is outside its range or shapes or dtypes disagree.
    """
    _check(reduction, normalizer, precision, chunk_tokens, implementation)
    student_hidden, student_head = with_bias(student_hidden, student_head, student_bias)
    problem, keep = _problem(
        student_hidden, student_head, teachers, divergence, temperature, mask, support
    )
    problem = replace(
        problem, precision=precision, student_scale=student_scale, student_softcap=student_softcap
    )
    coefficient = _coefficient(token_weights, keep, problem.student_hidden)
    divisor: float | Tensor = 1.0
    if reduction == "mean":
        divisor = max(1, len(coefficient)) if normalizer is None else normalizer
    run = choose(problem, implementation)[1]
    with torch.autocast(student_hidden.device.type, enabled=False):
        if run is not None and reduction != "none":
            loss, rows = weighted_sum(problem, coefficient / divisor, run, chunk_tokens)
        else:
            rows = (
                reference_per_token(problem) if run is None else per_row(problem, run, chunk_tokens)
            )
            loss = coefficient * rows.divergence.masked_fill(coefficient == 0, 0.0)
            loss = loss if reduction == "none" else loss.sum() / divisor
    return _spread(rows, loss, keep, len(student_hidden))


def _problem(
    student_hidden: Tensor,
    student_head: Tensor,
    teachers: Teacher | Sequence[Teacher],
    divergence: Divergence,
    temperature: float | tuple[float, float],
    mask: Tensor | None,
    support: Support,
) -> tuple[Problem, Tensor | None]:
    """The operands on one vocabulary without the tokens that do not count, and who is left."""
    teachers = (teachers,) if isinstance(teachers, Teacher) else tuple(teachers)
    pair = temperature if isinstance(temperature, tuple) else (temperature, temperature)
    if not teachers:
        raise ValueError("teachers must name at least one teacher")
    if not (pair[0] > 0 and pair[1] > 0):
        raise ValueError(f"temperature must be positive, got {temperature}")
    if student_hidden.dtype != student_head.dtype:
        raise ValueError(
            f"student_head must have the dtype of student_hidden, {student_hidden.dtype}, "
            f"got {student_head.dtype}"
        )
    vocab = min(len(student_head), *(len(teacher.head) for teacher in teachers))
    if isinstance(support, TopK) and support.k > vocab:
        raise ValueError(f"support: k must be at most the vocabulary, {vocab}, got {support.k}")
    if not isinstance(support, FullVocab | TopK):
        raise ValueError(
            "support must be full or top_k here; for a sampled token combine "
            "linear_log_probability with sampled_token_loss"
        )
    for index, teacher in enumerate(teachers):
        if len(teacher.hidden) != len(student_hidden):
            raise ValueError(
                f"teachers[{index}].hidden must have {len(student_hidden)} tokens, "
                f"got {len(teacher.hidden)}"
            )
        if teacher.log_normalizer is not None and (len(teacher.head) > vocab or pair[1] != 1):
            raise ValueError(
                f"teachers[{index}].log_normalizer belongs to its whole vocabulary at temperature "
                f"1; drop it at {len(teacher.head)} ids cut to {vocab}, temperature {pair[1]}"
            )
    if any(len(head) > vocab for head in (student_head, *(t.head for t in teachers))):
        warnings.warn(
            f"unequal vocabularies: softmax over the {vocab} common ids only", stacklevel=3
        )
    keep = None if mask is None else mask.nonzero().flatten()
    if len(student_head) > vocab:  # the gradient of a slice is a copy of the head's
        student_head = student_head[:vocab]
    return (
        Problem(
            student_hidden=student_hidden if keep is None else student_hidden.index_select(0, keep),
            student_head=student_head,
            teachers=tuple(_slice(teacher, keep, vocab) for teacher in teachers),
            divergence=divergence,
            support=support,
            student_temperature=float(pair[0]),
            teacher_temperature=float(pair[1]),
            student_scale=1.0,
            student_softcap=None,
            precision="exact",
        ),
        keep,
    )


def _slice(teacher: Teacher, keep: Tensor | None, vocab: int) -> Teacher:
    def kept(rows: Tensor | None) -> Tensor | None:
        return rows if rows is None or keep is None else rows[keep]

    states, head = with_bias(teacher.hidden, teacher.head, teacher.bias)
    hidden = states if keep is None else states.index_select(0, keep)
    return replace(
        teacher,
        hidden=hidden.detach(),
        head=head[:vocab].detach(),
        bias=None,
        log_normalizer=kept(teacher.log_normalizer),
        weights=kept(teacher.weights),
    )


def _check(
    reduction: str,
    normalizer: float | Tensor | None,
    precision: str,
    chunk_tokens: int | None,
    implementation: str,
) -> None:
    require_choice("reduction", reduction, Reduction)
    if normalizer is not None and reduction != "mean":
        raise ValueError(f"normalizer divides a mean only, got reduction {reduction!r}")
    if isinstance(normalizer, int | float) and not normalizer > 0:
        raise ValueError(f"normalizer must be positive, got {normalizer}")
    require_choice("precision", precision, Precision)
    require_choice("implementation", implementation, Implementation)
    if chunk_tokens is not None and chunk_tokens < 1:
        raise ValueError(f"chunk_tokens must be at least 1, got {chunk_tokens}")


def _coefficient(weights: Tensor | None, keep: Tensor | None, like: Tensor) -> Tensor:
    """The weight of each token that counts, in the dtype of the sums."""
    dtype = torch.float64 if like.dtype == torch.float64 else torch.float32
    if weights is None:
        return torch.ones(len(like), dtype=dtype, device=like.device)
    return (weights if keep is None else weights[keep]).detach().to(dtype)


def _spread(rows: PerToken, loss: Tensor, keep: Tensor | None, tokens: int) -> LinearDivergence:
    """The result with the tokens that do not count back in their places, as zeros."""

    measured = {f.name: getattr(rows, f.name).detach() for f in fields(PerToken)}
    if keep is None:
        return LinearDivergence(loss=loss, **measured)

    def spread(values: Tensor) -> Tensor:
        return values.new_zeros(*values.shape[:-1], tokens).index_copy(-1, keep, values)

    places = spread(torch.stack(list(measured.values())))
    return LinearDivergence(
        loss=spread(loss) if loss.ndim else loss, **dict(zip(measured, places, strict=True))
    )
