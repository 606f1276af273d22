"""What does one paired contrast say: estimate, interval, p, effect size, detectable effect?

Arrays are [seeds, arms]: a column holds one arm's differences from its control, positive where the
arm is better, and columns are treated alone (families.py joins them). The unit is the seed.
Nothing here depends on the scale of the values: sums of squares are taken of values divided by a
power of two, so that 1e-200 neither underflows nor changes a bit of a p value.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from jaxtyping import Bool, Float
from scipy import optimize, special, stats

ALPHA = 0.05
EXACT_SEEDS = 14
RANDOM_FLIPS = 9_999
SMALLEST_TESTABLE = 6  # with five seeds the exact two-sided p cannot fall below .0625
TIE = 1e-10  # flips closer than this count as equal: summation order must not decide a p value


@dataclass(frozen=True, kw_only=True)
class Interval:
    """An estimate between two bounds that hold at `confidence`."""

    estimate: float
    low: float
    high: float
    confidence: float = 1 - ALPHA


def scaled(values: Float[np.ndarray, "seeds arms"]) -> Float[np.ndarray, "seeds arms"]:
    """Each column over the power of two above its largest magnitude; a zero column stays zero."""
    _, exponents = np.frexp(np.abs(values).max(axis=0, initial=0.0))
    unit: Float[np.ndarray, "seeds arms"] = np.ldexp(values, -exponents)
    return unit


def is_constant(
    differences: Float[np.ndarray, "seeds arms"], scale: float
) -> Bool[np.ndarray, " arms"]:
    """Columns that vary over seeds by rounding only, given the magnitude of what was subtracted.

    Such a column has no p: scipy would answer NaN for equal pairs and 0 for a constant shift.
    """
    constant: Bool[np.ndarray, " arms"] = np.ptp(differences, axis=0) <= 1e-12 * abs(scale)
    return constant


def standard_error(differences: Float[np.ndarray, "seeds arms"]) -> Float[np.ndarray, " arms"]:
    """Standard error of each column's mean."""
    _check_seeds(differences, 2)
    _, exponents = np.frexp(np.abs(differences).max(axis=0))
    deviation = scaled(differences).std(axis=0, ddof=1)
    error: Float[np.ndarray, " arms"] = np.ldexp(deviation, exponents) / np.sqrt(len(differences))
    return error


def paired_t(
    differences: Float[np.ndarray, "seeds arms"], confidence: float = 1 - ALPHA
) -> list[Interval]:
    """Student's paired t interval of each column's mean."""
    half = stats.t.ppf((1 + confidence) / 2, len(differences) - 1) * standard_error(differences)
    means = differences.mean(axis=0)
    return [
        Interval(estimate=float(m), low=float(m - h), high=float(m + h), confidence=confidence)
        for m, h in zip(means, half, strict=True)
    ]


def t_statistic(
    differences: Float[np.ndarray, "seeds arms"], null: float = 0.0
) -> Float[np.ndarray, " arms"]:
    """(mean - null) / standard error; infinite for a constant column off the null, 0 on it."""
    gap = differences.mean(axis=0) - null
    error = standard_error(differences)
    infinite = np.where(gap == 0, 0.0, np.copysign(np.inf, gap))
    t: Float[np.ndarray, " arms"] = np.divide(gap, error, out=infinite, where=error > 0)
    return t


def paired_t_p(differences: Float[np.ndarray, "seeds arms"]) -> Float[np.ndarray, " arms"]:
    """Two-sided p of the paired t test."""
    p: Float[np.ndarray, " arms"] = 2 * stats.t.sf(
        np.abs(t_statistic(differences)), len(differences) - 1
    )
    return p


