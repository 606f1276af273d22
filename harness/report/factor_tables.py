"""Which tables do experiments over several factors, or over measured gaps, get?"""

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float

from harness.report.break_even import BreakEven, break_even, describe, share_range
from harness.report.digits import bounded, bounds, number, probability, text
from harness.report.factorial import Effect, blocked_anova
from harness.report.footer import provenance
from harness.report.labels import caption, metric_name
from harness.report.outcomes import World
from harness.report.render import Cell, Table, Value
from harness.report.tables import half_width
from harness.study.ablation import Ablation

ALL_ARMS = "all"


def factorial_values(
    ablation: Ablation, world: World
) -> tuple[list[str], Float[np.ndarray, "seeds arms"]]:
    """The arms of the factorial and the primary metric of the seeds that finished in all of them.

    A seed on which any arm diverged is left out whole: blocks stay complete.
    """
    arms = [arm for arm in world.section.arms if arm in ablation.factors and arm in world.records]
    columns = [world.values(arm, world.section.metric).mean(axis=1) for arm in arms]
    values = np.stack(columns, axis=1) if columns else np.empty((0, 0))
    complete: Float[np.ndarray, "seeds arms"] = values[~np.isnan(values).any(axis=1)]
    return arms, complete


def anova_effects(ablation: Ablation, world: World) -> list[Effect]:
    """The blocked ANOVA over the world's factorial; empty where nothing can be tested."""
    arms, values = factorial_values(ablation, world)
    if min(values.shape) < 2 or np.ptp(values) == 0:
        return []
    return blocked_anova(values, arms, ablation.factors)


def anova_table(ablation: Ablation, world: World) -> Table:
    """One row per main effect and two-way interaction."""
    effects = anova_effects(ablation, world)
    blocks = len(factorial_values(ablation, world)[1])
    lost = len(world.seeds) - blocks
    notes = [
        "Blocked ANOVA, seeds are the blocks, type II sums of squares; omega squared is partial, "
        "its interval inverts the noncentral F. p is not adjusted.",
        f"{blocks} blocks" + (f"; {lost} left out, since an arm diverged there." if lost else "."),
        provenance(world),
    ]
    if not effects:
        notes.insert(0, "Too few complete seeds, or no variation: nothing to test.")
    return Table(
        name="anova",
        world=world.name,
        caption=caption(
            ablation, world, f"which factors move {metric_name(world.section.metric)}."
        ),
        columns=("term", "df", "F", "p", "\u03c9\u00b2 [95 % interval]"),
        rows=tuple(_effect_row(effect) for effect in effects),
        notes=tuple(notes),
    )


def _effect_row(effect: Effect) -> tuple[Cell, ...]:
    name = " \u00d7 ".join(effect.term)
    freedom = f"{effect.freedom}, {effect.residual_freedom}"
    return (
        text(name, term=name),
        text(freedom, df=effect.freedom, residual_df=effect.residual_freedom),
        text(number(effect.f, 2), F=effect.f),
        text(probability(effect.p), p=effect.p),
        Cell(
            parts=bounded(effect.omega_squared, 0.01),
            values=bounds("omega_squared", effect.omega_squared),
        ),
    )


def gap_sources(ablation: Ablation, world: World) -> dict[str, list[str]]:
    """The arms of every curve over the gap: those of one `source`, where factors name one."""
    curves: dict[str, list[str]] = {}
    for arm in world.section.arms:
        present = arm in world.records and world.control_of(arm) in world.records
        if present and arm != world.control_of(arm):
            source = ablation.factors.get(arm, {}).get("source", ALL_ARMS)
            curves.setdefault(source, []).append(arm)
    return curves


def gap_points(
    world: World, arms: list[str]
) -> tuple[Float[np.ndarray, "seeds levels"], Float[np.ndarray, "seeds levels"]]:
    """Measured gaps and differences (positive = better), each [seeds, arms]; seeds complete.

    A seed is left out where a run of it diverged, lacks its gap, or has a gap that is not positive.
    """
    metric = world.section.metric
    gaps, differences = [], []
    for arm in arms:
        both = [world.values(name, metric).mean(axis=1) for name in (arm, world.control_of(arm))]
        differences.append(world.sign(metric) * (both[0] - both[1]))
        facts = [world.records[arm][seed].facts.get("gap_nats") for seed in world.seeds]
        gaps.append([gap if gap is not None and gap > 0 else np.nan for gap in facts])
    x, y = np.array(gaps, dtype=float).T, np.array(differences, dtype=float).T
    complete = ~np.isnan(x + y).any(axis=1)
    return x[complete], y[complete]


def break_evens(ablation: Ablation, world: World) -> Mapping[str, BreakEven | None]:
    """The break-even gap per source; None without two seeds that share a range of gaps."""
    found: dict[str, BreakEven | None] = {}
    for source, arms in gap_sources(ablation, world).items():
        gaps, differences = gap_points(world, arms)
        can_be_asked = min(gaps.shape) > 1 and share_range(gaps)
        found[source] = break_even(gaps, differences) if can_be_asked else None
    return found


def break_even_sentences(ablation: Ablation, present: Sequence[World]) -> tuple[str, ...]:
    """`WORLD, gap by SOURCE: what was found`, for an ablation that asks for break-even gaps."""
    if "break_even" not in ablation.figures:
        return ()
    return tuple(
        f"{world.name}, gap by {source}: {found.sentence()}"
        for world in present
        for source, found in break_evens(ablation, world).items()
        if found is not None
    )


def break_even_table(ablation: Ablation, world: World) -> Table:
    """Where the difference crosses 0, per source of the gap."""
    found = break_evens(ablation, world)
    notes = [f"{source}: {result.sentence()}." for source, result in found.items() if result]
    notes.append(
        "Per seed the difference is interpolated between the measured gaps, straight in their "
        "logarithm; the set holds every gap at which a t test over seeds does not reject 0. The "
        "slope is that of a least-squares line."
    )
    return Table(
        name="break_even",
        world=world.name,
        caption=caption(ablation, world, "the gap from which on-policy distillation pays."),
        columns=(
            "source of the gap",
            "seeds",
            "break-even (nats)",
            "95 % set",
            "slope [95 % interval]",
        ),
        rows=tuple(_break_even_row(source, result) for source, result in found.items()),
        notes=(*notes, provenance(world)),
    )


def _break_even_row(source: str, found: BreakEven | None) -> tuple[Cell, ...]:
    if found is None:
        return (text(source, source=source), text("too few seeds or levels"), *[Cell()] * 3)
    crossing = found.crossing_nats
    ends: dict[str, Value] = {}
    for i, (low, high) in enumerate(found.confidence_set):
        ends |= {f"set_{i}_low": low, f"set_{i}_high": high if np.isfinite(high) else None}
    return (
        text(source, source=source),
        text(str(found.seeds), seeds=found.seeds),
        Cell(
            parts=("none",) if crossing is None else (number(crossing, 3),),
            values={"break_even_nats": crossing},
        ),
        Cell(parts=(describe(found.confidence_set).removeprefix("95 % set").strip(": "),),
             values=ends),
        Cell(parts=bounded(found.slope, half_width(found.slope), sign=True),
             values=bounds("slope", found.slope)),
    )  # fmt: skip
