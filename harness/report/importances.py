"""Which factors would Optuna call important, and which of that would it say of noise?

PED-ANOVA (Watanabe et al. 2023, arXiv:2304.10255) has no randomness of its own; Optuna's fANOVA and
mean decrease in impurity would need scikit-learn. It looks at the best tenth of the outcomes.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import optuna
from jaxtyping import Float
from optuna.distributions import CategoricalDistribution
from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances

from harness.report.digits import number, text
from harness.report.factor_tables import factorial_values
from harness.report.footer import provenance
from harness.report.labels import caption, metric_name
from harness.report.outcomes import World, worlds
from harness.report.render import Cell, Table
from harness.report.write import write_formats
from harness.study.ablation import Ablation
from harness.trial.record import read_records

PERMUTATIONS = 20
FLOOR = 0.95


def write_importances(ablation: Ablation, results: Path) -> list[Path]:
    """Make `results/tables/NAME.importances.{md,tex,csv}`; nothing without a factorial's runs."""
    if "interaction" not in ablation.figures:
        return []
    records = read_records(results / "runs" / f"{ablation.name}.jsonl")
    made = [importance_table(ablation, world) for world in worlds(ablation, records)]
    if not made:
        return []
    stem = results / "tables" / f"{ablation.name}.importances"
    return write_formats(made, ablation.question, stem)


def importance_table(ablation: Ablation, world: World) -> Table:
    """One row per factor: its importance, and how high it comes without any effect."""
    arms, values = factorial_values(ablation, world)
    found, floor = importances(world.sign(world.section.metric) * values, arms, ablation.factors)
    notes = [
        "Exploratory only: no claim rests on it, the ANOVA decides. PED-ANOVA over the best tenth "
        "of the outcomes, each less the mean of its seed; shares sum to 1, interactions are not "
        f"seen. Noise floor: 95th percentile of {PERMUTATIONS} runs with the outcomes of every "
        "seed permuted over the arms.",
        provenance(world),
    ]
    if not found:
        notes.insert(0, "Too few complete seeds or factors, or no variation: nothing to rank.")
    what = f"exploratory only: Optuna's importances for {metric_name(world.section.metric)}."
    return Table(
        name="importances",
        world=world.name,
        caption=caption(ablation, world, what),
        columns=("factor", "importance", "noise floor", "above it"),
        rows=tuple(_row(name, share, floor[name]) for name, share in found.items()),
        notes=tuple(notes),
    )


def _row(name: str, share: float, floor: float) -> tuple[Cell, ...]:
    return (
        text(name, factor=name),
        text(number(share, 2), importance=share),
        text(number(floor, 2), noise_floor=floor),
        text("yes" if share > floor else "no", above=share > floor),
    )


def importances(
    values: Float[np.ndarray, "seeds arms"],
    arms: Sequence[str],
    factors: Mapping[str, Mapping[str, str]],
) -> tuple[dict[str, float], dict[str, float]]:
    """Share and noise floor of every factor that varies, for values where high is good.

    Empty below two seeds and two factors, or where nothing varies over the arms.
    """
    names = dict.fromkeys(name for arm in arms for name in factors[arm])
    levels = {name: tuple(dict.fromkeys(factors[arm][name] for arm in arms)) for name in names}
    levels = {name: found for name, found in levels.items() if len(found) > 1}
    if min(values.shape) < 2 or len(levels) < 2 or np.ptp(values, axis=1).max() == 0:
        return {}, {}
    within = values - values.mean(axis=1, keepdims=True)
    generator = np.random.default_rng(2304)
    noise = [
        _shares(generator.permuted(within, axis=1), arms, factors, levels)
        for _ in range(PERMUTATIONS)
    ]
    floor = {name: float(np.quantile([run[name] for run in noise], FLOOR)) for name in levels}
    return _shares(within, arms, factors, levels), floor


def _shares(
    values: Float[np.ndarray, "seeds arms"],
    arms: Sequence[str],
    factors: Mapping[str, Mapping[str, str]],
    levels: Mapping[str, tuple[str, ...]],
) -> dict[str, float]:
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(direction="maximize")
    space = {name: CategoricalDistribution(found) for name, found in levels.items()}
    trials = [
        optuna.trial.create_trial(
            params={name: factors[arm][name] for name in levels},
            distributions=dict(space),
            value=float(value),
        )
        for row in values
        for arm, value in zip(arms, row, strict=True)
    ]
    study.add_trials(trials)
    found = get_param_importances(study, evaluator=PedAnovaImportanceEvaluator())
    return {name: float(found[name]) for name in levels}
