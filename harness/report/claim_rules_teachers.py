"""By which rule is each claim about many teachers, their cache and their precision decided?

As in claim_rules.py, the first line of a docstring is the rule as the report prints it.
"""

from collections.abc import Callable, Mapping

import numpy as np
from scipy import stats

from harness.report.contrasts import Contrast
from harness.report.costs import fact_values, mean_over_seeds, ratio
from harness.report.failures import mcnemar_p
from harness.report.findings import OPEN, Finding, Outcome, shown, single
from harness.report.outcomes import World
from harness.report.scaling import FORMS, Scaling, curves, scaling
from harness.report.stats import ALPHA, SMALLEST_TESTABLE
from harness.study.ablation import Ablation

FEW, MANY = 2, 12
LINEAR = 1.1  # growth with a smaller exponent counts as no faster than linear
BOTH = ("fixed", "proportional")
CACHE_ERROR_NATS = 1e-5
SAVED_SHARE = 0.3
BF16 = ("bf16, exact differences", "bf16, rounded differences")


def many_teachers_fold(ablation: Ablation, world: World) -> list[Finding]:
    """In proportion to N, 12 teachers are not worse than 2 by the margin (95 % interval)."""
    line = curves(ablation, world).get("proportional", {})
    if FEW not in line or MANY not in line:
        return []
    contrast = single(world, line[MANY], line[FEW])
    if contrast is None:
        return []
    outcome, margin = OPEN, world.section.margin
    interval = None if contrast.conditional else contrast.interval
    if interval is not None and contrast.seeds >= SMALLEST_TESTABLE:
        significant = contrast.adjusted_p is not None and contrast.adjusted_p <= ALPHA
        if interval.low > -margin:
            outcome = "reproduced"
        elif interval.high < -margin and significant:
            outcome = "reversed"
    number = f"{shown(contrast.interval)}, margin {margin:g}"
    return [Finding(world=world.name, outcome=outcome, number=number, seeds=contrast.seeds)]


def cost_exponential(ablation: Ablation, world: World) -> list[Finding]:
    """Time per update rises faster than N, and an exponential is closest on most seeds (p <= .05);
    reversed if at every budget the exponent's interval lies below 1.1."""
    found = {b: scaling(world, line, "step_seconds") for b, line in curves(ablation, world).items()}
    known = {budget: fit for budget, fit in found.items() if fit is not None}
    if not known or len(known) < len(found):
        return []
    outcome: Outcome = OPEN
    if any(_is_exponential(fit) for fit in known.values()):
        outcome = "reproduced"
    elif {"fixed", "proportional"} <= set(known) and all(
        _high(fit) < LINEAR for fit in known.values()
    ):
        outcome = "reversed"
    parts = [
        f"{budget}: N^{fit.exponent.estimate:.2f} [{fit.exponent.low:.2f}, "
        f"{fit.exponent.high:.2f}], closest on {fit.seeds} seeds: "
        + ", ".join(f"{form} {n}" for form, n in zip(FORMS, fit.closest, strict=True))
        for budget, fit in known.items()
    ]
    seeds = min(fit.seeds for fit in known.values())
    return [Finding(world=world.name, outcome=outcome, number="; ".join(parts), seeds=seeds)]


def _is_exponential(fit: Scaling) -> bool:
    """Costs that hardly rise can look exponential too, but rise no faster than N."""
    exponential, told = fit.closest[-1], sum(fit.closest)
    test = stats.binomtest(exponential, told, alternative="greater") if told else None
    return test is not None and float(test.pvalue) <= ALPHA and _low(fit) > 1


def _low(fit: Scaling) -> float:
    return fit.exponent.low if np.isfinite(fit.exponent.low) else fit.exponent.estimate


def _high(fit: Scaling) -> float:
    return fit.exponent.high if np.isfinite(fit.exponent.high) else fit.exponent.estimate


def states_rebuild_logits(ablation: Ablation, world: World) -> list[Finding]:
    """Cached states rebuild every divergence to 1e-5 nats and write fewer bytes than logits."""
    hidden, logits = "hidden float32", "logits float32"
    if hidden not in world.records or logits not in world.records:
        return []
    error = fact_values(world, hidden, "store.cache_error_nats")
    written = [fact_values(world, arm, "store.bytes_written") for arm in (hidden, logits)]
    if not world.seeds or not np.isfinite([error, *written]).all():
        return []
    holds = (error <= CACHE_ERROR_NATS) & (written[0] < written[1])
    share = ratio(written[0], written[1])
    number = f"error at most {error.max():.1e} nats"
    number += f", {share.estimate:.3f}x the bytes of logits" if share else ""
    if "recomputed" in world.records:
        spent = [fact_values(world, arm, "step_flops") for arm in (hidden, "recomputed")]
        flops = ratio(spent[0], spent[1])
        number += f", {flops.estimate:.2f}x the FLOPs of recomputing" if flops else ""
    return [_on_all_seeds(world, holds, number)]


