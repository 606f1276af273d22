"""Are the divergences what their names say: values, directions, zeros, gradients, refusals?"""

import math

import pytest
import torch

from opd_kernels import Divergence, forward_kl, jsd, parse_divergence, reverse_kl
from opd_kernels.divergences import PARAMETRIC, PLAIN

ALL = [*PLAIN, *(f"{name}(0.3)" for name in PARAMETRIC), "skew_reverse_kl(0.0)"]
PAIR = ((0.6, 0.4), (0.9, 0.1))
FOUR = ((0.5, 0.2, 0.2, 0.1), (0.1, 0.6, 0.2, 0.1))


def logs(*rows: tuple[float, ...]) -> list[torch.Tensor]:
    return [torch.tensor(row, dtype=torch.float64).log() for row in rows]


@pytest.mark.parametrize(
    ("name", "pair", "value"),
    [
        ("forward_kl", PAIR, 0.226289),
        ("reverse_kl", PAIR, 0.311239),
        ("forward_kl", FOUR, 0.498224),
        ("reverse_kl", FOUR, 0.584996),
        ("jsd(0.001)", PAIR, 0.000226),
        ("jsd(0.1)", PAIR, 0.020737),
        ("jsd(0.5)", PAIR, 0.063288),
        ("jsd(0.9)", PAIR, 0.026511),
        ("jsd(0.999)", PAIR, 0.000311),
        ("jsd_normalized(0.5)", PAIR, 4 * 0.063288),
        ("total_variation", PAIR, 0.3),
    ],
)
def test_known_value(name: str, pair: tuple[tuple[float, ...], ...], value: float) -> None:
    actual = parse_divergence(name)(*logs(*pair)).item()
    assert actual == pytest.approx(value, abs=4e-6 if "normalized" in name else 6e-7)


@pytest.mark.parametrize(("function", "slope"), [(reverse_kl, -0.430022), (forward_kl, -0.3)])
def test_known_gradient_in_the_logits(function, slope: float) -> None:
    student, teacher = logs(*PAIR)
    logits = student.clone().requires_grad_()
    function(logits.log_softmax(-1), teacher).backward()
    torch.testing.assert_close(
        logits.grad, torch.tensor([slope, -slope], dtype=torch.float64), atol=6e-7, rtol=0
    )


@pytest.mark.parametrize("name", ALL)
def test_zero_at_equality_and_positive_elsewhere(name: str) -> None:
    generator = torch.Generator().manual_seed(0)
    student, teacher = torch.randn(2, 50, 7, generator=generator, dtype=torch.float64).log_softmax(
        -1
    )
    divergence = parse_divergence(name)
    torch.testing.assert_close(divergence(student, student), torch.zeros(50, dtype=torch.float64))
    assert (divergence(student, teacher) > 0).all()


def test_direction_by_behaviour() -> None:
    """Two modes, and a student that can have one: reverse picks a mode, forward the middle."""
    places = torch.arange(9, dtype=torch.float64)
    teacher = torch.logaddexp(-((places - 1) ** 2), -((places - 7) ** 2) - 0.1).log_softmax(-1)
    centres = torch.linspace(0, 8, 81, dtype=torch.float64)
    students = (-((places - centres[:, None]) ** 2)).log_softmax(-1)
    best = {
        f: centres[f(students, teacher.expand(81, 9)).argmin()] for f in (forward_kl, reverse_kl)
    }
    assert abs(best[reverse_kl] - 1) < 0.3
    assert 2.5 < best[forward_kl] < 5.5


@pytest.mark.parametrize("beta", [1e-4, 1 - 1e-4])
def test_jsd_limits(beta: float) -> None:
    student, teacher = logs(*PAIR)
    limit = (forward_kl if beta < 0.5 else reverse_kl)(student, teacher)
    normalized = parse_divergence(f"jsd_normalized({beta})")(student, teacher)
    torch.testing.assert_close(normalized, limit, atol=1e-3, rtol=0)
    torch.testing.assert_close(
        jsd(student, teacher, beta) / min(beta, 1 - beta), limit, atol=1e-3, rtol=0
    )


def test_skew_zero_is_no_skew() -> None:
    student, teacher = logs(*FOUR)
    for plain in ("forward_kl", "reverse_kl"):
        skewed = Divergence(name=f"skew_{plain}", parameter=0.0)
        torch.testing.assert_close(
            skewed(student, teacher), Divergence(name=plain)(student, teacher)
        )


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("side", ["student", "both"])
def test_forbidden_tokens_give_no_nan(name: str, side: str) -> None:
    generator = torch.Generator().manual_seed(0)
    logits, teacher = torch.randn(2, 5, 7, generator=generator, dtype=torch.float64)
    banned = torch.zeros(7, dtype=torch.bool)
    banned[2] = True
    if side == "both":
        teacher = teacher.masked_fill(banned, -math.inf)
    logits.requires_grad_()
    student = logits.masked_fill(banned, -math.inf).log_softmax(-1)
    value = parse_divergence(name)(student, teacher.log_softmax(-1))
    value.sum().backward()
    infinite = side == "student" and name in ("forward_kl", "skew_forward_kl(0.0)")
    assert value.isfinite().all() or infinite
    assert logits.grad.isfinite().all()
    if side == "both":
        keep = ~banned
        expected = parse_divergence(name)(
            logits.detach()[:, keep].log_softmax(-1), teacher[:, keep].log_softmax(-1)
        )
        torch.testing.assert_close(value.detach(), expected)


def test_probability_where_the_teacher_has_none_is_infinite() -> None:
    student, teacher = logs((0.5, 0.5), (1.0, 0.0))
    assert reverse_kl(student, teacher) == math.inf
    assert forward_kl(student, teacher).isfinite()
    assert forward_kl(teacher, student) == math.inf


@pytest.mark.parametrize("name", ALL)
def test_string_round_trip(name: str) -> None:
    assert str(parse_divergence(name)) == name
    assert parse_divergence(f"  {name} ") == parse_divergence(name)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "kl",
        "jsd",
        "jsd(0)",
        "jsd(1)",
        "jsd(nan)",
        "jsd(a)",
        "reverse_kl(0.5)",
        "jsd(.1)(.2)",
        "skew_forward_kl(1)",
        "skew_reverse_kl(-0.1)",
        "jsd(0.1, 0.2)",
        "jsd()",
    ],
)
def test_refuses(text: str) -> None:
    with pytest.raises(ValueError, match=r"divergence|beta|alpha|parameter"):
        parse_divergence(text)
