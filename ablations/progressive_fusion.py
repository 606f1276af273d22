"""Does fusing specialists pair by pair, and then all, get there sooner than fusing all at once?

Why.      A vendor reports that staged fusion (isolate specialists, fuse related pairs, unify)
          converges 2.3 times faster than direct fusion.  It gives no source, and does not say
          whether the updates of the pairs count, though somebody has to make them.
Varies.   `method`.  Four tagged domains in two families; those of a family share 80 % of their
          conditionals.  Direct: 48 updates from all four specialists.  Staged: 12 updates for each
          of two pairs, then 24 with the pairs as teachers, all from the base, so that tokens and
          FLOPs are those of direct; pairs are related or mixed across the families.  (Of a third,
          a quarter and a sixth of all updates for each pair, a quarter served staging best in pilot
          runs of 60 updates.)  Also direct at half the cost, whose updates are as many as staging's
          last stage has, and the plain average of the specialists' weights, which costs nothing.
          Tuned: learning rate, once for direct and once for staged.
Measure.  As in kl_direction, at equal cost, everything counted; beside it the FLOPs that either
          takes to the level which both reach.  Mixed pairs, and direct at half the cost, are held
          against related pairs.
Expect.   Related pairs behind direct by 0.08 nats, and 0.03 behind direct at half the cost: what a
          pair has not learned yet, no later stage can.  Direct gets where they end with a third of
          the FLOPs.  Mixed pairs another 0.04 behind.  The average hardly better than the base,
          0.25 behind direct.
Cost.     9 rows x 10 seeds and 5 families x 9 tuning runs, about 2 s a cell: 300 s of one core.
"""

from dataclasses import replace

from ablations.baseline import MARGIN_NATS, MARKOV, TUNING, distillation, sft_controls
from harness.domains import Markov
from harness.study.ablation import Ablation, Section
from harness.training.config import Distill, Fuse, Keep
from harness.trial.config import TrialConfig

OVERLAP = 0.8
DOMAINS = tuple(
    Markov(
        name=f"{family}{member}",
        source_seed=10 + 2 * index + member,
        shared_seed=900 + index,
        overlap=OVERLAP,
        tag=2 * index + member,
        tags=4,
        demonstration_sequences=256,
    )
    for index, family in enumerate("ab")
    for member in range(2)
)
RELATED = ((0, 1), (2, 3))
MIXED = ((0, 2), (1, 3))
FIRST_STEPS, SECOND_STEPS = 12, 24
STEPS = len(RELATED) * FIRST_STEPS + SECOND_STEPS

BASE = replace(
    MARKOV,
    domains=DOMAINS,
    method=replace(distillation(MARKOV), steps=STEPS),
    evaluation=replace(MARKOV.evaluation, curve_points=6),
)


def with_method(method: Distill | Keep) -> TrialConfig:
    """The world, its student trained that way."""
    return replace(BASE, method=method)


def staged(groups: tuple[tuple[int, ...], ...]) -> TrialConfig:
    """Fusion in two stages for what direct fusion costs."""
    method = distillation(BASE)
    return with_method(
        Fuse(
            groups=groups,
            first_steps=FIRST_STEPS,
            steps=SECOND_STEPS,
            batch_sequences=method.batch_sequences,
            optimization=method.optimization,
        )
    )


MARKOV_FAMILIES = Section(
    arms={
        "direct": BASE,
        "direct, half the cost": with_method(replace(distillation(BASE), steps=SECOND_STEPS)),
        "pairs, related": staged(RELATED),
        "pairs, unrelated": staged(MIXED),
        "specialist average": with_method(Keep(model="average")),
        "specialists": with_method(Keep(model="specialists")),
    },
    controls=sft_controls(BASE),
    reference="direct",
    baseline="direct",
    metric="symmetric_kl_nats",
    margin=MARGIN_NATS,
    headline=("pairs, related",),
    pairs=dict.fromkeys(("direct, half the cost", "pairs, unrelated"), "pairs, related"),
)

ABLATION = Ablation(
    name="progressive_fusion",
    question="Does fusing specialists pair by pair, and then all, get there sooner than directly?",
    varies=("method",),
    tuning=replace(
        TUNING,
        families={
            "direct, half the cost": "direct",
            "pairs, related": "staged",
            "pairs, unrelated": "staged",
        },
    ),
    worlds={"markov-families": MARKOV_FAMILIES},
)
