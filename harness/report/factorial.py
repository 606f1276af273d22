"""Which factors of a full factorial matter, and which pairs of them act together?

One observation per seed and arm; the seed is a block, so that what a seed fixes is no noise.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd
from jaxtyping import Float
from scipy import optimize, stats
from statsmodels.formula.api import ols
from statsmodels.stats.anova import anova_lm

from harness.report.stats import Interval, scaled


@dataclass(frozen=True, kw_only=True)
class Effect:
    """One line of the ANOVA table; `omega_squared` is partial, with a 95 % interval."""

    term: tuple[str, ...]
    freedom: int
    residual_freedom: int
    f: float
    p: float
    omega_squared: Interval


def blocked_anova(
    values: Float[np.ndarray, "seeds arms"],
    arms: Sequence[str],
    factors: Mapping[str, Mapping[str, str]],
) -> list[Effect]:
    """Type II ANOVA with seeds as blocks: main effects and two-way interactions.

    `factors` maps an arm to its level of every factor. A factor of one level is left out.
    Raises ValueError for fewer than two seeds, an unknown level, or values that never vary.
    """
    if len(values) < 2:
        raise ValueError(f"values needs at least 2 seeds, got {len(values)}")
    if not np.ptp(values, axis=None) > 0:
        raise ValueError("values must vary, got one value everywhere")
    names = _varied_factors(arms, factors)
    frame = _frame(values, arms, factors, names)
    codes = {f"f{i}": name for i, name in enumerate(names)}
    pairs = [f"C({a}):C({b})" for a, b in combinations(codes, 2)]
    formula = " + ".join(["C(seed)", *(f"C({code})" for code in codes), *pairs])
    table = anova_lm(ols(f"value ~ {formula}", frame).fit(), typ=2)
    residual = int(table.loc["Residual", "df"])
    effects = []
    for label, row in table.iterrows():
        if label not in ("Residual", "C(seed)"):
            term = tuple(codes[part[2:-1]] for part in str(label).split(":"))
            effects.append(_effect(term, row["F"], round(row["df"]), residual, values.size))
    return effects


def _varied_factors(arms: Sequence[str], factors: Mapping[str, Mapping[str, str]]) -> list[str]:
    missing = [arm for arm in arms if arm not in factors]
    if missing:
        raise ValueError(f"factors must give the levels of every arm, got none of {missing[0]!r}")
    names = list(dict.fromkeys(name for arm in arms for name in factors[arm]))
    for name in names:
        without = [arm for arm in arms if name not in factors[arm]]
        if without:
            raise ValueError(f"factors must give {name!r} of every arm, got none of {without[0]!r}")
    return [name for name in names if len({factors[arm][name] for arm in arms}) > 1]


def _frame(
    values: Float[np.ndarray, "seeds arms"],
    arms: Sequence[str],
    factors: Mapping[str, Mapping[str, str]],
    names: Sequence[str],
) -> pd.DataFrame:
    """One row per seed and arm; columns f0, f1 ... since factor names may hold any character."""
    unit = scaled(values.reshape(-1, 1)).ravel()  # one scale for all: F and p do not depend on it
    rows = {"value": unit, "seed": np.repeat(np.arange(len(values)), len(arms))}
    for i, name in enumerate(names):
        rows[f"f{i}"] = np.tile([factors[arm][name] for arm in arms], len(values))
    return pd.DataFrame(rows)


def _effect(
    term: tuple[str, ...], f: float, freedom: int, residual: int, observations: int
) -> Effect:
    """Partial omega squared, df (F - 1) / (df (F - 1) + N), not below 0.

    Olejnik & Algina 2003.
    """
    excess = max(freedom * (f - 1), 0.0)
    low, high = (noncentrality(f, freedom, residual, tail) for tail in (0.975, 0.025))
    share = Interval(
        estimate=excess / (excess + observations),
        low=low / (low + observations),
        high=high / (high + observations),
    )
    p = float(stats.f.sf(f, freedom, residual))
    return Effect(
        term=term, freedom=freedom, residual_freedom=residual, f=float(f), p=p, omega_squared=share
    )


def noncentrality(f: float, freedom: int, residual: int, tail: float) -> float:
    """The noncentrality under which an F below `f` has probability `tail`; 0 if none has.

    Steiger 2004: the bounds of an effect size by inverting the noncentral F distribution.
    """

    def excess(centre: float) -> float:
        central = stats.f.cdf(f, freedom, residual)  # ncf.cdf is not defined at centre 0
        return float((stats.ncf.cdf(f, freedom, residual, centre) if centre else central) - tail)

    if not np.isfinite(f):
        return float("inf")
    if excess(0.0) <= 0:
        return 0.0
    upper = 1.0
    while excess(upper) > 0:
        upper *= 2
    return float(optimize.brentq(excess, 0.0, upper))
