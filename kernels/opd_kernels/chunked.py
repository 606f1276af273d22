"""How is a divergence computed on any device without a [tokens, vocab] tensor?

Per chunk of tokens: logits into two buffers, rows in place (a few at a time, so that they stay in
cache), the gradient in the logits multiplied into both gradients at once. Several teachers of a
reverse KL share one buffer: sum_k w_k KL(p || q_k) needs only S - sum_k w_k Z_k and the cached
log-normalizers. Other divergences of several teachers take two more buffers.
"""

from collections.abc import Callable
from dataclasses import replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from opd_kernels.problem import Measured, Problem, Teacher
from opd_kernels.products import add_outer, back, into, times
from opd_kernels.row_eager import MEASURED, chained_rows, rows_at_once, single_rows
from opd_kernels.supports import FullVocab

Rows = Callable[..., None]


def default_chunk(like: Tensor) -> int:
    """Tokens per chunk: enough for the products to run at speed, few enough for a cache."""
    return 1024 if like.is_cuda else 256


def chunked(
    problem: Problem,
    coefficient: Float[Tensor, " tokens"] | None,
    *,
    hidden_gradient: bool,
    head_gradient: bool,
    chunk_tokens: int | None,
    single: Rows = single_rows,
    chained: Rows = chained_rows,
) -> Measured:
    """Measurements, and the gradients of sum(coefficient * divergence); plain PyTorch.

    `single` and `chained` do the rows, with the signatures of `row_eager`.
    """
    hidden, head = problem.student_hidden, problem.student_head
    tokens, vocab = len(hidden), len(head)
    size = min(max(tokens, 1), chunk_tokens or default_chunk(hidden))
    wide = hidden.dtype if problem.precision == "fast" else times(hidden.dtype)
    count = 2 if chains(problem) else 4
    buffers = [hidden.new_empty(size, vocab, dtype=wide) for _ in range(count)]
    measured = hidden.new_empty(len(MEASURED), tokens, dtype=times(hidden.dtype))
    d_hidden = torch.empty_like(hidden) if hidden_gradient else None
    d_head = torch.zeros_like(head, dtype=wide) if head_gradient else None
    for start in range(0, tokens, size):
        part = slice(start, min(start + size, tokens))
        views = [buffer[: part.stop - start] for buffer in buffers]
        factor = None if coefficient is None else coefficient[part]
        rows = (single, chained)
        columns = _chunk(cut(problem, part), views, factor, measured[:, part], rows)
        gradient = views[0] if columns is None else views[0][:, columns]
        if d_hidden is not None and factor is not None:
            d_hidden[part] = back(gradient, head if columns is None else head[columns], views[1])
        if d_head is not None and factor is not None:
            add_outer(d_head, gradient, hidden[part], columns, views[1])
    return Measured(
        rows=dict(zip(MEASURED, measured, strict=True)),
        hidden_gradient=d_hidden,
        head_gradient=None if d_head is None else d_head.to(head.dtype),
    )


def chains(problem: Problem) -> bool:
    """Whether one buffer does: a single teacher, or reverse KL with cached normalizers."""
    if len(problem.teachers) == 1:
        return True
    plain = str(problem.divergence) == "reverse_kl" and isinstance(problem.support, FullVocab)
    cached = all(teacher.log_normalizer is not None for teacher in problem.teachers)
    return plain and cached and all(teacher.softcap is None for teacher in problem.teachers)


def cut(problem: Problem, part: slice) -> Problem:
    """The problem of some tokens."""

    def rows(values: Tensor | None) -> Tensor | None:
        return None if values is None else values[part]

    teachers = tuple(
        replace(
            teacher,
            hidden=teacher.hidden[part],
            weights=rows(teacher.weights),
            log_normalizer=rows(teacher.log_normalizer),
        )
        for teacher in problem.teachers
    )
    return replace(problem, student_hidden=problem.student_hidden[part], teachers=teachers)


def _chunk(
    problem: Problem,
    buffers: list[Tensor],
    coefficient: Tensor | None,
    measured: Tensor,
    rows: tuple[Rows, Rows],
) -> Int[Tensor, " kept"] | None:
    """Fill `measured`, leave the gradient in the logits in `buffers[0]`; the columns it keeps."""
    student, teacher = buffers[:2]
    scale = problem.student_scale / problem.student_temperature
    into(student, problem.student_hidden, problem.student_head, scale)
    columns = _frequent_columns(student, problem.support)
    if len(problem.teachers) > 1 and len(buffers) == 2:
        weight, normalizer = _chain(problem, teacher)
        rows[1](student, teacher, weight, normalizer, coefficient, measured, columns)
    elif len(buffers) == 2:
        _teacher_logits(problem, problem.teachers[0], teacher)
        rows[0](problem, student, teacher, student, coefficient, measured, columns)
    else:
        _sum_of_singles(problem, buffers, coefficient, measured, columns, rows[0])
    if coefficient is not None and scale != 1.0:
        student *= scale
    return columns


def _teacher_logits(problem: Problem, teacher: Teacher, buffer: Tensor) -> None:
    into(buffer, teacher.hidden, teacher.head, teacher.scale / problem.teacher_temperature)


def _chain(problem: Problem, buffer: Tensor) -> tuple[Tensor, Tensor]:
    """sum_k w_k Z_k into the buffer; sum_k w_k and sum_k w_k lse_k."""
    weight = normalizer = buffer.new_zeros(len(buffer), dtype=times(buffer.dtype))
    for index, teacher in enumerate(problem.teachers):
        w = torch.ones_like(weight) if teacher.weights is None else teacher.weights.to(weight)
        scale = w * (teacher.scale / problem.teacher_temperature)
        into(buffer, teacher.hidden, teacher.head, scale, add=index > 0)
        weight = weight + w
        assert teacher.log_normalizer is not None
        normalizer = normalizer + w * teacher.log_normalizer.to(w)
    return weight, normalizer


def _sum_of_singles(
    problem: Problem,
    buffers: list[Tensor],
    coefficient: Tensor | None,
    measured: Tensor,
    columns: Tensor | None,
    single: Rows,
) -> None:
    student, teacher, total, mean = buffers
    total.zero_(), mean.zero_(), measured.zero_()
    for one in problem.teachers:
        _teacher_logits(problem, one, teacher)
        w = one.weights
        mean += teacher if w is None else (w.to(teacher)[:, None] * teacher).nan_to_num(0.0)
        part = torch.empty_like(measured)
        alone = replace(problem, teachers=(one,))
        single(alone, student, teacher, teacher, coefficient, part, columns)
        divergence, entropy, cross, _, dropped = part
        measured[0] += divergence
        measured[1] = entropy
        measured[2] += cross
        measured[4] = torch.maximum(measured[4], dropped)
        if coefficient is not None:
            total += teacher
    best = student.argmax(-1, keepdim=True)
    measured[3] = mean.gather(1, best).squeeze(1) == mean.amax(-1)
    student.copy_(total)


def _frequent_columns(
    student: Float[Tensor, "tokens vocab"], support: object
) -> Int[Tensor, " kept"] | None:
    """Words some token of the chunk gives at least `skip_below`; None for all."""
    if not isinstance(support, FullVocab) or support.skip_below == 0.0:
        return None
    likely = torch.zeros_like(student[0], dtype=torch.bool)
    for rows in student.split(rows_at_once(student)):
        likely |= (rows.softmax(-1) >= support.skip_below).any(0)
    return likely.nonzero().flatten()
