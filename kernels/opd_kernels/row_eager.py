"""What are the divergence and its gradient, given the logits of some tokens? Any device, no build.

Reverse KL has a closed form, G = c p (D - E_p[D]) with D = S - Z; the others differentiate the
definitions of `reference` a few rows at a time. Gradients overwrite logits.
"""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

from opd_kernels.problem import Problem
from opd_kernels.products import times
from opd_kernels.reference import supported
from opd_kernels.supports import FullVocab

MEASURED = (
    "divergence",
    "student_entropy",
    "teacher_cross_entropy",
    "top1_agreement",
    "dropped_mass",
)
STEP_ELEMENTS = 2**17


def single_rows(
    problem: Problem,
    student: Float[Tensor, "tokens vocab"],
    teacher: Float[Tensor, "tokens vocab"],
    out: Float[Tensor, "tokens vocab"],
    coefficient: Float[Tensor, " tokens"] | None,
    measured: Float[Tensor, "5 tokens"],
    columns: Int[Tensor, " kept"] | None,
) -> None:
    """One teacher, whose weights and log-normalizer are in `problem`; `out` may be either input."""
    one = problem.teachers[0]
    closed = str(problem.divergence) == "reverse_kl" and isinstance(problem.support, FullVocab)
    step = rows_at_once(student)
    for start in range(0, len(student), step):
        rows = slice(start, min(start + step, len(student)))
        cap, temperature = problem.student_softcap, problem.student_temperature
        s, student_slope = _capped(student[rows], cap, temperature)
        z, _ = _capped(teacher[rows], one.softcap, problem.teacher_temperature)
        w = s.new_ones(len(s)) if one.weights is None else one.weights[rows].to(s)
        c = None if coefficient is None else coefficient[rows].to(s) * w
        cached = None if one.log_normalizer is None else one.log_normalizer[rows].to(s)
        if closed:
            lse = z.logsumexp(-1) if cached is None else cached
            values, gradient = _reverse(s, z, torch.ones_like(w), lse, c)
        else:
            log_q = z.log_softmax(-1) if cached is None else z - cached[:, None]
            values, gradient = _differentiated(problem, s, log_q, c)
        if columns is not None:
            values[4] = _dropped(s, columns)
        for index in (0, 2):  # a weight of 0 drops even an infinity
            values[index] = w * values[index].masked_fill(w == 0, 0.0)
        measured[:, rows] = values
        if gradient is not None:
            out[rows] = gradient if student_slope is None else gradient * student_slope


def chained_rows(
    student: Float[Tensor, "tokens vocab"],
    mixture: Float[Tensor, "tokens vocab"],
    weight: Float[Tensor, " tokens"],
    normalizer: Float[Tensor, " tokens"],
    coefficient: Float[Tensor, " tokens"] | None,
    measured: Float[Tensor, "5 tokens"],
    columns: Int[Tensor, " kept"] | None,
) -> None:
    """Reverse KL to several teachers at once; `mixture` is sum_k w_k Z_k. No softcap."""
    step = rows_at_once(student)
    for start in range(0, len(student), step):
        rows = slice(start, min(start + step, len(student)))
        s, z = (logits[rows].to(times(logits.dtype)) for logits in (student, mixture))
        c = None if coefficient is None else coefficient[rows].to(s)
        values, gradient = _reverse(s, z, weight[rows], normalizer[rows], c)
        if columns is not None:
            values[4] = _dropped(s, columns)
        measured[:, rows] = values
        if gradient is not None:
            student[rows] = gradient


def rows_at_once(logits: Tensor) -> int:
    """Few enough that a step's temporaries stay below a tenth of a buffer, or in a cache."""
    return max(1, len(logits) // 128, STEP_ELEMENTS // logits.shape[1])


def _capped(
    logits: Tensor, softcap: float | None, temperature: float
) -> tuple[Tensor, Tensor | None]:
    """The logits in float32 after their softcap, and the slope of the cap."""
    wide = logits.to(times(logits.dtype))
    if softcap is None:
        return wide, None
    bounded = torch.tanh(wide * temperature / softcap)
    return bounded * (softcap / temperature), 1.0 - bounded.square()


def _reverse(
    s: Tensor, z: Tensor, weight: Tensor, normalizer: Tensor, coefficient: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    log_p = s.log_softmax(-1)
    p = log_p.exp()
    impossible = p == 0
    difference = (weight[:, None] * s - z).masked_fill(impossible, 0.0)
    mean = (p * difference).sum(-1)
    value = mean - weight * s.logsumexp(-1) + normalizer
    value = torch.where(value < 0, 0.0, value)  # rounding only
    entropy = -(p * log_p.masked_fill(impossible, 0.0)).sum(-1)
    values = torch.stack([value, entropy, value + weight * entropy, _agreement(s, z), 0 * entropy])
    if coefficient is None:
        return values, None
    infinite = value == math.inf
    slope = (difference - mean[:, None]).masked_fill(infinite[:, None], 0.0)
    return values, coefficient[:, None] * p * slope


def _differentiated(
    problem: Problem, s: Tensor, log_q: Tensor, coefficient: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    with torch.enable_grad():
        logits = s.detach().requires_grad_(coefficient is not None)
        log_p = logits.log_softmax(-1)
        value, outside = supported(problem, log_p, log_q)
        gradient = None
        if coefficient is not None:
            counted = value.masked_fill((coefficient == 0) | value.isinf(), 0.0)
            (gradient,) = torch.autograd.grad((coefficient * counted).sum(), logits)
    log_p = log_p.detach()
    p, impossible = log_p.exp(), log_p == -math.inf
    entropy = -(p * log_p.masked_fill(impossible, 0.0)).sum(-1)
    cross = -(p * log_q.masked_fill(impossible, 0.0)).sum(-1)
    values = torch.stack([value.detach(), entropy, cross, _agreement(s, log_q), outside])
    return values, gradient


def _agreement(s: Tensor, z: Tensor) -> Tensor:
    best = s.argmax(-1, keepdim=True)
    return (z.gather(1, best).squeeze(1) == z.amax(-1)).to(s.dtype)


def _dropped(s: Tensor, columns: Tensor) -> Tensor:
    return s.softmax(-1).index_fill(1, columns, 0.0).sum(-1)
