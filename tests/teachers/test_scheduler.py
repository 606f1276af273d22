"""Does every scheduler route as its name says?"""

import itertools
import math

import pytest
import torch

from harness.teachers.scheduler import (
    MENU,
    Evidence,
    SoftLikelihood,
    parse_scheduler,
    share_statistics,
)
from opd_kernels import Teacher, linear_divergence, parse_divergence, reverse_kl

DOMAIN = torch.tensor([0, 0, 1, 1, 2, 2])
LIKELIHOOD = torch.tensor(
    [[-9.0, -1, -9], [-1, -9, -9], [-9, -9, -1], [-3, -3, -3], [-2, -1, -9], [-5, -9, -1]]
)


def evidence(step: int = 0, *, likelihood: torch.Tensor | None = LIKELIHOOD) -> Evidence:
    return Evidence(
        step=step,
        domain=DOMAIN,
        teachers=3,
        log_likelihood=likelihood,
        generator=torch.Generator().manual_seed(0),
    )


@pytest.mark.parametrize("name", MENU)
def test_rows_sum_to_one(name: str) -> None:
    weights = parse_scheduler(name)(evidence())
    torch.testing.assert_close(weights.sum(dim=1), torch.ones(6))
    assert (weights >= 0).all()


def test_by_domain_is_the_label() -> None:
    assert parse_scheduler("by_domain")(evidence()).argmax(dim=1).tolist() == DOMAIN.tolist()


def test_round_robin_is_balanced_and_turns() -> None:
    steps = torch.stack([parse_scheduler("round_robin")(evidence(step)) for step in range(3)])
    assert torch.equal(steps.sum(dim=1), torch.full((3, 3), 2.0))
    assert torch.equal(steps.sum(dim=0), torch.ones(6, 3))


def test_greedy_takes_the_likeliest() -> None:
    chosen = parse_scheduler("greedy_likelihood")(evidence()).argmax(dim=1)
    assert chosen.tolist() == [1, 0, 2, 0, 1, 2]


def test_soft_likelihood_is_the_posterior() -> None:
    weights = parse_scheduler("soft_likelihood")(evidence())
    assert weights[3].tolist() == pytest.approx([1 / 3] * 3)
    assert weights[4, 1] / weights[4, 0] == pytest.approx(math.e, rel=1e-5)
    hot = SoftLikelihood(temperature=1e6)(evidence())
    torch.testing.assert_close(hot, torch.full((6, 3), 1 / 3), atol=1e-4, rtol=0)


@pytest.mark.parametrize("name", ["greedy_likelihood", "soft_likelihood"])
def test_likelihood_is_asked_for(name: str) -> None:
    assert parse_scheduler(name).needs_likelihood
    with pytest.raises(ValueError, match="log_likelihood must be given"):
        parse_scheduler(name)(evidence(likelihood=None))


def test_temperature_must_be_positive() -> None:
    with pytest.raises(ValueError, match="temperature must be positive and finite, got 0"):
        SoftLikelihood(temperature=0.0)


def test_share_statistics() -> None:
    weights = parse_scheduler("greedy_likelihood")(evidence())
    shares, entropy, agreement = share_statistics(weights, DOMAIN)
    assert shares == pytest.approx([1 / 3] * 3)
    assert entropy == pytest.approx(math.log(3))
    assert agreement == pytest.approx(2 / 6)


def test_balanced_likelihood_is_the_best_of_all_equal_quotas() -> None:
    weights = parse_scheduler("balanced_likelihood")(evidence())
    assert weights.sum(dim=0).tolist() == [2, 2, 2]
    best = max(
        float(LIKELIHOOD[torch.arange(6), list(choice)].sum())
        for choice in set(itertools.permutations([0, 0, 1, 1, 2, 2]))
    )
    assert float((weights * LIKELIHOOD).sum()) == pytest.approx(best)


def test_quotas_that_do_not_divide_differ_by_one_and_take_turns() -> None:
    table = torch.zeros(4, 3)
    more = []
    for step in range(3):
        asked = Evidence(
            step=step, domain=DOMAIN[:4], teachers=3, log_likelihood=table,
            generator=torch.Generator(),
        )  # fmt: skip
        counts = parse_scheduler("balanced_likelihood")(asked).sum(dim=0)
        assert sorted(counts.tolist()) == [1, 1, 2]
        more.append(int(counts.argmax()))
    assert sorted(more) == [0, 1, 2]


