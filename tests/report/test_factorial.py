import numpy as np
import pytest
from scipy import stats

from harness.report.factorial import blocked_anova, noncentrality

ARMS = ["a0", "a1", "b0", "b1"]
FACTORS = {arm: {"the 'letter'": arm[0], "digit (%)": arm[1], "same": "x"} for arm in ARMS}


def values(interaction: float = 0.0) -> np.ndarray:
    noise = np.random.default_rng(2).normal(size=(12, 4)) * 0.1
    seeds = np.random.default_rng(3).normal(size=(12, 1))
    return seeds + noise + np.array([0, 0, 0.3, 0.3]) + interaction * np.array([0, 0, 0, 1])


def test_balanced_two_by_two_by_hand() -> None:
    data = values()
    effects = {effect.term: effect for effect in blocked_anova(data, ARMS, FACTORS)}
    letter = effects[("the 'letter'",)]
    residuals = data - data.mean(axis=1, keepdims=True) - data.mean(axis=0) + data.mean()
    error = (residuals**2).sum() / 33
    contrast = (data[:, 2:].mean() - data[:, :2].mean()) ** 2 * 12
    assert letter.f == pytest.approx(contrast / error)
    assert (letter.freedom, letter.residual_freedom) == (1, 33)
    assert letter.p == pytest.approx(stats.f.sf(letter.f, 1, 33))
    excess = letter.f - 1
    assert letter.omega_squared.estimate == pytest.approx(excess / (excess + 48))


def test_terms_are_main_effects_and_pairs_of_factors_that_vary() -> None:
    terms = [effect.term for effect in blocked_anova(values(), ARMS, FACTORS)]
    assert terms == [("the 'letter'",), ("digit (%)",), ("the 'letter'", "digit (%)")]


def test_an_interaction_is_found() -> None:
    found = {effect.term: effect.p for effect in blocked_anova(values(0.5), ARMS, FACTORS)}
    assert found[("the 'letter'", "digit (%)")] < 1e-4


def test_scale_changes_nothing() -> None:
    one = blocked_anova(values(0.1), ARMS, FACTORS)
    other = blocked_anova(values(0.1) * 2.0**-600, ARMS, FACTORS)
    assert [e.p for e in other] == [e.p for e in one]


@pytest.mark.parametrize("tail", [0.025, 0.975])
def test_noncentrality_inverts_the_distribution(tail: float) -> None:
    centre = noncentrality(12.0, 2, 30, tail)
    assert stats.ncf.cdf(12.0, 2, 30, centre) == pytest.approx(tail, abs=1e-6)
    assert noncentrality(0.1, 2, 30, 0.975) == 0.0


def test_intervals_hold_the_estimate() -> None:
    for effect in blocked_anova(values(0.2), ARMS, FACTORS):
        share = effect.omega_squared
        assert 0 <= share.low <= share.estimate <= share.high <= 1


def test_refusals() -> None:
    with pytest.raises(ValueError, match="values must vary"):
        blocked_anova(np.ones((3, 4)), ARMS, FACTORS)
    with pytest.raises(ValueError, match="at least 2 seeds, got 1"):
        blocked_anova(values()[:1], ARMS, FACTORS)
    with pytest.raises(ValueError, match="got none of 'b1'"):
        blocked_anova(values(), ARMS, {arm: FACTORS[arm] for arm in ARMS[:3]})
