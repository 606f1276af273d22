"""How wrong is a bf16 gradient close to the teacher? Relative error against float64.

The usual path rounds both logits to bf16 and subtracts: what is left near convergence is rounding.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from opd_kernels import Implementation, Teacher, linear_divergence, parse_divergence

DISTANCES = (10.0, 1.0, 0.3, 0.1, 0.05, 0.02)  # of the teacher's states from the student's, in sd


@dataclass(frozen=True, kw_only=True)
class Error:
    """KL of student and teacher, and the relative error of both gradients."""

    kl_nats: float
    hidden: float
    head: float


def gradient_error(
    distance: float,
    implementation: Implementation | None,
    *,
    precision: str = "exact",
    tokens: int = 256,
    width: int = 256,
    vocab: int = 8192,
) -> Error:
    """One point of the sweep; `implementation` None is the usual path: bf16 logits, autograd."""
    generator = torch.Generator().manual_seed(1)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    hidden, head = normal(tokens, width), 2 * normal(vocab, width) / width**0.5
    noise = normal(tokens, width)
    apart = distance > 5
    other = 2 * normal(vocab, width) / width**0.5 if apart else head
    states = noise if apart else hidden + distance * noise
    h, w = hidden.bfloat16().requires_grad_(), head.bfloat16().requires_grad_()
    teacher = Teacher(states.bfloat16(), other.bfloat16())
    kl, *truth = _exact(h, w, teacher)
    if implementation is None:
        found = torch.autograd.grad(_plain(h, w, teacher), (h, w))
    else:
        out = linear_divergence(
            h,
            w,
            teacher,
            divergence=parse_divergence("reverse_kl"),
            implementation=implementation,
            precision=precision,  # type: ignore[arg-type]
            chunk_tokens=64,
        )
        found = torch.autograd.grad(out.loss, (h, w))
    errors = [
        ((a.double() - b).norm() / b.norm()).item() for a, b in zip(found, truth, strict=True)
    ]
    return Error(kl_nats=kl.item(), hidden=errors[0], head=errors[1])


def _exact(hidden: Tensor, head: Tensor, teacher: Teacher) -> tuple[Tensor, Tensor, Tensor]:
    h, w = (x.detach().double().requires_grad_() for x in (hidden, head))
    loss = linear_divergence(
        h,
        w,
        Teacher(teacher.hidden.double(), teacher.head.double()),
        divergence=parse_divergence("reverse_kl"),
        implementation="reference",
    ).loss
    d_hidden, d_head = torch.autograd.grad(loss, (h, w))
    return loss.detach(), d_hidden, d_head


def _plain(hidden: Tensor, head: Tensor, teacher: Teacher) -> Tensor:
    student = (hidden @ head.T).float().log_softmax(-1)
    other = (teacher.hidden @ teacher.head.T).float().log_softmax(-1)
    return (student.exp() * (student - other)).sum(-1).mean()
