"""Inputs shared by the kernel tests."""

from dataclasses import replace

import torch
from torch import Tensor

from opd_kernels import Teacher


def from_probabilities(*rows: tuple[float, ...]) -> tuple[Tensor, Tensor]:
    """One token whose logits are the logs of the first row, by a head that is the identity."""
    hidden = torch.tensor(rows, dtype=torch.float64).log()
    return hidden, torch.eye(hidden.shape[1], dtype=torch.float64)


def teacher_of(*probabilities: float, **fields: object) -> Teacher:
    hidden, head = from_probabilities(probabilities)
    return replace(Teacher(hidden, head), **fields)


def operands(
    tokens: int, width: int, teacher_width: int, vocab: int, *, dtype: torch.dtype, seed: int = 0
) -> tuple[Tensor, Tensor, Teacher]:
    """Logits of standard deviation 2 on both sides: a peaked softmax, unlike that of rand."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    student = normal(tokens, width).to(dtype), (2 * normal(vocab, width) / width**0.5).to(dtype)
    teacher = Teacher(
        normal(tokens, teacher_width).to(dtype),
        (2 * normal(vocab, teacher_width) / teacher_width**0.5).to(dtype),
    )
    return student[0].requires_grad_(), student[1].requires_grad_(), teacher
