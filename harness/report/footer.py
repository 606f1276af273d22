"""What must a reader know below a table: method, family, margin, noise, seeds, origin?"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from harness.report.comparisons import gap_closed, paired_seed_noise
from harness.report.contrasts import Comparison
from harness.report.labels import DAGGER
from harness.report.outcomes import World
from harness.report.stats import ALPHA, EXACT_SEEDS, RANDOM_FLIPS, SMALLEST_TESTABLE

STARS = "* at .05, ** at .01, *** at .001 of the adjusted p."
OFF_BUDGET = f"{DAGGER} budget more than 2 % off what it is matched with: excluded from claims."
RATIOS = "Budget ratio: to the arm's control; of a control, to the run that it mirrors."
BOLD = "Bold: the best arm and all that max-T against it does not tell apart."


def main_notes(world: World, decided: Comparison) -> list[str]:
    """The notes of the deciding table."""
    notes = [_design(world), _method(world, decided), _verdicts(world), _noise(world, decided)]
    notes += _noninferior(world, decided) + _gaps_closed(world, decided)
    if len(world.seeds) >= SMALLEST_TESTABLE:
        notes.append(BOLD)
    if any(world.is_off_budget(arm, world.control_of(arm)) for arm in world.arms()):
        notes.append(
            f"{DAGGER} budget more than 2 % off the one it is matched with: excluded from claims."
        )
    notes += _warnings(world, decided)
    return [*notes, RATIOS, provenance(world)]


def _design(world: World) -> str:
    seeds = world.seeds
    span = f"{len(seeds)} paired seed" + "s" * (len(seeds) != 1)
    span += f" ({seeds[0]} to {seeds[-1]})" if len(seeds) > 1 else ""
    if len(seeds) < world.planned:
        span += f" of {world.planned} planned: those that every arm has"
    domains = ", ".join(world.domains(world.section.metric))
    return f"{span}; unit: the seed; per seed the mean over domains ({domains})."


def _method(world: World, comparison: Comparison) -> str:
    seeds = len(world.seeds)
    if comparison.method is None:
        if seeds < SMALLEST_TESTABLE:
            few = "with 5 seeds or fewer the exact test cannot reach .05"
            return f"Paired t intervals only: {few}, so no p, no star, no verdict."
        return "Paired t intervals; nothing to test."
    flips = f"all {2**seeds}" if seeds <= EXACT_SEEDS else f"{RANDOM_FLIPS} random"
    how = f"step-down max-T over {comparison.size} arms, {flips} sign flips"
    if comparison.method == "Holm":
        how = (
            f"Holm over {comparison.size} arms on paired-t p, since {2**seeds} sign flips are "
            "too few for max-T"
        )
    return f"Paired t intervals (95 %). Adjusted p: {how}. {STARS}"


def _verdicts(world: World) -> str:
    return (
        f"Margin of equivalence {world.section.margin:g} (fixed before the run; paired TOST at "
        ".05, it goes before better and worse). Inconclusive does not mean equal."
    )


def _noise(world: World, comparison: Comparison) -> str:
    found = [c.detectable for c in comparison.contrasts if c.detectable is not None]
    noise = paired_seed_noise(world)
    text = "Minimum detectable effect (80 % power, all arms of the family): "
    text += f"median {np.median(found):.2g}, largest {max(found):.2g}. " if found else "unknown. "
    return text + ("A/A sd unknown." if noise is None else f"A/A sd {noise:.2g}.")


def _noninferior(world: World, comparison: Comparison) -> list[str]:
    if len(world.seeds) < SMALLEST_TESTABLE:
        return []
    passed = [c.arm for c in comparison.contrasts if c.worst and c.worst.noninferior_p <= ALPHA]
    names = ", ".join(passed) or "none"
    return [f"In no domain worse by the margin or more (intersection-union, .05): {names}."]


def _gaps_closed(world: World, comparison: Comparison) -> list[str]:
    shares = [(c.arm, gap_closed(world, c)) for c in comparison.contrasts]
    found = [f"{arm} {share:.0%}" for arm, share in shares if share is not None]
    told = "Closed of the gap from the control to the specialists"
    return [f"{told}: {', '.join(found)}."] if found else []


def _warnings(world: World, comparison: Comparison) -> list[str]:
    notes = []
    identical = [c.arm for c in comparison.contrasts if c.identical]
    if identical:
        notes.append(f"Warning: seeds have no effect on the difference of {', '.join(identical)}.")
    conditional = [c for c in comparison.contrasts if c.conditional]
    if conditional:
        tests = [f"{c.arm} {c.mcnemar_p:.2g}" for c in conditional if c.mcnemar_p is not None]
        notes.append(
            "Conditional: over the pairs that finished; p and verdict rank a diverged seed below "
            "every finished one. div: Clopper-Pearson interval; exact McNemar p against the "
            f"control: {', '.join(tests)}."
        )
    return notes


def control_notes(world: World, families: Sequence[Comparison]) -> list[str]:
    """Every column is a family of its own."""
    notes = [_method(world, family) for family in families][:1]
    notes.append("Each column is one family. The budgets are matched as the controls are named.")
    if any(c.off_budget for family in families for c in family.contrasts):
        notes.append(OFF_BUDGET)
    return notes


def metric_notes(world: World, groups: Mapping[str, Comparison]) -> list[str]:
    """Exploratory: one Benjamini-Hochberg adjustment over all cells."""
    tests = sum(c.adjusted_p is not None for group in groups.values() for c in group.contrasts)
    sign = "Positive = better; `raw` = arm minus control, for a metric that has no better side."
    if not tests:
        return [f"{sign} Intervals only: too few seeds to test."]
    return [f"{sign} Exploratory: stars from Benjamini-Hochberg over {tests} sign-flip p values."]


def provenance(world: World) -> str:
    """Where the runs come from: commit, whether it was dirty, CPU, threads, torch."""
    environments = [r.environment for runs in world.records.values() for r in runs.values()]

    def seen(key: str) -> list[str]:
        return list(dict.fromkeys(str(e[key]) for e in environments if e.get(key) is not None))

    commits = commits_of(world)
    text = f"Profile {world.profile}. Commit {', '.join(commits)}"
    text += "; MIXED COMMITS" if len(commits) > 1 else ""
    for key, label in (("cpu", "CPU"), ("threads", "threads"), ("torch", "torch")):
        values = seen(key)
        text += f"; {label} {', '.join(values)}" if values else ""
    return text + "."


def commits_of(world: World) -> list[str]:
    """Every commit that a record of the world names, dirty ones with the hash of the difference."""
    records = [record for runs in world.records.values() for record in runs.values()]
    return list(dict.fromkeys(_commit(record.environment) for record in records))


def _commit(environment: Mapping[str, Any]) -> str:
    """`0123456789ab`, or `0123456789ab (dirty HASH)` for code that differs from the commit."""
    dirty = environment.get("dirty")
    return str(environment.get("commit", "unknown"))[:12] + (f" (dirty {dirty})" if dirty else "")
