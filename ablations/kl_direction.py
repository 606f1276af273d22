"""Which divergence should a student minimise on its own samples?

Why.      Forward KL covers every mode of the teacher, reverse KL commits to one; on-policy samples
          already weight states by the student, so it is unclear how much of the choice is left.
          Reports disagree: reverse ahead (DeepSeek-V4), forward ahead (miles#3292: .569 against
          .506 on AIME'24), no difference.
Varies.   `method.divergence`.  Tuned: learning rate, for forward KL, reverse KL and JSD apart; a
          skew form shares its KL's rate, and the three JSD share one, since AdamW's step does not
          depend on the scale by which they differ.  All else is the baseline.
Measure.  markov: the mean of both KLs between student and true source, which favours neither
          direction.  text: held-out cross-entropy, a forward metric; read it beside reverse KL.
Expect.   Differences below 0.02 nats between all full-vocabulary divergences on markov; forward KL
          ahead of reverse by a little in cross-entropy on text and behind in reverse KL to the
          teacher; student entropy lowest under reverse KL.  All beat SFT on equal tokens on
          markov; SFT on equal FLOPs wins on text.
Cost.     2 worlds x (10 arms x 10 seeds + 6 families x 6 rates x 2 seeds) cells of about 2 s.
"""

from dataclasses import replace

from ablations.baseline import MARGIN_NATS, MARKOV, TEXT, TUNING, distillation, sft_controls
from harness.study.ablation import Ablation, Section
from harness.trial.config import TrialConfig

DIVERGENCES = {
    "reverse KL": "reverse_kl",
    "forward KL": "forward_kl",
    "JSD 0.1": "jsd(0.1)",
    "JSD 0.5": "jsd(0.5)",
    "JSD 0.9": "jsd(0.9)",
    "skew reverse 0.1": "skew_reverse_kl(0.1)",
    "skew forward 0.1": "skew_forward_kl(0.1)",
}


def section(base: TrialConfig, metric: str) -> Section:
    """The arms of one world."""
    method = distillation(base)
    return Section(
        arms={
            name: replace(base, method=replace(method, divergence=divergence))
            for name, divergence in DIVERGENCES.items()
        },
        controls=sft_controls(base),
        reference="reverse KL",
        baseline="reverse KL",
        metric=metric,
        margin=MARGIN_NATS,
        headline=("reverse KL", "forward KL"),
    )


ABLATION = Ablation(
    name="kl_direction",
    question="Which divergence should a student minimise on its own samples?",
    varies=("method.divergence",),
    tuning=replace(
        TUNING,
        families={
            "JSD 0.1": "JSD",
            "JSD 0.5": "JSD",
            "JSD 0.9": "JSD",
            "skew reverse 0.1": "reverse KL",
            "skew forward 0.1": "forward KL",
        },
    ),
    worlds={
        "markov": section(MARKOV, "symmetric_kl_nats"),
        "text": section(TEXT, "cross_entropy_nats"),
    },
)
