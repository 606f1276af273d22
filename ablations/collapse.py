"""Is collapse due to the scheduler, to mode seeking, or to both?

Why.      A lab saw greedy routing send every rollout to one teacher and blamed scheduling and mode
          seeking together, but ran neither greedy routing with a loss that covers modes nor a
          balanced scheduler with one that seeks them.
Varies.   Scheduler (by domain, greedy, balanced likelihood), loss (reverse KL, forward KL, sampled
          token) and cross-entropy anchor (none, 0.5): all 18 combinations.  Two sources told apart
          by their statistics alone, completions from BOS, so that nothing but the rollout shows
          where it belongs.  One learning rate for all, 0.003, which pilot runs on other seeds found
          slow enough to see a collapse come.
Measure.  Collapse: one teacher has more than 95 % of the rollouts for 20 updates in a row.  The
          mean of both KLs to the true source, and its blocked ANOVA over the three factors.
Expect.   Greedy without anchor collapses on most seeds under every loss, forward KL too, so mode
          seeking is not needed; balanced and by domain never do.  The anchor keeps greedy from
          collapsing.  Scheduler and anchor interact; scheduler and loss hardly do.  (Three pilot
          seeds without anchor had shown the first sentence when this was written.)
Cost.     (18 arms + 1) x 10 seeds, about 2.5 s each.
"""

from collections.abc import Mapping
from dataclasses import replace
from itertools import product

from ablations.baseline import MARGIN_NATS, MARKOV, distillation, sft, sft_control
from harness.domains import Markov
from harness.study.ablation import Ablation, Section, Tuning
from harness.training.config import Optimization
from harness.trial.config import Specialist, TrialConfig

SCHEDULERS: Mapping[str, str] = {
    "by domain": "by_domain",
    "greedy": "greedy_likelihood",
    "balanced": "balanced_likelihood",
}
LOSSES: Mapping[str, dict[str, str]] = {
    "reverse KL": {"divergence": "reverse_kl", "support": "full"},
    "forward KL": {"divergence": "forward_kl", "support": "full"},
    "sampled token": {"divergence": "reverse_kl", "support": "sampled_token(policy_gradient)"},
}
ANCHORS: Mapping[str, float] = {"no anchor": 0.0, "anchor 0.5": 0.5}
FACTORS = {
    " | ".join(levels): dict(zip(("scheduler", "loss", "anchor"), levels, strict=True))
    for levels in product(SCHEDULERS, LOSSES, ANCHORS)
}
UNTOLD = replace(
    MARKOV,
    domains=tuple(
        Markov(name=name, source_seed=seed, smoothing=0.0, demonstration_sequences=256)
        for name, seed in (("a", 10), ("b", 11))
    ),
    base=sft(120, 5e-3, batch_sequences=16),
    specialist=Specialist(gap_nats=None, training=sft(60, 5e-3, batch_sequences=16)),
    method=replace(
        distillation(MARKOV),
        steps=60,
        batch_sequences=16,
        optimization=Optimization(learning_rate=3e-3),
    ),
    evaluation=replace(MARKOV.evaluation, curve_points=2),
)


def design(scheduler: str, loss: str, anchor: str) -> TrialConfig:
    """The trial at one level of every factor."""
    method = replace(
        distillation(UNTOLD),
        scheduler=SCHEDULERS[scheduler],
        anchor_weight=ANCHORS[anchor],
        divergence=LOSSES[loss]["divergence"],
        support=LOSSES[loss]["support"],
    )
    return replace(UNTOLD, method=method)


BASELINE = "by domain | reverse KL | no anchor"

ABLATION = Ablation(
    name="collapse",
    question="Is collapse due to the scheduler, to mode seeking, or to both?",
    varies=("method",),
    tuning=Tuning(parameters={}),
    worlds={
        "markov-untold": Section(
            arms={arm: design(**levels) for arm, levels in FACTORS.items()},
            controls={"SFT (tokens)": sft_control(UNTOLD, "tokens")},
            reference=BASELINE,
            baseline=BASELINE,
            metric="symmetric_kl_nats",
            margin=MARGIN_NATS,
        )
    },
    figures=("forest", "interaction", "shares"),
    factors=FACTORS,
)
