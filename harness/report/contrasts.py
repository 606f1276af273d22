"""What came of each arm against its control?"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from harness.report.failures import mcnemar_p, rank_differences
from harness.report.families import (
    Family,
    Word,
    compare,
    noninferiority_p,
    simultaneous,
    tost_p,
    verdict,
)
from harness.report.outcomes import BUDGETS, World
from harness.report.stats import (
    SMALLEST_TESTABLE,
    Interval,
    detectable_effect,
    hedges_dz,
    is_constant,
    paired_t,
    sign_flip_p,
    standard_error,
)


@dataclass(frozen=True, kw_only=True)
class WorstDomain:
    """The domain where an arm does worst against its control, its interval over all domains.

    `noninferior_p` belongs to "worse by the margin in some domain".
    """

    domain: str
    difference: Interval
    noninferior_p: float


@dataclass(frozen=True, kw_only=True)
class Contrast:
    """One arm against its control on one metric; differences are positive where the arm is better.

    `interval` is the paired t interval over the `pairs` seeds that finished in both; where some
    diverged it is `conditional` on finishing, and p values and `direction` (the sign) are those of
    ranks over all `seeds`.
    `identical`: the difference does not vary over seeds, so there is no p.
    """

    arm: str
    control: str
    metric: str
    seeds: int
    pairs: int
    finished: int
    planned: int
    diverged: int
    conditional: bool
    identical: bool
    interval: Interval | None
    simultaneous: Interval | None
    effect_size: float | None
    improved: int
    direction: float
    p: float | None
    adjusted_p: float | None
    equivalence_p: float | None
    mcnemar_p: float | None
    detectable: float | None
    verdict: Word
    worst: WorstDomain | None
    off_budget: bool
    budget_ratio: Mapping[str, float | None]


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A family of contrasts, and how it was adjusted (None: too few seeds to test at all)."""

    contrasts: tuple[Contrast, ...]
    method: str | None
    size: int

    def __getitem__(self, arm: str) -> Contrast:
        return next(c for c in self.contrasts if c.arm == arm)


@dataclass(frozen=True, kw_only=True)
class _Pair:
    """The paired data of one contrast, oriented so that higher is better; NaN = diverged."""

    arm: str
    control: str
    treatment: Float[np.ndarray, "seeds domains"]
    reference: Float[np.ndarray, "seeds domains"]

    @property
    def both(self) -> Bool[np.ndarray, " seeds"]:
        finished: Bool[np.ndarray, " seeds"] = ~np.isnan(self.treatment + self.reference).any(
            axis=1
        )
        return finished

    @property
    def macro(self) -> Float[np.ndarray, "pairs 1"]:
        """Differences of the seeds that finished in both, meaned over domains."""
        domains = (self.treatment - self.reference)[self.both]
        means: Float[np.ndarray, "pairs 1"] = domains.mean(axis=1, keepdims=True)
        return means

    @property
    def tested(self) -> Float[np.ndarray, "seeds 1"]:
        """What p values are made of: the differences, or those of ranks where runs diverged."""
        if self.both.all():
            return self.macro
        ranks = rank_differences(self.treatment.mean(axis=1), self.reference.mean(axis=1))
        return ranks[:, None]

    @property
    def identical(self) -> bool:
        if not self.both.all():
            return bool(np.ptp(self.tested) == 0)
        scale = np.max(np.abs([self.treatment, self.reference]), initial=0.0)
        return bool(is_constant(self.macro, float(scale))[0])


def contrasts(
    world: World, pairs: Sequence[tuple[str, str]], metric: str, *, tested: bool = True
) -> Comparison:
    """Every (arm, control) of `pairs` as one family; untested ones get intervals only."""
    sign = world.sign(metric)
    data = [
        _Pair(
            arm=arm,
            control=control,
            treatment=sign * world.values(arm, metric),
            reference=sign * world.values(control, metric),
        )
        for arm, control in pairs
    ]
    seeds = len(world.seeds)
    varying = [pair for pair in data if not pair.identical] if seeds > 1 else []
    family = compare(np.concatenate([p.tested for p in varying], axis=1)) if varying else None
    testable = tested and seeds >= SMALLEST_TESTABLE
    adjusted = {}
    if family and testable:
        adjusted = {p.arm: float(q) for p, q in zip(varying, family.adjusted_p, strict=True)}
    found = [_contrast(world, p, metric, family, adjusted.get(p.arm), len(data)) for p in data]
    method = family.method if family and testable else None
    return Comparison(contrasts=tuple(found), method=method, size=len(varying))


