"""How does the cost of an update grow with the number of teachers: as a power, or exponentially?

Per seed two lines of least squares, log cost over log N and log cost over N, two parameters each.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

import numpy as np
from jaxtyping import Float

from harness.report.costs import FACTS, fact_values, ratio
from harness.report.digits import bounded, bounds, text
from harness.report.footer import provenance
from harness.report.labels import caption
from harness.report.outcomes import World
from harness.report.render import Cell, Table
from harness.report.stats import Interval, is_constant, paired_t
from harness.report.tables import half_width
from harness.study.ablation import Ablation

COSTS = ("step_seconds", "step_flops")
EXACT = 1e-20  # residual per point of log cost at which a line passes through every point


@dataclass(frozen=True, kw_only=True)
class Scaling:
    """One budget's growth of one cost: cost ~ N^exponent, and which form fits better."""

    exponent: Interval
    growth: Interval | None
    growth_counts: tuple[int, int]
    power_law: int
    exponential: int
    seeds: int


def curves(ablation: Ablation, world: World) -> dict[str, dict[int, str]]:
    """Present arms by budget and number of teachers; an arm of budget `both` is on every curve.

    Raises ValueError for teachers that are no positive whole number, and for two arms in one place.
    """
    found: dict[str, dict[int, str]] = {}
    shared: dict[int, str] = {}
    for arm in world.section.arms:
        levels = ablation.factors.get(arm, {})
        if "teachers" not in levels or "budget" not in levels or arm not in world.records:
            continue
        count = levels["teachers"]
        if not count.isdecimal() or int(count) < 1:
            raise ValueError(f"teachers of {arm!r} must be a whole number from 1, got {count!r}")
        budget = levels["budget"]
        line = shared if budget == "both" else found.setdefault(budget, {})
        if int(count) in line:
            raise ValueError(f"budget {budget!r} must have one arm with {count} teachers, "
                             f"got {line[int(count)]!r} and {arm!r}")  # fmt: skip
        line[int(count)] = arm
    return {b: dict(sorted({**shared, **line}.items())) for b, line in found.items()}


def seed_fits(
    counts: Float[np.ndarray, " counts"], costs: Float[np.ndarray, "seeds counts"]
) -> tuple[Float[np.ndarray, " seeds"], Float[np.ndarray, "seeds 2"]]:
    """Exponents of cost ~ N^exponent, and residual sums of squares: power law, exponential.

    Raises ValueError for fewer than two counts and for a cost or count that is not positive.
    """
    if len(set(counts.tolist())) < 2:
        raise ValueError(f"counts must hold at least 2 different numbers, got {counts.tolist()}")
    if not (costs > 0).all() or not (counts > 0).all():
        raise ValueError(f"costs and counts must be positive, got {min(costs.min(), counts.min())}")
    y = np.log(costs)
    y = y - y.mean(axis=1, keepdims=True)
    residuals, slopes = [], []
    for x in (np.log(counts), counts):
        x = x - x.mean()
        slope = y @ x / (x @ x)
        slopes.append(slope)
        residuals.append(((y - slope[:, None] * x) ** 2).sum(axis=1))
    return slopes[0], np.stack(residuals, axis=1)


def costs_of(
    world: World, line: Mapping[int, str], cost: str
) -> tuple[Float[np.ndarray, " counts"], Float[np.ndarray, "seeds counts"]]:
    """Numbers of teachers, and the cost of every seed that has it, positive, at all of them."""
    table = np.array([fact_values(world, arm, cost) for arm in line.values()], dtype=float).T
    table = table.reshape(-1, len(line))
    complete = (np.isfinite(table) & (table > 0)).all(axis=1)
    return np.array(list(line), dtype=float), table[complete]


def scaling(world: World, line: Mapping[int, str], cost: str) -> Scaling | None:
    """The growth of `cost` along one budget; None with fewer than two seeds or numbers."""
    counts, costs = costs_of(world, line, cost)
    if min(costs.shape) < 2:
        return None
    slopes, residuals = seed_fits(counts, costs)
    told = np.ptp(residuals, axis=1) > EXACT * len(counts)  # two points fit both forms
    power = told & (residuals[:, 0] < residuals[:, 1])
    several = [i for i, count in enumerate(counts) if count >= 2]
    first, last = several[0], several[-1]
    return Scaling(
        exponent=_mean(slopes),
        growth=ratio(costs[:, last], costs[:, first]) if first < last else None,
        growth_counts=(int(counts[first]), int(counts[last])),
        power_law=int(power.sum()),
        exponential=int((told & ~power).sum()),
        seeds=len(costs),
    )


def _mean(slopes: Float[np.ndarray, " seeds"]) -> Interval:
    """Without bounds where all seeds agree, as FLOPs do."""
    if is_constant(slopes[:, None], max(1.0, float(np.abs(slopes).max())))[0]:
        return Interval(estimate=float(slopes[0]), low=-inf, high=inf)
    return paired_t(slopes[:, None])[0]


def scaling_table(ablation: Ablation, world: World) -> Table:
    """A row per budget and cost."""
    rows = [
        _row(budget, cost, scaling(world, line, cost))
        for budget, line in curves(ablation, world).items()
        for cost in COSTS
    ]
    return Table(
        name="scaling",
        world=world.name,
        caption=caption(
            ablation, world, "cost of an update against the number of teachers N; "
            "times depend on the machine."
        ),
        columns=("budget", "cost", "seeds", "exponent of N [95 % interval]",
                 "growth [95 % interval]", "from N", "power law fits better",
                 "exponential fits better"),
        rows=tuple(rows),
        notes=("Exponent: per seed the least-squares slope of log cost over log N, then the mean "
               "over seeds with its t interval; alone where all seeds agree.",
               "Growth: cost at the largest N over that at the smallest N of at least 2.",
               "Fits better: seeds on which log cost over log N (power law) or over N "
               "(exponential) leaves the smaller sum of squares; both have two parameters.",
               provenance(world)),
    )  # fmt: skip


def _row(budget: str, cost: str, found: Scaling | None) -> tuple[Cell, ...]:
    head = (text(budget, budget=budget), text(FACTS[cost].title, cost=cost))
    if found is None:
        return (*head, text("too few seeds or numbers of teachers"), *[Cell()] * 5)
    low, high = found.growth_counts
    return (
        *head,
        text(str(found.seeds), seeds=found.seeds),
        _interval_cell(found.exponent, "exponent"),
        _interval_cell(found.growth, "growth"),
        text(f"{low} to {high}", smallest=low, largest=high),
        text(f"{found.power_law}/{found.seeds}", power_law=found.power_law),
        text(f"{found.exponential}/{found.seeds}", exponential=found.exponential),
    )


def _interval_cell(value: Interval | None, name: str) -> Cell:
    parts = bounded(value, half_width(value)) if value else ()
    return Cell(parts=parts, values=bounds(name, value))
