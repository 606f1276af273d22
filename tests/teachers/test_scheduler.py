"""Does every scheduler route as its name says?"""

import math

import pytest
import torch

from harness.teachers.scheduler import (
    SCHEDULERS,
    Evidence,
    SoftLikelihood,
    share_statistics,
)

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


@pytest.mark.parametrize("name", SCHEDULERS)
def test_rows_sum_to_one(name: str) -> None:
    weights = SCHEDULERS[name](evidence())
    torch.testing.assert_close(weights.sum(dim=1), torch.ones(6))
    assert (weights >= 0).all()


def test_by_domain_is_the_label() -> None:
    assert SCHEDULERS["by_domain"](evidence()).argmax(dim=1).tolist() == DOMAIN.tolist()


def test_round_robin_is_balanced_and_turns() -> None:
    steps = torch.stack([SCHEDULERS["round_robin"](evidence(step)) for step in range(3)])
    assert torch.equal(steps.sum(dim=1), torch.full((3, 3), 2.0))
    assert torch.equal(steps.sum(dim=0), torch.ones(6, 3))


def test_greedy_takes_the_likeliest() -> None:
    chosen = SCHEDULERS["greedy_likelihood"](evidence()).argmax(dim=1)
    assert chosen.tolist() == [1, 0, 2, 0, 1, 2]


def test_soft_likelihood_is_the_posterior() -> None:
    weights = SCHEDULERS["soft_likelihood"](evidence())
    assert weights[3].tolist() == pytest.approx([1 / 3] * 3)
    assert weights[4, 1] / weights[4, 0] == pytest.approx(math.e, rel=1e-5)
    hot = SoftLikelihood(temperature=1e6)(evidence())
    torch.testing.assert_close(hot, torch.full((6, 3), 1 / 3), atol=1e-4, rtol=0)


@pytest.mark.parametrize("name", ["greedy_likelihood", "soft_likelihood"])
def test_likelihood_is_asked_for(name: str) -> None:
    assert SCHEDULERS[name].needs_likelihood
    with pytest.raises(ValueError, match="log_likelihood must be given"):
        SCHEDULERS[name](evidence(likelihood=None))


def test_temperature_must_be_positive() -> None:
    with pytest.raises(ValueError, match="temperature must be positive, got 0"):
        SoftLikelihood(temperature=0.0)


def test_share_statistics() -> None:
    weights = SCHEDULERS["greedy_likelihood"](evidence())
    shares, entropy, agreement = share_statistics(weights, DOMAIN)
    assert shares == pytest.approx([1 / 3] * 3)
    assert entropy == pytest.approx(math.log(3))
    assert agreement == pytest.approx(2 / 6)
