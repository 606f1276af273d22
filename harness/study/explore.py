"""Which values of the nuisance parameters does a family of arms run with?

The search is a replay: what is known decides what is asked next, so it is the same for any number
of workers, goes on where it stopped, and ablations that search the same share every trial.
"""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import optuna
from optuna.trial import Trial, TrialState

from harness.study.ablation import Range
from harness.study.plan import Cell, Where, seed_cells
from harness.study.runs import EXPLORE, Known
from harness.study.space import (
    Values,
    check_ranges,
    distributions,
    fits,
    grid,
    inside,
    place,
    rounded,
    with_values,
)
from harness.trial.config import TrialConfig, content_digest, normal_form

GRID_TRIALS = 6
GRID_FRACTION = 4
"""The grid has a quarter of the trials, and `GRID_TRIALS` at least."""
BATCH_TRIALS = 4
"""What TPE is asked at a time: enough for a few workers, whatever their number."""
ASKS_AT_MOST = 1000
Lookup = Callable[[str], Known | None]


@dataclass(frozen=True, kw_only=True)
class Search:
    """One family's tuning: the first arm of it, run with other values on the tuning seeds."""

    world: str
    profile: str
    representative: TrialConfig
    parameters: Mapping[str, Range]
    trials: int
    seeds: range
    metric: str
    higher_is_better: bool

    def __post_init__(self) -> None:
        check_ranges(self.parameters, self.representative)

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
    config = with_values(search.representative, values)
    # A trial is judged by its end alone.
    config = replace(config, evaluation=replace(config.evaluation, curve_points=0))
    cells = seed_cells(where, config, search.seeds)
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
    in batches and pruned against the same medians. The best mean over all tuning seeds wins; ties
    go to the smaller number and the choice named first.

    Values that a configuration refuses together are no trial: the grid leaves them out, and TPE is
    asked again. Raises ValueError where it has nothing else to offer.
    """
    if not search.parameters:
        return Found(values={})
    asked = min(search.trials, max(GRID_TRIALS, search.trials // GRID_FRACTION))
    settings = [v for v in grid(search.parameters, asked) if fits(search.representative, v)]
    points = [_point(search, values, known) for values in settings]
    medians: list[float] = []
    left = list(points)
    for seed in range(len(search.seeds) if points else 0):
        missing = [point.cells[seed] for point in left if point.scores[seed] is None]
        if missing:
            return Found(cells=tuple(missing))
        medians.append(statistics.median(point.mean(seed + 1) for point in left))
        if seed + 1 < len(search.seeds):
            left = [point for point in left if point.mean(seed + 1) <= medians[seed]]
    study = _study_of(search, points, left)
    for start in range(len(points), search.trials, BATCH_TRIALS):
        size = min(BATCH_TRIALS, search.trials - start)
        batch = [_ask(search, study, medians, known) for _ in range(size)]
        waits_for = {asked.cell.digest: asked.cell for asked in batch if asked.cell}
        if waits_for:
            return Found(cells=tuple(waits_for.values()))
        left += [asked.point for asked in batch if asked.tell(study, len(search.seeds))]
    seeds = len(search.seeds)
    best = min(left, key=lambda point: (point.mean(seeds), place(point.values, search.parameters)))
    return Found(values=best.values)


def _study_of(search: Search, points: Sequence[Point], left: Sequence[Point]) -> optuna.Study:
    """What the grid has shown, as TPE reads it.

    All parameters are drawn together, and what is still running counts as bad (constant liar), so
    that a batch is spread out.
    """
    sampler = optuna.samplers.TPESampler(
        seed=0, n_startup_trials=len(points), multivariate=True, constant_liar=True
    )
    study = optuna.create_study(sampler=sampler)
    for point in points:
        seen = {seed: score for seed, score in enumerate(point.scores) if score is not None}
        complete = point in left
        study.add_trial(
            optuna.trial.create_trial(
                state=TrialState.COMPLETE if complete else TrialState.PRUNED,
                params={p: inside(v, search.parameters[p]) for p, v in point.values.items()},
                distributions=distributions(search.parameters),
                value=point.mean(len(search.seeds)) if complete else None,
                intermediate_values=seen,
            )
        )
    return study


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A setting that TPE asked for: the cell it waits for, or none where it ended or was pruned."""

    trial: Trial
    point: Point
    cell: Cell | None = None
    pruned: bool = False

    def tell(self, study: optuna.Study, seeds: int) -> bool:
        """Let TPE know how it ended; returns whether it went through all seeds."""
        for seed, score in enumerate(self.point.scores):
            if score is not None:
                self.trial.report(score, seed)
        if self.pruned:
            study.tell(self.trial, state=TrialState.PRUNED)
        else:
            study.tell(self.trial, self.point.mean(seeds))
        return not self.pruned


def _ask(search: Search, study: optuna.Study, medians: Sequence[float], known: Lookup) -> Asked:
    """The next setting of TPE that a configuration accepts, as far as it is known."""
    for _ in range(ASKS_AT_MOST):
        trial = study.ask(distributions(search.parameters))
        values: Values = {path: rounded(value) for path, value in trial.params.items()}
        if fits(search.representative, values):
            break
        study.tell(trial, state=TrialState.FAIL)
    else:
        raise ValueError(f"{search.world}: {ASKS_AT_MOST} settings in a row refused, last {values}")
    point = _point(search, values, known)
    for seed, score in enumerate(point.scores):
        if score is None:
            return Asked(trial=trial, point=point, cell=point.cells[seed])
        if seed + 1 < len(medians) and point.mean(seed + 1) > medians[seed]:
            return Asked(trial=trial, point=point, pruned=True)
    return Asked(trial=trial, point=point)
