"""What may be computed in bfloat16 without harm?

Why.      A vendor's article claims 40 % less memory at unchanged stability from autocast, while its
          code wraps the teacher alone.  Near convergence the usual way rounds both logits before it
          subtracts them, and loses the gradient when it matters most.
Varies.   `method.precision`: float32; bodies under bfloat16 autocast with the difference of the
          logits exact or rounded; only the teacher in bfloat16, logits and all.  Tuned: learning
          rate, once per world on float32, as whoever switches to bfloat16 keeps theirs: arms
          differ in rounding alone.  24 updates.  Two worlds: the baseline's markov, and `near`,
          where the base has had three times the training and the teachers lead by little, so that
          the loss is small from the start.
Measure.  As in kl_direction; the bytes autograd keeps for one update, processor seconds, and how
          many runs diverge.  Weights and optimizer are float32 throughout.
Expect.   bfloat16 bodies keep about 40 % fewer bytes, the teacher alone in it none.  No run
          diverges.  All arms are equivalent on markov; on `near` rounded differences are worse than
          exact ones, by less than the margin.
Cost.     2 worlds x (4 arms + 1) x 10 seeds and 2 x 2 x 12 tuning runs, 1 to 3 s each.
"""

from collections.abc import Mapping
from dataclasses import replace

from ablations.baseline import MARGIN_NATS, MARKOV, TUNING, distillation, sft, sft_control
from harness.study.ablation import Ablation, Section
from harness.training.precision import Precision
from harness.trial.config import TrialConfig

PRECISIONS: Mapping[str, Precision] = {
    "float32": "float32",
    "bf16, exact differences": "bf16_exact",
    "bf16, rounded differences": "bf16_rounded",
    "teacher only": "bf16_teacher",
}
PLAIN = replace(MARKOV, method=replace(distillation(MARKOV), steps=24))
NEAR = replace(
    PLAIN,
    base=sft(360, 5e-3),
    specialist=replace(PLAIN.specialist, training=sft(20, 5e-3)),
)


def section(base: TrialConfig) -> Section:
    """The arms of one world."""
    method = distillation(base)
    return Section(
        arms={
            name: replace(base, method=replace(method, precision=precision))
            for name, precision in PRECISIONS.items()
        },
        controls={"SFT (tokens)": sft_control(base, "tokens")},
        reference="float32",
        baseline="float32",
        metric="symmetric_kl_nats",
        margin=MARGIN_NATS,
    )


ABLATION = Ablation(
    name="mixed_precision",
    question="What may be computed in bfloat16 without harm?",
    varies=("method.precision",),
    tuning=replace(TUNING, families=dict.fromkeys(PRECISIONS, "float32")),
    worlds={"markov": section(PLAIN), "near": section(NEAR)},
    costs=("saved_bytes", "store.peak_bytes", "step_seconds"),
)
