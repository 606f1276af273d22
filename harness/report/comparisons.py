"""Which contrasts of a world belong together, and what else does a table of it state?"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from harness.report.contrasts import Comparison, Contrast, contrasts
from harness.report.families import benjamini_hochberg, compare
from harness.report.outcomes import World
from harness.report.stats import ALPHA, SMALLEST_TESTABLE, is_constant, standard_error


def primary(world: World) -> Comparison:
    """The declared arms against their controls on the primary metric: the family that decides."""
    return contrasts(world, _pairs(world, world.section.arms), world.section.metric)


def matched_controls(world: World) -> list[str]:
    """Controls that mirror the baseline's budget, not those paired with single arms."""
    paired = set(world.section.pairs.values())
    names = [name for name in world.section.controls if name in world.records]
    return [name for name in names if world.match_of(name) and name not in paired]


def against(world: World, control: str) -> Comparison:
    """The declared arms against one matched control: a family of its own."""
    arms = [arm for arm in world.section.arms if arm in world.records and arm != control]
    return contrasts(world, [(arm, control) for arm in arms], world.section.metric)


def other_controls(world: World) -> Comparison:
    """The controls against the reference: intervals for orientation, outside the family."""
    paired = set(world.section.pairs.values())
    names = [name for name in world.section.controls if name not in paired]
    return contrasts(world, _pairs(world, names), world.section.metric, tested=False)


def _pairs(world: World, arms: Iterable[str]) -> list[tuple[str, str]]:
    pairs = [(arm, world.control_of(arm)) for arm in arms]
    present = world.records
    return [(a, c) for a, c in pairs if a != c and a in present and c in present]


def exploratory(world: World, metrics: Sequence[str]) -> dict[str, Comparison]:
    """Every arm and control on every metric, all p values together under Benjamini-Hochberg."""
    pairs = _pairs(world, world.arms())
    found = {metric: contrasts(world, pairs, metric) for metric in metrics}
    flat = [(m, c) for m, group in found.items() for c in group.contrasts if c.p is not None]
    adjusted = benjamini_hochberg(np.array([c.p for _, c in flat], dtype=float))
    q = {(m, c.arm): float(value) for (m, c), value in zip(flat, adjusted, strict=True)}
    return {
        metric: replace(
            group,
            method="Benjamini-Hochberg" if flat else None,
            contrasts=tuple(replace(c, adjusted_p=q.get((metric, c.arm))) for c in group.contrasts),
        )
        for metric, group in found.items()
    }


def best_arms(world: World) -> set[str]:
    """The best arm and all that max-T against it does not tell apart; empty below six seeds.

    Only arms whose seeds all finished can be best.
    """
    names = [arm for arm in world.arms() if not world.diverged(arm).any()]
    if len(world.seeds) < SMALLEST_TESTABLE or len(names) < 2:
        return set()
    metric = world.section.metric
    means = np.stack([world.values(arm, metric).mean(axis=1) for arm in names], axis=1)
    means = world.sign(metric) * means
    best = int(means.mean(axis=0).argmax())
    differences = means - means[:, [best]]
    varying = ~is_constant(differences, float(np.abs(means).max()))
    p = np.where(differences.mean(axis=0) < 0, 0.0, 1.0)  # a constant gap needs no test
    if varying.any():
        p[varying] = compare(differences[:, varying]).adjusted_p
    return {name for name, value in zip(names, p, strict=True) if value > ALPHA}


def paired_seed_noise(world: World) -> float | None:
    """The A/A sd: how far two runs of the reference differ by their seed alone.

    sqrt(2) times the sd of the reference over seeds; the paired sd of an arm lies below it where
    sharing seeds helps.
    """
    if world.section.reference not in world.records:
        return None
    values = world.values(world.section.reference, world.section.metric)
    finished = values[~np.isnan(values).any(axis=1)].mean(axis=1, keepdims=True)
    if len(finished) < 2:
        return None
    return float(standard_error(finished)[0] * np.sqrt(len(finished)) * np.sqrt(2))


def gap_closed(world: World, contrast: Contrast) -> float | None:
    """The share of the gap from the control to the specialists that the arm closes.

    None where no arm measures the specialists themselves, or where they are not ahead.
    """
    oracle = next((arm for arm in world.arms() if world.is_oracle(arm)), None)
    if oracle is None or oracle == contrast.arm or contrast.interval is None:
        return None
    means = [np.nanmean(world.values(arm, contrast.metric)) if not world.diverged(arm).all()
             else np.nan for arm in (oracle, contrast.control)]  # fmt: skip
    gap = world.sign(contrast.metric) * float(means[0] - means[1])
    return contrast.interval.estimate / gap if gap > 0 else None
