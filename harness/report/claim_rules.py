"""By which rule, fixed before the run, is each claim decided?

A rule sees one world and finds nothing where that world lacks what it needs. The first line of its
docstring is the rule as the report prints it.
"""

from collections.abc import Callable, Mapping

import numpy as np
from scipy import stats

from harness.report.claim_rules_collapse import scheduling_and_mode_seeking
from harness.report.claim_rules_teachers import TEACHER_RULES
from harness.report.collapse import collapse_step
from harness.report.factor_tables import anova_effects, break_evens
from harness.report.failures import clopper_pearson, mcnemar_p
from harness.report.findings import (
    OPEN,
    Finding,
    Outcome,
    by_sign,
    not_better,
    one_sample,
    shown,
    single,
)
from harness.report.outcomes import World
from harness.report.stats import ALPHA, paired_t
from harness.study.ablation import Ablation
from harness.trial.record import TrialRecord

LAB_GAP_NATS = 0.24
LAB_COLLAPSE_STEP = 60


Rule = Callable[[Ablation, World], list[Finding]]


def mode_seeking(ablation: Ablation, world: World) -> list[Finding]:
    """Reverse KL leaves the student with less entropy than forward KL (p <= .05)."""
    found = single(world, "reverse KL", "forward KL", "student_entropy_nats")
    return by_sign(world, found, claimed=-1.0)


def diversity(ablation: Ablation, world: World) -> list[Finding]:
    """Reverse KL leaves the student with more entropy than forward KL (p <= .05)."""
    found = single(world, "reverse KL", "forward KL", "student_entropy_nats")
    return by_sign(world, found, claimed=1.0)


def low_kl_means_likely(ablation: Ablation, world: World) -> list[Finding]:
    """Over the measured points of a run, reverse KL to the teacher falls as the source's
    log-probability of the student's samples rises: negative rank correlation (p <= .05)."""
    correlations = []
    for record in world.records.get("reverse KL", {}).values():
        columns = record.curve.get("evaluation", {})
        x = columns.get("teacher_reverse_kl_nats")
        y = columns.get("source_log_probability_nats")
        if x and y and len(set(x)) > 2 and None not in (*x, *y):
            correlations.append(float(stats.spearmanr(x, y).statistic))
    return one_sample(world, correlations, claimed=-1.0, unit=" (rank correlation)")


def sampled_token_unstable(ablation: Ablation, world: World) -> list[Finding]:
    """Sampled-token runs diverge on more seeds than full-vocabulary ones (McNemar p <= .05)."""
    if "sampled token" not in world.records or "full vocabulary" not in world.records:
        return []
    sampled, full = world.diverged("sampled token"), world.diverged("full vocabulary")
    outcome: Outcome = OPEN
    if mcnemar_p(sampled, full) <= ALPHA:
        outcome = "reproduced" if sampled.sum() > full.sum() else "reversed"
    number = f"diverged {sampled.sum()}/{len(sampled)} against {full.sum()}/{len(full)}"
    return [Finding(world=world.name, outcome=outcome, number=number, seeds=len(sampled))]


def full_vocabulary_efficient(ablation: Ablation, world: World) -> list[Finding]:
    """Full vocabulary reaches the sampled token's final level with fewer FLOPs (p <= .05)."""
    if "sampled token" not in world.records or "full vocabulary" not in world.records:
        return []
    logs = []
    for seed in world.seeds:
        pair = [world.records[arm][seed] for arm in ("sampled token", "full vocabulary")]
        ratio = _flops_ratio(pair[0], pair[1], world)
        if ratio is not None:
            logs.append(float(np.log(ratio)))
    return one_sample(world, logs, claimed=1.0, unit=" (log ratio of FLOPs; claimed: +0.315)")


def _flops_ratio(slow: TrialRecord, fast: TrialRecord, world: World) -> float | None:
    """FLOPs of `slow` over those at which `fast` first reaches its final level.

    Where `fast` never does, its whole budget counts: a lower bound of what it needs.
    """
    curves = []
    for record in (slow, fast):
        columns = record.curve.get("evaluation", {})
        spent, measured = columns.get("flops"), columns.get(world.section.metric)
        if record.status == "diverged" or not spent or not measured:
            return None
        sign = world.sign(world.section.metric)
        curves.append((np.array(spent, dtype=float), sign * np.array(measured, dtype=float)))
    (slow_flops, slow_values), (flops, values) = curves
    if np.isnan([slow_values[-1], *values]).any():
        return None
    best = np.maximum.accumulate(values)
    needed = float(np.interp(slow_values[-1], best, flops)) or float(flops[1])
    return float(slow_flops[-1]) / needed


def staged_fusion_faster(ablation: Ablation, world: World) -> list[Finding]:
    """Related pairs first, their making counted, take fewer FLOPs than direct fusion to the level
    that both reach (p <= .05)."""
    logs = []
    for seed in world.seeds if {"direct", "pairs, related"} <= set(world.records) else ():
        direct, staged = (world.records[arm][seed] for arm in ("direct", "pairs, related"))
        faster, slower = _flops_ratio(direct, staged, world), _flops_ratio(staged, direct, world)
        if faster is not None and slower is not None:
            logs.append(float(np.log(faster / slower)))
    return one_sample(world, logs, claimed=1.0, unit=" (log ratio of FLOPs; claimed: +0.833)")


def zero_discount_enough(ablation: Ablation, world: World) -> list[Finding]:
    """A discount of 0.9 is no better than 0 (equivalent or worse); reversed if it is better."""
    found = single(world, "sampled token, discount 0.9", "sampled token")
    return not_better(world, found)


