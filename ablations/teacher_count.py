"""How many teachers fold into one student, and what does each further one cost?

Why.      DeepSeek-V4 distils more than ten specialists into one model and gives no figure against
          their number; a vendor's article says that cost grows exponentially beyond twenty.
Varies.   The number of teachers N = 1, 2, 4, 8, 12, 16, 32, at a fixed budget (96 rollouts an
          update, shared out) and at one proportional to N (10 rollouts per teacher); 16 updates.
          Base and specialists are the same for every N: the base has seen all 32 domains, and the
          first N take part.  Nothing is tuned: rates are those that pilot runs of 30 updates on
          another seed found, one for each world.  Domains are markov sources, or fold tasks:
          sixteen operators, each answered at once and thought through.
Measure.  markov: the mean of both KLs to the true source; fold: the share of right answers.  Means
          over the N domains, and the worst of them.  Cost per update in FLOPs and in processor
          seconds; its exponent is the slope of log cost on log N, fitted seed by seed.
Expect.   At the proportional budget quality holds from 2 to 12 teachers within 0.05 nats or 5 % of
          the answers, as every domain gets the same rollouts; at the fixed budget it falls with N,
          the worst domain first.  (A pilot seed had shown a loss at 32 when this was written.)
          FLOPs: exponent 1 and 0.  Seconds: below 1 at the proportional budget, since small batches
          waste time; 0.1 to 0.3 at the fixed one, because every teacher's turn costs two
          milliseconds however few its rollouts.  No sign of exponential growth.
Note.     Written after the run: fold tasks are not equally hard, so levels at different N, which
          are means over different tasks, cannot be compared with one another there (sums come
          first, and are the hardest); markov sources can.
Cost.     2 worlds x (14 arms + 1) x 10 seeds, up to 5 s each; 32 specialists a world and seed.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

from ablations.baseline import MARKOV, distillation, sft
from harness.domains import Fold, Markov
from harness.domains.operators import OPERATORS
from harness.models.tiny import TinyShape
from harness.study.ablation import Ablation, Section, Tuning
from harness.training.config import Keep, Optimization
from harness.trial.config import Evaluation, Specialist, TrialConfig

COUNTS = (1, 2, 4, 8, 12, 16, 32)
MOST = COUNTS[-1]
FIXED_ROLLOUTS, ROLLOUTS_PER_TEACHER = 96, 10
BUDGETS: Mapping[str, Callable[[int], int]] = {
    "fixed": lambda count: FIXED_ROLLOUTS,
    "proportional": lambda count: ROLLOUTS_PER_TEACHER * count,
}

SOURCES = tuple(
    Markov(name=f"m{k}", source_seed=10 + k, tag=k, tags=MOST, sequence_tokens=16,
           pool_sequences=512, demonstration_sequences=256)
    for k in range(MOST)
)  # fmt: skip
FOLDS = tuple(
    Fold(name=f"{operator} {manner}", operator=operator, operands=3, thinking_fraction=fraction,
         tag=2 * k + int(fraction), tags=MOST)
    for manner, fraction in (("thought", 1.0), ("direct", 0.0))
    for k, operator in enumerate(OPERATORS)
)  # fmt: skip


MARKOV_MANY = TrialConfig(
    domains=SOURCES,
    base_domains=SOURCES,
    student=TinyShape(width=32, layers=2, heads=2),
    base=sft(150, 5e-3, batch_sequences=64),
    specialist=Specialist(
        gap_nats=None, training=sft(40, 5e-3, batch_sequences=16), gap_sequences=64
    ),
    method=replace(
        distillation(MARKOV),
        steps=16,
        batch_sequences=FIXED_ROLLOUTS,
        optimization=Optimization(learning_rate=3e-2),
    ),
    evaluation=Evaluation(sequences=64, curve_points=0),
)
FOLD_MANY = replace(
    MARKOV_MANY,
    domains=FOLDS,
    base_domains=FOLDS,
    base=sft(150, 5e-3, batch_sequences=64),
    specialist=replace(MARKOV_MANY.specialist, training=sft(50, 5e-3, batch_sequences=16)),
    method=replace(distillation(MARKOV_MANY), optimization=Optimization(learning_rate=1.5e-2)),
)


def name(count: int, budget: str) -> str:
    """An arm's name."""
    return f"N = {count}, {budget}"


def of(base: TrialConfig, count: int, rollouts: int) -> TrialConfig:
    """`base` with its first teachers, and so many rollouts an update."""
    method = replace(distillation(base), batch_sequences=rollouts)
    return replace(base, domains=base.domains[:count], method=method)


def section(base: TrialConfig, metric: str, *, higher_is_better: bool, margin: float) -> Section:
    """The arms of one world, beside the base on all its domains."""
    return Section(
        arms={
            name(count, budget): of(base, count, rollouts(count))
            for budget, rollouts in BUDGETS.items()
            for count in COUNTS
        },
        controls={
            "base (all domains)": replace(base, method=Keep(model="base")),
        },
        reference=name(2, "fixed"),
        baseline=name(2, "fixed"),
        metric=metric,
        higher_is_better=higher_is_better,
        margin=margin,
    )


ABLATION = Ablation(
    name="teacher_count",
    question="How many teachers fold into one student, and what does each further one cost?",
    varies=("domains", "method.batch_sequences"),
    tuning=Tuning(parameters={}),
    worlds={
        "markov": section(MARKOV_MANY, "symmetric_kl_nats", higher_is_better=False, margin=0.05),
        "fold": section(FOLD_MANY, "reward", higher_is_better=True, margin=0.05),
    },
    figures=("forest", "scaling"),
    factors={
        name(count, budget): {"teachers": f"{count}", "budget": budget}
        for budget in BUDGETS
        for count in COUNTS
    },
    costs=(
        "step_flops",
        "step_seconds",
        "store.head_loads",
        "store.peak_resident_heads",
        "store.peak_bytes",
        "saved_bytes",
    ),
)
