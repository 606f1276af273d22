import numpy as np
import pytest

from harness.report.failures import clopper_pearson, mcnemar_p, rank_differences
from harness.report.stats import sign_flip_p


def test_clopper_pearson_known_values() -> None:
    none = clopper_pearson(0, 10)
    assert (none.low, none.high) == pytest.approx((0, 1 - 0.025 ** (1 / 10)))
    assert clopper_pearson(2, 10).high == pytest.approx(0.5561, abs=1e-4)


def test_mcnemar_counts_discordant_seeds_only() -> None:
    one = np.array([True] * 6 + [False] * 4)
    assert mcnemar_p(one, np.zeros(10, dtype=bool)) == pytest.approx(2 / 2**6)
    assert mcnemar_p(one, one) == 1.0


def test_a_diverged_seed_ranks_below_every_finished_one() -> None:
    treatment = np.array([5.0, np.nan, 7.0])
    control = np.array([1.0, -100.0, np.nan])
    assert rank_differences(treatment, control).tolist() == [5 - 4, 1.5 - 3, 6 - 1.5]


def test_without_divergence_the_ranks_are_plain_ranks() -> None:
    assert rank_differences(np.array([2.0, 4.0]), np.array([1.0, 3.0])).tolist() == [1.0, 1.0]


def test_always_diverging_is_worse_with_the_smallest_p() -> None:
    control = np.random.default_rng(0).normal(size=10)
    ranks = rank_differences(np.full(10, np.nan), control)
    assert (ranks < 0).all()
    assert sign_flip_p(ranks[:, None])[0] == 2 / 1024


def test_exchanging_the_arms_on_a_seed_flips_one_sign() -> None:
    one, other = np.array([1.0, np.nan, 3.0]), np.array([2.0, 0.0, np.nan])
    swapped_one, swapped_other = one.copy(), other.copy()
    swapped_one[1], swapped_other[1] = other[1], one[1]
    before, after = rank_differences(one, other), rank_differences(swapped_one, swapped_other)
    assert after.tolist() == [before[0], -before[1], before[2]]