def _on_all_seeds(world: World, holds: np.ndarray, number: str) -> Finding:
    """Counted facts need no test: they hold on every seed, on none, or the claim stays open."""
    outcome: Outcome = OPEN
    if holds.all() or not holds.any():
        outcome = "reproduced" if holds.all() else "reversed"
    return Finding(world=world.name, outcome=outcome, number=number, seeds=len(holds))


def one_head_resident(ablation: Ablation, world: World) -> list[Finding]:
    """Sorted by teacher, each head is loaded once and alone, unsorted more often; equal metric."""
    names = ("hidden float32", "hidden float32, unsorted")
    contrast = single(world, *names)
    if contrast is None:
        return []
    loads = [fact_values(world, name, "store.head_loads") for name in names]
    teachers = fact_values(world, names[0], "teachers")
    peak = fact_values(world, names[0], "store.peak_resident_heads")
    if not world.seeds or not np.isfinite([*loads, teachers, peak]).all():
        return []
    once = np.isclose(loads[0], teachers) & (peak == 1) & (loads[1] > loads[0])
    number = (
        f"{loads[0].mean():.3g} loads per update of {teachers.mean():.3g} teachers "
        f"(unsorted {loads[1].mean():.3g}), {peak.max():.0f} resident; {shown(contrast.interval)}"
    )
    finding = _on_all_seeds(world, once, number)
    if finding.outcome == "reproduced" and not _is_equivalent(world, contrast):
        return [Finding(world=world.name, outcome=OPEN, number=number, seeds=finding.seeds)]
    return [finding]


def _is_equivalent(world: World, contrast: Contrast) -> bool:
    """Arms that are apart by the same amount on all seeds have no p; the amount decides."""
    if contrast.identical and contrast.interval is not None:
        return abs(contrast.interval.estimate) <= world.section.margin
    return contrast.verdict == "equivalent"


def autocast_saves(ablation: Ablation, world: World) -> list[Finding]:
    """A bf16 arm keeps 30 % fewer bytes, is equivalent or better and diverges on no more seeds;
    reversed if each keeps more than that, or is worse, or diverges more often (p <= .05)."""
    base = "float32"
    arms = [arm for arm in (*BF16, "teacher only") if arm in world.records]
    if base not in world.records or not set(BF16) & set(arms):
        return []
    kept = mean_over_seeds(fact_values(world, base, "saved_bytes"))
    parts, words = [f"{base} {kept.estimate / 2**20:.3g} MiB" if kept else base], []
    for arm in arms:
        contrast = single(world, arm, base)
        saved = ratio(*(fact_values(world, name, "saved_bytes") for name in (arm, base)))
        if contrast is None or saved is None:
            continue
        parts.append(f"{arm} {saved.estimate:.2f}x, {shown(contrast.interval)}, "
                     f"diverged {contrast.diverged}")  # fmt: skip
        if arm in BF16:
            words.append(_saves(world, arm, base, saved.estimate, contrast))
    outcome: Outcome = OPEN
    if "reproduced" in words:
        outcome = "reproduced"
    elif words and all(word == "reversed" for word in words):
        outcome = "reversed"
    return [Finding(world=world.name, outcome=outcome, number="; ".join(parts),
                    seeds=len(world.seeds))] if words else []  # fmt: skip


def _saves(world: World, arm: str, base: str, share: float, contrast: Contrast) -> Outcome:
    lost, other = world.diverged(arm), world.diverged(base)
    more = lost.sum() > other.sum()
    if (
        share > 1 - SAVED_SHARE
        or contrast.verdict == "worse"
        or (more and mcnemar_p(lost, other) <= ALPHA)
    ):
        return "reversed"
    good = contrast.verdict == "better" or _is_equivalent(world, contrast)
    return "reproduced" if good and not more else OPEN


TEACHER_RULES: Mapping[str, Callable[[Ablation, World], list[Finding]]] = {
    "K02": many_teachers_fold,
    "K08": states_rebuild_logits,
    "K09": one_head_resident,
    "K27": autocast_saves,
    "K30": cost_exponential,
}
