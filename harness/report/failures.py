"""What can be said when some seeds diverged?

A diverged seed is an outcome, worse than every finished one; it is never dropped from one arm only.
Worst-rank scores: Lachin 1999.
"""

import numpy as np
from jaxtyping import Bool, Float
from scipy import stats

from harness.report.stats import Interval


def clopper_pearson(failures: int, trials: int) -> Interval:
    """A failure rate with its exact 95 % interval (Clopper & Pearson 1934)."""
    result = stats.binomtest(failures, trials).proportion_ci(method="exact")
    return Interval(estimate=failures / trials, low=float(result.low), high=float(result.high))


def mcnemar_p(one: Bool[np.ndarray, " seeds"], other: Bool[np.ndarray, " seeds"]) -> float:
    """Exact two-sided McNemar p: do two arms diverge on different numbers of the same seeds?"""
    only_one, only_other = int((one & ~other).sum()), int((other & ~one).sum())
    if only_one + only_other == 0:
        return 1.0
    return float(stats.binomtest(only_one, only_one + only_other).pvalue)


def rank_differences(
    treatment: Float[np.ndarray, " seeds"], control: Float[np.ndarray, " seeds"]
) -> Float[np.ndarray, " seeds"]:
    """Per seed, the treatment's rank minus the control's, among the values of both; NaN = diverged.

    Higher values are better; diverged runs share the lowest rank. Exchanging the two arms on a
    seed flips the sign of its entry and nothing else, so sign-flip tests stay exact.
    """
    pooled = np.concatenate([treatment, control])
    ranks = stats.rankdata(np.where(np.isnan(pooled), -np.inf, pooled))
    difference: Float[np.ndarray, " seeds"] = ranks[: len(treatment)] - ranks[len(treatment) :]
    return difference
