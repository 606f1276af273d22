"""What does one configuration with one seed come to?"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.domains.base import Split
from harness.models.tiny import TinyPolicy
from harness.teachers.collapse import collapse_facts
from harness.training.budget import Ledger, Sizes, matched_sft_steps
from harness.training.config import Distill, Keep, MatchedSft, Sft
from harness.training.distill import Facts
from harness.training.optimizer import Diverged
from harness.trial.config import TrialConfig
from harness.trial.evaluate import Metrics, evaluate
from harness.trial.methods import train
from harness.trial.record import Outcome
from harness.trial.shared import base_model, specialist, teacher_facts


def run_trial(
    config: TrialConfig, seed: int, cache: Path, *, held_out: Split = "evaluation"
) -> Outcome:
    """Train and measure one cell: a pure function of configuration, seed and split.

    Base model and specialists come from `cache`, or are made and put there. A training that
    diverges is an outcome, theirs too; it is measured as far as it came. So is a metric that is
    not finite at the end.
    """
    try:
        student = base_model(config, seed, cache)
        made = [specialist(config, i, student, seed, cache) for i in range(len(config.domains))]
    except Diverged as diverged:
        return Outcome(
            status="diverged",
            metrics={},
            curve={},
            budget=Ledger().as_record(),
            cause=f"base or specialist: {diverged}",
        )
    teachers, facts = [entry.model for entry in made], [entry.facts for entry in made]
    ledger = Ledger(teacher_flops=int(sum(entry["flops"] for entry in facts)))
    method = _with_steps(config, student, teachers, ledger.teacher_flops)

    def measure(sequences: int) -> Metrics:
        answering = teachers if method == Keep(model="specialists") else [student] * len(teachers)
        return evaluate(
            answering, config.domains, teachers, sequences=sequences, split=held_out, seed=seed
        )

    curve = Curve(config=config, steps=getattr(method, "steps", 0), measure=measure, ledger=ledger)
    started, cause = time.monotonic(), None
    taken: Facts = {}

    def begin() -> None:
        nonlocal started
        before = time.monotonic()
        if config.evaluation.curve_points:
            curve.point(0)
        started += time.monotonic() - before  # measuring the base is no part of the training

    try:
        taken = train(config, method, student, made, seed, ledger, begin, curve.observe)
    except Diverged as diverged:
        cause = str(diverged)
    ledger.seconds = time.monotonic() - started
    metrics = measure(config.evaluation.sequences)
    cause = cause or _not_finite(metrics)
    return Outcome(
        status="finished" if cause is None else "diverged",
        metrics=metrics,
        curve={"evaluation": curve.evaluation, "training": curve.training},
        budget=ledger.as_record(),
        cause=cause,
        facts=teacher_facts(facts) | taken | collapse_facts(curve.training),
    )


def _not_finite(metrics: Metrics) -> str | None:
    """Names the first metric that the last update broke, after the loss had been looked at."""
    for metric, values in metrics.items():
        if not all(value is None or math.isfinite(value) for value in values.values()):
            return f"{metric} is not finite at the end"
    return None


def _with_steps(
    config: TrialConfig,
    student: TinyPolicy,
    teachers: Sequence[TinyPolicy],
    teacher_flops: int,
) -> Sft | Distill | Keep:
    """The method to run; a matched control becomes an SFT of as many steps as its budget buys."""
    method = config.method
    if not isinstance(method, MatchedSft):
        return method
    sizes = Sizes(
        student_parameters=student.flop_parameters,
        teacher_parameters=[teacher.flop_parameters for teacher in teachers],
        prompt_tokens=config.domains[0].prompt_tokens,
        sequence_tokens=config.domains[0].sequence_tokens,
    )
    return Sft(
        steps=matched_sft_steps(method, sizes, teacher_flops),
        batch_sequences=method.batch_sequences,
        optimization=method.optimization,
    )


@dataclass(kw_only=True)
class Curve:
    """The columns of a run: `training` at every update, `evaluation` at evenly spaced points."""

    config: TrialConfig
    steps: int
    measure: Callable[[int], Metrics]
    ledger: Ledger
    evaluation: dict[str, list[float | None]] = field(default_factory=dict)
    training: dict[str, list[float | None]] = field(default_factory=dict)

    def point(self, step: int) -> None:
        """Measure the student as it is after `step` updates."""
        row: dict[str, float | None] = {"step": step, "flops": self.ledger.flops}
        measured = self.measure(self.config.evaluation.curve_sequences)
        row |= {metric: values["macro"] for metric, values in measured.items()}
        for column, value in row.items():
            self.evaluation.setdefault(column, []).append(value)

    def observe(self, step: int, seen: dict[str, float]) -> bool:
        """Keep what one update saw; never ends the training."""
        self.training.setdefault("step", []).append(step)
        for column, value in seen.items():  # three digits: a picture, of which there are thousands
            self.training.setdefault(column, []).append(float(f"{value:.3g}"))
        points = self.config.evaluation.curve_points
        if step * points // self.steps > (step - 1) * points // self.steps:
            self.point(step)
        return False
