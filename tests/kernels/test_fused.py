"""Does every implementation agree with the reference: values, gradients, edges?"""

import math
from dataclasses import fields, replace

import pytest
import torch
from torch import Tensor

from opd_kernels import (
    FullVocab,
    LinearDivergence,
    Teacher,
    linear_divergence,
    linear_log_probability,
    parse_divergence,
    parse_support,
)
from opd_kernels.row_cpu import unavailable
from tests.kernels.cases import operands

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


@pytest.mark.parametrize("implementation", FUSED)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("tokens", "vocab"), [(7, 1423), (1, 33), (70, 130)])
def test_full_vocabulary(implementation: str, name: str, tokens: int, vocab: int) -> None:
    hidden, head, teacher = operands(tokens, 12, 20, vocab, dtype=torch.float32)
    divergence = parse_divergence(name)
    for chunk in (1, 5, 64):
        assert_same(
            hidden, head, teacher, implementation, divergence=divergence, chunk_tokens=chunk
        )


@pytest.mark.parametrize("implementation", FUSED)
@pytest.mark.parametrize("name", NAMES)
def test_weights_masks_temperatures_and_reductions(implementation: str, name: str) -> None:
    hidden, head, teacher = operands(9, 12, 20, 130, dtype=torch.float32)
    generator = torch.Generator().manual_seed(3)
    options = {
        "divergence": parse_divergence(name),
        "temperature": (0.7, 1.0),
        "token_weights": torch.rand(9, generator=generator),
        "mask": torch.tensor([True, False] * 4 + [True]),
        "student_scale": 1.5,
        "chunk_tokens": 2,
    }
    normalizer = (teacher.hidden @ teacher.head.T).logsumexp(-1)
    teacher = replace(
        teacher, weights=torch.rand(9, generator=generator), log_normalizer=normalizer
    )
    for extra in ({"normalizer": 17.0}, {"reduction": "sum"}, {"reduction": "none"}):
        assert_same(hidden, head, teacher, implementation, **options, **extra)


@pytest.mark.parametrize("name", ["reverse_kl", "forward_kl", "jsd(0.5)"])
@pytest.mark.parametrize(
    "support",
    [
        "top_k(4, student, tail)",
        "top_k(4, teacher, tail)",
        "top_k(4, union, tail)",
        "top_k(4, union, renormalize)",
        "top_k(3, teacher, truncate)",
        "top_k(130, student, tail)",
    ],
)
def test_top_k(name: str, support: str) -> None:
    hidden, head, teacher = operands(9, 12, 20, 130, dtype=torch.float32)
    options = {"divergence": parse_divergence(name), "support": parse_support(support)}
    assert_same(hidden, head, teacher, "chunked", chunk_tokens=4, **options)


@pytest.mark.parametrize("implementation", FUSED)
def test_many_teachers_share_one_pass(implementation: str) -> None:
    hidden, head, _ = operands(9, 12, 20, 130, dtype=torch.float32)
    teachers, generator = [], torch.Generator().manual_seed(4)
    for index in range(4):
        _, _, one = operands(9, 12, 8 + 4 * index, 130, dtype=torch.float32, seed=index)
        normalizer = (one.hidden @ one.head.T).logsumexp(-1)
        weights = torch.rand(9, generator=generator)
        teachers.append(replace(one, log_normalizer=normalizer, weights=weights))
    assert_same(hidden, head, teachers, implementation, divergence=REVERSE, chunk_tokens=4)
    total = linear_divergence(hidden, head, teachers, divergence=REVERSE).loss
    singles = [linear_divergence(hidden, head, one, divergence=REVERSE).loss for one in teachers]
    torch.testing.assert_close(total, sum(singles))


@pytest.mark.parametrize("name", ["forward_kl", "reverse_kl", "jsd(0.5)"])
def test_many_teachers_without_a_cache(name: str) -> None:
    hidden, head, first = operands(9, 12, 20, 130, dtype=torch.float32)
    _, _, second = operands(9, 12, 16, 130, dtype=torch.float32, seed=2)
    pair = [replace(first, weights=torch.full((9,), 0.3)), second]
    assert_same(hidden, head, pair, "chunked", divergence=parse_divergence(name), chunk_tokens=4)


def test_softcap() -> None:
    hidden, head, teacher = operands(9, 12, 20, 130, dtype=torch.float32)
    capped = replace(teacher, softcap=2.5, scale=0.5)
    options = {"divergence": REVERSE, "student_softcap": 3.0, "temperature": 1.3}
    assert_same(hidden, head, capped, "chunked", chunk_tokens=4, **options)


@pytest.mark.parametrize("implementation", FUSED)
@pytest.mark.parametrize("width", [12, 13])
def test_bias(implementation: str, width: int) -> None:
    hidden, head, teacher = operands(9, width, 20, 130, dtype=torch.float32)
    options = {
        "divergence": REVERSE,
        "student_bias": torch.linspace(-1, 1, 130, requires_grad=True),
        "mask": torch.arange(9) % 3 > 0,
        "student_scale": 0.7,
    }
    shifted = replace(teacher, bias=torch.linspace(2, -2, 130))
    assert_same(hidden, head, shifted, implementation, chunk_tokens=4, **options)


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


def test_skipped_words_are_certified() -> None:
    hidden, head, teacher = operands(40, 12, 20, 1423, dtype=torch.float32)
    exact = linear_divergence(hidden, head, teacher, divergence=REVERSE)
    support = FullVocab(skip_below=1e-3)
    out = linear_divergence(
        hidden, head, teacher, divergence=REVERSE, support=support, chunk_tokens=8
    )
    torch.testing.assert_close(out.loss, exact.loss)
    assert 0 < out.dropped_mass.mean() < 0.3
    a, b = gradients(out, hidden, head)[0], gradients(exact, hidden, head)[0]
    assert 0 < ((a - b).norm() / b.norm()).item() < 0.3
    none = FullVocab(skip_below=1e-30)
    same = linear_divergence(hidden, head, teacher, divergence=REVERSE, support=none)
    expected = linear_divergence(hidden, head, teacher, divergence=REVERSE)
    torch.testing.assert_close(gradients(same, head), gradients(expected, head))
    with pytest.raises(ValueError, match="skips no words"):
        linear_divergence(
            hidden, head, teacher, divergence=REVERSE, support=support, implementation="reference"
        )


@pytest.mark.parametrize("implementation", FUSED)
def test_a_large_vocabulary(implementation: str) -> None:
    hidden, head, teacher = operands(3, 4, 4, 129920, dtype=torch.float32)
    assert_same(hidden, head, teacher, implementation, divergence=REVERSE)


def test_log_probability_in_chunks() -> None:
    hidden, head, _ = operands(600, 12, 12, 7000, dtype=torch.float32)
    tokens = torch.arange(600)
    actual = linear_log_probability(hidden, head, tokens)
    expected = (hidden @ head.T).log_softmax(-1)[tokens, tokens]
    torch.testing.assert_close(actual, expected)
    weights = torch.linspace(-1, 1, 600)
    for a, b in zip(
        torch.autograd.grad(actual, (hidden, head), weights),
        torch.autograd.grad(expected, (hidden, head), weights),
        strict=True,
    ):
        torch.testing.assert_close(a, b)


def test_a_path_that_does_not_fit_says_why() -> None:
    hidden, head, teacher = operands(3, 4, 4, 9, dtype=torch.float64)
    for name in ("cpu", "triton"):
        with pytest.raises(ValueError, match=f"implementation {name} does not fit: "):
            linear_divergence(hidden, head, teacher, divergence=REVERSE, implementation=name)
