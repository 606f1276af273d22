"""How much of the vocabulary must the loss see?

Why.      The exact sum over the vocabulary costs memory; the sampled token costs one number and is
          said to be noisy or unstable (DeepSeek-V4 5.1.2, unquantified), yet Thinking Machines'
          results all use it.  Top-k sits between, and whose k tokens are taken matters: a reverse
          KL on the teacher's tokens never sees the student's own mistakes.  k2 and k3 are often
          used as losses although the gradient of k3 is that of forward KL, and k1's is zero.
Varies.   `method.support` (and `method.discount` for the sampled return).  Divergence: reverse KL.
          Tuned: learning rate; top-k arms share the full vocabulary's (same gradient up to the
          tail), the sampled-token estimators share theirs (same variance to first order).
Measure.  As in kl_direction.
Expect.   Top-16 with a tail bucket equal to full vocabulary; top-1 of the student well behind;
          sampled token behind by 0.05 nats or more at this batch size, k2 about equal to the
          policy gradient, k3 no better.  No divergence of runs at the tuned rate.
Cost.     2 worlds x (17 arms x 10 seeds + 5 families x 6 rates x 2 seeds) cells of about 2 s.
"""

from dataclasses import replace

from ablations.baseline import MARGIN_NATS, MARKOV, TEXT, TUNING, distillation, sft_controls
from harness.study.ablation import Ablation, Section
from harness.trial.config import TrialConfig

TOP_K = {
    f"top-{k} {owner}": f"top_k({k}, {owner}, tail)"
    for owner in ("student", "teacher", "union")
    for k in (1, 4, 16)
}
SAMPLED = {
    "sampled token": "sampled_token(policy_gradient)",
    "k2 as loss": "sampled_token(k2)",
    "k3 as loss": "sampled_token(k3)",
}
DISCOUNTED = "sampled token, discount 0.9"


def section(base: TrialConfig, metric: str) -> Section:
    """The arms of one world."""
    method = distillation(base)
    arms = {
        name: replace(base, method=replace(method, support=support))
        for name, support in {"full vocabulary": "full", **TOP_K, **SAMPLED}.items()
    }
    sampled = SAMPLED["sampled token"]
    arms[DISCOUNTED] = replace(base, method=replace(method, support=sampled, discount=0.9))
    return Section(
        arms=arms,
        controls=sft_controls(base),
        reference="full vocabulary",
        baseline="full vocabulary",
        metric=metric,
        margin=MARGIN_NATS,
        headline=("top-16 student", "sampled token"),
    )


ABLATION = Ablation(
    name="loss_granularity",
    question="How much of the vocabulary must the loss see?",
    varies=("method.support", "method.discount"),
    tuning=replace(
        TUNING,
        families=dict.fromkeys(TOP_K, "full vocabulary")
        | dict.fromkeys((*SAMPLED, DISCOUNTED), "sampled token"),
    ),
    worlds={
        "markov": section(MARKOV, "symmetric_kl_nats"),
        "text": section(TEXT, "cross_entropy_nats"),
    },
)
