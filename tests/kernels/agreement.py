"""What is it to agree with the reference, and over which implementations and divergences?"""

from dataclasses import fields

import pytest
import torch
from torch import Tensor

from opd_kernels import LinearDivergence, Teacher, linear_divergence, parse_divergence
from opd_kernels.row_cpu import unavailable

NAMES = (
    "reverse_kl",
    "forward_kl",
    "jsd(0.1)",
    "jsd_normalized(0.5)",
    "skew_forward_kl(0.1)",
    "skew_reverse_kl(0.1)",
    "skew_reverse_kl(0.0)",
    "total_variation",
)
CPU = pytest.param(
    "cpu",
    marks=pytest.mark.skipif(unavailable(torch.float32) is not None, reason="no C++ kernels here"),
)
CPU_BF16 = pytest.param(
    "cpu",
    marks=pytest.mark.skipif(unavailable(torch.bfloat16) is not None, reason="no bf16 products"),
)
FUSED = ["chunked", CPU]
REVERSE = parse_divergence("reverse_kl")


def gradients(out: LinearDivergence, *wrt: Tensor) -> tuple[Tensor, ...]:
    return torch.autograd.grad(out.loss, wrt)


def assert_same(
    hidden: Tensor, head: Tensor, teachers: Teacher | list[Teacher], implementation: str, **options
) -> None:
    """Loss, every measurement and both gradients equal those of the reference."""
    reference_options = {k: v for k, v in options.items() if k != "chunk_tokens"}
    expected = linear_divergence(
        hidden, head, teachers, implementation="reference", **reference_options
    )
    actual = linear_divergence(hidden, head, teachers, implementation=implementation, **options)
    for field in fields(LinearDivergence):
        torch.testing.assert_close(
            getattr(actual, field.name).detach(),
            getattr(expected, field.name).detach(),
            atol=3e-6,
            rtol=1e-5,
            msg=lambda m, name=field.name: f"{name}: {m}",
        )
    upstream = torch.linspace(-1, 1, expected.loss.numel()).reshape(expected.loss.shape)
    upstream = upstream.to(expected.loss) if expected.loss.ndim else None
    for a, b in zip(
        torch.autograd.grad(actual.loss, (hidden, head), upstream),
        torch.autograd.grad(expected.loss, (hidden, head), upstream),
        strict=True,
    ):
        torch.testing.assert_close(a, b, atol=5e-6 * b.abs().max().item(), rtol=2e-4)
