"""At which specialist gap does on-policy distillation start to beat SFT?

Per seed a least-squares line of the difference (OPD - SFT) against the log of the measured gap;
the seed is the unit. A gap belongs to the confidence set of the crossing where the t test over
seeds does not reject a predicted difference of 0 (Fieller 1954). That set may be one interval,
two rays, the whole line or nothing, and is reported as what it is.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy import stats

from harness.report.stats import ALPHA, Interval, paired_t


@dataclass(frozen=True, kw_only=True)
class BreakEven:
    """Where the mean line crosses 0, and every gap that the seeds do not rule out, in nats.

    `crossing_nats` is None for a flat mean line. `confidence_set` holds (low, high) pairs; 0 and
    inf are open ends. `slope` is the mean change of the difference per factor e of the gap, with
    its t interval over seeds.
    """

    slope: Interval
    intercept: float
    crossing_nats: float | None
    confidence_set: tuple[tuple[float, float], ...]
    measured_nats: tuple[float, float]
    seeds: int

    def sentence(self) -> str:
        """What was found, in words, extrapolation and open ends included."""
        if not self.confidence_set:
            return "no gap is compatible with a difference of 0: the lines never cross it"
        if self.crossing_nats is None:
            return "no break-even: the difference does not change with the gap"
        side = "above" if self.slope.estimate > 0 else "below"
        text = f"break-even at {self.crossing_nats:.3g} nats ({describe(self.confidence_set)}), "
        text += f"on-policy distillation ahead {side} it"
        low, high = self.measured_nats
        if not low <= self.crossing_nats <= high:
            text += f"; extrapolated, gaps from {low:.3g} to {high:.3g} nats were measured"
        if self.is_unbounded():
            text += "; the seeds do not bound it"
        return text

    def is_unbounded(self) -> bool:
        """Whether some end of the set is open."""
        return any(low == 0 or high == np.inf for low, high in self.confidence_set)


def describe(confidence_set: tuple[tuple[float, float], ...]) -> str:
    """The set as text: `95 % set 0.11 to 0.32`, with open ends named."""
    parts = []
    for low, high in confidence_set:
        if low == 0 and high == np.inf:
            return "95 % set: every gap"
        if low == 0:
            parts.append(f"up to {high:.3g}")
        elif high == np.inf:
            parts.append(f"from {low:.3g} up")
        else:
            parts.append(f"{low:.3g} to {high:.3g}")
    return "95 % set " + " and ".join(parts)


def break_even(
    gaps_nats: Float[np.ndarray, "seeds levels"], differences: Float[np.ndarray, "seeds levels"]
) -> BreakEven:
    """The crossing of `differences` (positive = OPD better) with 0 over the measured gaps.

    Raises ValueError for fewer than two seeds or levels, or a gap that is not positive.
    """
    if min(gaps_nats.shape) < 2:
        raise ValueError(f"gaps_nats needs at least 2 seeds and 2 levels, got {gaps_nats.shape}")
    if not (gaps_nats > 0).all():
        raise ValueError(f"gaps_nats must be positive, got {gaps_nats.min()}")
    lines = seed_lines(np.log(gaps_nats), differences)
    intercept, slope = (float(mean) for mean in lines.mean(axis=0))
    with np.errstate(over="ignore"):  # a nearly flat line crosses at a gap that no float holds
        crossing = None if slope == 0 else float(np.exp(-intercept / slope))
        bounds = np.exp(np.array(_fieller(lines)).reshape(-1, 2))
    return BreakEven(
        slope=paired_t(lines[:, 1:])[0],
        intercept=intercept,
        crossing_nats=crossing,
        confidence_set=tuple((float(low), float(high)) for low, high in bounds),
        measured_nats=(float(gaps_nats.min()), float(gaps_nats.max())),
        seeds=len(gaps_nats),
    )


def seed_lines(
    x: Float[np.ndarray, "seeds levels"], y: Float[np.ndarray, "seeds levels"]
) -> Float[np.ndarray, "seeds 2"]:
    """Intercept and slope of each seed's least-squares line; its levels must differ."""
    centred = x - x.mean(axis=1, keepdims=True)
    spread = (centred**2).sum(axis=1)
    if not (spread > 0).all():
        raise ValueError("x must hold at least 2 different levels on every seed")
    level = y.mean(axis=1, keepdims=True)
    slope = (centred * (y - level)).sum(axis=1) / spread  # exactly 0 for equal differences
    return np.stack([level[:, 0] - slope * x.mean(axis=1), slope], axis=1)


def _fieller(lines: Float[np.ndarray, "seeds 2"]) -> list[tuple[float, float]]:
    """All x with |t(intercept + slope x over seeds)| <= critical t, as intervals of the real line.

    n mean(x)^2 <= t^2 var(x), both quadratic in x: a x^2 + b x + c <= 0.
    """
    seeds = len(lines)
    lines = lines / (np.abs(lines).max() or 1.0)  # squares below must neither under- nor overflow
    mean = lines.mean(axis=0)
    covariance = np.cov(lines, rowvar=False)
    reach = stats.t.isf(ALPHA / 2, seeds - 1) ** 2 / seeds
    c, half_b, a = (
        mean[i] * mean[j] - reach * covariance[i, j] for i, j in ((0, 0), (0, 1), (1, 1))
    )
    discriminant = half_b**2 - a * c
    if a == 0 and half_b == 0:
        return [(-np.inf, np.inf)] if c <= 0 else []
    if a == 0:
        edge = -c / (2 * half_b)
        return [(-np.inf, edge)] if half_b > 0 else [(edge, np.inf)]
    if discriminant < 0:
        return [(-np.inf, np.inf)] if a < 0 else []
    low, high = sorted((-half_b + sign * np.sqrt(discriminant)) / a for sign in (-1, 1))
    return [(low, high)] if a > 0 else [(-np.inf, low), (high, np.inf)]
