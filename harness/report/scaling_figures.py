"""What do quality and cost against the number of teachers look like?"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter
from scipy import stats

from harness.report.figures import set_title
from harness.report.labels import metric_name
from harness.report.outcomes import World
from harness.report.scaling import costs_of, curves, scaling, seed_fits
from harness.report.style import blank, line_styles, note
from harness.study.ablation import Ablation


def scaling_curve(ablation: Ablation, world: World) -> Figure:
    """Left: macro and worst domain against N; right: cost of an update, with the fitted power."""
    lines = curves(ablation, world)
    figure = blank(8.0, 3.7)
    quality, cost = figure.subplots(1, 2)
    set_title(figure, ablation, world)
    counts = sorted({count for line in lines.values() for count in line})
    looks = line_styles(list(lines))
    for axes in (quality, cost):
        if not counts:
            note(axes, "no arm has a number of teachers")
            continue
        axes.set_xscale("log")
        axes.set_xticks(counts, [str(count) for count in counts])
        axes.minorticks_off()
        axes.set_xlabel("teachers N")
    for budget, line in lines.items():
        _quality(quality, world, line, budget, looks[budget])
        _cost(cost, world, line, budget, looks[budget])
    quality.set_ylabel(metric_name(world.section.metric))
    for axes in (quality, cost):
        if axes.get_legend_handles_labels()[1]:
            axes.legend(fontsize=7, loc="lower left", bbox_to_anchor=(0, 1), borderaxespad=0.2,
                        ncols=2 if axes is quality else 1, handlelength=1.8)  # fmt: skip
    figure.supxlabel("dots: seeds; shaded: 95 % t over seeds", fontsize=9)
    return figure


def worst_domain(world: World, arm: str) -> Float[np.ndarray, " seeds"]:
    """Per seed the primary metric of the domain that is worst in it; NaN where it diverged."""
    metric, worst = world.section.metric, max if world.sign(world.section.metric) < 0 else min
    found = []
    for seed in world.seeds:
        record = world.records[arm][seed]
        own = record.metrics.get(metric, {}) if record.status == "finished" else {}
        values = [v for name, v in own.items() if name != "macro" and v is not None]
        found.append(worst(values, default=np.nan))
    return np.array(found, dtype=float)


def _quality(
    axes: Axes, world: World, line: Mapping[int, str], budget: str, look: dict[str, Any]
) -> None:
    metric = world.section.metric
    macro = {n: world.values(arm, metric).mean(axis=1) for n, arm in line.items()}
    worst = {n: worst_domain(world, arm) for n, arm in line.items()}
    for name, values, dash in (("macro", macro, "-"), ("worst domain", worst, ":")):
        seen = {n: v[np.isfinite(v)] for n, v in values.items()}
        counts = [n for n, v in seen.items() if v.size]
        if not counts:
            continue
        means = np.array([seen[n].mean() for n in counts])
        reach = np.array([_half(seen[n]) for n in counts])
        axes.plot(counts, means, marker="o", markersize=3.5, color=look["color"], linestyle=dash,
                  label=f"{budget} budget, {name}")  # fmt: skip
        axes.fill_between(counts, means - reach, means + reach, color=look["color"], alpha=0.15,
                          linewidth=0)  # fmt: skip


def _half(values: Float[np.ndarray, " seeds"]) -> float:
    n = len(values)
    return float(stats.t.isf(0.025, n - 1) * values.std(ddof=1) / np.sqrt(n)) if n > 1 else 0.0


def _cost(
    axes: Axes, world: World, line: Mapping[int, str], budget: str, look: dict[str, Any]
) -> None:
    counts, costs = costs_of(world, line, "step_seconds")
    axes.set_ylabel("processor time per update (ms)")
    if not costs.size:
        return
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.plot(np.tile(counts, len(costs)), 1e3 * costs.ravel(), ".", color=look["color"],
              alpha=0.4, markersize=5)  # fmt: skip
    found = scaling(world, line, "step_seconds")
    if found is None:
        return
    slopes, _ = seed_fits(counts, costs)
    x, exponent = np.log(counts), found.exponent
    fitted = np.exp(np.log(costs).mean() + slopes.mean() * (x - x.mean()))
    label = f"{budget} budget: N^{exponent.estimate:.2f}"
    if np.isfinite(exponent.high):
        label += f" [{exponent.low:.2f}, {exponent.high:.2f}]"
    axes.plot(counts, 1e3 * fitted, label=label, linewidth=1.4, **look)
