"""What does an update of every arm cost: time, FLOPs, memory, loads of teachers?

Costs are facts of a record. Those of runs that diverged count too: an update cost what it cost.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Literal

import numpy as np
from jaxtyping import Float

from harness.report.digits import bounded, bounds, text
from harness.report.footer import provenance
from harness.report.labels import caption
from harness.report.outcomes import World
from harness.report.render import Cell, Number, Table
from harness.report.stats import Interval, is_constant, paired_t
from harness.study.ablation import Ablation

Kind = Literal["bytes", "flops", "seconds", "nats", "count"]
UNITS: Mapping[Kind, tuple[tuple[str, float], ...]] = {
    "bytes": (("B", 1), ("KiB", 2**10), ("MiB", 2**20), ("GiB", 2**30)),
    "flops": (("FLOPs", 1), ("kFLOPs", 1e3), ("MFLOPs", 1e6), ("GFLOPs", 1e9), ("TFLOPs", 1e12)),
    "seconds": (("ms", 1e-3),),
    "nats": (("nats", 1),),
    "count": (("", 1),),
}


@dataclass(frozen=True, kw_only=True)
class Fact:
    """What a fact is called in a table, and in which unit a record holds it."""

    title: str
    kind: Kind


FACTS: Mapping[str, Fact] = {
    "teachers": Fact(title="teachers", kind="count"),
    "store.head_loads": Fact(title="head loads per update", kind="count"),
    "store.body_loads": Fact(title="body loads per update", kind="count"),
    "store.bytes_read": Fact(title="read per update", kind="bytes"),
    "store.bytes_written": Fact(title="written per update", kind="bytes"),
    "store.peak_resident_heads": Fact(title="heads resident, peak", kind="count"),
    "store.peak_bytes": Fact(title="teachers resident, peak", kind="bytes"),
    "store.cache_error_nats": Fact(title="largest error of the cache", kind="nats"),
    "step_seconds": Fact(title="time per update", kind="seconds"),
    "step_flops": Fact(title="FLOPs per update", kind="flops"),
    "saved_bytes": Fact(title="kept for the backward pass", kind="bytes"),
}


def fact_values(world: World, arm: str, name: str) -> Float[np.ndarray, " seeds"]:
    """A fact per seed that every arm has; NaN where a record lacks it."""
    facts = [world.records[arm][seed].facts.get(name) for seed in world.seeds]
    return np.array([np.nan if value is None else value for value in facts], dtype=float)


def mean_over_seeds(values: Float[np.ndarray, " seeds"]) -> Interval | None:
    """Mean and t interval over the seeds that have a value; no bounds where nothing varies."""
    present = values[np.isfinite(values)]
    if not present.size:
        return None
    column = present[:, None]
    if len(present) < 2 or is_constant(column, float(np.abs(present).max()))[0]:
        return Interval(estimate=float(present[0]), low=-inf, high=inf)
    return paired_t(column)[0]


def ratio(
    values: Float[np.ndarray, " seeds"], base: Float[np.ndarray, " seeds"]
) -> Interval | None:
    """Geometric mean of the paired ratios; None unless every pair is positive."""
    both = np.isfinite(values + base)
    if not both.any() or (values[both] <= 0).any() or (base[both] <= 0).any():
        return None
    logs = np.log(values[both]) - np.log(base[both])
    if len(logs) > 1 and np.ptp(logs) > 1e-12:
        (found,) = paired_t(logs[:, None])
    else:
        found = Interval(estimate=float(logs[0]), low=-inf, high=inf)
    high = float(np.exp(found.high)) if np.isfinite(found.high) else inf
    low = float(np.exp(found.low)) if np.isfinite(found.low) else -inf
    return Interval(estimate=float(np.exp(found.estimate)), low=low, high=high)


def cost_table(ablation: Ablation, world: World) -> Table:
    """One row per arm; beside each fact its ratio to that of the baseline.

    Raises ValueError for a fact that `FACTS` does not name.
    """
    for name in ablation.costs:
        if name not in FACTS:
            raise ValueError(f"costs must be among {sorted(FACTS)}, got {name!r}")
    base = world.section.baseline
    arms = [a for a in world.arms() if any(_has(world, a, name) for name in ablation.costs)]
    columns, cells = ["arm"], {arm: [text(arm, arm=arm)] for arm in arms}
    for name in ablation.costs:
        levels = {arm: mean_over_seeds(fact_values(world, arm, name)) for arm in arms}
        unit, size = _unit(FACTS[name].kind, [v.estimate for v in levels.values() if v])
        columns.append(FACTS[name].title + (f" ({unit})" if unit else ""))
        for arm in arms:
            cells[arm].append(_cell(levels[arm], size, name))
        ratios = {arm: _ratio_to(world, arm, base, name) for arm in arms}
        if any(ratios.values()):
            columns.append("ratio")
            for arm in arms:
                cells[arm].append(_cell(ratios[arm], 1.0, f"{name}_ratio"))
    machine = "step_seconds" in ablation.costs
    what = "costs, mean over seeds [95 % interval where they vary over seeds]"
    what += "; times depend on the machine." if machine else "."
    return Table(
        name="costs",
        world=world.name,
        caption=caption(ablation, world, what),
        columns=tuple(columns),
        rows=tuple(tuple(row) for row in cells.values()),
        notes=(f"ratio: geometric mean over seeds of the paired ratios to {base}, paired t "
               "interval of their logarithms; none where a value is not positive.",
               provenance(world)),
    )  # fmt: skip


def _has(world: World, arm: str, name: str) -> bool:
    return bool(np.isfinite(fact_values(world, arm, name)).any())


def _ratio_to(world: World, arm: str, base: str, name: str) -> Interval | None:
    if arm == base or base not in world.records:
        return None
    return ratio(fact_values(world, arm, name), fact_values(world, base, name))


def _unit(kind: Kind, values: list[float]) -> tuple[str, float]:
    """One unit for a column: the largest that its largest value reaches."""
    largest = max(values, default=0.0)
    fitting = [entry for entry in UNITS[kind] if entry[1] <= largest]
    return fitting[-1] if fitting else UNITS[kind][0]


def _cell(value: Interval | None, size: float, name: str) -> Cell:
    if value is None:
        return Cell(values=bounds(name, None))
    if not np.isfinite(value.high):
        return Cell(parts=(Number(f"{value.estimate / size:.4g}"),), values=bounds(name, value))
    in_unit = Interval(estimate=value.estimate / size, low=value.low / size, high=value.high / size)
    error = (in_unit.high - in_unit.low) / 4
    return Cell(parts=bounded(in_unit, error), values=bounds(name, value))
