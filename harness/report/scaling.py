"""How does the cost of an update grow with the number of teachers: as a power, or exponentially?

Per seed three curves of two parameters each: a power N^b, a constant with a cost per teacher
(a + bN), and an exponential.
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
FORMS = ("power law", "constant + linear", "exponential")
EXACT = 1e-20  # residual per point of log cost at which a curve passes through every point


@dataclass(frozen=True, kw_only=True)
class Scaling:
    """One budget's growth of one cost: cost ~ N^exponent, and on how many seeds a form is closest.

    `closest` counts the forms of `FORMS`; a seed that two forms fit exactly counts for the first,
    one that all fit exactly for none.
    """

    exponent: Interval
    growth: Interval | None
    growth_counts: tuple[int, int]
    closest: tuple[int, int, int]
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
) -> tuple[Float[np.ndarray, " seeds"], Float[np.ndarray, "seeds 3"]]:
    """Exponents of cost ~ N^exponent, and the sums of squares in log cost that each form leaves.

    The power law and the exponential are lines of least squares in log cost; a + bN, which is none,
    has the least sum of squared relative errors, and infinitely many where it is not positive.
    Raises ValueError for fewer than two counts and for a cost or count that is not positive.
    """
    if len(set(counts.tolist())) < 2:
        raise ValueError(f"counts must hold at least 2 different numbers, got {counts.tolist()}")
    if not (costs > 0).all() or not (counts > 0).all():
        raise ValueError(f"costs and counts must be positive, got {min(costs.min(), counts.min())}")
    power, exponent = _line(np.log(counts), np.log(costs))
    exponential, _ = _line(counts, np.log(costs))
    straight = [_straight(counts, row) for row in costs]
    return exponent, np.stack([power, np.array(straight), exponential], axis=1)


def _line(
    x: Float[np.ndarray, " counts"], y: Float[np.ndarray, "seeds counts"]
) -> tuple[Float[np.ndarray, " seeds"], Float[np.ndarray, " seeds"]]:
    """Sums of squared residuals of y over x, and slopes."""
    x, y = x - x.mean(), y - y.mean(axis=1, keepdims=True)
    slopes = y @ x / (x @ x)
    return ((y - slopes[:, None] * x) ** 2).sum(axis=1), slopes


def _straight(counts: Float[np.ndarray, " counts"], costs: Float[np.ndarray, " counts"]) -> float:
    relative = np.stack([1 / costs, counts / costs], axis=1)
    fitted = relative @ np.linalg.lstsq(relative, np.ones(len(costs)))[0]
    return float((np.log(fitted) ** 2).sum()) if (fitted > 0).all() else inf


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
    exact = EXACT * len(counts)
    told = residuals.max(axis=1) > exact  # two points fit every form
    near = residuals <= residuals.min(axis=1, keepdims=True) + exact
    power, straight, exponential = np.bincount(near.argmax(axis=1)[told], minlength=len(FORMS))
    several = [i for i, count in enumerate(counts) if count >= 2]
    first, last = several[0], several[-1]
    return Scaling(
        exponent=_mean(slopes),
        growth=ratio(costs[:, last], costs[:, first]) if first < last else None,
        growth_counts=(int(counts[first]), int(counts[last])),
        closest=(int(power), int(straight), int(exponential)),
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
                 "growth [95 % interval]", "from N", *(f"{form} closest" for form in FORMS)),
        rows=tuple(rows),
        notes=("Exponent: per seed the least-squares slope of log cost over log N, then the mean "
               "over seeds with its t interval; alone where all seeds agree.",
               "Growth: cost at the largest N over that at the smallest N of at least 2.",
               "Closest: seeds on which this form leaves the smallest sum of squares in log cost: "
               "a power of N, a constant and a cost per teacher (a + bN), or an exponential of N; "
               "two parameters each.",
               provenance(world)),
    )  # fmt: skip


def _row(budget: str, cost: str, found: Scaling | None) -> tuple[Cell, ...]:
    head = (text(budget, budget=budget), text(FACTS[cost].title, cost=cost))
    if found is None:
        return (*head, text("too few seeds or numbers of teachers"), *[Cell()] * 6)
    low, high = found.growth_counts
    return (
        *head,
        text(str(found.seeds), seeds=found.seeds),
        _interval_cell(found.exponent, "exponent"),
        _interval_cell(found.growth, "growth"),
        text(f"{low} to {high}", smallest=low, largest=high),
        *(
            text(f"{n}/{found.seeds}", **{form: n})
            for form, n in zip(FORMS, found.closest, strict=True)
        ),
    )


def _interval_cell(value: Interval | None, name: str) -> Cell:
    parts = bounded(value, half_width(value)) if value else ()
    return Cell(parts=parts, values=bounds(name, value))
