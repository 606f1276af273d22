"""Does every implementation agree with the reference: values and gradients?"""

from dataclasses import replace

import pytest
import torch

from opd_kernels import FullVocab, linear_divergence, parse_divergence, parse_support
from tests.kernels.agreement import FUSED, NAMES, REVERSE, assert_same, gradients
from tests.kernels.cases import operands


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
def test_states_and_chunks_deeper_than_a_panel_of_the_product(implementation: str) -> None:
    hidden, head, teacher = operands(300, 1100, 20, 130, dtype=torch.float32)
    assert_same(hidden, head, teacher, implementation, divergence=REVERSE, chunk_tokens=300)


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


def test_a_path_that_does_not_fit_says_why() -> None:
    hidden, head, teacher = operands(3, 4, 4, 9, dtype=torch.float64)
    for name in ("cpu", "triton"):
        with pytest.raises(ValueError, match=f"implementation {name} does not fit: "):
            linear_divergence(hidden, head, teacher, divergence=REVERSE, implementation=name)
