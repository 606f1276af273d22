"""Which choice matters most, and do the choices depend on one another?

Why.      One factor at a time cannot see that, say, reverse KL is fine with the right teacher and
          harmful with the wrong one.  A search finds a good design but not why; a factorial says
          how much of the variance each factor and each pair explains.
Varies.   Divergence (reverse, forward KL), support (full vocabulary, the student's top-4),
          scheduler (by domain, round robin, greedy), gap (0.1, 0.3 nats): all 24 combinations.
          Tuned: one learning rate for all.  Besides, Optuna's TPE searches all four factors and
          the rate at once; what it finds is one more arm, confirmed on fresh seeds like any other.
Measure.  markov, as in kl_direction.  Blocked ANOVA (seed = block), type II, omega squared.
Expect.   Scheduler explains most, the gap second; divergence matters only under the wrong teacher
          (interaction); support least.  The searched design is by_domain with the large gap.
Cost.     (25 + 3) arms x 10 seeds + 24 tuning runs + a search of 40 trials on two seeds, most of
          them pruned after one; about 2 s each.
"""

from collections.abc import Mapping
from dataclasses import replace
from itertools import product

from ablations.baseline import (
    MARGIN_NATS,
    MARKOV,
    TUNING,
    distillation,
    sft_controls,
    with_target,
)
from harness.study.ablation import Ablation, Range, Section
from harness.trial.config import TrialConfig

DIVERGENCES = {"reverse": "reverse_kl", "forward": "forward_kl"}
SUPPORTS = {"full": "full", "top-4": "top_k(4, student, tail)"}
SCHEDULERS: dict[str, str] = {
    "by domain": "by_domain",
    "round robin": "round_robin",
    "greedy": "greedy_likelihood",
}
GAPS_NATS = {"0.1": 0.1, "0.3": 0.3}
FACTORS = {
    " | ".join(levels): dict(
        zip(("divergence", "support", "scheduler", "gap"), levels, strict=True)
    )
    for levels in product(DIVERGENCES, SUPPORTS, SCHEDULERS, GAPS_NATS)
}


def design(divergence: str, support: str, scheduler: str, gap: str) -> TrialConfig:
    """The trial at one level of every factor."""
    method = replace(
        distillation(MARKOV),
        divergence=DIVERGENCES[divergence],
        support=SUPPORTS[support],
        scheduler=SCHEDULERS[scheduler],
    )
    return replace(MARKOV, method=method, specialist=with_target(MARKOV, GAPS_NATS[gap]))


SEARCHED = "searched (TPE)"
SEARCH: Mapping[str, Range] = {
    **TUNING.parameters,
    "method.divergence": ("reverse_kl", "forward_kl", "jsd(0.5)", "skew_reverse_kl(0.1)"),
    "method.support": (
        "full",
        "top_k(4, student, tail)",
        "top_k(16, student, tail)",
        "sampled_token(policy_gradient)",
    ),
    "method.scheduler": ("by_domain", "round_robin", "greedy_likelihood", "soft_likelihood"),
    "specialist.gap_nats": ("0.1", "0.2", "0.3"),
}
"""More levels than the factorial has. A sampled token has no divergence but the reverse."""

BASELINE = "reverse | full | by domain | 0.1"

ABLATION = Ablation(
    name="design_search",
    question="Which choice matters most, and do the choices depend on one another?",
    varies=("method.divergence", "method.support", "method.scheduler", "specialist.gap_nats"),
    tuning=replace(TUNING, families=dict.fromkeys(FACTORS, "designs"), searches={SEARCHED: SEARCH}),
    worlds={
        "markov": Section(
            arms={
                **{arm: design(**levels) for arm, levels in FACTORS.items()},
                SEARCHED: replace(MARKOV, specialist=with_target(MARKOV, 0.2)),
            },
            controls=sft_controls(design(**FACTORS[BASELINE])),
            reference=BASELINE,
            baseline=BASELINE,
            metric="symmetric_kl_nats",
            margin=MARGIN_NATS,
        )
    },
    figures=("forest", "interaction"),
    factors=FACTORS,
)
