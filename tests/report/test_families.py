import itertools

import numpy as np
import pytest
from scipy import stats

from harness.report.families import (
    benjamini_hochberg,
    compare,
    holm,
    is_coarse,
    noninferiority_p,
    tost_p,
    verdict,
)
from harness.report.stats import paired_t, sign_flip_p


def family(seeds: int = 8, arms: int = 3) -> np.ndarray:
    generator = np.random.default_rng(3)
    shared = generator.normal(size=(seeds, 1))
    return shared + generator.normal(size=(seeds, arms)) + np.linspace(0, 2, arms)


def brute_force(differences: np.ndarray) -> list[float]:
    """Westfall & Young, word for word."""

    def t(values: np.ndarray) -> np.ndarray:
        return np.abs(stats.ttest_1samp(values, 0, axis=0).statistic)

    observed = t(differences)
    order = list(np.argsort(-observed))
    flipped = [
        t(differences * np.array(s)[:, None])
        for s in itertools.product([1, -1], repeat=len(differences))
    ]
    adjusted, previous = {}, 0.0
    for rank, arm in enumerate(order):
        left = order[rank:]
        p = np.mean([f[left].max() >= observed[arm] - 1e-9 for f in flipped])
        previous = max(previous, float(p))
        adjusted[arm] = previous
    return [adjusted[arm] for arm in range(differences.shape[1])]


def test_max_t_equals_brute_force() -> None:
    differences = family()
    result = compare(differences)
    assert result.method == "max-T"
    assert result.adjusted_p.tolist() == pytest.approx(brute_force(differences))


def test_one_arm_is_not_adjusted() -> None:
    differences = family(arms=1)
    assert compare(differences).adjusted_p == pytest.approx(sign_flip_p(differences))


def test_adjusted_p_is_at_least_the_raw_one_and_at_most_its_bonferroni() -> None:
    differences = family(10, 6)
    raw, adjusted = sign_flip_p(differences), compare(differences).adjusted_p
    assert (adjusted >= raw).all()
    assert (adjusted <= np.minimum(6 * np.maximum.accumulate(np.sort(raw)).max(), 1)).all()


def test_scale_of_one_arm_changes_no_p() -> None:
    differences = family(10, 4)
    scaled = differences * np.array([1.0, 2.0**-600, 1.0, 8.0])
    assert (compare(scaled).adjusted_p == compare(differences).adjusted_p).all()


def test_an_arm_without_any_difference_changes_nothing() -> None:
    differences = family(10, 4)
    widened = np.concatenate([differences, np.zeros((10, 1))], axis=1)
    assert compare(widened).adjusted_p[:4].tolist() == compare(differences).adjusted_p.tolist()


def test_an_interval_excludes_zero_exactly_where_the_single_step_test_rejects() -> None:
    for seed in range(50):
        values = np.random.default_rng(seed).normal(loc=0.8, size=(7, 1))
        (interval,) = paired_t(values)
        reach = compare(values).critical_t * (interval.high - interval.estimate)
        excluded = abs(interval.estimate) > reach / stats.t.isf(0.025, 6)
        assert excluded == (sign_flip_p(values)[0] <= 0.05)


def test_holm_stands_in_where_the_lattice_is_coarse() -> None:
    assert is_coarse(6, 2)
    assert not is_coarse(6, 1)
    assert not is_coarse(10, 25)
    assert is_coarse(10, 26)
    assert compare(family(6, 5)).method == "Holm"


def test_holm_and_benjamini_hochberg_known_values() -> None:
    p = np.array([0.01, 0.04, 0.03, 0.005])
    assert holm(p) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert benjamini_hochberg(p) == pytest.approx([0.02, 0.04, 0.04, 0.02])
    assert len(benjamini_hochberg(np.empty(0))) == 0


def test_tost_takes_the_larger_p() -> None:
    values = (np.array([0.2, 0.5, 0.3, 0.6, 0.4, 0.1]))[:, None]  # mean .35: off centre
    below = stats.ttest_1samp(values, 1.0, alternative="less").pvalue[0]
    above = stats.ttest_1samp(values, -1.0, alternative="greater").pvalue[0]
    assert below > above
    assert tost_p(values, 1.0)[0] == pytest.approx(below)
    assert tost_p(-values, 1.0)[0] == pytest.approx(below)
    with pytest.raises(ValueError, match=r"margin must be positive, got 0\.0"):
        tost_p(values, 0.0)


def test_pairing_matters() -> None:
    generator = np.random.default_rng(5)
    shared = generator.normal(size=10)
    control, arm = shared, shared + 0.3 + 0.1 * generator.normal(size=10)
    unpaired = stats.ttest_ind(arm, control).pvalue
    assert sign_flip_p((arm - control)[:, None])[0] < 0.05 < unpaired


def test_worst_domain_must_pass() -> None:
    generator = np.random.default_rng(6)
    good = generator.normal(loc=1.0, scale=0.1, size=(10, 2))
    bad = generator.normal(loc=-0.2, scale=0.1, size=(10, 1))
    assert noninferiority_p(good, 0.1) < 1e-6
    assert noninferiority_p(np.concatenate([good, bad], axis=1), 0.1) > 0.9


@pytest.mark.parametrize(
    ("estimate", "seeds", "adjusted_p", "equivalence_p", "word"),
    [
        (1.0, 10, 0.01, 0.9, "better"),
        (-1.0, 10, 0.05, 0.9, "worse"),
        (1.0, 10, 0.06, 0.06, "inconclusive"),
        (0.001, 10, 0.01, 0.01, "equivalent"),
        (0.001, 10, 0.90, 0.01, "equivalent"),
        (1.0, 5, 0.01, 0.01, "inconclusive"),
        (1.0, 10, None, None, "inconclusive"),
    ],
)
def test_verdict(
    estimate: float, seeds: int, adjusted_p: float | None, equivalence_p: float | None, word: str
) -> None:
    given = {"seeds": seeds, "adjusted_p": adjusted_p, "equivalence_p": equivalence_p}
    assert verdict(estimate, **given) == word
