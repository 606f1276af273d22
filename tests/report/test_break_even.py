import numpy as np
import pytest
from scipy import stats

from harness.report.break_even import break_even, describe, seed_lines

LEVELS = np.array([0.05, 0.1, 0.25, 0.5, 1.0])


def study(slope: float = 1.0, spread: float = 0.3, seeds: int = 10) -> tuple[np.ndarray, ...]:
    generator = np.random.default_rng(4)
    gaps = LEVELS * np.exp(0.05 * generator.normal(size=(seeds, 5)))
    y = slope * np.log(gaps / 0.2) + spread * generator.normal(size=(seeds, 1))
    return gaps, y + 0.1 * generator.normal(size=gaps.shape)


def test_exact_lines_cross_where_they_cross() -> None:
    gaps = np.tile(LEVELS, (3, 1))
    y = np.array([[0.1], [0.0], [-0.1]]) + 2 * np.log(gaps / 0.3)
    found = break_even(gaps, y)
    assert found.crossing_nats == pytest.approx(0.3)
    assert found.slope.estimate == pytest.approx(2)


def test_set_is_where_the_t_test_over_seeds_does_not_reject() -> None:
    gaps, y = study()
    found = break_even(gaps, y)
    lines = seed_lines(np.log(gaps), y)
    for gap in np.geomspace(0.05, 1, 200):
        inside = any(low <= gap <= high for low, high in found.confidence_set)
        predicted = lines @ np.array([1.0, np.log(gap)])
        assert inside == (stats.ttest_1samp(predicted, 0).pvalue >= 0.05)


def test_lines_are_least_squares() -> None:
    gaps, y = study()
    slope, intercept = np.polyfit(np.log(gaps[0]), y[0], 1)
    assert seed_lines(np.log(gaps), y)[0] == pytest.approx([intercept, slope])


def test_a_flat_noisy_study_bounds_nothing_and_says_so() -> None:
    generator = np.random.default_rng(0)
    gaps, _ = study()
    found = break_even(gaps, generator.normal(size=gaps.shape))
    assert found.is_unbounded()
    assert "do not bound it" in found.sentence()


def test_a_steady_advantage_without_slope_leaves_two_rays_or_nothing_near_the_data() -> None:
    gaps, _ = study()
    generator = np.random.default_rng(1)
    found = break_even(gaps, 5 + 0.1 * generator.normal(size=gaps.shape))
    assert not any(low <= 0.25 <= high for low, high in found.confidence_set)


def test_no_crossing_at_all() -> None:
    found = break_even(np.tile(LEVELS, (3, 1)), np.full((3, 5), 2.0))
    assert found.crossing_nats is None
    assert found.confidence_set == ()
    assert "never cross" in found.sentence()


def test_extrapolation_and_direction_are_named() -> None:
    gaps, y = study(spread=0.01)
    assert "ahead above" in break_even(gaps, y).sentence()
    assert "ahead below" in break_even(gaps, -y).sentence()
    assert "extrapolated" in break_even(gaps, y + 5).sentence()


def test_scale_of_the_differences_changes_nothing() -> None:
    gaps, y = study()
    one, other = break_even(gaps, y), break_even(gaps, y * 1e-200)
    assert np.array(other.confidence_set) == pytest.approx(np.array(one.confidence_set))


def test_description() -> None:
    assert describe(((0.0, np.inf),)) == "95 % set: every gap"
    assert describe(((0.0, 0.1), (0.5, np.inf))) == "95 % set up to 0.1 and from 0.5 up"


def test_refusals() -> None:
    with pytest.raises(ValueError, match="2 seeds and 2 levels"):
        break_even(np.ones((1, 3)), np.ones((1, 3)))
    with pytest.raises(ValueError, match=r"gaps_nats must be positive, got -1\.0"):
        break_even(np.array([[1.0, -1.0], [1.0, 2.0]]), np.ones((2, 2)))
    with pytest.raises(ValueError, match="2 different levels"):
        break_even(np.ones((2, 2)), np.ones((2, 2)))
