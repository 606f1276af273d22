"""What do differences, learning curves and teacher shares look like?"""

from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, LogLocator, NullFormatter

from harness.report.collapse import smooth, teacher_shares
from harness.report.comparisons import other_controls, primary
from harness.report.contrasts import Contrast
from harness.report.digits import stars
from harness.report.labels import metric_name
from harness.report.outcomes import World
from harness.report.style import (
    BAND,
    BLUE,
    GREEN,
    INK,
    MUTED,
    VERMILION,
    blank,
    line_styles,
    note,
)
from harness.study.ablation import Ablation
from harness.teachers.collapse import COLLAPSED_SHARE
from harness.trial.record import TrialRecord

VERDICT_COLOURS = {
    "better": BLUE,
    "worse": VERMILION,
    "equivalent": GREEN,
    "inconclusive": MUTED,
}


def title(ablation: Ablation, world: World) -> str:
    """The figure's first line, which says where nothing is shown."""
    warning = " (smoke run, shows nothing)" if world.profile == "smoke" else ""
    return f"{ablation.name}, {world.name}{warning}"


def set_title(figure: Figure, ablation: Ablation, world: World) -> None:
    """Write it at the left edge of the figure, where long names have room."""
    text = title(ablation, world)
    figure.suptitle(text, x=0.01, ha="left", fontsize=9.5, fontweight="bold")


def forest(ablation: Ablation, world: World) -> Figure:
    """Every arm's difference from its control: point, paired t and simultaneous interval."""
    decided = list(primary(world).contrasts)
    rows = decided + list(other_controls(world).contrasts)
    figure = blank(7.4, 1.5 + 0.36 * max(len(rows), 2))
    axes = figure.subplots()
    set_title(figure, ablation, world)
    if not rows:
        note(axes, "one arm only: nothing to compare")
    margin = world.section.margin
    axes.axvspan(-margin, margin, color=BAND, zorder=0)
    axes.axvline(0, color=MUTED, linewidth=0.9, zorder=1)
    _fit(axes, world, decided)
    for y, contrast in enumerate(rows):
        _forest_row(axes, world, contrast, y, tested=y < len(decided))
    axes.set_yticks(range(len(rows)), [_forest_label(world, c) for c in rows])
    axes.set_ylim(len(rows) - 0.4 if rows else 1, -0.6)
    axes.grid(visible=False, axis="y")
    control = "its control" if world.section.pairs else world.section.reference
    figure.supxlabel(  # centred on the figure: beside long arm names the axes are narrow
        f"difference from {control}: {metric_name(world.section.metric)}; right = better\n"
        f"thick: 95 % paired t; thin: simultaneous; dots: seeds; band: equivalence, ±{margin:g}",
        fontsize="medium",
    )
    return figure


def _fit(axes: Axes, world: World, decided: list[Contrast]) -> None:
    """Limits that hold all of the decided arms; what a control has beyond them is cut off."""
    ends = [0.0]
    for contrast in decided:
        ends += seed_differences(world, contrast).tolist()
        for interval in (contrast.interval, contrast.simultaneous):
            ends += [interval.low, interval.high] if interval else []
    ends = [end for end in ends if np.isfinite(end)]
    pad = 0.05 * (max(ends) - min(ends))
    if pad > 0:
        axes.set_xlim(min(ends) - pad, max(ends) + pad)


def _forest_label(world: World, contrast: Contrast) -> str:
    paired = f"\nvs {contrast.control}" if contrast.arm in world.section.pairs else ""
    return contrast.arm + paired


def _forest_row(axes: Axes, world: World, contrast: Contrast, y: int, *, tested: bool) -> None:
    word: str = contrast.verdict if tested else "control"
    colour = VERDICT_COLOURS.get(word, INK)
    if contrast.interval is None:
        axes.plot(0, y, marker="x", color=INK, markersize=7, linestyle="none", zorder=4)
        _forest_word(axes, y, "no pair of seeds finished", INK)
        return
    points = seed_differences(world, contrast)
    axes.plot(points, np.full(len(points), y + 0.22), ".", color=colour, alpha=0.45, markersize=4)
    for interval, width in ((contrast.simultaneous, 1.2), (contrast.interval, 3.2)):
        if interval is not None and np.isfinite(interval.high):
            axes.plot([interval.low, interval.high], [y, y], color=colour, linewidth=width,
                      solid_capstyle="butt", zorder=2)  # fmt: skip
    face = "white" if contrast.conditional or not tested else colour
    x, (low, high) = contrast.interval.estimate, axes.get_xlim()
    shape = "o" if tested or low <= x <= high else "<" if x < low else ">"
    shown = x if tested else min(max(x, low), high)  # a control beyond the limits points outwards
    axes.plot(shown, y, shape, color=colour, markerfacecolor=face, markersize=6, zorder=3,
              clip_on=False)  # fmt: skip
    mark = f" {stars(contrast.adjusted_p)}".rstrip()
    word += mark if tested else f", {contrast.interval.estimate:+.3g}"
    _forest_word(axes, y, f"{word}, {contrast.diverged} diverged" if contrast.diverged else word,
                 colour)  # fmt: skip


def _forest_word(axes: Axes, y: float, word: str, colour: object) -> None:
    axes.annotate(word, (1.01, y), xycoords=("axes fraction", "data"), va="center",
                  fontsize=8.5, color=colour, annotation_clip=False)  # fmt: skip


