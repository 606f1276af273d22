"""Does the public function give the known values, by definition and at the edges?"""

import math
from dataclasses import replace

import pytest
import torch

from opd_kernels import (
    FullVocab,
    LinearDivergence,
    SampledToken,
    Teacher,
    linear_divergence,
    parse_divergence,
    parse_support,
)
from tests.kernels.cases import from_probabilities, operands, teacher_of

S, T, U = (0.5, 0.2, 0.2, 0.1), (0.1, 0.6, 0.2, 0.1), (0.6, 0.1, 0.2, 0.1)
REVERSE = parse_divergence("reverse_kl")


def value(divergence: str, support: str, student=S, teacher=T, **options: object) -> float:
    hidden, head = from_probabilities(student)
    return linear_divergence(
        hidden,
        head,
        teacher_of(*teacher),
        divergence=parse_divergence(divergence),
        support=parse_support(support),
        **options,
    ).loss.item()


@pytest.mark.parametrize(
    ("divergence", "support", "expected"),
    [
        ("reverse_kl", "top_k(1, student, truncate)", 0.804719),
        ("reverse_kl", "top_k(1, student, tail)", 0.510826),
        ("reverse_kl", "top_k(1, teacher, truncate)", -0.219722),
        ("reverse_kl", "top_k(1, teacher, tail)", 0.334795),
        ("forward_kl", "top_k(1, teacher, truncate)", 0.659167),
        ("forward_kl", "top_k(1, teacher, tail)", 0.381909),
        ("reverse_kl", "top_k(1, union, truncate)", 0.584996),
        ("reverse_kl", "top_k(1, union, tail)", 0.584996),
        ("reverse_kl", "top_k(4, student, tail)", 0.584996),
        ("reverse_kl", "top_k(4, teacher, renormalize)", 0.584996),
        ("reverse_kl", "top_k(4, union, truncate)", 0.584996),
        ("forward_kl", "top_k(4, union, tail)", 0.498224),
    ],
)
def test_top_k_values(divergence: str, support: str, expected: float) -> None:
    assert value(divergence, support) == pytest.approx(expected, abs=6e-7)


def test_renormalized_pair() -> None:
    # A hair off, so that {0, 1} is the student's top two without a tie.
    student = (0.5, 0.2 + 1e-9, 0.2 - 1e-9, 0.1)
    actual = value("reverse_kl", "top_k(2, student, renormalize)", student)
    assert actual == pytest.approx(0.835709, abs=6e-7)


@pytest.mark.parametrize(
    ("temperature", "expected"), [(2.0, 0.134946), ((2.0, 1.0), 0.379015), ((1.0, 2.0), 0.299683)]
)
def test_temperature(temperature: float | tuple[float, float], expected: float) -> None:
    actual = value("reverse_kl", "full", temperature=temperature)
    assert actual == pytest.approx(expected, abs=6e-7)


def test_two_teachers_are_a_mean_of_divergences() -> None:
    hidden, head = from_probabilities(S)
    half = torch.tensor([0.5], dtype=torch.float64)
    teachers = [teacher_of(*T, weights=half), teacher_of(*U, weights=half)]
    pair = linear_divergence(hidden, head, teachers, divergence=REVERSE)
    assert pair.loss.item() == pytest.approx(0.316233, abs=6e-7)
    geometric = (teachers[0].hidden + teachers[1].hidden) / 2
    to_mean = linear_divergence(hidden, head, Teacher(geometric, head), divergence=REVERSE)
    assert to_mean.loss.item() == pytest.approx(0.080381, abs=6e-7)
    assert -geometric.logsumexp(-1).item() == pytest.approx(0.235852, abs=6e-7)
    swapped = linear_divergence(hidden, head, teachers[::-1], divergence=REVERSE)
    torch.testing.assert_close(swapped.loss, pair.loss)
    same = [teacher_of(*T, weights=half), teacher_of(*T, weights=half)]
    twice = linear_divergence(hidden, head, same, divergence=REVERSE).loss
    torch.testing.assert_close(twice.item(), value("reverse_kl", "full"))


@pytest.mark.parametrize("longer", ["student", "teacher"])
def test_unequal_vocabularies_use_the_common_ids(longer: str) -> None:
    short, wide = torch.tensor([[2.0, 1.0, 0.0]]), torch.tensor([[1.0, 2.0, 0.0, 0.5]])
    student, teacher = (short, wide) if longer == "teacher" else (wide, short)
    student_head = torch.eye(student.shape[1], requires_grad=True)
    with pytest.warns(UserWarning, match="3 common ids"):
        out = linear_divergence(
            student, student_head, Teacher(teacher, torch.eye(teacher.shape[1])), divergence=REVERSE
        )
    out.loss.backward()
    assert student_head.grad.shape == student_head.shape
    if longer == "teacher":
        assert out.loss.item() == pytest.approx(0.420512, abs=6e-7)


def test_measurements() -> None:
    hidden, head = from_probabilities(S)
    out = linear_divergence(hidden, head, teacher_of(*T), divergence=REVERSE)
    student, teacher = torch.tensor(S, dtype=torch.float64), torch.tensor(T, dtype=torch.float64)
    torch.testing.assert_close(out.student_entropy[0], -(student * student.log()).sum())
    torch.testing.assert_close(out.teacher_cross_entropy[0], -(student * teacher.log()).sum())
    assert out.top1_agreement.item() == 0
    assert out.dropped_mass.item() == 0
    top = linear_divergence(
        hidden, head, teacher_of(*T), divergence=REVERSE, support=parse_support("top_k(1, student)")
    )
    assert top.dropped_mass.item() == pytest.approx(0.5)
    assert not out.divergence.requires_grad