def _contrast(
    world: World,
    pair: _Pair,
    metric: str,
    family: Family | None,
    adjusted_p: float | None,
    family_size: int,
) -> Contrast:
    macro, diverged = pair.macro, world.diverged(pair.arm)
    several = len(macro) > 1
    conditional = not bool(pair.both.all())
    testable = adjusted_p is not None
    equivalence = None
    if several and not conditional and not pair.identical:
        equivalence = float(tost_p(macro, world.section.margin)[0])
    finished = [r.status == "finished" for r in world.records[pair.arm].values()]
    direction = float(np.sign(pair.tested.mean())) if len(pair.tested) else 0.0
    return Contrast(
        arm=pair.arm,
        control=pair.control,
        metric=metric,
        seeds=len(world.seeds),
        pairs=len(macro),
        finished=sum(finished),
        planned=world.planned,
        diverged=len(finished) - sum(finished),
        conditional=conditional,
        identical=len(world.seeds) > 1 and pair.identical,
        interval=_interval(macro),
        simultaneous=_simultaneous(macro, family) if not conditional else None,
        effect_size=_number(hedges_dz(macro)[0]) if several and not pair.identical else None,
        improved=int((macro > 0).sum()),
        direction=direction,
        p=float(sign_flip_p(pair.tested)[0]) if testable else None,
        adjusted_p=adjusted_p,
        equivalence_p=equivalence,
        mcnemar_p=_mcnemar(diverged, world.diverged(pair.control)),
        detectable=_detectable(macro, family_size),
        verdict=verdict(
            direction,
            seeds=len(world.seeds),
            adjusted_p=adjusted_p,
            equivalence_p=equivalence if testable else None,
        ),
        worst=_worst_domain(world, pair, metric) if several and not conditional else None,
        off_budget=world.is_off_budget(pair.arm, pair.control),
        budget_ratio={k: world.budget_ratio(pair.arm, pair.control, k) for k in BUDGETS},
    )


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _interval(macro: Float[np.ndarray, "pairs 1"]) -> Interval | None:
    """The paired t interval; of a single pair only the estimate, without bounds."""
    if len(macro) == 0:
        return None
    if len(macro) == 1:
        return Interval(estimate=float(macro[0, 0]), low=-np.inf, high=np.inf)
    return paired_t(macro)[0]


def _simultaneous(macro: Float[np.ndarray, "pairs 1"], family: Family | None) -> Interval | None:
    if family is None or len(macro) < 2:
        return None
    return simultaneous(macro, family.critical_t)[0]


def _mcnemar(arm: Bool[np.ndarray, " seeds"], control: Bool[np.ndarray, " seeds"]) -> float | None:
    return mcnemar_p(arm, control) if arm.any() or control.any() else None


def _detectable(macro: Float[np.ndarray, "pairs 1"], comparisons: int) -> float | None:
    """The true difference that a study like this finds in 80 % of cases."""
    if len(macro) < 2:
        return None
    deviation = float(standard_error(macro)[0] * np.sqrt(len(macro)))
    return detectable_effect(len(macro), max(comparisons, 1)) * deviation


def _worst_domain(world: World, pair: _Pair, metric: str) -> WorstDomain:
    differences = pair.treatment - pair.reference
    bands = simultaneous(differences, compare(differences).critical_t)
    worst = int(np.argmin(differences.mean(axis=0)))
    return WorstDomain(
        domain=world.domains(metric)[worst],
        difference=bands[worst],
        noninferior_p=noninferiority_p(differences, world.section.margin),
    )