def seed_differences(world: World, contrast: Contrast) -> Float[np.ndarray, " pairs"]:
    """One macro difference per seed that finished in both; positive = better."""
    arm, control = (
        world.values(name, contrast.metric).mean(axis=1)
        for name in (contrast.arm, contrast.control)
    )
    difference = world.sign(contrast.metric) * (arm - control)
    finished: Float[np.ndarray, " pairs"] = difference[~np.isnan(difference)]
    return finished


def budget(ablation: Ablation, world: World) -> Figure:
    """The primary metric against FLOPs spent: one line per arm, thin ones per seed."""
    figure = blank(7.4, max(3.4, 1.2 + 0.2 * len(world.arms())))
    axes = figure.subplots()
    set_title(figure, ablation, world)
    metric = world.section.metric
    seen: list[float] = []
    for arm, look in _looks(world).items():
        curves = [_curve(world.records[arm][seed], metric) for seed in world.seeds]
        curves = [(flops[flops > 0], values[flops > 0]) for flops, values in curves]
        for (flops, values), lost in zip(curves, world.diverged(arm), strict=True):
            axes.plot(flops, values, linewidth=0.5, alpha=0.2, **look)
            if lost and len(values):
                axes.plot(flops[-1], values[-1], "x", color=look["color"], markersize=6)
            seen += [] if lost else values[np.isfinite(values)].tolist()
        kept = [c for c, lost in zip(curves, world.diverged(arm), strict=True) if not lost]
        label = arm if kept else f"{arm} (all diverged)"
        axes.plot(*_mean_curve(kept), linewidth=1.9, label=label, **look)
        axes.plot(*(column[-1:] for column in _mean_curve(kept)), "o", color=look["color"])
    if seen:  # step 0 is left outside: all arms start from one model, far above where they differ
        pad = 0.04 * (max(seen) - min(seen)) or 0.01
        axes.set_ylim(min(seen) - pad, max(seen) + pad)
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_minor_formatter(NullFormatter())
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.set_xlabel("FLOPs spent: training, rollouts and teacher passes")
    axes.set_ylabel(metric_name(metric))
    figure.legend(loc="outside right center")
    return figure


def _looks(world: World) -> dict[str, dict[str, Any]]:
    """Controls in greys, told apart by dashes; arms in colours."""
    controls = [arm for arm in world.arms() if arm in world.section.controls]
    greys = {
        arm: {"color": (INK, MUTED)[i % 2], "linestyle": ("--", ":", "-.")[i % 3]}
        for i, arm in enumerate(controls)
    }
    return greys | line_styles([arm for arm in world.arms() if arm not in greys])


def _curve(
    record: TrialRecord, metric: str
) -> tuple[Float[np.ndarray, " points"], Float[np.ndarray, " points"]]:
    """FLOPs and metric at the measured points of a run; NaN where a point has none."""
    columns = record.curve.get("evaluation", {})
    if "flops" not in columns or metric not in columns:
        return np.empty(0), np.empty(0)
    return np.array(columns["flops"], dtype=float), np.array(columns[metric], dtype=float)


def _mean_curve(
    curves: list[tuple[Float[np.ndarray, " points"], Float[np.ndarray, " points"]]],
) -> tuple[Float[np.ndarray, " points"], Float[np.ndarray, " points"]]:
    """Point by point over seeds, as far as every seed goes."""
    length = min((len(flops) for flops, _ in curves), default=0)
    if length == 0:
        return np.empty(0), np.empty(0)
    flops = np.mean([curve[0][:length] for curve in curves], axis=0)
    return flops, np.mean([curve[1][:length] for curve in curves], axis=0)


def shares(ablation: Ablation, world: World) -> Figure:
    """Which teacher the rollouts go to over training: a panel per arm, a line per seed."""
    arms = [
        arm for arm in world.arms() if any(teacher_shares(r) for r in world.records[arm].values())
    ]
    columns = min(len(arms), 3) or 1
    rows = -(-len(arms) // columns) or 1
    figure = blank(2.5 * columns + 0.4, 2.0 * rows + 0.5)
    panels = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).ravel()
    if not arms:
        note(panels[0], "no arm recorded teacher shares")
    domains = list(dict.fromkeys(d for arm in arms for r in world.records[arm].values()
                                 for d in teacher_shares(r)))  # fmt: skip
    drawn = domains[:1] if len(domains) == 2 else domains  # of two, the other is the rest
    for axes, arm in zip(panels, arms, strict=False):
        _share_panel(axes, world, arm, drawn)
    for axes in panels[max(len(arms), 1) :]:
        axes.set_visible(False)
    for axes in panels[max(len(arms) - columns, 0) : len(arms)]:
        axes.tick_params(labelbottom=True)
    set_title(figure, ablation, world)
    figure.supxlabel("update", fontsize=9)
    what = f"share of teacher {drawn[0]}" if len(drawn) == 1 else "share of each teacher"
    figure.supylabel(what, fontsize=9)
    if len(drawn) > 1:
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside right center")
    return figure


def _share_panel(axes: Axes, world: World, arm: str, domains: list[str]) -> None:
    looks = line_styles(domains)
    for level in (COLLAPSED_SHARE, 1 - COLLAPSED_SHARE):
        axes.axhline(level, color=MUTED, linewidth=0.7, linestyle=":")
    for i, record in enumerate(world.records[arm].values()):
        for domain in domains:
            share = np.array(teacher_shares(record).get(domain, []), dtype=float)
            steps = np.array(record.curve["training"]["step"], dtype=float)[: len(share)]
            axes.plot(steps, smooth(share), linewidth=1.0, alpha=0.6,
                      label=domain if i == 0 else None, **looks[domain])  # fmt: skip
    axes.set_ylim(-0.03, 1.03)
    axes.set_title(arm, fontsize=8.5, fontweight="normal")
