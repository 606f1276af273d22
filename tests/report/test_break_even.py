import numpy as np
import pytest
from scipy import stats

from harness.report.break_even import break_even, describe, seed_curves, seed_slopes

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
    assert found.measured_nats == pytest.approx((0.05, 1.0))


def test_a_bend_moves_no_crossing_beyond_gaps_that_are_ahead() -> None:
    """The least-squares line through these points crosses at 1.2 nats."""
    gaps = np.tile(LEVELS, (3, 1))
    y = np.array([-0.8, -0.76, -0.6, -0.25, 0.05]) + np.array([[0.01], [0.0], [-0.01]])
    found = break_even(gaps, y)
    assert found.crossing_nats == pytest.approx(0.5 * 2 ** (0.25 / 0.30))
    assert found.ahead_above


def test_set_is_where_the_t_test_over_seeds_does_not_reject() -> None:
    gaps, y = study()
    found = break_even(gaps, y)
    low, high = found.measured_nats
    for gap in np.geomspace(low * 1.001, high * 0.999, 200):
        inside = any(a <= gap <= b for a, b in found.confidence_set)
        predicted = [np.interp(np.log(gap), np.log(x), v) for x, v in zip(gaps, y, strict=True)]
        assert inside == (stats.ttest_1samp(predicted, 0).pvalue >= 0.05)


def test_slopes_are_least_squares() -> None:
    gaps, y = study()
    slope, _ = np.polyfit(np.log(gaps[0]), y[0], 1)
    assert seed_slopes(np.log(gaps), y)[0, 0] == pytest.approx(slope)


def test_curves_cover_what_all_seeds_cover() -> None:
    knots, curves = seed_curves(
        np.array([[2.0, 1.0, 3.0], [1.5, 1.5, 4.0]]), np.array([[0.0, 1.0, 2.0], [1.0, 3.0, 7.0]])
    )
    assert knots == pytest.approx([1.5, 2.0, 3.0])
    assert curves == pytest.approx(np.array([[0.5, 0.0, 2.0], [2.0, 3.0, 5.0]]))


def test_a_flat_noisy_study_bounds_nothing_and_says_so() -> None:
    generator = np.random.default_rng(0)
    gaps, _ = study()
    found = break_even(gaps, generator.normal(size=gaps.shape))
    assert found.is_unbounded()


@pytest.mark.parametrize(("sign", "who"), [(1, "on-policy distillation"), (-1, "SFT")])
def test_no_crossing_at_all(sign: int, who: str) -> None:
    found = break_even(np.tile(LEVELS, (3, 1)), np.full((3, 5), 2.0 * sign))
    assert found.crossing_nats is None
    assert found.confidence_set == ()
    assert found.sentence() == f"no break-even from 0.05 to 1 nats: {who} ahead throughout"


def test_a_set_that_reaches_the_end_is_open() -> None:
    gaps = np.tile(LEVELS, (3, 1))
    y = np.log(gaps / 1.05) + np.array([[0.1], [0.0], [-0.1]])
    found = break_even(gaps, y)
    assert found.crossing_nats is None
    assert found.confidence_set[-1][1] == np.inf
    assert "SFT ahead throughout (95 % set from" in found.sentence()


def test_direction_is_named() -> None:
    gaps, y = study(spread=0.01)
    assert "on-policy distillation ahead above" in break_even(gaps, y).sentence()
    assert "SFT ahead above" in break_even(gaps, -y).sentence()


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
    with pytest.raises(ValueError, match="share no range"):
        break_even(np.array([[1.0, 2.0], [3.0, 4.0]]), np.ones((2, 2)))
