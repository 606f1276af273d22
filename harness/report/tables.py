"""How does every arm stand against its control: the table that decides?"""

from math import inf

from harness.report.comparisons import best_arms, other_controls, primary
from harness.report.contrasts import Contrast, WorstDomain
from harness.report.digits import bounded, bounds, number, probability, stars, text
from harness.report.failures import clopper_pearson
from harness.report.footer import main_notes
from harness.report.labels import BUDGET_TITLES, DAGGER, caption, metric_name
from harness.report.outcomes import BUDGETS, World
from harness.report.render import Cell, Part, Table
from harness.report.stats import Interval, paired_t, wilson
from harness.study.ablation import Ablation


def main_table(ablation: Ablation, world: World) -> Table:
    """Every arm against its control on the primary metric."""
    decided, shown = primary(world), other_controls(world)
    best = best_arms(world)
    by_arm = {c.arm: c for c in (*decided.contrasts, *shown.contrasts)}
    tested = {c.arm for c in decided.contrasts}
    rows = [
        _main_row(world, arm, by_arm.get(arm), arm in tested, arm in best) for arm in world.arms()
    ]
    control = "its control" if world.section.pairs else world.section.reference
    what = f"{metric_name(world.section.metric)}, paired difference from {control}; "
    return Table(
        name="main",
        world=world.name,
        caption=caption(ablation, world, what + "positive = better."),
        columns=(
            "arm",
            "n",
            "difference [95 % interval]",
            "d_z (seeds ahead)",
            "adjusted p",
            "verdict",
            "worst domain [simultaneous]",
            "div",
            *(f"budget ratio, {BUDGET_TITLES[kind]}" for kind in BUDGETS),
        ),
        rows=tuple(rows),
        notes=tuple(main_notes(world, decided)),
    )


def _main_row(
    world: World, arm: str, contrast: Contrast | None, tested: bool, best: bool
) -> tuple[Cell, ...]:
    runs = world.records[arm].values()
    finished = sum(run.status == "finished" for run in runs)
    mark = DAGGER if contrast and contrast.off_budget else ""
    off = contrast.off_budget if contrast else None
    name = Cell(
        parts=(arm + mark,), bold=best, values={"arm": arm, "best": best, "off_budget": off}
    )
    count = text(f"{finished}/{world.planned}", finished=finished, planned=world.planned)
    middle = _contrast_cells(contrast, tested) if contrast else _reference_cells(world, arm)
    return (name, count, *middle, _failure_cell(len(runs) - finished, len(runs)),
            *_budget_cells(world, arm))  # fmt: skip


def _reference_cells(world: World, arm: str) -> list[Cell]:
    """The reference's own mean stands where other arms have their difference from it."""
    level = world_level(world, arm, world.section.metric)
    if level is None:
        return [text("all diverged"), *[Cell()] * 4]
    places = bounded(level, level.high - level.estimate)[0]
    word = "reference" if arm == world.section.reference else "control"
    return [text(f"{word}, mean ", places), *[Cell()] * 4]


def _contrast_cells(contrast: Contrast, tested: bool) -> list[Cell]:
    return [
        difference_cell(contrast),
        _effect_cell(contrast),
        _p_cell(contrast),
        text(contrast.verdict if tested else "control", verdict=contrast.verdict if tested else ""),
        _worst_cell(contrast.worst),
    ]


def difference_cell(contrast: Contrast) -> Cell:
    """`+0.012 [+0.003, +0.021]**`, with "conditional" where runs diverged."""
    interval = contrast.interval
    values = {
        "control": contrast.control,
        "metric": contrast.metric,
        **bounds("difference", interval),
        **bounds("simultaneous", contrast.simultaneous),
        "conditional": contrast.conditional,
    }
    if interval is None:
        return Cell(parts=("no pair of finished seeds",), values=values)
    mark = " conditional" if contrast.conditional else ""
    parts = (*bounded(interval, half_width(interval), sign=True), stars(contrast.adjusted_p) + mark)
    return Cell(parts=parts, values=values)


def half_width(interval: Interval) -> float:
    """About two standard errors, halved: what the number of digits follows."""
    return (interval.high - interval.low) / 4


def _effect_cell(contrast: Contrast) -> Cell:
    ahead = f"({contrast.improved}/{contrast.pairs})"
    share = wilson(contrast.improved, contrast.pairs) if contrast.pairs else None
    values = {"d_z": contrast.effect_size, **bounds("share_improved", share)}
    if contrast.effect_size is None:
        return Cell(parts=(ahead,), values=values)
    return Cell(parts=(number(contrast.effect_size, 2), f" {ahead}"), values=values)


def _p_cell(contrast: Contrast) -> Cell:
    values = {"p": contrast.p, "adjusted_p": contrast.adjusted_p}
    values |= {"tost_p": contrast.equivalence_p, "detectable": contrast.detectable}
    if contrast.identical:
        return Cell(parts=(f"identical on all {contrast.seeds} seeds",), values=values)
    shown = () if contrast.adjusted_p is None else (probability(contrast.adjusted_p),)
    return Cell(parts=shown, values=values)


def _worst_cell(worst: WorstDomain | None) -> Cell:
    if worst is None:
        return Cell(values={"worst_domain": None, **bounds("worst", None), "noninferior_p": None})
    values = {"worst_domain": worst.domain, **bounds("worst", worst.difference)}
    values |= {"noninferior_p": worst.noninferior_p}
    parts = bounded(worst.difference, half_width(worst.difference), sign=True)
    return Cell(parts=(f"{worst.domain} ", *parts), values=values)


def _failure_cell(diverged: int, runs: int) -> Cell:
    rate = clopper_pearson(diverged, runs)
    parts: tuple[Part, ...] = (f"{diverged}/{runs}",)
    if diverged:
        parts += (" [", number(rate.low, 2), ", ", number(rate.high, 2), "]")
    return Cell(
        parts=parts, values={"diverged": diverged, "runs": runs, **bounds("div_rate", rate)}
    )


def _budget_cells(world: World, arm: str) -> list[Cell]:
    partner = world.matched_to(arm)
    cells = []
    for kind in BUDGETS:
        ratio = world.budget_ratio(arm, partner, kind) if partner in world.records else None
        shown = () if ratio is None else (number(ratio, 2),)
        cells.append(Cell(parts=shown, values={f"budget_ratio_{kind}": ratio}))
    return cells


def world_level(world: World, arm: str, metric: str) -> Interval | None:
    """Mean over finished seeds of the macro metric, with its t interval over seeds."""
    macro = world.values(arm, metric)[~world.diverged(arm)].mean(axis=1, keepdims=True)
    if len(macro) < 2:
        only = float(macro[0, 0]) if len(macro) else None
        return None if only is None else Interval(estimate=only, low=-inf, high=inf)
    return paired_t(macro)[0]
