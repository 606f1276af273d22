import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from harness.report.stats import (
    detectable_effect,
    flipped_statistics,
    hedges_dz,
    is_constant,
    paired_t,
    paired_t_p,
    sign_flip_p,
    sign_flips,
    t_statistic,
    wilson,
)

SAMPLE = np.array([0.3, 0.1, -0.2, 0.4, 0.25, 0.05, 0.6, -0.1])


def columns(*samples: np.ndarray) -> np.ndarray:
    return np.stack(samples, axis=1)


def test_interval_and_t_agree_with_scipy() -> None:
    result = stats.ttest_1samp(SAMPLE, 0)
    low, high = result.confidence_interval(0.95)
    (interval,) = paired_t(columns(SAMPLE))
    assert (interval.low, interval.high) == pytest.approx((low, high))
    assert t_statistic(columns(SAMPLE))[0] == pytest.approx(result.statistic)
    assert paired_t_p(columns(SAMPLE))[0] == pytest.approx(result.pvalue)


def test_sign_flip_p_equals_brute_force() -> None:
    observed = abs(stats.ttest_1samp(SAMPLE, 0).statistic)
    flips = itertools.product([1, -1], repeat=len(SAMPLE))
    t = [abs(stats.ttest_1samp(SAMPLE * np.array(signs), 0).statistic) for signs in flips]
    expected = np.mean([value >= observed - 1e-9 for value in t])
    assert sign_flip_p(columns(SAMPLE))[0] == expected


def test_smallest_p_of_five_and_of_ten_seeds() -> None:
    assert sign_flip_p(np.linspace(1, 2, 5)[:, None])[0] == 0.0625
    assert sign_flip_p(np.linspace(1, 2, 10)[:, None])[0] == 2 / 1024


def test_statistic_orders_as_t_does() -> None:
    r = flipped_statistics(columns(SAMPLE))[:, 0]
    t = [abs(stats.ttest_1samp(SAMPLE * signs, 0).statistic) for signs in sign_flips(8)]
    assert np.sqrt(7) * r / np.sqrt(1 - r**2) == pytest.approx(t)


def test_many_seeds_use_random_flips_with_the_identity_first() -> None:
    flips = sign_flips(20)
    assert flips.shape == (10_000, 20)
    assert (flips[0] == 1).all()
    assert sign_flip_p(np.ones((20, 1)) + np.arange(20)[:, None])[0] == 1e-4


@pytest.mark.parametrize("factor", [2.0**-600, 1e-200, 1e200])
def test_nothing_depends_on_the_scale(factor: float) -> None:
    generator = np.random.default_rng(1)
    values = generator.normal(size=(10, 5)) + 0.4
    small = values * factor
    exact = factor == 2.0**-600
    for function in (sign_flip_p, hedges_dz, t_statistic, paired_t_p):
        one, other = function(values), function(small)
        assert (one == other).all() if exact else one == pytest.approx(other, rel=1e-9)
    for one, other in zip(paired_t(values), paired_t(small), strict=True):
        assert other.low / factor == pytest.approx(one.low)


@settings(max_examples=60, deadline=None)
@given(arrays(float, (7, 2), elements=st.floats(-1e3, 1e3, width=32)))
def test_p_is_a_probability_and_survives_a_change_of_sign(values: np.ndarray) -> None:
    p = sign_flip_p(values)
    assert ((p > 0) & (p <= 1)).all()
    assert (sign_flip_p(-values) == p).all()


def test_hedges_factor() -> None:
    values = columns(SAMPLE)
    plain = SAMPLE.mean() / SAMPLE.std(ddof=1)
    assert hedges_dz(values)[0] / plain == pytest.approx(1 - 3 / (4 * 7 - 1), abs=1e-3)
    assert np.isnan(hedges_dz(values[:2])).all()
    assert np.isnan(hedges_dz(np.ones((4, 1)))).all()


@pytest.mark.parametrize(
    ("seeds", "one", "ten"), [(5, 1.68, 3.16), (8, 1.16, 1.81), (10, 1.00, 1.48), (20, 0.66, 0.91)]
)
def test_detectable_effect(seeds: int, one: float, ten: float) -> None:
    assert detectable_effect(seeds) == pytest.approx(one, abs=0.005)
    assert detectable_effect(seeds, 10) == pytest.approx(ten, abs=0.005)


def test_wilson() -> None:
    share = wilson(8, 10)
    assert (share.low, share.high) == pytest.approx((0.490, 0.943), abs=5e-4)


def test_constant_columns_are_found_whatever_their_scale() -> None:
    rounding = np.full(6, 0.1) + np.array([0, 1, -1, 0, 1, 0]) * 1e-17
    values = columns(np.zeros(6), rounding, np.arange(6.0))
    assert is_constant(values, 2.0).tolist() == [True, True, False]
    assert is_constant(values * 1e-200, 2e-200).tolist() == [True, True, False]
    assert sign_flip_p(np.zeros((6, 1)))[0] == 1
    assert np.isposinf(t_statistic(np.ones((6, 1)))).all()


def test_refusals() -> None:
    with pytest.raises(ValueError, match="at least 2 paired seeds, got 1"):
        paired_t(np.ones((1, 1)))
    with pytest.raises(ValueError, match="seeds must be at least 2, got 1"):
        detectable_effect(1)
