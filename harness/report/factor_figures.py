"""What do a break-even curve and the interactions of a factorial look like?"""

from itertools import combinations
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter
from scipy import stats

from harness.report.break_even import BreakEven, describe, seed_curves
from harness.report.factor_tables import break_evens, factorial_values, gap_points, gap_sources
from harness.report.figures import set_title
from harness.report.labels import metric_name
from harness.report.outcomes import World
from harness.report.style import BAND, BLUE, MUTED, ORANGE, blank, line_styles, note
from harness.study.ablation import Ablation

GAP_TICKS = tuple(digit * 10.0**power for power in range(-4, 2) for digit in (1, 2, 5))


def break_even_curve(ablation: Ablation, world: World) -> Figure:
    """OPD minus SFT against the measured gap: a panel per source, a line per seed."""
    curves = gap_sources(ablation, world)
    found = break_evens(ablation, world)
    figure = blank(3.7 * max(len(curves), 1) + 0.3, 3.5)
    panels = figure.subplots(1, max(len(curves), 1), sharey=True, squeeze=False)[0]
    if not curves:
        note(panels[0], "no arm has a control of its own")
    for axes, (source, arms) in zip(panels, curves.items(), strict=False):
        _gap_panel(axes, world, arms, found[source])
        axes.set_title(f"{source}: {_crossing(found[source])}", fontsize=8.5, fontweight="normal")
    margin = world.section.margin
    panels[0].set_ylabel(
        f"OPD minus its SFT control:\n{metric_name(world.section.metric)}; up = better"
    )
    figure.supxlabel(
        "measured gap of the specialists over the base (nats per token)\n"
        f"lines: seeds and their mean; shaded: 95 % set of the crossing; band: ±{margin:g}",
        fontsize=9,
    )
    set_title(figure, ablation, world)
    return figure


def _crossing(found: BreakEven | None) -> str:
    if found is None:
        return "too few seeds or levels"
    if found.crossing_nats is None:
        return "no break-even"
    return f"break-even {found.crossing_nats:.3g} nats\n({describe(found.confidence_set)})"


def _gap_panel(axes: Axes, world: World, arms: list[str], found: BreakEven | None) -> None:
    gaps, differences = gap_points(world, arms)
    axes.axhspan(-world.section.margin, world.section.margin, color=BAND, zorder=0)
    axes.axhline(0, color=MUTED, linewidth=0.9, zorder=1)
    axes.set_xscale("log")
    axes.xaxis.set_minor_formatter(NullFormatter())
    if not gaps.size:
        note(axes, "no seed finished at every level")
        return
    low, high = gaps.min() / 1.15, gaps.max() * 1.15
    ticks = [tick for tick in GAP_TICKS if low <= tick <= high]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.plot(gaps, differences, ".", color=BLUE, alpha=0.5, markersize=5, zorder=3)
    axes.set_xlim(low, high)
    if found is None:
        return
    knots, curves = seed_curves(np.log(gaps), differences)
    axes.plot(np.exp(knots), curves.T, color=BLUE, linewidth=0.6, alpha=0.3)
    axes.plot(np.exp(knots), curves.mean(axis=0), color=BLUE, linewidth=2)
    for start, end in found.confidence_set:
        if start < high and end > low:
            axes.axvspan(max(start, low), min(end, high), color=ORANGE, alpha=0.18, zorder=0)
    if found.crossing_nats is not None:
        axes.axvline(found.crossing_nats, color=ORANGE, linewidth=1.6, zorder=2)


def interaction(ablation: Ablation, world: World) -> Figure:
    """Every pair of factors: levels of one on the axis, a line per level of the other."""
    arms, values = factorial_values(ablation, world)
    levels = factor_levels(ablation, arms)
    pairs = list(combinations([name for name in levels if len(levels[name]) > 1], 2))
    columns = min(len(pairs), 3) or 1
    rows = -(-len(pairs) // columns) or 1
    figure = blank(3.2 * columns + 0.3, 3.2 * rows + 0.5)
    panels = figure.subplots(rows, columns, sharey=True, squeeze=False).ravel()
    if not pairs or not len(values):
        note(panels[0], "no seed finished in every cell of the factorial")
        pairs = []
    for axes, (across, within) in zip(panels, pairs, strict=False):
        _interaction_panel(axes, ablation, world, across, within)
    for axes in panels[max(len(pairs), 1) :]:
        axes.set_visible(False)
    set_title(figure, ablation, world)
    figure.supylabel(metric_name(world.section.metric), fontsize=9)
    note_text = "means over the other factors; bars: 95 % t over seeds, seed means removed"
    figure.supxlabel(note_text, fontsize=9)
    return figure


def factor_levels(ablation: Ablation, arms: list[str]) -> dict[str, list[str]]:
    """Every factor's levels, in the order in which arms declare them."""
    levels: dict[str, dict[str, None]] = {}
    for arm in arms:
        for name, level in ablation.factors[arm].items():
            levels.setdefault(name, {})[level] = None
    return {name: list(found) for name, found in levels.items()}


def _interaction_panel(
    axes: Axes,
    ablation: Ablation,
    world: World,
    across: str,
    within: str,
) -> None:
    arms, values = factorial_values(ablation, world)
    values = values - values.mean(axis=1, keepdims=True) + values.mean()
    levels, factors = factor_levels(ablation, arms), ablation.factors
    reach = stats.t.isf(0.025, len(values) - 1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
    for shift, (level, look) in enumerate(line_styles(levels[within]).items()):
        line = [i for i, arm in enumerate(arms) if factors[arm][within] == level]
        cells = [[i for i in line if factors[arms[i]][across] == at] for at in levels[across]]
        table = np.array([values[:, cell].mean(axis=1) for cell in cells])
        error = reach * table.std(axis=1, ddof=1) if len(values) > 1 else np.zeros(len(table))
        x = np.arange(len(table)) + 0.06 * (shift - (len(levels[within]) - 1) / 2)
        axes.errorbar(x, table.mean(axis=1), yerr=error, marker="o", markersize=4, capsize=0,
                      label=level, linewidth=1.4, **look)  # fmt: skip
    crowded = sum(map(len, levels[across])) > 26
    turned: dict[str, Any] = (
        {"rotation": 20, "ha": "right", "rotation_mode": "anchor"} if crowded else {}
    )
    axes.set_xticks(range(len(levels[across])), levels[across], **turned)
    axes.set_xlim(-0.4, len(levels[across]) - 0.6)
    axes.set_xlabel(across)
    axes.legend(title=within, fontsize=7.5, title_fontsize=8, loc="lower left", borderaxespad=0.2,
                bbox_to_anchor=(0, 1), ncols=2, handlelength=1.5, alignment="left")  # fmt: skip
