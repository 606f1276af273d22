"""What do all ablations vary? Two small worlds, one student, and budgets that fit a laptop.

`markov` is two random order-1 sources over 32 shared states, so the truth is exact; `text` is bytes
of Python's standard library (its sources, and its documentation topics), so nothing is idealised.

The student's own demonstrations are few and its base has used them up; the specialists were trained
on eight times as much of one domain (25 times for text).  That is the case distillation is meant
for.  Where data is left to learn, SFT has the better of it: `specialist_gap` asks from which
strength of the teachers on, and `exp11` gives both sides the same data.
"""

from collections.abc import Mapping
from dataclasses import replace

from harness.domains import Markov, Text
from harness.models.tiny import TinyShape
from harness.study.ablation import Tuning
from harness.training.config import Distill, Match, MatchedSft, Optimization, Sft
from harness.trial.config import Evaluation, Specialist, TrialConfig

LEARNING_RATE = "method.optimization.learning_rate"
TUNING = Tuning(parameters={LEARNING_RATE: (2e-3, 2e-1)})
"""Six levels a factor of 2.5 apart: of four, up to 0.032, half of the families chose the last; of
five, two controls did."""

MARGIN_NATS = 0.02
"""Differences inside it count as none: a tenth of what lay between SFT and the specialists in pilot
runs (0.17 nats on markov, 0.25 on text)."""

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


OPD = Distill(steps=30, batch_sequences=32, optimization=Optimization(learning_rate=4e-3))

MARKOV = TrialConfig(
    domains=(
        Markov(name="a", source_seed=10, tag=0, demonstration_sequences=256),
        Markov(name="b", source_seed=11, tag=1, demonstration_sequences=256),
    ),
    student=TinyShape(width=32, layers=2, heads=2),
    base=sft(120, 5e-3),
    specialist=Specialist(gap_nats=None, training=sft(60, 5e-3)),
    method=OPD,
    evaluation=Evaluation(sequences=128, curve_sequences=32, curve_points=3),
)

SOURCES = Text(
    name="sources",
    corpus="stdlib_sources",
    demonstration_fraction=0.04,
    prompt_tokens=8,
    sequence_tokens=32,
)
TEXT = replace(
    MARKOV,
    domains=(
        SOURCES,
        replace(SOURCES, name="topics", corpus="stdlib_topics"),
    ),
    base=sft(200, 5e-3),
    specialist=Specialist(gap_nats=None, training=sft(120, 5e-3)),
    evaluation=replace(MARKOV.evaluation, sequences=256),
)


def with_target(base: TrialConfig, gap_nats: float) -> Specialist:
    """How specialists are made where their strength is a factor: they stop at the gap.

    Elsewhere they take a fixed number of updates: a gap makes a teacher's strength depend on how
    far its base came, which doubled the spread of (OPD - SFT) over seeds in pilot runs.
    """
    return replace(base.specialist, gap_nats=gap_nats, training=sft(300, 5e-3))


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
