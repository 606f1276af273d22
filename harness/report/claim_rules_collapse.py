"""By which rule is it decided where collapse comes from?"""

import numpy as np
from jaxtyping import Bool

from harness.report.collapse import collapse_step
from harness.report.failures import clopper_pearson, mcnemar_p
from harness.report.findings import OPEN, Finding, Outcome
from harness.report.outcomes import World
from harness.report.stats import ALPHA
from harness.study.ablation import Ablation

SEEKING = "greedy | reverse KL | no anchor"
COVERING = "greedy | forward KL | no anchor"
BALANCED = "balanced | reverse KL | no anchor"


def collapsed(world: World, arm: str) -> Bool[np.ndarray, " seeds"]:
    """On which seeds one teacher took all."""
    runs = world.records[arm]
    return np.array([collapse_step(runs[seed]) is not None for seed in world.seeds], dtype=bool)


def scheduling_and_mode_seeking(ablation: Ablation, world: World) -> list[Finding]:
    """Greedy routing collapses more often under reverse than under forward KL, and than balanced
    routing does (both McNemar p <= .05); reversed if it collapses under forward KL in most seeds.
    """
    if not {SEEKING, COVERING, BALANCED} <= set(world.records):
        return []
    seeking, covering, balanced = (collapsed(world, a) for a in (SEEKING, COVERING, BALANCED))
    seeds = len(seeking)
    if seeds == 0:
        return []
    outcome: Outcome = OPEN
    if clopper_pearson(int(covering.sum()), seeds).low > 0.5:
        outcome = "reversed"
    elif all(
        seeking.sum() > other.sum() and mcnemar_p(seeking, other) <= ALPHA
        for other in (covering, balanced)
    ):
        outcome = "reproduced"
    number = (
        f"collapsed: greedy with reverse KL {seeking.sum()}/{seeds}, with forward KL "
        f"{covering.sum()}/{seeds}; balanced with reverse KL {balanced.sum()}/{seeds}"
    )
    return [Finding(world=world.name, outcome=outcome, number=number, seeds=seeds)]