def test_mean_by_the_global_denominator_survives_micro_batches() -> None:
    hidden, head, teacher = operands(9, 5, 4, 11, dtype=torch.float64)
    mask = torch.tensor([True, False, True, True, True, False, False, True, True])
    whole = linear_divergence(hidden, head, teacher, divergence=REVERSE, mask=mask)
    expected = torch.autograd.grad(whole.loss, (hidden, head))
    counted = mask.sum()
    pieces = []
    for part in (slice(0, 2), slice(2, 5), slice(5, 7), slice(7, 9)):  # the third has no token
        cut = replace(teacher, hidden=teacher.hidden[part])
        pieces.append(
            linear_divergence(
                hidden[part], head, cut, divergence=REVERSE, mask=mask[part], normalizer=counted
            ).loss
        )
    assert pieces[2] == 0
    torch.testing.assert_close(sum(pieces), whole.loss)
    torch.testing.assert_close(torch.autograd.grad(sum(pieces), (hidden, head)), expected)


def test_nothing_counted_is_exactly_zero() -> None:
    hidden, head, teacher = operands(4, 3, 3, 7, dtype=torch.float32)
    out = linear_divergence(
        hidden, head, teacher, divergence=REVERSE, mask=torch.zeros(4, dtype=torch.bool)
    )
    out.loss.backward()
    assert out.loss == 0
    assert (hidden.grad == 0).all()
    assert (head.grad == 0).all()


def test_masked_tokens_may_hold_anything() -> None:
    hidden, head, teacher = operands(4, 3, 3, 7, dtype=torch.float32)
    mask = torch.tensor([True, True, False, True])
    broken = hidden.detach().clone().index_fill_(0, torch.tensor([2]), math.nan).requires_grad_()
    out = linear_divergence(broken, head, teacher, divergence=REVERSE, mask=mask)
    out.loss.backward()
    assert broken.grad.isfinite().all()
    assert (out.divergence[2], broken.grad[2].abs().sum()) == (0, 0)


def test_forbidden_by_the_teacher_is_infinite_with_its_position_and_no_nan() -> None:
    hidden = torch.ones(2, 1, dtype=torch.float64, requires_grad=True)
    head = torch.tensor(S, dtype=torch.float64).log()[:, None].requires_grad_()
    rows = torch.tensor([[1.0], [2.0]], dtype=torch.float64)
    # -inf for the second token, in both rows; the second row is not counted by its weight.
    banned = torch.tensor([[1.0], [-math.inf], [0.5], [0.2]], dtype=torch.float64)
    weights = torch.tensor([1.0, 0.0], dtype=torch.float64)
    out = linear_divergence(
        hidden, head, Teacher(rows, banned, weights=weights), divergence=REVERSE, reduction="sum"
    )
    out.loss.backward()
    assert out.loss == math.inf
    assert out.infinite_tokens().tolist() == [0]
    assert hidden.grad.isfinite().all()
    assert head.grad.isfinite().all()


def test_vocabulary_order_does_not_matter() -> None:
    hidden, head, teacher = operands(6, 5, 4, 13, dtype=torch.float64)
    order = torch.randperm(13, generator=torch.Generator().manual_seed(1))
    plain = linear_divergence(hidden, head, teacher, divergence=REVERSE)
    mixed = linear_divergence(
        hidden, head[order], replace(teacher, head=teacher.head[order]), divergence=REVERSE
    )
    torch.testing.assert_close(mixed.loss, plain.loss)


def test_different_teachers_differ() -> None:
    hidden, head, teacher = operands(6, 5, 4, 13, dtype=torch.float64)
    _, _, other = operands(6, 5, 4, 13, dtype=torch.float64, seed=1)
    losses = [linear_divergence(hidden, head, t, divergence=REVERSE).loss for t in (teacher, other)]
    gradients = [torch.autograd.grad(loss, hidden)[0] for loss in losses]
    assert (losses[0] - losses[1]).abs() > 1e-3
    assert (gradients[0] - gradients[1]).abs().max() > 1e-3


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"temperature": 0.0}, "temperature"),
        ({"teachers": []}, "teachers"),
        ({"support": SampledToken()}, "support"),
        ({"support": parse_support("top_k(99)")}, "support"),
        ({"reduction": "average"}, "reduction"),
        ({"normalizer": 0.0}, "normalizer"),
        ({"normalizer": 3.0, "reduction": "sum"}, "normalizer"),
        ({"precision": "best"}, "precision"),
        ({"chunk_tokens": 0}, "chunk_tokens"),
        ({"implementation": "magic"}, "implementation"),
        ({"temperature": 2.0, "normalize_teacher": True}, "log_normalizer"),
        ({"short_teacher": True}, "tokens"),
        ({"half_head": True}, "dtype"),
    ],
)
def test_refuses(options: dict[str, object], name: str) -> None:
    hidden, head, teacher = operands(6, 5, 4, 13, dtype=torch.float64)
    options = dict(options)
    if options.pop("normalize_teacher", False):
        teacher = replace(teacher, log_normalizer=torch.zeros(6))
    if options.pop("short_teacher", False):
        teacher = replace(teacher, hidden=teacher.hidden[:4])
    if options.pop("half_head", False):
        head = head.detach().half()
    arguments = {"teachers": teacher, "divergence": REVERSE, "support": FullVocab()} | options
    with pytest.raises(Exception, match=name) as caught:
        linear_divergence(hidden, head, **arguments)
    assert isinstance(caught.value, ValueError | TypeError)


def test_result_is_frozen() -> None:
    hidden, head, teacher = operands(2, 3, 3, 5, dtype=torch.float32)
    out = linear_divergence(hidden, head, teacher, divergence=REVERSE)
    assert isinstance(out, LinearDivergence)
    with pytest.raises(AttributeError):
        out.loss = out.loss  # type: ignore[misc]
