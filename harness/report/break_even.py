"""At which specialist gap does on-policy distillation start to beat SFT?

Per seed the difference (OPD - SFT) is interpolated between the measured gaps, straight in their
logarithm; the seed is the unit. A gap belongs to the confidence set of the crossing where the t
test over seeds does not reject a difference of 0; between two measured gaps that is a quadratic
(Fieller 1954). Nothing is said beyond the gaps that every seed has measured: a set that reaches
their end is open there. The slope is that of each seed's least-squares line, over all gaps.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy import stats

from harness.report.stats import ALPHA, Interval, paired_t


@dataclass(frozen=True, kw_only=True)
class BreakEven:
    """Where the mean curve crosses 0 for the last time, and every gap not ruled out, in nats.

    `crossing_nats` is None where it does not cross. `confidence_set` holds (low, high) pairs; 0 and
    inf are open ends. `slope` is the mean change of the difference per factor e of the gap, with
    its t interval over seeds. `measured_nats` is the range that every seed covers; `ahead_above`
    says whether distillation is ahead at its upper end.
    """

    slope: Interval
    crossing_nats: float | None
    confidence_set: tuple[tuple[float, float], ...]
    measured_nats: tuple[float, float]
    ahead_above: bool
    seeds: int

    def sentence(self) -> str:
        """What was found, in words, open ends included."""
        low, high = (f"{gap:.3g}" for gap in self.measured_nats)
        ahead = "on-policy distillation" if self.ahead_above else "SFT"
        if self.crossing_nats is None:
            text = f"no break-even from {low} to {high} nats: {ahead} ahead throughout"
            return f"{text} ({describe(self.confidence_set)})" if self.confidence_set else text
        text = f"break-even at {self.crossing_nats:.3g} nats ({describe(self.confidence_set)}), "
        text += f"{ahead} ahead above it"
        if self.is_unbounded():
            text += f"; the seeds do not bound it within {low} to {high} nats"
        return text

    def is_unbounded(self) -> bool:
        """Whether some end of the set is open."""
        return any(low == 0 or high == np.inf for low, high in self.confidence_set)


def describe(confidence_set: tuple[tuple[float, float], ...]) -> str:
    """The set as text: `95 % set 0.11 to 0.32`, with open ends named."""
    parts = []
    if not confidence_set:
        return "95 % set: no gap"
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

    Raises ValueError for fewer than two seeds or levels, a gap that is not positive, or seeds that
    share no range of gaps.
    """
    if min(gaps_nats.shape) < 2:
        raise ValueError(f"gaps_nats needs at least 2 seeds and 2 levels, got {gaps_nats.shape}")
    if not (gaps_nats > 0).all():
        raise ValueError(f"gaps_nats must be positive, got {gaps_nats.min()}")
    knots, curves = seed_curves(np.log(gaps_nats), differences)
    inside = [
        piece
        for i in range(len(knots) - 1)
        for piece in _not_rejected(knots[i : i + 2], curves[:, i : i + 2])
    ]
    low, high = knots[0], knots[-1]
    return BreakEven(
        slope=paired_t(seed_slopes(np.log(gaps_nats), differences))[0],
        crossing_nats=_last_crossing(knots, curves.mean(axis=0)),
        confidence_set=tuple(
            (0.0 if a == low else float(np.exp(a)), np.inf if b == high else float(np.exp(b)))
            for a, b in _joined(inside)
        ),
        measured_nats=(float(np.exp(low)), float(np.exp(high))),
        ahead_above=bool(curves[:, -1].mean() > 0),
        seeds=len(gaps_nats),
    )


def seed_curves(
    x: Float[np.ndarray, "seeds levels"], y: Float[np.ndarray, "seeds levels"]
) -> tuple[Float[np.ndarray, " knots"], Float[np.ndarray, "seeds knots"]]:
    """Every x measured by a seed that all seeds cover, and each seed interpolated there."""
    if not share_range(x):
        raise ValueError("the seeds share no range of gaps")
    knots = np.unique(np.clip(x, x.min(axis=1).max(), x.max(axis=1).min()))
    return knots, np.stack([_interpolated(knots, *seed) for seed in zip(x, y, strict=True)])


def share_range(x: Float[np.ndarray, "seeds levels"]) -> bool:
    """Whether there is a range of x that every seed covers."""
    return bool(x.min(axis=1).max() < x.max(axis=1).min())


def _interpolated(
    at: Float[np.ndarray, " knots"],
    x: Float[np.ndarray, " levels"],
    y: Float[np.ndarray, " levels"],
) -> Float[np.ndarray, " knots"]:
    """Straight between the points; those of equal x count as their mean."""
    distinct, place = np.unique(x, return_inverse=True)
    means = np.bincount(place, weights=y) / np.bincount(place)
    values: Float[np.ndarray, " knots"] = np.interp(at, distinct, means)
    return values


def seed_slopes(
    x: Float[np.ndarray, "seeds levels"], y: Float[np.ndarray, "seeds levels"]
) -> Float[np.ndarray, "seeds 1"]:
    """Slope of each seed's least-squares line; exactly 0 for equal differences."""
    centred = x - x.mean(axis=1, keepdims=True)
    level = y.mean(axis=1, keepdims=True)
    slopes: Float[np.ndarray, "seeds 1"] = (centred * (y - level)).sum(axis=1, keepdims=True)
    slopes /= (centred**2).sum(axis=1, keepdims=True)
    return slopes


def _last_crossing(
    knots: Float[np.ndarray, " knots"], mean: Float[np.ndarray, " knots"]
) -> float | None:
    """The largest gap, nats, at which the mean curve changes sign."""
    changes = np.flatnonzero(np.sign(mean[:-1]) * np.sign(mean[1:]) <= 0)
    changes = changes[mean[changes] != mean[changes + 1]]  # flat at 0: no single place
    if not len(changes):
        return None
    i = changes[-1]
    share = mean[i] / (mean[i] - mean[i + 1])
    return float(np.exp(knots[i] + share * (knots[i + 1] - knots[i])))


def _not_rejected(
    ends: Float[np.ndarray, "2"], values: Float[np.ndarray, "seeds 2"]
) -> list[tuple[float, float]]:
    """Where between two knots the t test over seeds does not reject a difference of 0."""
    lines = np.stack([values[:, 0], values[:, 1] - values[:, 0]], axis=1)
    pieces = []
    for low, high in _fieller(lines):
        low, high = max(low, 0.0), min(high, 1.0)
        if low <= high:
            a, b = (ends[0] + share * (ends[1] - ends[0]) for share in (low, high))
            pieces.append((ends[0] if low == 0 else a, ends[1] if high == 1 else b))
    return pieces


def _joined(pieces: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Pieces in rising order, those that touch made one."""
    joined: list[tuple[float, float]] = []
    for low, high in pieces:
        if joined and low <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(high, joined[-1][1]))
        else:
            joined.append((low, high))
    return joined


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
