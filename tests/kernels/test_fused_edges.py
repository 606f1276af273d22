"""Does every implementation stand what is awkward: equality, infinities, strides, frozen sides?"""

import math
from typing import Any

import pytest
import torch

from opd_kernels import Teacher, linear_divergence, parse_divergence
from opd_kernels.chunked import chunked
from opd_kernels.problem import Measured
from tests.kernels.agreement import CPU_BF16, FUSED, NAMES, REVERSE, assert_same, gradients
from tests.kernels.cases import operands


@pytest.mark.parametrize("implementation", [*FUSED, "reference"])
def test_backward_twice_gives_the_same(implementation: str) -> None:
    hidden, head, teacher = operands(9, 12, 20, 130, dtype=torch.float32)
    loss = (
        3.0
        * linear_divergence(
            hidden, head, teacher, divergence=REVERSE, implementation=implementation
        ).loss
    )
    first = torch.autograd.grad(loss, (hidden, head), retain_graph=True)
    loss.backward(retain_graph=True)
    loss.backward()
    for once, leaf in zip(first, (hidden, head), strict=True):
        torch.testing.assert_close(leaf.grad, 2 * once)


@pytest.mark.parametrize("implementation", [*FUSED, "reference"])
@pytest.mark.parametrize("name", NAMES)
def test_identical_is_exactly_zero(implementation: str, name: str) -> None:
    hidden, head, _ = operands(9, 12, 12, 130, dtype=torch.float32)
    teacher = Teacher(hidden.detach().clone(), head.detach().clone())
    out = linear_divergence(
        hidden, head, teacher, divergence=parse_divergence(name), implementation=implementation
    )
    tolerance = 0.0 if name in ("reverse_kl", "forward_kl", "total_variation") else 1e-6
    assert 0 <= out.loss.item() <= tolerance
    for gradient in gradients(out, hidden, head):
        assert gradient.abs().max() < 1e-7
    assert out.top1_agreement.mean() == 1


@pytest.mark.parametrize("implementation", [CPU_BF16, "chunked", "reference"])
def test_identical_in_bf16(implementation: str) -> None:
    hidden, head, _ = operands(9, 12, 12, 130, dtype=torch.bfloat16)
    teacher = Teacher(hidden.detach().clone(), head.detach().clone())
    out = linear_divergence(
        hidden, head, teacher, divergence=REVERSE, implementation=implementation
    )
    assert out.loss == 0
    exact = implementation != "reference"  # autograd's softmax leaves float32's last bits
    assert gradients(out, hidden, head)[1].abs().max() <= (0 if exact else 1e-7)


@pytest.mark.parametrize("implementation", FUSED)
def test_a_frozen_side_gets_no_gradient(implementation: str) -> None:
    hidden, head, teacher = operands(9, 12, 20, 130, dtype=torch.float32)
    expected = gradients(linear_divergence(hidden, head, teacher, divergence=REVERSE), hidden, head)
    for index, pair in enumerate([(hidden, head.detach()), (hidden.detach(), head)]):
        out = linear_divergence(*pair, teacher, divergence=REVERSE, implementation=implementation)
        torch.testing.assert_close(gradients(out, pair[index])[0], expected[index])
        assert not pair[1 - index].requires_grad
    nothing = linear_divergence(
        hidden.detach(), head.detach(), teacher, divergence=REVERSE, implementation=implementation
    )
    assert not nothing.loss.requires_grad


@pytest.mark.parametrize("implementation", FUSED)
def test_strided_and_expanded_inputs(implementation: str) -> None:
    base, head, teacher = operands(14, 12, 20, 130, dtype=torch.float32)
    assert_same(
        base.detach()[::2].requires_grad_(),
        head.detach().T.contiguous().T.requires_grad_(),
        Teacher(teacher.hidden[:1].expand(7, 20), teacher.head),
        implementation,
        divergence=REVERSE,
        chunk_tokens=3,
    )


@pytest.mark.parametrize("implementation", FUSED)
def test_expanded_upstream_gradient(implementation: str) -> None:
    hidden, head, teacher = operands(6, 12, 20, 130, dtype=torch.float32)
    options = {"divergence": REVERSE, "implementation": implementation}
    rows = linear_divergence(hidden, head, teacher, reduction="none", **options).loss
    total = linear_divergence(hidden, head, teacher, reduction="sum", **options).loss
    for a, b in zip(
        torch.autograd.grad(rows.sum(), (hidden, head)),
        torch.autograd.grad(total, (hidden, head)),
        strict=True,
    ):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("implementation", [*FUSED, "reference"])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("side", ["teacher", "both"])
def test_forbidden_tokens(implementation: str, name: str, side: str) -> None:
    """A head that gives -inf to one word: no NaN, and +inf where it must be, with its place."""
    hidden = torch.tensor([[1.0, 0.5], [1.0, -0.5], [1.0, 2.0]], requires_grad=True)
    head = torch.randn(40, 2, generator=torch.Generator().manual_seed(0))
    banned = torch.cat([head[:, :1].abs() + 0.1, torch.zeros(40, 1)], dim=1)
    banned[7, 0] = -math.inf
    states = torch.tensor([[1.0, 1.0], [0.5, 1.0], [2.0, 1.0]])
    banned[:, 1] = torch.linspace(-1, 1, 40)
    student = banned.clone() if side == "both" else head
    out = linear_divergence(
        hidden, student, Teacher(states, banned), divergence=parse_divergence(name),
        implementation=implementation, reduction="sum",
    )  # fmt: skip
    infinite = side == "teacher" and name in ("reverse_kl", "skew_reverse_kl(0.0)")
    assert out.infinite_tokens().tolist() == ([0, 1, 2] if infinite else [])
    assert not out.divergence.isnan().any()
    assert not out.student_entropy.isnan().any()
    if side == "teacher":  # a student's own -inf would meet 0 * -inf in gradient @ head
        assert gradients(out, hidden)[0].isfinite().all()


@pytest.mark.parametrize("implementation", FUSED)
def test_cold_softmax_has_a_finite_gradient(implementation: str) -> None:
    hidden, head, teacher = operands(9, 12, 20, 130, dtype=torch.float32)
    out = linear_divergence(
        hidden, head, teacher, divergence=REVERSE, temperature=0.05, implementation=implementation
    )
    assert out.loss.isfinite()
    assert all(gradient.isfinite().all() for gradient in gradients(out, hidden, head))


def test_gradients_are_handed_over_without_a_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []

    def watched(*arguments: Any, **options: Any) -> Measured:
        out = chunked(*arguments, **options)
        for gradient in (out.hidden_gradient, out.head_gradient):
            assert gradient is not None
            made.append(gradient.data_ptr())
        return out

    monkeypatch.setattr("opd_kernels.dispatch.chunked", watched)
    hidden, head, teacher = operands(9, 12, 20, 130, dtype=torch.float32)
    loss = linear_divergence(
        hidden, head, teacher, divergence=REVERSE, implementation="chunked"
    ).loss
    loss.backward()
    assert hidden.grad is not None
    assert head.grad is not None
    assert [hidden.grad.data_ptr(), head.grad.data_ptr()] == made
