"""Which values of the nuisance parameters does a family of arms run with?

The search is a replay: what is known decides what is asked next, so it is the same for any number
of workers, goes on where it stopped, and ablations that search the same share every trial.
"""

import math
import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import optuna
from optuna.distributions import FloatDistribution
from optuna.trial import TrialState

from harness.study.plan import Cell, Where, seed_cells
from harness.study.runs import EXPLORE, Known
from harness.trial.config import TrialConfig, content_digest, normal_form, override_all

GRID_TRIALS = 5
Values = dict[str, float]
Lookup = Callable[[str], Known | None]


@dataclass(frozen=True, kw_only=True)
class Search:
    """One family's tuning: the first arm of it, run with other values on the tuning seeds."""

    world: str
    profile: str
    representative: TrialConfig
    parameters: Mapping[str, tuple[float, float]]
    trials: int
    seeds: range
    metric: str
    higher_is_better: bool

    def __post_init__(self) -> None:
        for path, (low, high) in self.parameters.items():
            if not 0 < low < high:
                raise ValueError(f"tuning range of {path} must have 0 < low < high: {low}, {high}")

    @property
    def key(self) -> str:
        """Names the search: equal for equal ones, whichever ablation asks."""
        form = {
            "representative": normal_form(self.representative),
            "parameters": {path: list(bounds) for path, bounds in self.parameters.items()},
            "trials": self.trials,
            "seeds": list(self.seeds),
            "metric": self.metric,
        }
        return content_digest(form)

    @property
    def cells_at_most(self) -> int:
        """How many cells it takes where nothing is pruned."""
        return self.trials * len(self.seeds) if self.parameters else 0


@dataclass(frozen=True, kw_only=True)
class Found:
    """What a search has come to: `values`, or the cells without which it cannot go on."""

    values: Values | None = None
    cells: tuple[Cell, ...] = ()


def grid(parameters: Mapping[str, tuple[float, float]], points: int) -> list[Values]:
    """`points` settings on levels of equal ratio, ends included; the middle if there is one.

    Several parameters form a Latin square: each takes every level once, in a fixed shuffle.
    """
    places = [i / (points - 1) for i in range(points)] if points > 1 else [0.5]
    columns = []
    for number, (low, high) in enumerate(parameters.values()):
        levels = [_rounded(low * (high / low) ** place) for place in places]
        if number:
            random.Random(number).shuffle(levels)
        columns.append(levels)
    return [dict(zip(parameters, row, strict=True)) for row in zip(*columns, strict=True)]


def _rounded(value: float) -> float:
    """Three digits: a learning rate that can be read, and typed again."""
    return float(f"{value:.3g}")


def with_values(config: TrialConfig, values: Values) -> TrialConfig:
    """The configuration with tuned values put in."""
    made: TrialConfig = override_all(config, {path: repr(v) for path, v in values.items()})
    return made


@dataclass(frozen=True, kw_only=True)
class Point:
    """One setting: its cell for every tuning seed, and the scores known so far (low is good)."""

    values: Values
    cells: tuple[Cell, ...]
    scores: tuple[float | None, ...]

    def mean(self, seeds: int) -> float:
        """Mean score over the first seeds, which must be known."""
        return statistics.fmean(score for score in self.scores[:seeds] if score is not None)


def _point(search: Search, values: Values, known: Lookup) -> Point:
    where = Where(
        ablation=EXPLORE, world=search.world, arm=search.key, profile=search.profile, split="tuning"
    )
    cells = seed_cells(where, with_values(search.representative, values), search.seeds)
    scores = [_score(search, known(cell.digest)) for cell in cells]
    return Point(values=values, cells=tuple(cells), scores=tuple(scores))


def _score(search: Search, known: Known | None) -> float | None:
    """Low is good; a trial that diverged, or has no value, is worse than any other."""
    if known is None:
        return None
    value = known.macro.get(search.metric)
    if known.status == "diverged" or value is None:
        return math.inf
    return -value if search.higher_is_better else value


def replay(search: Search, known: Lookup) -> Found:
    """Go through the search as far as the known results reach.

    First the grid, whole, on one tuning seed after the other; what is above the median of those
    left is pruned between seeds. (Optuna's MedianPruner compares with trials that happened to end
    before, so its choice would depend on the number of workers.) Then TPE (Bergstra et al. 2011),
    pruned against the same medians. The best mean over all tuning seeds wins; ties go to the
    smaller value.
    """
    if not search.parameters:
        return Found(values={})
    settings = grid(search.parameters, min(search.trials, GRID_TRIALS))
    points = [_point(search, values, known) for values in settings]
    medians: list[float] = []
    left = points
    for seed in range(len(search.seeds)):
        missing = [point.cells[seed] for point in left if point.scores[seed] is None]
        if missing:
            return Found(cells=tuple(missing))
        medians.append(statistics.median(point.mean(seed + 1) for point in left))
        if seed + 1 < len(search.seeds):
            left = [point for point in left if point.mean(seed + 1) <= medians[seed]]
    study = _study_of(search, points, left)
    for _ in range(search.trials - len(points)):
        point = _next_point(search, study, medians, known)
        if isinstance(point, Cell):
            return Found(cells=(point,))
        left += [point] if point else []
    best = min(left, key=lambda point: (point.mean(len(search.seeds)), *point.values.values()))
    return Found(values=best.values)


def _distributions(search: Search) -> dict[str, FloatDistribution]:
    return {
        path: FloatDistribution(low, high, log=True)
        for path, (low, high) in search.parameters.items()
    }


def _study_of(search: Search, points: Sequence[Point], left: Sequence[Point]) -> optuna.Study:
    """What the grid has shown, as TPE reads it."""
    sampler = optuna.samplers.TPESampler(seed=0, n_startup_trials=len(points))
    study = optuna.create_study(sampler=sampler)
    for point in points:
        seen = {seed: score for seed, score in enumerate(point.scores) if score is not None}
        complete = point in left
        study.add_trial(
            optuna.trial.create_trial(
                state=TrialState.COMPLETE if complete else TrialState.PRUNED,
                params={p: _inside(v, search.parameters[p]) for p, v in point.values.items()},
                distributions=dict(_distributions(search)),
                value=point.mean(len(search.seeds)) if complete else None,
                intermediate_values=seen,
            )
        )
    return study


def _inside(value: float, bounds: tuple[float, float]) -> float:
    """Rounding may lead out of the range by the third digit."""
    return min(max(value, bounds[0]), bounds[1])


def _next_point(
    search: Search, study: optuna.Study, medians: Sequence[float], known: Lookup
) -> Point | Cell | None:
    """The setting that TPE asks for; the cell it waits for; None where it was pruned."""
    trial = study.ask(dict(_distributions(search)))
    point = _point(search, {p: _rounded(v) for p, v in trial.params.items()}, known)
    for seed, score in enumerate(point.scores):
        if score is None:
            return point.cells[seed]
        trial.report(score, seed)
        if seed + 1 < len(medians) and point.mean(seed + 1) > medians[seed]:
            study.tell(trial, state=TrialState.PRUNED)
            return None
    study.tell(trial, point.mean(len(search.seeds)))
    return point