def greedy_collapses(ablation: Ablation, world: World) -> list[Finding]:
    """Under greedy routing one teacher takes all in most seeds (Clopper-Pearson above one half)."""
    return _collapse(world, by_step=None)


def collapses_by_step_60(ablation: Ablation, world: World) -> list[Finding]:
    """Under greedy routing one teacher has all by update 60 in most seeds (Clopper-Pearson)."""
    return _collapse(world, by_step=LAB_COLLAPSE_STEP)


def _collapse(world: World, *, by_step: int | None) -> list[Finding]:
    runs = list(world.records.get("greedy likelihood", {}).values())
    if not runs:
        return []
    steps = [collapse_step(run) for run in runs]
    hits = sum(step is not None and (by_step is None or step <= by_step) for step in steps)
    rate = clopper_pearson(hits, len(runs))
    outcome: Outcome = OPEN
    if rate.low > 0.5 or rate.high < 0.5:
        outcome = "reproduced" if rate.low > 0.5 else "reversed"
    number = f"{hits}/{len(runs)} seeds [{rate.low:.2f}, {rate.high:.2f}]"
    return [Finding(world=world.name, outcome=outcome, number=number, seeds=len(runs))]


def round_robin_cures(ablation: Ablation, world: World) -> list[Finding]:
    """Blind round-robin is better than greedy routing on the primary metric (p <= .05)."""
    return by_sign(world, single(world, "round robin", "greedy likelihood"), claimed=1.0)


def adaptive_weights_help(ablation: Ablation, world: World) -> list[Finding]:
    """Weights by likelihood are better than blind round-robin on the primary metric (p <= .05)."""
    return by_sign(world, single(world, "soft likelihood", "round robin"), claimed=1.0)


def opd_does_not_beat_sft(ablation: Ablation, world: World) -> list[Finding]:
    """The lab's row is no better than SFT on the same budget (or on less); reversed if better."""
    arm = "blind round-robin, anchor 0.5"
    found = []
    for control in world.section.controls:
        kind, contrast = world.match_of(control), single(world, arm, control)
        if kind is None or contrast is None:
            continue
        ratio = world.budget_ratio(arm, control, kind)
        unfair = contrast.off_budget and not (ratio is not None and ratio > 1)
        for finding in not_better(world, contrast):
            outcome = OPEN if unfair or (contrast.off_budget and finding.outcome == "reversed") \
                else finding.outcome  # fmt: skip
            note = f"{finding.number}, budget {ratio:.2f}x" if ratio else finding.number
            found.append(Finding(world=f"{world.name}, against {control}", outcome=outcome,
                                 number=note, seeds=finding.seeds))  # fmt: skip
    return found


def specialists_lead(ablation: Ablation, world: World) -> list[Finding]:
    """The specialists' measured lead over the base is positive and its interval holds 0.24 nats."""
    runs = world.records.get(world.section.baseline, {}).values()
    gaps = [gap for run in runs if (gap := run.facts.get("gap_nats")) is not None]
    if len(gaps) < 2:
        return []
    (interval,) = paired_t(np.array(gaps, dtype=float)[:, None])
    outcome: Outcome = OPEN
    if interval.high < 0 or (interval.low > 0 and interval.low <= LAB_GAP_NATS <= interval.high):
        outcome = "reproduced" if interval.low > 0 else "reversed"
    number = shown(interval)
    return [Finding(world=world.name, outcome=outcome, number=number, seeds=len(gaps))]


def threshold_of_strength(ablation: Ablation, world: World) -> list[Finding]:
    """OPD minus SFT rises with the gap and crosses 0 at a gap that the seeds bound."""
    found = []
    for source, curve in break_evens(ablation, world).items():
        if curve is None:
            continue
        outcome: Outcome = OPEN
        if curve.slope.high < 0:
            outcome = "reversed"
        elif curve.slope.low > 0 and not curve.is_unbounded():
            outcome = OPEN if curve.crossing_nats is None else "reproduced"
        found.append(Finding(world=f"{world.name} ({source})", outcome=outcome,
                             number=curve.sentence(), seeds=curve.seeds))  # fmt: skip
    return found


def strength_times_schedule(ablation: Ablation, world: World) -> list[Finding]:
    """Gap and scheduler interact (blocked ANOVA, p <= .05)."""
    for effect in anova_effects(ablation, world):
        if set(effect.term) == {"gap", "scheduler"}:
            share = effect.omega_squared
            outcome: Outcome = "reproduced" if effect.p <= ALPHA else OPEN
            number = f"omega squared {share.estimate:.3f} [{share.low:.3f}, {share.high:.3f}]"
            seeds = len(world.seeds)
            return [Finding(world=world.name, outcome=outcome, number=number, seeds=seeds)]
    return []


RULES: Mapping[str, Rule] = {
    **TEACHER_RULES,
    "K05": mode_seeking,
    "K07": sampled_token_unstable,
    "K11": greedy_collapses,
    "K12": collapses_by_step_60,
    "K13": round_robin_cures,
    "K14": scheduling_and_mode_seeking,
    "K15": opd_does_not_beat_sft,
    "K16": specialists_lead,
    "K17": threshold_of_strength,
    "K21": strength_times_schedule,
    "K23": diversity,
    "K24": full_vocabulary_efficient,
    "K25": adaptive_weights_help,
    "K28": staged_fusion_faster,
    "K32": zero_discount_enough,
    "K33": low_kl_means_likely,
}
