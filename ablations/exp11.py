"""Does the lab's negative result come from distillation, or from how its teachers were scheduled?

Why.      exp11 of a public lab: union SFT 2.064 / 2.174 nats on its two synthetic domains, more SFT
          2.084 / 2.063, OPD (blind round-robin, cross-entropy anchor 0.5) 2.256 / 2.156,
          specialists 1.821 / 1.820; greedy routing collapsed.  One seed, no interval, budget
          counted in steps, and the domain's own label never tried.
Varies.   `method.scheduler` and `method.anchor_weight`; nothing tuned, so that the lab's rows stay
          the lab's.  Order-1 sources over 32 states, 107k parameters, 64 tokens, batch 16; 180, 150
          and 100 updates for base, specialists and OPD, which fits the lab's numbers to .01 nats.
          Two worlds: completions from BOS alone, where no label can help, and after a prompt of
          eight states, where it can; that one asks about the label alone, so of the lab's rows it
          keeps blind round-robin with anchor, and puts by domain with anchor beside it.
Measure.  Cross-entropy on held-out data, as the lab did (a forward metric that favours SFT); beside
          it reverse KL to the right teacher and the source's log-probability of the student's own
          samples, and all three budgets, because the verdict turns on them.  The anchor trains on
          as many tokens again, so arms that have it are held against SFT that does too.
Expect.   The lab's rows come back: SFT 0.05 better than the base, blind round-robin with anchor
          0.09 worse, greedy without anchor 0.5 or more worse with whole seeds on one teacher.  By
          domain with anchor: 0.01 worse than SFT on equal tokens in cross-entropy, 0.2 better in
          the source's log-probability; behind SFT on equal FLOPs in all three metrics.  (Added
          with the prompted world, before its run: there by domain is ahead of blind round-robin
          by 0.1 nats, anchored; from BOS alone they are equal.)
Cost.     12 and 5 rows x 10 seeds, about 6 s each.
"""

from dataclasses import replace

from ablations.baseline import MARGIN_NATS, distillation, sft, sft_controls
from harness.domains import Markov
from harness.models.tiny import TinyShape
from harness.study.ablation import Ablation, Section, Tuning
from harness.training.config import Distill, Keep, Optimization
from harness.trial.config import Evaluation, Specialist, TrialConfig

SOURCES = (
    Markov(name="A", source_seed=10, smoothing=0.0, sequence_tokens=65),
    Markov(name="B", source_seed=11, smoothing=0.0, sequence_tokens=65),
)
LAB = TrialConfig(
    domains=SOURCES,
    student=TinyShape(width=64, layers=2, heads=4),
    base=sft(180, 2e-3, batch_sequences=16),
    specialist=Specialist(gap_nats=None, training=sft(150, 2e-3, batch_sequences=16)),
    method=Distill(steps=100, batch_sequences=16, optimization=Optimization(learning_rate=5e-4)),
    evaluation=Evaluation(sequences=128, curve_sequences=32, curve_points=4),
)
PROMPTED = replace(LAB, domains=tuple(replace(domain, prompt_tokens=9) for domain in SOURCES))
"""BOS and the source's first eight states: what a label can be read from."""

CONTROL = "SFT (tokens, anchored)"
ANCHORED = ("blind round-robin, anchor 0.5", "by domain, anchor 0.5")
PROMPTED_ROWS = (
    CONTROL,
    "union SFT",
    "blind round-robin, anchor 0.5",
    "by domain, anchor 0.5",
    "specialists",
)


def section(lab: TrialConfig) -> Section:
    """The lab's rows, those it did not try, and SFT on what each family of rows spends."""

    def row(scheduler: str, anchor_weight: float = 0.0) -> TrialConfig:
        method = replace(distillation(lab), scheduler=scheduler, anchor_weight=anchor_weight)
        return replace(lab, method=method)

    anchored = {
        f"{name[:-1]}, anchored)": config
        for name, config in sft_controls(row("by_domain", 0.5)).items()
    }
    return Section(
        controls={**sft_controls(lab), **anchored},
        arms={
            "union SFT": replace(lab, method=Keep(model="base")),
            "blind round-robin, anchor 0.5": row("round_robin", 0.5),
            "greedy": row("greedy_likelihood"),
            "by domain, anchor 0.5": row("by_domain", 0.5),
            "by domain": row("by_domain"),
            "specialists": replace(lab, method=Keep(model="specialists")),
        },
        reference="SFT (tokens)",
        baseline="by domain",
        metric="cross_entropy_nats",
        margin=MARGIN_NATS,
        headline=("blind round-robin, anchor 0.5", "by domain, anchor 0.5"),
        pairs=dict.fromkeys(ANCHORED, CONTROL),
    )


def prompted(whole: Section) -> Section:
    """The rows of the prompted world, against the one control that trains on as many tokens."""
    return replace(
        whole,
        controls={name: c for name, c in whole.controls.items() if name in PROMPTED_ROWS},
        arms={name: c for name, c in whole.arms.items() if name in PROMPTED_ROWS},
        reference=CONTROL,
        baseline="by domain, anchor 0.5",
        pairs={},
    )


ABLATION = Ablation(
    name="exp11",
    question="Is the lab's negative result due to distillation or to its scheduling?",
    varies=("method",),
    tuning=Tuning(parameters={}),
    worlds={
        "markov-lab": section(LAB),
        "markov-lab-prompted": prompted(section(PROMPTED)),
    },
    figures=("forest", "budget", "shares"),
)