def test_uniform_sum_is_the_weights_on_every_rollout() -> None:
    weights = parse_scheduler("uniform_sum(1, 2, 5)")(evidence())
    torch.testing.assert_close(weights, torch.tensor([[0.125, 0.25, 0.625]]).expand(6, 3))
    equal = parse_scheduler("uniform_sum")(evidence())
    torch.testing.assert_close(equal, torch.full((6, 3), 1 / 3))


def test_weights_of_by_domain_are_one_on_average() -> None:
    weights = parse_scheduler("by_domain(1, 1, 2)")(evidence())
    assert weights.sum(dim=1).tolist() == pytest.approx([0.75, 0.75, 0.75, 0.75, 1.5, 1.5])
    shares, _, agreement = share_statistics(weights, DOMAIN)
    assert shares == pytest.approx([0.25, 0.25, 0.5])
    assert agreement == pytest.approx(1)
    assert float(weights.sum()) == pytest.approx(6)


def test_a_temperature_is_part_of_the_text() -> None:
    assert parse_scheduler("soft_likelihood(2.5)") == SoftLikelihood(temperature=2.5)
    assert parse_scheduler("soft_likelihood") == SoftLikelihood()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("by_luck", "scheduler must be one of by_domain"),
        ("", "scheduler must be one of by_domain"),
        ("random(2)", "it is written random"),
        ("soft_likelihood(1, 2)", r"it is written soft_likelihood, soft_likelihood\(temperature\)"),
        ("uniform_sum(a)", "expected numbers"),
        ("uniform_sum(1, -2)", "weights must be positive and finite"),
        ("soft_likelihood(0)", "temperature must be positive"),
        ("soft_likelihood(inf)", "temperature must be positive and finite"),
    ],
)
def test_what_is_not_on_the_menu_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_scheduler(text)


def test_weights_for_other_teachers_are_refused() -> None:
    with pytest.raises(ValueError, match="one for each of 3 teachers"):
        parse_scheduler("uniform_sum(1, 2)")(evidence())


def test_the_sum_over_teachers_is_the_distance_to_their_geometric_mean() -> None:
    """sum_k w_k KL(p || q_k) = KL(p || q*) - log Z, q* = prod_k q_k^w_k / Z, in float64."""
    generator = torch.Generator().manual_seed(1)
    student, *teachers = (
        torch.randn(5, 7, generator=generator, dtype=torch.double).log_softmax(dim=-1)
        for _ in range(4)
    )
    weights = parse_scheduler("uniform_sum(1, 2, 5)")(evidence())[0].double()
    weighted = sum(w * reverse_kl(student, t) for w, t in zip(weights, teachers, strict=True))
    product = sum(w * t for w, t in zip(weights, teachers, strict=True))
    log_z = product.logsumexp(dim=-1)
    expected = reverse_kl(student, product - log_z[:, None]) - log_z
    torch.testing.assert_close(weighted, expected)


def test_equal_teachers_under_uniform_sum_give_the_gradient_of_one() -> None:
    generator = torch.Generator().manual_seed(2)
    states, head, taught, other = (
        torch.randn(rows, 4, generator=generator) for rows in (6, 9, 6, 9)
    )
    weights = parse_scheduler("uniform_sum(1, 2, 5)")(evidence())

    def gradient(teachers: list[Teacher]) -> torch.Tensor:
        learned = states.clone().requires_grad_()
        reverse = parse_divergence("reverse_kl")
        linear_divergence(learned, head, teachers, divergence=reverse).loss.backward()
        assert learned.grad is not None
        return learned.grad

    several = [Teacher(taught, other, weights=weights[:, k]) for k in range(3)]
    torch.testing.assert_close(
        gradient(several), gradient([Teacher(taught, other)]), atol=1e-6, rtol=0
    )


@pytest.mark.parametrize(
    "name", ["greedy_likelihood", "balanced_likelihood", "soft_likelihood(2)", "uniform_sum"]
)
def test_neither_order_of_rollouts_nor_of_teachers_matters(name: str) -> None:
    table = torch.randn(6, 3, generator=torch.Generator().manual_seed(3))  # no ties
    rows, columns = torch.tensor([3, 0, 5, 1, 4, 2]), torch.tensor([2, 0, 1])
    scheduler = parse_scheduler(name)
    moved = scheduler(evidence(likelihood=table[rows][:, columns]))
    torch.testing.assert_close(moved, scheduler(evidence(likelihood=table))[rows][:, columns])