@lru_cache(maxsize=4)
def sign_flips(seeds: int) -> Float[np.ndarray, "flips seeds"]:
    """All 2^seeds sign vectors up to 14 seeds, else 9,999 random ones; the identity comes first.

    The random ones are drawn from a fixed seed: a p value is a function of the data alone.
    """
    if seeds <= EXACT_SEEDS:
        negative = (np.arange(2**seeds)[:, None] >> np.arange(seeds)) & 1
    else:
        random = np.random.default_rng(20_210_318).integers(0, 2, size=(RANDOM_FLIPS, seeds))
        negative = np.concatenate([np.zeros((1, seeds), dtype=random.dtype), random])
    signs: Float[np.ndarray, "flips seeds"] = 1.0 - 2.0 * negative
    return signs


def flipped_statistics(
    differences: Float[np.ndarray, "seeds arms"],
) -> Float[np.ndarray, "flips arms"]:
    """|mean| / root mean square of each column under every sign flip, between 0 and 1.

    |t| = sqrt(n - 1) r / sqrt(1 - r^2) rises with this r and depends on nothing else, so ordering
    flips (and arms of equal n) by r is ordering them by |t|, without an infinity at r = 1.
    """
    unit = scaled(differences)
    rms = np.sqrt((unit**2).mean(axis=0))
    unit = np.divide(unit, rms, out=np.zeros_like(unit), where=rms > 0)
    means = np.abs(sign_flips(len(unit)) @ unit) / len(unit)
    r: Float[np.ndarray, "flips arms"] = np.minimum(means, 1.0)
    return r


def sign_flip_p(differences: Float[np.ndarray, "seeds arms"]) -> Float[np.ndarray, " arms"]:
    """Two-sided p: the share of flips whose |t| reaches the observed one, itself included."""
    statistics = flipped_statistics(differences)
    p: Float[np.ndarray, " arms"] = (statistics >= statistics[0] - TIE).mean(axis=0)
    return p


def hedges_dz(differences: Float[np.ndarray, "seeds arms"]) -> Float[np.ndarray, " arms"]:
    """Mean over standard deviation of the differences, times Hedges' small-sample factor.

    Hedges 1981, exact gamma form. NaN for a constant column and for fewer than three seeds.
    """
    freedom = len(differences) - 1
    nothing = np.full(differences.shape[1], np.nan)
    if freedom < 2:
        return nothing
    log_factor = special.gammaln(freedom / 2) - special.gammaln((freedom - 1) / 2)
    factor = np.exp(log_factor) / np.sqrt(freedom / 2)
    unit = scaled(differences)
    deviation = unit.std(axis=0, ddof=1)
    effect = np.divide(unit.mean(axis=0), deviation, out=nothing, where=deviation > 0)
    corrected: Float[np.ndarray, " arms"] = factor * effect
    return corrected


def wilson(successes: int, trials: int) -> Interval:
    """A share with Wilson's 95 % interval (Wilson 1927)."""
    result = stats.binomtest(successes, trials).proportion_ci(method="wilson")
    return Interval(estimate=successes / trials, low=float(result.low), high=float(result.high))


@lru_cache(maxsize=256)
def detectable_effect(seeds: int, comparisons: int = 1, power: float = 0.8) -> float:
    """The effect, in standard deviations of the paired difference, found with `power`.

    Found means significant with the right sign in a two-sided paired t test at
    .05 / comparisons: Bonferroni bounds max-T from above.
    """
    if seeds < 2:
        raise ValueError(f"seeds must be at least 2, got {seeds}")
    freedom = seeds - 1
    critical = stats.t.isf(ALPHA / (2 * comparisons), freedom)

    def missing_power(effect: float) -> float:
        centre = effect * np.sqrt(seeds)
        return float(stats.nct.sf(critical, freedom, centre) - power)

    return float(optimize.brentq(missing_power, 1e-6, 2 * (critical + 4) / np.sqrt(seeds)))


def _check_seeds(differences: Float[np.ndarray, "seeds arms"], least: int) -> None:
    if len(differences) < least:
        raise ValueError(f"differences needs at least {least} paired seeds, got {len(differences)}")
