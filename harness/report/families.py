"""Which of many contrasts hold together, and what is each arm's verdict?

Westfall & Young 1993, Romano & Wolf 2005 (step-down max-T); Lakens 2017 (TOST).
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float
from scipy import stats

from harness.report.stats import (
    ALPHA,
    SMALLEST_TESTABLE,
    TIE,
    Interval,
    flipped_statistics,
    paired_t_p,
    standard_error,
    t_statistic,
)

Word = Literal["better", "worse", "equivalent", "inconclusive"]
Method = Literal["max-T", "Holm"]


@dataclass(frozen=True, kw_only=True)
class Family:
    """Adjusted p of every arm, and the |t| that simultaneous 95 % intervals reach to."""

    method: Method
    adjusted_p: Float[np.ndarray, " arms"]
    critical_t: float


def is_coarse(seeds: int, arms: int) -> bool:
    """Whether 2^seeds flips are too few for max-T over `arms` to reach .05."""
    return seeds < 1 + math.log2(max(arms, 1) / ALPHA)


def compare(differences: Float[np.ndarray, "seeds arms"]) -> Family:
    """All arms against their control: step-down max-T, or Holm where the lattice is too coarse."""
    seeds, arms = differences.shape
    if arms == 0 or is_coarse(seeds, arms):
        bonferroni = stats.t.isf(ALPHA / (2 * max(arms, 1)), seeds - 1)
        adjusted = holm(paired_t_p(differences))
        return Family(method="Holm", adjusted_p=adjusted, critical_t=float(bonferroni))
    statistics = flipped_statistics(differences)
    return Family(
        method="max-T",
        adjusted_p=step_down(statistics),
        critical_t=_critical_t(statistics.max(axis=1), seeds),
    )


def step_down(statistics: Float[np.ndarray, "flips arms"]) -> Float[np.ndarray, " arms"]:
    """Step-down max-T p of the first row, the observed one, within all rows.

    The arm that ranks k-th is judged by the largest statistic of itself and all that rank below.
    """
    order = np.argsort(-statistics[0], kind="stable")
    ranked = statistics[:, order]
    largest = np.maximum.accumulate(ranked[:, ::-1], axis=1)[:, ::-1]
    p = np.maximum.accumulate((largest >= ranked[0] - TIE).mean(axis=0))
    adjusted = np.empty_like(p)
    adjusted[order] = p
    return adjusted


def _critical_t(largest: Float[np.ndarray, " flips"], seeds: int) -> float:
    """The |t| that single-step max-T must exceed to reject at .05."""
    r = np.sort(largest)[::-1][int(ALPHA * len(largest))] + TIE
    return float(np.sqrt((seeds - 1) / max(1 - r**2, 1e-300)) * r)


def simultaneous(differences: Float[np.ndarray, "seeds arms"], critical_t: float) -> list[Interval]:
    """Mean +- critical_t standard errors: all columns are covered together in 95 % of studies."""
    half = critical_t * standard_error(differences)
    return [
        Interval(estimate=float(m), low=float(m - h), high=float(m + h))
        for m, h in zip(differences.mean(axis=0), half, strict=True)
    ]


def holm(p: Float[np.ndarray, " arms"]) -> Float[np.ndarray, " arms"]:
    """Holm's step-down adjustment: family error under any dependence."""
    order = np.argsort(p, kind="stable")
    adjusted = np.empty_like(p)
    factors = np.arange(len(p), 0, -1)
    adjusted[order] = np.minimum(np.maximum.accumulate(p[order] * factors), 1.0)
    return adjusted


def benjamini_hochberg(p: Float[np.ndarray, " tests"]) -> Float[np.ndarray, " tests"]:
    """False-discovery-rate adjustment, for what is labelled exploratory."""
    if len(p) == 0:
        return p
    adjusted: Float[np.ndarray, " tests"] = stats.false_discovery_control(p, method="bh")
    return adjusted


def tost_p(
    differences: Float[np.ndarray, "seeds arms"], margin: float
) -> Float[np.ndarray, " arms"]:
    """p of "outside +-margin": the larger of the two one-sided paired t tests."""
    if not margin > 0:
        raise ValueError(f"margin must be positive, got {margin}")
    freedom = len(differences) - 1
    above = stats.t.sf(t_statistic(differences, -margin), freedom)
    below = stats.t.cdf(t_statistic(differences, margin), freedom)
    p: Float[np.ndarray, " arms"] = np.maximum(above, below)
    return p


def noninferiority_p(differences: Float[np.ndarray, "seeds domains"], margin: float) -> float:
    """p of "worse by `margin` or more in some domain": the largest one-sided p (Berger 1982).

    An intersection-union test: every domain has to pass at .05, without further correction.
    """
    freedom = len(differences) - 1
    return float(stats.t.sf(t_statistic(differences, -margin), freedom).max())


def verdict(
    estimate: float, *, seeds: int, adjusted_p: float | None, equivalence_p: float | None
) -> Word:
    """One word for a contrast; below six seeds, or without a p, always `inconclusive`.

    Equivalence goes first: a difference that is certain and too small to matter is "equivalent"
    (its stars still show that it is certain).
    """
    if seeds < SMALLEST_TESTABLE:
        return "inconclusive"
    if equivalence_p is not None and equivalence_p <= ALPHA:
        return "equivalent"
    if adjusted_p is not None and adjusted_p <= ALPHA:
        return "better" if estimate > 0 else "worse"
    return "inconclusive"
