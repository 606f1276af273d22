"""What stands beside the deciding table: every matched control, and every other metric?"""

from harness.report.comparisons import against, exploratory, matched_controls
from harness.report.contrasts import Comparison, Contrast
from harness.report.digits import bounded, bounds, text
from harness.report.footer import control_notes, metric_notes
from harness.report.labels import DAGGER, caption, metric_name
from harness.report.outcomes import World
from harness.report.render import Cell, Table
from harness.report.tables import difference_cell, half_width, world_level
from harness.study.ablation import Ablation
from harness.trial.evaluate import HIGHER_IS_BETTER


def control_table(ablation: Ablation, world: World) -> Table:
    """Every arm against every matched control: the verdict may turn on how a budget is counted."""
    controls = matched_controls(world)
    arms = [arm for arm in world.section.arms if arm in world.records]
    metric = world.section.metric
    families = {control: against(world, control) for control in controls}
    rows = []
    for arm in arms:
        found = [families[control][arm] for control in controls]
        rows.append((text(arm, arm=arm), *(_control_cell(world, contrast) for contrast in found)))
    what = f"{metric_name(metric)}, paired difference from each matched control; positive = better."
    return Table(
        name="controls",
        world=world.name,
        caption=caption(ablation, world, what),
        columns=("arm", *controls),
        rows=tuple(rows),
        notes=tuple(control_notes(world, list(families.values()))),
    )


def _control_cell(world: World, contrast: Contrast) -> Cell:
    cell = difference_cell(contrast)
    mark = DAGGER if contrast.off_budget else ""
    key = world.match_of(contrast.control)
    values = {f"{key}_{name}": value for name, value in cell.values.items()}
    values |= {f"{key}_adjusted_p": contrast.adjusted_p, f"{key}_verdict": contrast.verdict}
    return Cell(parts=(*cell.parts, f"{mark} {contrast.verdict}"), values=values)


def level_table(ablation: Ablation, world: World) -> Table:
    """All metrics side by side: the mean of every arm."""
    rows = []
    for arm in world.arms():
        cells = []
        for metric in world.metrics():
            level = world_level(world, arm, metric)
            shown = bounded(level, half_width(level)) if level else ("all diverged",)
            cells.append(Cell(parts=shown, values=bounds(metric, level)))
        rows.append((text(arm, arm=arm), *cells))
    return Table(
        name="metrics",
        world=world.name,
        caption=caption(ablation, world, "all metrics, mean over seeds [95 % interval]."),
        columns=("arm", *map(metric_name, world.metrics())),
        rows=tuple(rows),
    )


def difference_table(ablation: Ablation, world: World) -> Table:
    """All metrics side by side: every arm's difference from its control, exploratory."""
    groups = exploratory(world, world.metrics())
    compared = {c.arm for group in groups.values() for c in group.contrasts}
    rows = [
        (text(arm, arm=arm), *(_exploratory_cell(group, arm) for group in groups.values()))
        for arm in world.arms()
        if arm in compared
    ]
    control = "its control" if world.section.pairs else world.section.reference
    return Table(
        name="metric differences",
        world=world.name,
        caption=caption(
            ablation, world, f"all metrics, paired difference from {control}, exploratory."
        ),
        columns=("arm", *(_directed(metric) for metric in world.metrics())),
        rows=tuple(rows),
        notes=tuple(metric_notes(world, groups)),
    )


def _directed(metric: str) -> str:
    undirected = HIGHER_IS_BETTER.get(metric) is None
    return metric_name(metric) + (", raw" if undirected and metric in HIGHER_IS_BETTER else "")


def _exploratory_cell(group: Comparison, arm: str) -> Cell:
    contrast = group[arm]
    cell = difference_cell(contrast)
    values = {**bounds(contrast.metric, contrast.interval)}
    values |= {"control": contrast.control, f"{contrast.metric}_q": contrast.adjusted_p}
    return Cell(parts=cell.parts, values=values)
