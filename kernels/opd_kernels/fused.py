"""How does a one-pass gradient enter autograd, so that backward can run twice?"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from opd_kernels.problem import Measured, PerToken, Problem
from opd_kernels.row_eager import MEASURED

Run = Callable[..., Measured]


def weighted_sum(
    problem: Problem, coefficient: Float[Tensor, " tokens"], run: Run, chunk_tokens: int | None
) -> tuple[Float[Tensor, ""], PerToken]:
    """sum(coefficient * divergence) and the measurements; both gradients are taken in this pass.

    The first backward scales them and hands them over, so that no copy exists; a second one (a
    retained graph) runs the pass again.
    """
    total, *rows = _OnePass.apply(  # type: ignore[no-untyped-call]
        problem.student_hidden,
        problem.student_head,
        _detached(problem),
        coefficient,
        run,
        chunk_tokens,
    )
    return total, PerToken(**dict(zip(MEASURED, rows, strict=True)))


def per_row(problem: Problem, run: Run, chunk_tokens: int | None) -> PerToken:
    """The measurements; backward of `divergence`, under any upstream vector, runs a second pass."""
    rows = _PerRow.apply(  # type: ignore[no-untyped-call]
        problem.student_hidden, problem.student_head, _detached(problem), run, chunk_tokens
    )
    return PerToken(**dict(zip(MEASURED, rows, strict=True)))


def _detached(problem: Problem) -> Problem:
    return replace(
        problem,
        student_hidden=problem.student_hidden.detach(),
        student_head=problem.student_head.detach(),
    )


class _OnePass(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        head: Tensor,
        problem: Problem,
        coefficient: Tensor,
        run: Run,
        chunk_tokens: int | None,
    ) -> tuple[Tensor, ...]:
        wanted = ctx.needs_input_grad[:2]
        out = run(
            problem,
            coefficient if any(wanted) else None,
            hidden_gradient=wanted[0],
            head_gradient=wanted[1],
            chunk_tokens=chunk_tokens,
        )
        ctx.save_for_backward(hidden, head)  # autograd then notices if they change in place
        ctx.gradients = (out.hidden_gradient, out.head_gradient)
        ctx.again = (problem, coefficient, run, chunk_tokens)
        rows = [out.rows[name] for name in MEASURED]
        ctx.mark_non_differentiable(*rows)
        total = (coefficient * rows[0].masked_fill(coefficient == 0, 0.0)).sum()
        return total, *rows

    @staticmethod
    def backward(ctx: Any, upstream: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        gradients, ctx.gradients = ctx.gradients, None
        if gradients is None:
            gradients = _again(ctx)
        unchanged = upstream.device.type == "cpu" and upstream.item() == 1.0
        if not unchanged:
            gradients = tuple(None if g is None else g.mul_(upstream) for g in gradients)
        return *gradients, None, None, None, None


def _again(ctx: Any) -> tuple[Tensor | None, Tensor | None]:
    hidden, head = ctx.saved_tensors
    problem, coefficient, run, chunk_tokens = ctx.again
    out = run(
        replace(problem, student_hidden=hidden.detach(), student_head=head.detach()),
        coefficient,
        hidden_gradient=ctx.needs_input_grad[0],
        head_gradient=ctx.needs_input_grad[1],
        chunk_tokens=chunk_tokens,
    )
    return out.hidden_gradient, out.head_gradient


class _PerRow(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, head: Tensor, problem: Problem, run: Run, chunk_tokens: int | None
    ) -> tuple[Tensor, ...]:
        out = run(
            problem, None, hidden_gradient=False, head_gradient=False, chunk_tokens=chunk_tokens
        )
        ctx.save_for_backward(hidden, head)  # autograd then notices if they change in place
        ctx.problem, ctx.run, ctx.chunk_tokens = problem, run, chunk_tokens
        rows = [out.rows[name] for name in MEASURED]
        ctx.mark_non_differentiable(*rows[1:])
        return tuple(rows)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        hidden, head = ctx.saved_tensors
        out = ctx.run(
            replace(ctx.problem, student_hidden=hidden.detach(), student_head=head.detach()),
            upstream.contiguous(),
            hidden_gradient=ctx.needs_input_grad[0],
            head_gradient=ctx.needs_input_grad[1],
            chunk_tokens=ctx.chunk_tokens,
        )
        return out.hidden_gradient, out.head_gradient, None, None, None
