"""What do all ablations vary? Two small worlds, one student, and budgets that fit a laptop.

`markov` is two random order-1 sources over 32 shared states, so the truth is exact; `text` is bytes
of Python's standard library (its sources, and its documentation topics), so nothing is idealised.
Every arm starts from one base model per seed, undertrained on purpose: what is left to learn is
what distillation and SFT compete for.
"""

from collections.abc import Mapping
from dataclasses import replace

from harness.domains import Markov, Text
from harness.models.tiny import TinyShape
from harness.study.ablation import Tuning
from harness.training.config import Distill, Match, MatchedSft, Optimization, Sft
from harness.trial.config import Evaluation, Specialist, TrialConfig

LEARNING_RATE = "method.optimization.learning_rate"
TUNING = Tuning(parameters={LEARNING_RATE: (5e-4, 1e-2)})

SFT_CONTROLS: Mapping[Match, str] = {
    "tokens": "SFT (tokens)",
    "flops": "SFT (flops)",
    "end_to_end": "SFT (end to end)",
}


def sft(steps: int, learning_rate: float, batch_sequences: int = 32) -> Sft:
    """SFT as bases and specialists use it."""
    return Sft(
        steps=steps,
        batch_sequences=batch_sequences,
        optimization=Optimization(learning_rate=learning_rate),
    )


OPD = Distill(steps=100, batch_sequences=32, optimization=Optimization(learning_rate=2e-3))

MARKOV = TrialConfig(
    domains=(
        Markov(name="a", source_seed=10, tag=0),
        Markov(name="b", source_seed=11, tag=1),
    ),
    student=TinyShape(width=32, layers=2, heads=2),
    base=sft(100, 3e-3),
    specialist=Specialist(gap_nats=0.3, training=sft(400, 2e-3)),
    method=OPD,
    evaluation=Evaluation(sequences=128, curve_sequences=32, curve_points=4),
)

TEXT = replace(
    MARKOV,
    domains=(
        Text(name="sources", corpus="stdlib_sources"),
        Text(name="topics", corpus="stdlib_topics"),
    ),
    student=TinyShape(width=48, layers=2, heads=4),
    base=sft(200, 3e-3),
    specialist=Specialist(gap_nats=0.15, training=sft(400, 2e-3)),
    method=replace(OPD, steps=60),
)


def distillation(base: TrialConfig) -> Distill:
    """The distillation that arms of `base` change fields of."""
    assert isinstance(base.method, Distill)
    return base.method


def sft_control(base: TrialConfig, match: Match) -> TrialConfig:
    """SFT that spends what `base` spends, counted by `match`."""
    method = distillation(base)
    return replace(
        base,
        method=MatchedSft(
            reference=method,
            match=match,
            batch_sequences=method.batch_sequences,
            optimization=method.optimization,
        ),
    )


def sft_controls(base: TrialConfig) -> dict[str, TrialConfig]:
    """The three matched controls, by name."""
    return {name: sft_control(base, match) for match, name in SFT_CONTROLS.items()}
